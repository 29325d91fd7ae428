"""Signature catalogs: which message lines mean something, as data. One TOML file is one family of messages.

`catalog/<folder>/<id>.toml` holds one family:

* `id` (the file's stem), `voice` (`kernel`, `slurm`, `program` or `kubernetes`), `meaning`, `since` (date of the
  knowledge), `sources`, `hints`; optional `caution` (what the line does not prove), `also` (ids of families of the
  same folder that may match the same line) and `speakers` (tags of the daemons that write it into the system log,
  where it is not the kernel).
* one or more `[[form]]`: `regex` (searched in the message text, after the prefix; its named groups become the fields),
  `examples` and `origin`; optional `kernels` or `versions` and `counter` (near misses that no form may match).

`hints` are literal substrings, one of which is in every line of the family. They are the cheap filter: a regex is
compiled and run only on lines that hold a hint of its family.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slurm_triage.extension import cached, current
from slurm_triage.model import Voice

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


FEW = 3000
"""So many lines are searched for one hint after the other, long ones count more: what a small case has of them."""
LINE = 100
"""Characters of a usual line."""


class CatalogError(ValueError):
    """A catalog file is not what the format asks for: a defect of the package, never of the evidence."""


@dataclass(frozen=True)
class Form:
    """One layout of a family's lines. `range` says which kernels or versions print it (free text, may be empty)."""

    regex: str
    examples: tuple[str, ...]
    origin: str
    range: str = ""
    counter: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled regex. Raises `re.error` for a bad one."""
        return re.compile(self.regex)


@dataclass(frozen=True)
class Signature:
    """One family of message lines; members as in the file (see the module's text)."""

    id: str
    voice: Voice
    meaning: str
    since: str
    sources: tuple[str, ...]
    hints: tuple[str, ...]
    forms: tuple[Form, ...]
    caution: str = ""
    also: tuple[str, ...] = ()
    speakers: tuple[str, ...] = ()

    def hinted(self, text: str) -> bool:
        """Whether one of the hints is in `text`."""
        for hint in self.hints:  # noqa: SIM110 (runs for every family on every line that holds a hint of one)
            if hint in text:
                return True
        return False

    def fields(self, text: str) -> dict[str, str] | None:
        """Named groups of the first form that matches, without those that took no part; None if no form does."""
        for form in self.forms:
            found = form.pattern.search(text)
            if found:
                return {key: value for key, value in found.groupdict().items() if value is not None}
        return None


_Tree = dict[str, "_Tree"]


def _alternatives(tree: _Tree) -> str:
    """The regex of a tree of literals; one that begins another one is enough for both."""
    if "" in tree:
        return ""
    parts = [re.escape(char) + _alternatives(below) for char, below in sorted(tree.items())]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


@dataclass(frozen=True)
class Catalog:
    """All families of one folder, by id."""

    signatures: tuple[Signature, ...]

    @cached_property
    def _hints(self) -> tuple[str, ...]:
        return tuple({hint: None for signature in self.signatures for hint in signature.hints})

    @cached_property
    def _any_hint(self) -> re.Pattern[str]:
        """One search for all hints, as a tree of their common beginnings.

        Measured with 380 hints: 3 us for a line of 60 characters and under 7 ms for any of 64 KiB, where `in` for one
        hint after the other takes 12 us and up to 13 ms. But to make it takes 20 ms.
        """
        tree: _Tree = {}
        for hint in self._hints:
            at = tree
            for char in hint:
                at = at.setdefault(char, {})
            at[""] = {}
        return re.compile(_alternatives(tree) if tree else r"(?!)")

    @cached_property
    def _searched(self) -> list[int]:
        return [0]

    def hinted(self, text: str) -> bool:
        """Whether any family could match: a search for literals only."""
        self._searched[0] += 1 + len(text) // LINE
        if self._searched[0] <= FEW:
            return any(map(text.__contains__, self._hints))
        return self._any_hint.search(text) is not None

    def match(self, text: str) -> list[tuple[Signature, dict[str, str]]]:
        """Every family with a form that matches, in the order of their ids, with the fields of that form."""
        if not self.hinted(text):
            return []
        found = []
        for signature in self.signatures:
            if signature.hinted(text):
                fields = signature.fields(text)
                if fields is not None:
                    found.append((signature, fields))
        return found

    def get(self, id: str) -> Signature:
        """The family of that id. Raises `KeyError`."""
        for signature in self.signatures:
            if signature.id == id:
                return signature
        raise KeyError(id)


_KEYS = {"id", "voice", "meaning", "caution", "since", "sources", "hints", "also", "speakers", "form"}
_FORM_KEYS = {"kernels", "versions", "regex", "examples", "origin", "counter"}


def _words(table: Mapping[str, Any], key: str, where: str, *, needed: bool = True) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value) or (needed and not value):
        raise CatalogError(f"{where}: {key} must be a list of strings, not empty")
    return tuple(value)


