"""How a spool stands, for people and for monitoring."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_triage.spool import _counts
from slurm_triage.spool._folders import OTHERS_WRITE, entries
from slurm_triage.spool._records import growing_job, parse_name

FOLDERS = ("tmp", "new", "work", "done", "bad")


@dataclass(frozen=True)
class Folder:
    """What lies in a folder: number of files, bytes, and seconds since the last write to the oldest (None: empty)."""

    files: int = 0
    size: int = 0
    oldest: float | None = None


@dataclass(frozen=True)
class State:
    """A spool at one moment.

    `jobs` are the ids of jobs with records in new/. `dropped` are records lost so far, by kind or `writers`;
    `refused` are files put into bad/ so far, by reason. `disabled`: nobody writes. `problems` are sentences.
    """

    folders: Mapping[str, Folder] = field(default_factory=dict)
    jobs: frozenset[str] = frozenset()
    dropped: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    disabled: bool = False
    problems: tuple[str, ...] = ()


def state(spool: int, owner: int, folders: Mapping[str, int | None], now: float) -> State:
    """The state of an open spool; changes nothing. `now` is the epoch. Raises `OSError`."""
    found: dict[str, Folder] = {}
    problems: list[str] = []
    jobs: frozenset[str] = frozenset()
    for name in FOLDERS:
        held = entries(folders[name])
        ages = [max(0.0, now - entry.stat.st_mtime) for entry in held]
        found[name] = Folder(len(held), sum(e.stat.st_size for e in held), max(ages) if ages else None)
        if name == "new":
            jobs = frozenset(parts.job for entry in held if (parts := parse_name(entry.name)))
        if name in ("tmp", "new", "work"):
            known = parse_name if name != "tmp" else lambda text: parse_name(text) or growing_job(text)
            strange = sum(
                not entry.regular or entry.stat.st_uid != owner or bool(entry.stat.st_mode & OTHERS_WRITE)
                or not known(entry.name)
                for entry in held
            )  # fmt: skip
            if strange:
                problems.append(f"{name}/ holds {strange} that no writer leaves; they are never read")
    counts = _counts.load(spool)
    if counts.problem:
        problems.append(counts.problem)
    return State(
        found, jobs, _counts.dropped(spool, counts), counts.refused, _exists(spool, "disabled"), tuple(problems)
    )


def _exists(spool: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=spool, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
