"""A folder of small files that survive the agent: written whole and for good, bounded, what is lost is counted."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,199}")


class DrawerError(Exception):
    """The folder cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Limits:
    """What may lie there: files, bytes, and seconds since the last write."""

    files: int
    size: int
    age: float


@dataclass(frozen=True)
class Entry:
    """A file: its name, bytes, and the epoch of its last write."""

    name: str
    size: int
    mtime: float


class Drawer:
    """The folder `path` of the caller and nobody else's. `clock` gives the epoch.

    It and the one that it lies in are made if they are missing, closed to others.
    """

    def __init__(self, path: str, limits: Limits, clock: Callable[[], float] = time.time) -> None:
        self.path, self.limits, self._clock = path, limits, clock
        try:
            for folder in (Path(path).parent, Path(path)):
                folder.mkdir(0o700, exist_ok=True)
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            found = os.fstat(self._folder)
        except OSError as error:
            raise DrawerError(f"{path}: cannot be used: {error.strerror or error}") from error
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            os.close(self._folder)
            raise DrawerError(f"{path}: has to be the agent's own and closed to others (chmod 700)")

    def close(self) -> None:
        """Lets go of the folder."""
        os.close(self._folder)

    def entries(self) -> list[Entry]:
        """What lies there, oldest first."""
        found = []
        for name in self._names():
            if not _NAME.fullmatch(name):
                continue
            try:
                status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(Entry(name, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (entry.mtime, entry.name))

    def has(self, name: str) -> bool:
        """Whether a file of this name lies there."""
        try:
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def put(self, name: str, data: bytes) -> None:
        """Writes a file, in the place of one of this name. Raises `OSError`; the old one is then as it was."""
        partial = f".{name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(partial, flags, 0o600, dir_fd=self._folder)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(partial, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial, dir_fd=self._folder)
            raise

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it is gone or cannot be read."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
            with os.fdopen(file, "rb") as stream:
                return stream.read()
        except OSError:
            return None

    def remove(self, name: str) -> None:
        """Takes a file away, if it is there."""
        try:
            os.unlink(name, dir_fd=self._folder)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def trim(self) -> int:
        """Takes away what is too old, then the oldest of what is too much; says how many files that were."""
        listed = self.entries()
        oldest = self._clock() - self.limits.age
        gone = [entry for entry in listed if entry.mtime < oldest]
        kept = [entry for entry in listed if entry.mtime >= oldest]
        files, size = len(kept), sum(entry.size for entry in kept)
        for entry in kept:
            if files <= self.limits.files and size <= self.limits.size:
                break
            gone.append(entry)
            files, size = files - 1, size - entry.size
        for entry in gone:
            self.remove(entry.name)
        self._sweep_partials()
        return len(gone)

    def _names(self) -> list[str]:
        with os.scandir(self._folder) as found:
            return [entry.name for entry in found]

    def _sweep_partials(self) -> None:
        """What a killed agent left half written."""
        for name in self._names():
            if name.startswith("."):
                status = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                if self._clock() - status.st_mtime > 3600:
                    self.remove(name)
