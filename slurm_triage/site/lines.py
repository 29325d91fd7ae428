"""In which line of a file something stands: parsers of TOML and rules know it only now and then."""

from __future__ import annotations

import re

_SAID = re.compile(r"\bline (\d{1,7})")
_FORM = re.compile(r"\bform (\d{1,4})\b")
_QUOTED = re.compile(r"'([^']+)'")


def line_of(text: str, what: str) -> int | None:
    """The line that a complaint means: the one that it names, else where the first key of its words stands.

    With `form N` in it only the lines behind the Nth `[[form]]` are looked at. None if no line is found.
    """
    if said := _SAID.search(what):
        return int(said[1])
    lines = text.splitlines()
    if "end of document" in what:  # how tomllib says it where the file ends in the middle
        return max(1, len(lines))
    first = 0
    if form := _FORM.search(what):
        heads = [number for number, line in enumerate(lines) if line.strip().startswith("[[form]]")]
        if int(form[1]) <= len(heads):
            first = heads[int(form[1]) - 1]
    words = [*_QUOTED.findall(what), *re.findall(r"[a-z_]+", what)]
    for word in words:
        for number, line in enumerate(lines[first:], first + 1):
            if re.match(rf"\s*[\"']?{re.escape(word)}[\"']?\s*=", line):
                return number
    return first + 1 if form else None


def line_with(text: str, literal: str) -> int | None:
    """The first line that holds a literal, as it is or as TOML escapes it; None if none does."""
    escaped = literal.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    for number, line in enumerate(text.splitlines(), 1):
        if literal in line or escaped in line:
            return number
    return None