def _word(table: Mapping[str, Any], key: str, where: str, *, needed: bool = True) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or (needed and not value):
        raise CatalogError(f"{where}: {key} must be a string, not empty")
    return value


def signature_of(text: str, where: str) -> Signature:
    """The family in the TOML `text`; `where` names the file in errors. Raises `CatalogError`."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"{where}: {error}") from error
    if unknown := set(table) - _KEYS:
        raise CatalogError(f"{where}: unknown keys {sorted(unknown)}")
    forms = []
    listed = table.get("form")
    if not isinstance(listed, list) or not listed:
        raise CatalogError(f"{where}: at least one [[form]] is needed")
    for number, form in enumerate(listed, 1):
        at = f"{where} form {number}"
        if unknown := set(form) - _FORM_KEYS:
            raise CatalogError(f"{at}: unknown keys {sorted(unknown)}")
        forms.append(
            Form(
                _word(form, "regex", at),
                _words(form, "examples", at),
                _word(form, "origin", at),
                _word(form, "kernels", at, needed=False) or _word(form, "versions", at, needed=False),
                _words(form, "counter", at, needed=False),
            )
        )
    try:
        voice = Voice(_word(table, "voice", where))
    except ValueError as error:
        raise CatalogError(f"{where}: {error}") from error
    return Signature(
        _word(table, "id", where),
        voice,
        _word(table, "meaning", where),
        _word(table, "since", where),
        _words(table, "sources", where),
        _words(table, "hints", where),
        tuple(forms),
        _word(table, "caution", where, needed=False),
        _words(table, "also", where, needed=False),
        _words(table, "speakers", where, needed=False),
    )


_HINTS = re.compile(r"^hints = \[(?:.*\]$|\n(?:.*\n)*?\]$)", re.MULTILINE)


class _Unread(Signature):
    """A signature of which only the hints were read: of most families no file of a case has a line."""

    def __init__(self, text: str, where: str, id: str, hints: tuple[str, ...]) -> None:
        for name, value in (("_text", text), ("_where", where), ("id", id), ("hints", hints)):
            object.__setattr__(self, name, value)

    @cached_property
    def _whole(self) -> Signature:
        return signature_of(self._text, self._where)  # type: ignore[attr-defined]


def _of_whole(name: str) -> property:
    return property(lambda self: getattr(self._whole, name))


for _name in ("voice", "meaning", "since", "sources", "forms", "caution", "also", "speakers"):
    setattr(_Unread, _name, _of_whole(_name))


def _signature(path: Path, where: str) -> Signature:
    """The family in a file of the package, read when it is asked for."""
    text = path.read_text("utf-8")
    found = _HINTS.search(text)
    if found is None:
        return signature_of(text, where)
    return _Unread(text, where, path.stem, tuple(tomllib.loads(found[0])["hints"]))


_ROOT = Path(__file__).parent / "catalog"


def folders() -> tuple[str, ...]:
    """The names of all catalogs."""
    return tuple(sorted(entry.name for entry in _ROOT.iterdir() if entry.is_dir() and not entry.name.startswith("_")))


@cached
def load(folder: str) -> Catalog:
    """The catalog `catalog/<folder>/*.toml`, with what the site adds to it.

    Raises `CatalogError` for a bad file or a folder that is not there.
    """
    root = _ROOT / folder
    if not root.is_dir():
        raise CatalogError(f"catalog/{folder}: no such catalog")
    own = [_signature(path, f"catalog/{folder}/{path.name}") for path in sorted(root.glob("*.toml"))]
    return Catalog((*own, *current().signatures.get(folder, ())))
