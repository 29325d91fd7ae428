"""A diagnosis file in an open directory: read and replaced without following, waiting, or leaving half a file.

Runs as the user who owns the directory and needs no more than write access to it. The agent on nodes imports it:
standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

NEW_MODE = 0o640
"""Permission bits of a file that was not there, where nothing else is known."""


class Refused(Exception):
    """The report cannot go there; the message says why. Nothing was changed."""


def existing(directory: int, name: str, limit: int, owner: int | None = None) -> tuple[bytes, int] | None:
    """Content and permission bits of the file, None if there is none.

    Raises `Refused` for what is no regular file, is a symbolic link, cannot be read, or has more than `limit` bytes;
    with `owner` (a uid) also for a file of somebody else and for one that has several names.
    """
    try:
        # O_NONBLOCK: a FIFO must not block the open
        handle = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{name} is there and cannot be read: {error.strerror or error}") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{name} is there and is not a regular file")
        if owner is not None and status.st_uid != owner:
            raise Refused(f"{name} is there and belongs to uid {status.st_uid}, not to the job's user")
        if owner is not None and status.st_nlink != 1:
            raise Refused(f"{name} is there and has another name, too (hard link)")
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    finally:
        os.close(handle)
    if len(data) > limit:
        raise Refused(f"{name} is larger than {limit} bytes")
    return data, stat.S_IMODE(status.st_mode) & 0o777


def replace(directory: int, name: str, data: bytes, mode: int) -> None:
    """Writes a new file beside the old one and renames it over: readers see one or the other, whole.

    Raises `OSError`; the old file is as it was then.
    """
    temporary = f".{name}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    with suppress(OSError):  # some file systems cannot sync a directory; the content is safe already
        os.fsync(directory)
