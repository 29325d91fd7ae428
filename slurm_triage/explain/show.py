"""Pages for people (79 columns) and for programs (JSON)."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from slurm_triage.explain._entry import Entry
from slurm_triage.report import mask

SCHEMA = "slurm-triage/explanation/1"
COLUMNS = 79
_INDENT = "    "
_GOES_ON = " \\"
_TOKEN = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")


def render(entries: Iterable[Entry]) -> str:
    """The entries for people: lines of at most 79 columns of ASCII (longer words are broken), ends in a newline.

    Commands stay as they are, or go on in the next line in a way that a shell reads as one command.
    """
    return "\n".join("\n".join(_lines(entry)) + "\n" for entry in entries)


def _lines(entry: Entry) -> Iterator[str]:
    title = f": {entry.title}" if entry.title else ""
    verdict = f". {entry.verdict}" if entry.verdict else ""
    yield from _wrap(f"{entry.name} ({entry.kind}){title}{verdict}", "", "  ")
    for part in entry.parts:
        yield ""
        if part.heading:
            yield from _wrap(f"{part.heading}: {part.text}", "  ", _INDENT)
        else:
            yield from _wrap(part.text, "  ", "  ")
        if part.commands:
            yield ""
        for command in part.commands:
            yield from (f"{_INDENT}{line}" for line in shell_lines(mask.plain(command), COLUMNS - len(_INDENT)))
    if entry.see:
        yield ""
        yield from _wrap(f"See also: {', '.join(entry.see)}", "  ", _INDENT)
    if entry.sources:
        yield ""
        of = f" (state of {entry.since})" if entry.since else ""
        yield from _wrap(f"Sources{of}: {'; '.join(entry.sources)}", "  ", _INDENT)


def shell_lines(command: str, width: int) -> list[str]:
    """A command in lines of at most `width` columns that a shell takes together. A quoted word is broken only behind a
    `;` or `|` that ends a command in it, which leaves its meaning for `bash -c`; a longer one stays whole."""
    lines: list[str] = []
    line = ""
    tokens = _TOKEN.findall(command)
    if any("".join(tokens).count(quote) != command.count(quote) for quote in "'\""):
        return [command]  # a quote that nothing closes: not ours to break
    for token in tokens:
        longer = f"{line} {token}" if line else token
        room = width if command.endswith(longer) else width - len(_GOES_ON)
        if len(longer) <= room or not line:
            line = longer
        else:
            lines.append(line + _GOES_ON)
            line = token
    whole = [lines_ if not n or len(lines_) + 2 > width else f"  {lines_}" for n, lines_ in enumerate((*lines, line))]
    return [piece for line in whole for piece in _inside(line, width)]


def _inside(line: str, width: int) -> Iterator[str]:
    """A line with a script for bash in quotes, broken behind the last command of it that still fits."""
    script = re.search(r"\bbash -l?c ", line) or line.lstrip().startswith("'")
    while script and len(line) > width:
        cut = max(line.rfind("; ", 0, width), line.rfind("| ", 0, width))
        if cut < 0:
            break
        yield line[: cut + 1]
        line = line[cut + 2 :]
    yield line


def _wrap(text: str, first: str, rest: str) -> list[str]:
    text = " ".join(mask.plain(text).split())
    return textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def document(entries: Iterable[Entry], unknown: Iterable[tuple[str, Sequence[str]]] = ()) -> dict[str, Any]:
    """The entries for programs: dict, list and str only. `unknown` are words with the nearest known ones."""
    return {
        "schema": SCHEMA,
        "entries": [
            {
                "kind": e.kind,
                "name": e.name,
                "title": e.title,
                "nature": e.nature,
                "parts": [{"heading": p.heading, "text": p.text, "commands": list(p.commands)} for p in e.parts],
                "see": list(e.see),
                "sources": list(e.sources),
                "since": e.since,
            }
            for e in entries
        ],
        "unknown": [{"word": word, "near": list(near)} for word, near in unknown],
    }
