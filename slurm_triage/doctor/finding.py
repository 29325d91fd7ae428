"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How it stands: as it should be; works with less; does not work; could not be looked at."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One thing: a word for programs, a sentence, and what to do about it (empty for what is as it should be)."""

    state: State
    about: str
    what: str
    fix: str = ""


def ok(about: str, what: str) -> Finding:
    """As it should be."""
    return Finding(State.OK, about, what)


def warn(about: str, what: str, fix: str) -> Finding:
    """Works with less."""
    return Finding(State.WARN, about, what, fix)


def bad(about: str, what: str, fix: str) -> Finding:
    """Does not work."""
    return Finding(State.BAD, about, what, fix)


def unknown(about: str, what: str, fix: str = "") -> Finding:
    """Could not be looked at; `fix` says how it could."""
    return Finding(State.UNKNOWN, about, what, fix)
