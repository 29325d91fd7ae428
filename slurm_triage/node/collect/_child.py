"""Something that may hang in a driver, done in a child of root that is killed when its time is up."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

LIMIT = 256 * 1024
"""Most bytes of an answer."""
MOST_LEFT = 4
"""Children that could not be killed (they hang in the kernel); beyond it none is started."""

_left: set[int] = set()


def ask(work: Callable[[], bytes], seconds: float, limit: int = LIMIT) -> bytes | None:
    """What `work` returned, at most `limit` bytes; None if it raised, ended otherwise, took longer, never started."""
    _clear()
    if len(_left) >= MOST_LEFT:
        return None
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    if pid == 0:
        _answer(work, reader, writer, limit)
    os.close(writer)
    try:
        answer = _read(reader, time.monotonic() + seconds, limit)
    finally:
        os.close(reader)
        ended = _end(pid)
    return answer if ended == 0 else None


def _answer(work: Callable[[], bytes], reader: int, writer: int, limit: int) -> None:
    """The child: never returns, and runs nothing of the parent's at its end."""
    status = 1
    try:
        os.close(reader)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        data = work()[:limit]
        while data:
            data = data[os.write(writer, data) :]
        status = 0
    finally:
        os._exit(status)


def _read(reader: int, deadline: float, limit: int) -> bytes:
    poll = select.poll()
    poll.register(reader, select.POLLIN | select.POLLHUP)
    data = b""
    while len(data) <= limit:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            break
        piece = os.read(reader, 65536)
        if not piece:
            return data
        data += piece
    return data


def _end(pid: int) -> int | None:
    """The child's exit status; it is killed if it has not ended by itself soon. None if it cannot be killed yet."""
    for wait in (0.0, 0.05, 0.15):
        time.sleep(wait)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
    os.kill(pid, signal.SIGKILL)
    for wait in (0.01, 0.1):
        time.sleep(wait)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
    _left.add(pid)
    return None


def _clear() -> None:
    """Forget the children that have ended meanwhile."""
    for pid in list(_left):
        if os.waitpid(pid, os.WNOHANG)[0]:
            _left.discard(pid)
