"""The reader: takes records out of new/, hands them on, and clears up after those that died.

Two readers at once never have the same record: a record is taken by moving it to work/, which succeeds for one of them,
and is held by a lock on the file, which the kernel frees when the reader dies. So a record in work/ without a lock is
one that nobody handles, and `recover` puts it back.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from slurm_triage.spool import _counts, _limits, _records, _state
from slurm_triage.spool._folders import (
    HOPELESS,
    Entry,
    SpoolError,
    entries,
    move_to_free,
    open_below,
    open_spool,
)
from slurm_triage.spool._records import Bad, Name, Record, free_names, growing_job, parse_name


@dataclass(frozen=True)
class Recovered:
    """What `recover` moved: records back from work/, task records and whole tickets of tmp/, and what went to bad/."""

    back: int = 0
    tasks: int = 0
    tickets: int = 0
    refused: int = 0


class Spool:
    """An open spool. Close it, or use it in a `with`: then what it holds is free for the next reader to `recover`.

    `owner` is the uid that everything in it must have (default: the caller's). Every method raises `SpoolError` when
    the spool as a whole cannot be used, such as on a full or read-only disk; what is wrong with one record concerns
    that record only. `clock` gives the epoch.
    """

    def __init__(self, path: str, owner: int | None = None, clock: Callable[[], float] = time.time) -> None:
        """Opens the folder. Raises `SpoolError` where it is not one that only its owner can change; `NoSpool`."""
        self.path, self.owner, self._clock = path, os.geteuid() if owner is None else owner, clock
        self._held: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._root = open_spool(path, self.owner)

    def __enter__(self) -> Spool:
        """The spool itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Lets go of everything. Records that were neither done, refused nor released stay in work/."""
        descriptors = [*self._held.values(), *self._open.values(), self._root]
        self._held, self._open, self._root = {}, {}, -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    # -------------------------------------------------------------------------------------------- taking

    def claim(self, names: Iterable[str] | None = None) -> Iterator[Record]:
        """Takes the records of new/, oldest first (last write, then name), each when it is asked for.

        With `names` only those, in that order. What is no record of a writer goes to bad/ and is counted. Each record
        is held, with an open file, until it is given to `done`, `refuse` or `release`.
        """
        for name in [entry.name for entry in self._entries("new")] if names is None else names:
            parts = parse_name(name)
            if parts is None:
                self._to_bad("new", name, _records.WRONG_NAME)
                continue
            record = self._take(name, parts)
            if record is not None:
                yield record

    def waiting(self) -> dict[str, list[str]]:
        """The names of the records in new/ by job id, oldest first. Moves nothing."""
        found: dict[str, list[str]] = {}
        for entry in self._entries("new"):
            parts = parse_name(entry.name)
            if parts is not None:
                found.setdefault(parts.job, []).append(entry.name)
        return found

    def done(self, record: Record) -> bool:
        """The record was handed on: it goes to done/. False if somebody removed it meanwhile."""
        return self._leave(record, "done")

    def release(self, record: Record) -> bool:
        """The record could not be handled now: it goes back to new/. False if somebody removed it meanwhile."""
        return self._leave(record, "new")

    def refuse(self, record: Record, why: str) -> bool:
        """The record is none: it goes to bad/, counted under `why`. False if somebody removed it meanwhile."""
        left = self._leave(record, "bad")
        if left:
            self._count_refused(why)
        return left

    def peek(self, jobs: Container[str]) -> tuple[list[Record], list[str]]:
        """The records of these jobs wherever they lie, and what was passed over (sentences). Moves and makes nothing.

        Looks at new/, work/, done/ and at the records that grow in tmp/, in the order in which a record wanders.
        """
        found: dict[tuple[int, int], Record] = {}
        problems: list[str] = []
        for folder in ("tmp", "new", "work", "done"):
            for entry in self._entries(folder):
                parts = parse_name(entry.name) if folder != "tmp" else _growing(entry)
                if parts is None or parts.job not in jobs:
                    continue
                try:
                    record = self._read(folder, entry.name, parts)
                except FileNotFoundError:
                    continue
                except (Bad, OSError) as error:
                    problems.append(
                        f"{self.path}/{folder}/{entry.name}: not used: {getattr(error, 'strerror', None) or error}"
                    )
                    continue
                found[entry.stat.st_dev, entry.stat.st_ino] = record
        return list(found.values()), problems

    # -------------------------------------------------------------------------------------------- clearing up

    def recover(self, older_than: float) -> Recovered:
        """Puts back what dead readers left in work/, takes over what dead writers left in tmp/, sweeps out other names.

        In tmp/ that is what nobody wrote to for `older_than` seconds: task records of a job whose epilog never ran here
        become `<jobid>.<seconds of the last write>.0.tasks`, whole tickets are moved on, torn ones go to bad/. Shorter
        than jobs run, it splits the records of a job that goes on into two files; nothing is lost.
        """
        back = tasks = tickets = refused = 0
        for entry in self._entries("new"):
            if parse_name(entry.name) is None:
                refused += self._to_bad("new", entry.name, _records.WRONG_NAME)
        for entry in self._entries("work"):
            if not entry.regular or parse_name(entry.name) is None:
                refused += self._to_bad("work", entry.name, _why(entry))
            else:
                back += self._put_back(entry.name)
        latest = self._clock() - older_than
        for entry in self._entries("tmp"):
            if entry.stat.st_mtime > latest:
                continue
            grown, parts = _growing(entry), parse_name(entry.name)
            if entry.regular and grown is not None:
                tasks += self._move("tmp", entry.name, "new", f"{grown.job}.{grown.seconds}.0.tasks")
            elif entry.regular and parts is not None and self._whole(entry.name, parts):
                tickets += self._move("tmp", entry.name, "new", entry.name)
            else:
                torn = entry.regular and parts is not None
                refused += self._to_bad("tmp", entry.name, _records.TORN if torn else _why(entry))
        return Recovered(back, tasks, tickets, refused)

    def trim(self, limits: _limits.Limits | None = None) -> _limits.Trimmed:
        """Keeps the spool within its limits and takes over the writers' count of drops; every loss is counted."""
        folders = {name: self._folder(name) for name in ("new", "work", "done", "bad")}
        with self._trouble(""):
            _counts.take_dropped(self._root, self.owner, self._clock())
            return _limits.trim(self._root, self.owner, folders, limits or _limits.Limits(), self._clock())

    def state(self) -> _state.State:
        """How the spool stands. Changes nothing."""
        folders = {name: self._folder(name) for name in _state.FOLDERS}
        with self._trouble(""):
            return _state.state(self._root, self.owner, folders, self._clock())

    # -------------------------------------------------------------------------------------------- steps

    def _folder(self, name: str) -> int | None:
        """A folder of the spool for reading, None if there is none."""
        if name not in self._open:
            found = open_below(self._root, name, f"{self.path}/{name}", self.owner, make=False)
            if found is None:
                return None
            self._open[name] = found
        return self._open[name]

    def _target(self, name: str) -> int:
        """A folder of the spool to move to, made if it is missing."""
        if name not in self._open:
            found = open_below(self._root, name, f"{self.path}/{name}", self.owner, make=True)
            assert found is not None
            self._open[name] = found
        return self._open[name]

    def _entries(self, folder: str) -> list[Entry]:
        """What lies in a folder, oldest first."""
        with self._trouble(folder):
            return sorted(entries(self._folder(folder)), key=lambda e: (e.stat.st_mtime, e.name))

    @contextmanager
    def _trouble(self, what: str) -> Iterator[None]:
        """Makes an `OSError` of the whole spool a sentence."""
        try:
            yield
        except OSError as error:
            where = f"{self.path}/{what}" if what else self.path
            raise SpoolError(f"{where}: the spool cannot be used: {error.strerror or error}") from error

    def _move(self, folder: str, name: str, target: str, new_name: str) -> bool:
        """Moves one thing to a free name; False if it is gone or will not move."""
        source = self._folder(folder)
        if source is None:
            return False
        return self._moved(source, name, self._target(target), new_name) is not None

    def _moved(self, source: int, name: str, target: int, new_name: str) -> str | None:
        try:
            return move_to_free(source, name, target, free_names(new_name))
        except OSError as error:
            if error.errno in HOPELESS or error.errno == errno.EACCES:
                raise SpoolError(f"{self.path}: records cannot be moved: {error.strerror}") from error
            return None  # another reader was faster, or this one cannot be moved: it stays where it is

    def _take(self, name: str, parts: Name) -> Record | None:
        """Moves one record to work/ and reads it; None if another reader has it or if it is none."""
        source = self._folder("new")
        if source is None:
            return None
        taken = self._moved(source, name, self._target("work"), name)
        return None if taken is None else self._hold(taken, parse_name(taken) or parts)

    def _hold(self, name: str, parts: Name) -> Record | None:
        """Locks and reads one of work/; None if another reader has it, or if it is none and went to bad/."""
        file = -1
        try:
            file = _records.read(self._target("work"), name)
            if not self._lock("work", name, file):
                return None
            record = _records.record(name, parts, file, self.owner)
            self._held[name], file = file, -1
            return record
        except FileNotFoundError:  # put back by another reader before it was locked
            return None
        except (Bad, OSError) as error:
            if isinstance(error, OSError) and error.errno in HOPELESS:
                raise SpoolError(f"{self.path}: records cannot be read: {error.strerror}") from error
            self._to_bad("work", name, str(error) if isinstance(error, Bad) else _records.UNREADABLE)
            return None
        finally:
            if file >= 0:
                os.close(file)

    def _lock(self, folder: str, name: str, file: int) -> bool:
        """Holds a record that was opened; False if another reader holds it or has moved it on."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.stat(name, dir_fd=self._folder(folder), follow_symlinks=False)
        except (BlockingIOError, FileNotFoundError):
            return False
        return os.path.samestat(there, os.fstat(file))

    def _leave(self, record: Record, target: str) -> bool:
        """Moves a held record out of work/, then lets it go."""
        file = self._held.get(record.name)
        if file is None:
            raise ValueError(f"{record.name} is not held by this reader")
        moved = self._move("work", record.name, target, record.name)
        del self._held[record.name]
        os.close(file)
        return moved

    def _read(self, folder: str, name: str, parts: Name) -> Record:
        """A record that stays where it is. Raises `Bad` and `OSError`."""
        at = self._folder(folder)
        assert at is not None  # it was listed
        file = _records.read(at, name)
        try:
            return _records.record(name, parts, file, self.owner)
        finally:
            os.close(file)

    def _put_back(self, name: str) -> bool:
        """Moves one of work/ to new/, unless a living reader holds it."""
        work = self._folder("work")
        if work is None:
            return False
        try:
            file = _records.read(work, name)
        except (Bad, OSError):
            return False
        try:
            return self._lock("work", name, file) and self._move("work", name, "new", name)
        finally:
            os.close(file)

    def _whole(self, name: str, parts: Name) -> bool:
        """Whether a file in tmp/ is a ticket that its writer finished."""
        try:
            record = self._read("tmp", name, parts)
        except (Bad, OSError):
            return False
        return record.kind != "tasks" and not record.cut

    def _to_bad(self, folder: str, name: str, why: str) -> bool:
        moved = self._move(folder, name, "bad", name)
        if moved:
            self._count_refused(why)
        return moved

    def _count_refused(self, why: str) -> None:
        with self._trouble(""):
            _counts.change(self._root, self.owner, lambda counts: _counts.add(counts.refused, {why: 1}))


def _growing(entry: Entry) -> Name | None:
    """What the name of a record would say, of task records that still grow."""
    job = growing_job(entry.name)
    return Name(job, None, int(entry.stat.st_mtime), 0, "tasks") if job is not None else None


def _why(entry: Entry) -> str:
    return _records.WRONG_NAME if entry.regular else _records.NOT_REGULAR
