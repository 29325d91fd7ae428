"""How much a spool may hold: what is oldest and worth least goes first, and every loss is counted."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_triage.spool import _counts
from slurm_triage.spool._folders import Entry, entries
from slurm_triage.spool._records import parse_name


@dataclass(frozen=True)
class Limits:
    """Most bytes and files in new/, work/, done/ and bad/ together, and most seconds since the last write to a file.

    The defaults are far above what a node writes in a bad week.
    """

    size: int = 64 << 20
    files: int = 5000
    age: float = 7 * 86400.0


@dataclass(frozen=True)
class Trimmed:
    """What was removed: files of done/ and bad/, records that nobody had read (by kind), and bytes of all of them."""

    done: int = 0
    bad: int = 0
    lost: Mapping[str, int] = field(default_factory=dict)
    size: int = 0


def trim(spool: int, owner: int, folders: Mapping[str, int | None], limits: Limits, now: float) -> Trimmed:
    """Removes what is beyond the limits: done/ and bad/ first, then the oldest of new/; work/ counts, but stays.

    Losses are counted before anything is removed: a crash may count too much, never too little. Only where the disk is
    too full to write the count, the removal comes first. Raises `OSError`.
    """
    held = {name: sorted(entries(folders[name]), key=lambda e: (e.stat.st_mtime, e.name)) for name in folders}
    queue = sorted(
        ((name, entry) for name in ("done", "bad") for entry in held[name]), key=lambda pair: pair[1].stat.st_mtime
    ) + [("new", entry) for entry in held["new"]]
    victims = [pair for pair in queue if now - pair[1].stat.st_mtime > limits.age]
    rest = [pair for pair in queue if now - pair[1].stat.st_mtime <= limits.age]
    size = sum(entry.stat.st_size for _, entry in rest) + sum(entry.stat.st_size for entry in held["work"])
    count = len(rest) + len(held["work"])
    for pair in rest:
        if size <= limits.size and count <= limits.files:
            break
        victims.append(pair)
        size -= pair[1].stat.st_size
        count -= 1
    old = [pair for pair in victims if pair[0] != "new"]
    gone = _remove(folders, old)  # first: on a full disk it makes the room for the count
    unread = [pair for pair in victims if pair[0] == "new"]
    lost = _lose(spool, owner, folders["new"], [entry for _, entry in unread]) if unread else []
    kinds: dict[str, int] = {}
    for entry in lost:
        _counts.add(kinds, {_kind(entry): 1})
    size = sum(entry.stat.st_size for entry in [*lost, *(entry for _, entry in gone)])
    bad = sum(name == "bad" for name, _ in gone)
    return Trimmed(len(gone) - bad, bad, kinds, size)


def _remove(folders: Mapping[str, int | None], victims: list[tuple[str, Entry]]) -> list[tuple[str, Entry]]:
    return [(name, entry) for name, entry in victims if _gone(folders[name], entry)]


def _lose(spool: int, owner: int, folder: int | None, victims: list[Entry]) -> list[Entry]:
    """Removes records that nobody had read; returns those that were still there."""

    def count(entries_: list[Entry], sign: int) -> None:
        kinds: dict[str, int] = {}
        for entry in entries_:
            _counts.add(kinds, {_kind(entry): 1})
        if kinds:
            _counts.change(spool, owner, lambda counts: _counts.add(counts.dropped, kinds, sign))

    counted = victims
    try:
        count(victims, 1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        counted = []
    gone = [entry for entry in victims if _gone(folder, entry)]
    if counted:
        names = {entry.name for entry in gone}
        count([entry for entry in victims if entry.name not in names], -1)  # another reader took them meanwhile
    else:
        count(gone, 1)
    return gone


def _kind(entry: Entry) -> str:
    parts = parse_name(entry.name)
    return parts.kind if parts else "other"


def _gone(folder: int | None, entry: Entry) -> bool:
    """Removes one thing; False if it could not be or was not there. A folder goes only when it is empty."""
    try:
        os.unlink(entry.name, dir_fd=folder)
    except IsADirectoryError:
        try:
            os.rmdir(entry.name, dir_fd=folder)
        except OSError:
            return False
    except OSError:
        return False
    return True
