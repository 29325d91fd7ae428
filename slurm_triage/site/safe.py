"""Files that nobody but root and the running user can change: what is read here may be run.

Each folder on the way is looked at, too: whoever can rename things in it decides what is found under a name. A link on
the way to the folder has to belong to root or the running user; in the folder no link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 256 * 1024
"""Bytes of one file."""
MOST_FILES = 1000
"""Files of one folder."""


class Unsafe(Exception):
    """Something that is not read; the message says why and how to put it right."""


def _ours(uid: int) -> bool:
    return uid in (0, os.geteuid())


def _check(path: str, found: os.stat_result, *, parent: bool) -> None:
    """Raises `Unsafe` if others could change it. In a `parent` others may write where it is sticky, as /tmp is."""
    if not _ours(found.st_uid):
        raise Unsafe(f"{path} belongs to uid {found.st_uid}: only files of root and of the running user are used")
    if stat.S_ISLNK(found.st_mode):
        return
    if found.st_mode & 0o022 and not (parent and found.st_mode & stat.S_ISVTX):
        raise Unsafe(f"{path} can be changed by others (mode {stat.S_IMODE(found.st_mode):04o}): chmod go-w {path}")


def _way(path: Path) -> Iterator[Path]:
    yield from reversed(path.parents)


def check_way(folder: Path) -> Path:
    """The folder with all links on the way to it followed. Raises `Unsafe` and `OSError`."""
    absolute = folder.absolute()
    real = absolute.parent.resolve(strict=True) / absolute.name
    for path in dict.fromkeys((*_way(absolute), *_way(real))):
        _check(str(path), path.lstat(), parent=True)
    return real


@contextmanager
def opened(name: str | Path, shown: str, below: int | None = None) -> Iterator[int]:
    """A folder, open for looking into it. Raises `Unsafe`, and `FileNotFoundError` if it is not there."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=below)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unsafe(f"{shown} is a symbolic link, or no folder that can be read ({error.strerror})") from error
    try:
        _check(shown, os.fstat(descriptor), parent=False)
        yield descriptor
    finally:
        os.close(descriptor)


def names(folder: int, shown: str) -> list[str]:
    """What lies in a folder, in order; hidden files, backups and what Python keeps are left out. Raises `Unsafe`."""
    found = sorted(n for n in os.listdir(folder) if not n.startswith(".") and n[-1] not in "~#" and n != "__pycache__")
    if len(found) > MOST_FILES:
        raise Unsafe(f"{shown} holds {len(found)} files, {MOST_FILES} at most are read")
    return found


def read(name: str, shown: str, folder: int) -> str:
    """The text of a file in an open folder. Raises `Unsafe`, also for what is no text."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise Unsafe(f"{shown} cannot be read, or is a symbolic link ({error.strerror})") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Unsafe(f"{shown} is no plain file")
        _check(shown, found, parent=False)
        data = os.read(descriptor, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise Unsafe(f"{shown} is larger than {MOST_BYTES // 1024} KiB")
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unsafe(f"{shown} cannot be read: {error}") from error
    finally:
        os.close(descriptor)
