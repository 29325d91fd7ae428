"""Whether a citation is true: checked against the bytes of a case, without any code of the product's readers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from slurm_triage.model import Cite

TEXT_LIMIT = 1000
"""Characters of a line that a citation keeps (`slurm_triage.model.Cite`)."""
MASK = re.compile(r"\*\*\*|\(other user's process\)")
"""What stands in a document for a secret and for the name of somebody else's process."""


class Citations:
    """Checks citations against the bytes of a case, on its own: it shares no code with the product's readers."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self._split: dict[tuple[str, bytes], list[str]] = {}

    def _units(self, file: str, separator: bytes) -> list[str]:
        key = (file, separator)
        if key not in self._split:
            data = self.files[file].removeprefix(b"\xef\xbb\xbf")
            units = data.split(separator)
            if not units[-1]:
                units.pop()
            self._split[key] = [u.removesuffix(b"\r").decode("utf-8", "replace") for u in units]
        return self._split[key]

    def lines(self, file: str, line: int) -> list[str]:
        """What `line` of `file` may mean: that line and, in a NUL-separated environment file, that record."""
        if file not in self.files:
            return []
        separators = [b"\n"]
        if file.rsplit("/", 1)[-1].startswith("env") and b"\0" in self.files[file]:
            separators.append(b"\0")
        return [u[line - 1] for u in (self._units(file, s) for s in separators) if 0 < line <= len(u)]

    def problem(self, file: str, line: int, text: str | None) -> str:
        """Why the citation is false, "" if it is true. `text` None: only the place is cited."""
        lines = self.lines(file, line)
        if not lines:
            return f"{file}:{line}: there is no such line"
        if text is None or any(agrees(text, found[:TEXT_LIMIT]) for found in lines):
            return ""
        return f"{file}:{line}: cited {text[:80]!r}, the line is {lines[0][:80]!r}"


def agrees(text: str, line: str) -> bool:
    """`text` is `line`, apart from what was masked."""
    if text == line:
        return True
    pieces = MASK.split(text)
    if len(pieces) == 1 or not line.startswith(pieces[0]):
        return False
    at = len(pieces[0])
    for piece in pieces[1:-1]:
        at = line.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return line.endswith(pieces[-1], at)


def cites_of(value: object) -> Iterator[Cite]:
    """Every `Cite` in a value of the model, however deep."""
    if isinstance(value, Cite):
        yield value
    elif dataclasses.is_dataclass(value):
        for member in dataclasses.fields(value):
            yield from cites_of(getattr(value, member.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from cites_of(item)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from cites_of(item)


def places_of(value: object) -> Iterator[tuple[str, int, str | None]]:
    """(file, line, text) of everything in a JSON document that cites a line, however deep."""
    if isinstance(value, dict):
        if isinstance(value.get("file"), str) and isinstance(value.get("line"), int):
            yield value["file"], value["line"], value.get("text")
        for item in value.values():
            yield from places_of(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from places_of(item)
