"""A folder that nodes and the service share as the way from one to the other: a question is a file, so is its answer.

It is for nodes that cannot connect to the service. docs/adr/0011-shared-folder.md has the reasons.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from slurm_triage.transport import killable, wire
from slurm_triage.transport.message import MOST_PACKED, Malformed

PREFIX = "dir:"
"""What begins the place of such a service in the settings: `dir:/path`."""
IN, OUT = "in", "out"
IN_MODE, OUT_MODE = 0o1733, 0o711
"""Anybody may put something in, nobody but the service may list either."""
QUESTION, ANSWER = ".question", ".answer"
ROLE = b"question in a folder"
"""The role of a question that comes this way; its credential covers the name, too."""
NAME = re.compile(r"[0-9a-f]{32}")
MOST = wire.LONGEST_LINE + wire.MOST_CREDENTIAL + MOST_PACKED
"""Bytes of a question's file, and of an answer's."""
READABLE = 0o644
"""Mode of questions and answers: their reader is neither owner nor group. Who cannot list needs the name."""
LOOK = 0.5
"""Seconds between two looks for the answer."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def path_of(text: str) -> str | None:
    """The path of `dir:/path`; None for what names no folder. Raises `ValueError` for a path that is not absolute."""
    if not text.startswith(PREFIX) or text[len(PREFIX) :].isdigit():  # a host may be called dir
        return None
    path = text[len(PREFIX) :]
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"{text!r} is not {PREFIX}/PATH, with an absolute path")
    return path


def new_name() -> str:
    """A name that nobody can guess."""
    return secrets.token_hex(16)


def exchange(
    folder: str, name: str, question: bytes, owners: Collection[int], seconds: float, until: Callable[[], bool]
) -> bytes | None:
    """The bytes that came in answer to a question; None once `until` says that it is enough.

    The folder has to belong to one of `owners`. All that touches it is done in a child, which may hang.

    Raises `OSError`, `TimeoutError`.
    """
    return killable.run(lambda enough: _exchange(folder, name, question, owners, enough), seconds, MOST, until)


def problem(folder: str, owners: Collection[int], seconds: float) -> str:
    """Why an agent cannot use the folder, empty if it can. It puts nothing there."""

    def look(_: killable.Enough) -> bytes:
        with _opened(folder, owners):
            return b""

    try:
        killable.run(look, seconds, 0)
    except OSError as error:
        return str(error)
    return ""


# ------------------------------------------------------------------------------------------------ in the child


def _exchange(folder: str, name: str, question: bytes, owners: Collection[int], enough: killable.Enough) -> bytes:
    with _opened(folder, owners) as (inbox, top):
        asked = name + QUESTION
        try:
            _write(inbox, asked, question)
            while True:
                answer = _look(top, name + ANSWER)
                if answer is not None:
                    return answer
                if enough(LOOK):
                    raise TimeoutError("given up")
        finally:
            # Gone if it was taken. Where root is nobody the folder may not allow it; then the service clears up.
            with suppress(OSError):
                os.unlink(asked, dir_fd=inbox)


@contextmanager
def _opened(folder: str, owners: Collection[int]) -> Iterator[tuple[int, int]]:
    """Descriptors (for names only) of the folder for questions, and of the folder that it lies in."""
    top = inbox = -1
    try:
        top = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        inbox = os.open(IN, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
        status = os.fstat(inbox)
        if status.st_uid not in owners:
            raise OSError(f"{IN} belongs to uid {status.st_uid}, which is not the service's (setting service_users)")
        if status.st_mode & 0o044:
            raise OSError(f"{IN} can be listed by others: it has to have mode {IN_MODE:o}")
        yield inbox, top
    finally:
        for descriptor in (inbox, top):
            if descriptor >= 0:
                os.close(descriptor)


def _write(inbox: int, name: str, data: bytes) -> None:
    """Puts a file there, under its last name: a file that is not whole is seen by its first line."""
    descriptor = os.open(name, _NEW, READABLE, dir_fd=inbox)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)  # NFS sends it now, and says if there is no room


def _look(top: int, name: str) -> bytes | None:
    """The answer if it is there.

    NFS remembers for up to a minute that a name was not there, and asks again after the folder was opened: so it
    says, even if opening it is not allowed.
    """
    with suppress(OSError):
        os.close(os.open(OUT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top))
    try:
        descriptor = os.open(f"{OUT}/{name}", _READ, dir_fd=top)
    except FileNotFoundError:
        return None
    try:
        return read(descriptor)
    except Malformed as error:
        raise OSError(f"the answer is none: {error}") from error
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------------------------------------ both sides


def read(descriptor: int, most: int = MOST) -> bytes:
    """What is in an open file of at most so many bytes. Raises `Malformed` for what is no such file, `OSError`."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise Malformed("not a file")
    if status.st_size > most:
        raise Malformed(f"{status.st_size} bytes are too many")
    pieces, left = [], most + 1
    while left and (piece := os.read(descriptor, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
