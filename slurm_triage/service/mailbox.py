"""A shared folder as the service sees it: anybody can put anything in. docs/adr/0011-shared-folder.md has the reasons.

Each round costs a bounded number of looks, whatever lies there; what is no question is removed and counted.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from slurm_triage.transport import shared_folder, wire
from slurm_triage.transport.message import Malformed
from slurm_triage.transport.shared_folder import ANSWER, IN, IN_MODE, MOST, NAME, OUT, OUT_MODE, QUESTION, READABLE

AT_ONCE = 200
"""Files that are opened in one round."""
MOST_LISTED = 10_000
"""Entries of a folder that are looked at; with more questions than that the folder is put aside, and a new one made."""
WHOLE = 60.0
"""Seconds after which a question has to be whole, and readable."""
QUESTIONS_KEPT = 600.0
"""Seconds after which a question is of no use: its credential is too old."""
ANSWERS_KEPT = 120.0
"""The same for an answer: nobody waits that long for it, and it tells of users' jobs."""
REMOVED_AT_ONCE = 1000
"""Entries of folders that were put aside that are removed in one round."""
ASIDE = "old."
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BoxError(Exception):
    """The folder cannot be used; the message says why."""


@dataclass(frozen=True)
class Letter:
    """A whole question: its name, who owns the file (which proves nothing), and what was in it.

    `waited` is how many seconds it can have lain there at most, infinite if nobody had looked before.
    """

    name: str
    owner: int
    credential: bytes
    body: bytes
    waited: float


