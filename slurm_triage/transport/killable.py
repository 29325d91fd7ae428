"""Something that may hang in a file system or a driver, done in a child that can be given up: it hangs alone."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

WHY_LIMIT = 500
"""Bytes of the sentence that says why it could not be done."""
_PIECE = 1 << 20


@dataclass
class Children:
    """Those of one purpose. `grace` is the seconds that one has to clear up once it is given up.

    `left` are those that could not be killed (what they touch hangs); beyond `most` of them none is started.
    """

    most: int
    grace: float
    left: set[int] = field(default_factory=set)


FOLDERS = Children(most=2, grace=1.0)
"""Those that touch a folder which hosts share."""

Enough = Callable[[float], bool]
"""Waits so many seconds, and says whether the work is given up and has to be cleared up and ended."""


def run(
    work: Callable[[Enough], bytes],
    seconds: float,
    limit: int,
    until: Callable[[], bool] = lambda: False,
    look: float = 0.5,
    children: Children = FOLDERS,
) -> bytes | None:
    """What `work` returned, at most `limit` bytes; None once `until`, asked every `look` seconds, says it is enough.

    `work` has no open file of the parent but the standard ones, and umask 0. Its `OSError` is raised here as one.

    Raises `OSError`, `TimeoutError` after so many seconds.
    """
    if left_behind(children) >= children.most:
        raise TimeoutError(f"{children.most} earlier attempts still hang in the file system")
    pipes: list[int] = []
    try:
        pipes += os.pipe()
        pipes += os.pipe()
        pid = os.fork()
    except OSError:
        for descriptor in pipes:
            os.close(descriptor)
        raise
    reader, writer, given_up, give_up = pipes
    if pid == 0:
        _child(work, writer, given_up, limit)
    os.close(writer)
    os.close(given_up)
    try:
        said = _read(reader, time.monotonic() + seconds, limit, until, look)
    finally:
        # Its wait ends when nobody holds the other end any more, also if this process is killed.
        os.close(give_up)
        os.close(reader)
        _end(pid, children)
    if said is None:
        return None
    if said[:1] == b"+":
        return said[1:]
    raise OSError(said[1:].decode("utf-8", "replace") or "the attempt ended without an answer")


def left_behind(children: Children = FOLDERS) -> int:
    """How many children are still there although they were killed. Those that have ended meanwhile are cleared away."""
    for pid in list(children.left):
        if _reaped(pid):
            children.left.discard(pid)
    return len(children.left)


# ------------------------------------------------------------------------------------------------ the parent


def _read(reader: int, deadline: float, limit: int, until: Callable[[], bool], look: float) -> bytes | None:
    poll = select.poll()
    poll.register(reader, select.POLLIN | select.POLLHUP)
    data = bytearray()
    while len(data) <= 1 + max(limit, WHY_LIMIT):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        if not poll.poll(1000 * min(look, left)):
            if until():
                return None
            continue
        piece = os.read(reader, _PIECE)
        if not piece:
            return bytes(data)
        data += piece
    raise OSError(f"more than {limit} bytes")


def _end(pid: int, children: Children) -> None:
    if _ended(pid, children.grace):
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if not _ended(pid, 0.2):
        children.left.add(pid)


def _ended(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not _reaped(pid):
        if time.monotonic() >= end:
            return False
        time.sleep(0.005)
    return True


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:  # somebody else has reaped it
        return True


# ------------------------------------------------------------------------------------------------ the child


def _child(work: Callable[[Enough], bytes], writer: int, given_up: int, limit: int) -> None:
    """All that the child does; never returns, and runs nothing of the parent's at its end."""
    try:
        try:
            _alone(writer, given_up)
            data = work(lambda seconds: bool(select.select([given_up], [], [], seconds)[0]))
            said = b"+" + data if len(data) <= limit else _sentence(f"more than {limit} bytes")
        except OSError as error:
            said = _sentence(error.strerror or str(error))
        except BaseException as error:
            said = _sentence(f"{type(error).__name__}: {error}")
        view = memoryview(said)
        while view:
            view = view[os.write(writer, view) :]
    finally:
        os._exit(0)


def _sentence(text: str) -> bytes:
    return b"-" + text.encode("utf-8", "replace")[:WHY_LIMIT]


def _alone(*kept: int) -> None:
    """No handler and no file of the parent: a child that hangs must not hold the agent's lock for ever."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor not in kept:
            with suppress(OSError):  # the one that listed the folder
                os.close(descriptor)
    os.umask(0)
    os.chdir("/")
