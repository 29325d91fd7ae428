"""What a page of `slurm-triage explain` is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WHO_ACTS = "Who acts"
NATURE = "Hardware or software"
FIRST_CHECK = "First check"
ADMIN = "As an administrator"
NOT = "What this is not"
NEXT = "Check next"

REQUIRED = (WHO_ACTS, NATURE, FIRST_CHECK, NOT, NEXT)
"""Parts that every page of a cause, exit, signal, state, Xid and SXid has, besides its meaning, its sources and a
command; the tests hold every page to it."""

_VERDICTS = {"hardware": "Hardware.", "software": "Software.", "either": "Hardware or software.", "neither": ""}
"""By the word that the part `Hardware or software` begins with: what the first line of a page says of it."""

_NAMES = frozenset({"sacct", "slurmctld", "slurmd", "srun", "ssh"})
"""Words that a sentence may begin with and that are not written with a capital."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a page. `commands` can be pasted; words in capitals (`JOBID`, `NODE`) are to be replaced."""

    heading: str
    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One meaning of a word: a page.

    `kind` is `cause`, `exit code`, `signal`, `state`, `term`, `signature`, `Xid` or `SXid`; `name` the word in its
    standard form; the first part of `parts` is the meaning and has no heading; `see` names words that lead on;
    `sources` say where the facts are from and `since` of when they are (empty where the rule itself is the source).
    """

    kind: str
    name: str
    title: str
    parts: tuple[Part, ...]
    see: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: str = ""

    def part(self, heading: str) -> Part | None:
        """The part with this heading; None if the page has none."""
        return next((part for part in self.parts if part.heading == heading), None)

    @property
    def nature(self) -> str:
        """`hardware`, `software`, `either` or `neither`; empty where the page does not say."""
        part = self.part(NATURE)
        match = re.match("[A-Za-z]+", part.text) if part else None
        return match[0].lower() if match and match[0].lower() in _VERDICTS else ""

    @property
    def verdict(self) -> str:
        """The nature in a few words, for the first line of the page, with what restricts it; may be empty."""
        part = self.part(NATURE)
        restricted = re.match(r"((?:Hardware|Software), [^.:;]{1,40})[.:;]", part.text) if part else None
        return f"{restricted[1]}." if restricted else _VERDICTS.get(self.nature, "")


def page_parts(page: Mapping[str, Any]) -> Iterator[Part]:
    """The parts that a table of `knowledge/` holds for one word: `acts`, `nature`, `check` with `commands`, `admin`
    (commands of an administrator), `not` and `next`. What is not there is left out."""
    for key, heading, commands in (
        ("acts", WHO_ACTS, ""),
        ("nature", NATURE, ""),
        ("check", FIRST_CHECK, "commands"),
        ("admin_check", ADMIN, "admin"),
        ("not", NOT, ""),
        ("next", NEXT, ""),
    ):
        if text := str(page.get(key, "")):
            yield Part(heading, sentence(text), tuple(page.get(commands, ())) if commands else ())


def capital(text: str) -> str:
    """The text with a capital; names of programs and of fields stay small."""
    first = text.split(" ", 1)[0].removesuffix("'s")
    small = first in _NAMES or "_" in first or "(" in first
    return text if small else text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """The text with a capital and a full stop; empty if it is empty."""
    return f"{capital(text)}{'' if text.endswith(('.', '?')) else '.'}" if text else ""