class Mailbox:
    """The folder at `path`. `complain` gets (owner of a file, what was wrong with it). For one thread.

    `counts` has `junk`: what was removed because it was none of what belongs there.
    """

    def __init__(
        self, path: Path, complain: Callable[[int, str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path, self._complain, self._clock = path, complain, clock
        self.counts: Counter[str] = Counter()
        # By folder and name since when it is there: times of files are what their owners say, or another clock's.
        self._since: dict[str, dict[str, float]] = {IN: {}, OUT: {}}
        self._not_before: dict[str, float] = {}
        self._listed_at = float("-inf")
        self._stuck: set[str] = set()

    # -------------------------------------------------------------------------------------------- the folder

    def prepare(self) -> None:
        """Makes the two folders, with the modes that keep others out. Raises `BoxError`."""
        with self._told(), self._opened() as top:
            status = os.fstat(top)
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise BoxError(f"{self.path} has to be the service's own, and not writable for others")
            if not status.st_mode & 0o001:
                raise BoxError(f"{self.path} cannot be entered by agents: chmod 0711 {self.path}")
            for name, mode in ((IN, IN_MODE), (OUT, OUT_MODE)):
                self._folder(top, name, mode)

    def _folder(self, top: int, name: str, mode: int) -> None:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=top)
        for _ in range(2):
            status = os.stat(name, dir_fd=top, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                raise BoxError(f"{self.path}/{name} has to be a folder of the service's own")
            if stat.S_IMODE(status.st_mode) == mode:
                return
            with self._opened(name, top) as folder:
                os.fchmod(folder, mode)
        raise BoxError(f"{self.path}/{name} cannot be given mode {mode:o}")

    @contextmanager
    def _opened(self, name: str = "", top: int | None = None) -> Iterator[int]:
        """A descriptor of the folder, or of one in it. Opened anew each time: NFS looks again then."""
        if name:
            descriptor = os.open(name, _LIST, dir_fd=top)
        else:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BoxError(f"{self.path}: {error.strerror or error}") from error

    # -------------------------------------------------------------------------------------------- questions

    def letters(self) -> Iterator[Letter]:
        """The questions that are there, a round's worth: owners of files by turns, of each the oldest first.

        They stay where they are until they are claimed, or `refuse`d. Raises `BoxError`.
        """
        with self._told(), self._opened() as top, self._opened(IN, top) as folder:
            for name, owner in islice(self._by_turns(top, folder), AT_ONCE):
                letter = self._read(folder, name, owner)
                if letter is not None:
                    yield letter

    def claim(self, letter: Letter) -> bool:
        """Takes the question away; False if it is not there any more. Raises `BoxError`."""
        with self._told():
            try:
                (self.path / IN / (letter.name + QUESTION)).unlink()
            except FileNotFoundError:
                return False
        return True

    def refuse(self, letter: Letter, why: str) -> None:
        """Takes away what is none, or whose sender is not known. Raises `BoxError`."""
        if self.claim(letter):
            self.counts["junk"] += 1
            self._complain(letter.owner, why)

    def _by_turns(self, top: int, folder: int) -> list[tuple[str, int]]:
        """(name of a file, its owner) of what may be questions. What cannot be is removed."""
        of: dict[int, list[tuple[float, int, str]]] = {}
        now, since, before = self._clock(), {}, self._since[IN]
        listed, not_before = 0, {}
        with os.scandir(folder) as entries:
            for entry in islice(entries, MOST_LISTED + 1):
                listed += 1
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                since[entry.name] = before.get(entry.name, now)
                not_before[entry.name] = self._not_before.get(entry.name, self._listed_at)
                why = self._why_not(entry.name, status, now - since[entry.name])
                if why:
                    self._junk(folder, entry.name, status, why)
                else:
                    of.setdefault(status.st_uid, []).append((since[entry.name], status.st_mtime_ns, entry.name))
        if listed > MOST_LISTED:
            self._put_aside(top)
            return []
        self._since[IN], self._not_before, self._listed_at = since, not_before, now
        turns = zip_longest(*([(name, owner) for _, _, name in sorted(some)] for owner, some in of.items()))
        return [one for turn in turns for one in turn if one is not None]

    def _why_not(self, name: str, status: os.stat_result, age: float) -> str:
        stem, dot, ending = name.partition(".")
        if dot + ending != QUESTION or not NAME.fullmatch(stem) or not stat.S_ISREG(status.st_mode):
            return "not a question's name, or not a file"
        if status.st_size > MOST:
            return f"{status.st_size} bytes are too many"
        return "nobody waits for an answer any more" if age > QUESTIONS_KEPT else ""

    def _read(self, folder: int, name: str, owner: int) -> Letter | None:
        why = "not whole, or not readable, after a while"
        try:
            descriptor = os.open(name, _READ, dir_fd=folder)
            try:
                parts = wire.split(shared_folder.read(descriptor))
            finally:
                os.close(descriptor)
            if parts is not None:
                waited = self._clock() - self._not_before.get(name, self._listed_at)
                return Letter(name.removesuffix(QUESTION), owner, *parts, waited)
        except FileNotFoundError:
            return None
        except Malformed as error:
            self._junk(folder, name, None, str(error), owner)
            return None
        except OSError as error:
            why = error.strerror or why
        if self._clock() - self._since[IN].get(name, 0.0) > WHOLE:
            self._junk(folder, name, None, why, owner)
        return None

    def _junk(self, folder: int, name: str, status: os.stat_result | None, why: str, owner: int = 0) -> None:
        if _remove(folder, name, is_folder=status is not None and stat.S_ISDIR(status.st_mode)):
            self.counts["junk"] += 1
            self._complain(owner if status is None else status.st_uid, why)

    def _put_aside(self, top: int) -> None:
        """Too much to be looked through: agents ask again, in a new folder, and the old one is cleared bit by bit."""
        name = f"{ASIDE}{secrets.token_hex(8)}"
        os.rename(IN, name, src_dir_fd=top, dst_dir_fd=top)
        self._since[IN] = {}
        with self._opened(name, top) as folder:
            os.fchmod(folder, 0o700)
            with os.scandir(folder) as entries:
                owners = Counter(entry.stat(follow_symlinks=False).st_uid for entry in islice(entries, 1000))
        self._folder(top, IN, IN_MODE)
        self.counts["put-aside"] += 1
        self._complain(owners.most_common(1)[0][0], f"more than {MOST_LISTED} files, put aside as {name}")

    # -------------------------------------------------------------------------------------------- answers

    def put(self, name: str, data: bytes) -> None:
        """Leaves an answer. Raises `BoxError`."""
        with self._told(), self._opened() as top, self._opened(OUT, top) as folder:
            part = f"{secrets.token_hex(16)}.new"
            descriptor = os.open(part, _NEW, 0o600, dir_fd=folder)
            try:
                try:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(descriptor, view) :]
                    os.fchmod(descriptor, READABLE)
                finally:
                    os.close(descriptor)
                os.rename(part, name + ANSWER, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise

    def sweep(self) -> None:
        """Removes answers that nobody fetched or needs any more, and what was put aside. Raises `BoxError`."""
        with self._told(), self._opened() as top:
            with self._opened(OUT, top) as folder:
                self._sweep_answers(folder)
            left = REMOVED_AT_ONCE
            with os.scandir(top) as entries:
                names = [entry.name for entry in islice(entries, MOST_LISTED) if entry.name.startswith(ASIDE)]
            for name in names:
                if left > 0 and name not in self._stuck:
                    left -= self._sweep_aside(top, name, left)

    def _sweep_answers(self, folder: int) -> None:
        now, since, before = self._clock(), {}, self._since[OUT]
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_LISTED)]
        for name in names:
            since[name] = before.get(name, now)
            if now - since[name] > ANSWERS_KEPT:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        self._since[OUT] = since

    def _sweep_aside(self, top: int, name: str, most: int) -> int:
        """Removes some of a folder, and it, once it is empty; says how many entries were looked at."""
        with self._opened(name, top) as folder:
            with os.scandir(folder) as entries:
                listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, most)]
            gone = sum(_remove(folder, one, is_folder=is_folder) for one, is_folder in listed)
        if not listed:
            os.rmdir(name, dir_fd=top)
        elif not gone:  # folders that somebody has filled: for an administrator
            self._stuck.add(name)
        return len(listed)


def _remove(folder: int, name: str, *, is_folder: bool) -> bool:
    """Whether it was there and is gone. What cannot be removed (a folder that is not empty) costs a look, no more."""
    try:
        (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
    except OSError:
        return False
    return True
