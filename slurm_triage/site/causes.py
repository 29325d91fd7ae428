"""`causes.toml` of a site: the format of slurm_triage/causes.toml, every mistake with its line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from slurm_triage import extension
from slurm_triage.causes import Cause, all_causes
from slurm_triage.site.lines import line_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ID = re.compile(r"[a-z][a-z0-9_]{2,59}")
_KEYS = {"title", "meaning", "refines"}


class Bad(Exception):
    """Something in a file that cannot be used; `line` is where it stands, None if that is the whole file."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what)
        self.line = line


def own_causes() -> dict[str, Cause]:
    """The program's own causes, whatever is in force."""
    site = extension.current().causes
    return {id: cause for id, cause in all_causes().items() if id not in site}


def causes_of(text: str) -> Iterator[Cause | Bad]:
    """The causes of the file, and what is wrong with those left out. Raises `Bad` for a file that is no TOML."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Bad(f"not TOML: {error}", line_of(text, str(error))) from error
    own = own_causes()
    for id, entry in table.items():
        wrong = _wrong(id, entry, set(own), set(own) | set(table))
        if wrong:
            yield Bad(f"[{id}] {wrong}", _line(text, id))
        else:
            yield Cause(id, entry["title"], entry["meaning"], entry.get("refines"))


def _wrong(id: str, entry: object, own: set[str], known: set[str]) -> str:
    if not ID.fullmatch(id):
        return "is no id: three or more small letters, digits and _"
    if id in own:
        return "is one of the program's own causes: choose another id, or write a rule for that cause"
    if not isinstance(entry, dict):
        return "has to be a table with title and meaning"
    if unknown := set(entry) - _KEYS:
        return f"has unknown keys: {', '.join(sorted(unknown))}"
    for key in ("title", "meaning"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            return f"needs a {key}, a string"
    refines = entry.get("refines")
    if refines is not None and (refines == id or refines not in known):
        return f"refines {refines!r}, which is no cause"
    return ""


def _line(text: str, id: str) -> int | None:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[\s*[\"']?{re.escape(id)}[\"']?\s*\]|\s*[\"']?{re.escape(id)}[\"']?\s*[=.]", line):
            return number
    return None
