"""What was dropped and refused so far: `counts.json`, and the writers' file `dropped`."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from slurm_triage.spool._folders import entries, move_to_free, replace_file

FILE = "counts.json"
SCHEMA = "slurm-triage/spool-counts/1"
DROPPED = "dropped"
BY_WRITERS = "writers"
"""The key of drops that the writers counted; the others are kinds of records."""

SETTLE = 5.0
"""Seconds after which a set-aside `dropped` is counted: a writer that had opened it before has written its byte."""

_FILE_LIMIT = 1 << 16


@dataclass
class Counts:
    """Numbers since the spool was made: records lost by kind, and files refused by reason.

    `read` names the set-aside file of the writers that is counted already. `problem` says why an old file was not used.
    """

    dropped: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    read: str = ""
    problem: str = ""


def load(spool: int) -> Counts:
    """The counts of a spool; zero, with the problem, where the file is no such file. Raises `OSError`."""
    try:
        file = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=spool)
    except FileNotFoundError:
        return Counts()
    try:
        values = json.loads(os.read(file, _FILE_LIMIT))
        return Counts(_numbers(values["dropped"]), _numbers(values["refused"]), str(values["read"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Counts(problem=f"{FILE} cannot be understood: drops are counted from zero")
    finally:
        os.close(file)


def _numbers(values: dict[str, int]) -> dict[str, int]:
    return {str(key): int(value) for key, value in values.items()}


@contextmanager
def locked(spool: int) -> Iterator[None]:
    """One reader at a time. Held for the moments of a small write; the kernel frees it when its holder dies."""
    again = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=spool)
    try:
        wait_for_lock(again)
        yield
    finally:
        os.close(again)


def wait_for_lock(file: int) -> None:
    """Waits until nobody else holds the lock on an open file or folder."""
    fcntl.flock(file, fcntl.LOCK_EX)


def change(spool: int, owner: int, what: Callable[[Counts], None]) -> None:
    """Loads, changes and stores the counts. Raises `OSError`."""
    with locked(spool):
        counts = load(spool)
        what(counts)
        _store(spool, owner, counts)


def _store(spool: int, owner: int, counts: Counts) -> None:
    values = {"schema": SCHEMA, "dropped": counts.dropped, "refused": counts.refused, "read": counts.read}
    replace_file(spool, FILE, json.dumps(values, sort_keys=True).encode("ascii") + b"\n", owner)


def add(numbers: dict[str, int], more: dict[str, int], sign: int = 1) -> None:
    """Adds to numbers by key; with `sign` -1 takes away. A number that is 0 is not kept."""
    for key, count in more.items():
        total = numbers.pop(key, 0) + sign * count
        if total:
            numbers[key] = total


def take_dropped(spool: int, owner: int, now: float) -> None:
    """Counts the bytes of the writers' file, which it renames away first; they are counted the next time.

    A writer may have opened the file just before it was renamed, and write just after: so what was set aside is read
    only after `SETTLE` seconds. `now` is the epoch. Raises `OSError`.
    """
    with locked(spool):
        for name, found in _set_aside(spool):
            counts = load(spool)
            if name != counts.read:
                if now - found.st_ctime < SETTLE:
                    continue
                add(counts.dropped, {BY_WRITERS: found.st_size})
                counts.read = name  # if we die before it is gone, it is not counted again
                _store(spool, owner, counts)
            os.unlink(name, dir_fd=spool)
        serial = int(now * 1000)
        with suppress(FileNotFoundError):
            move_to_free(spool, DROPPED, spool, (f"{DROPPED}.{serial + n}" for n in range(1000)))


def dropped(spool: int, counts: Counts) -> dict[str, int]:
    """All drops, with those that the writers counted and nobody took over yet. Raises `OSError`."""
    total = dict(counts.dropped)
    waiting = sum(found.st_size for name, found in _set_aside(spool, DROPPED) if name != counts.read)
    if waiting:
        add(total, {BY_WRITERS: waiting})
    return total


def _set_aside(spool: int, *also: str) -> list[tuple[str, os.stat_result]]:
    return sorted(
        ((entry.name, entry.stat) for entry in entries(spool)
         if (entry.name.startswith(f"{DROPPED}.") or entry.name in also) and stat.S_ISREG(entry.stat.st_mode)),
        key=lambda pair: pair[0],
    )  # fmt: skip
