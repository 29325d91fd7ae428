"""Stopping what an administrator's file does when it does not come to its end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OURS, _REAL = (signal.ITIMER_VIRTUAL, signal.SIGVTALRM), (signal.ITIMER_REAL, signal.SIGALRM)


class TookTooLong(BaseException):
    """What ran was stopped. No `Exception`: a rule that catches those must not go on."""


@contextmanager
def stopped_after(seconds: float, *, waiting: bool = False) -> Iterator[None]:
    """Raises `TookTooLong` in what runs longer than so many seconds of processor time; with `waiting`, of any time, so
    that what waits for something is stopped too. Outside the main thread, which alone gets signals, nothing is stopped.
    """

    def stop(number: int, frame: object) -> None:
        raise TookTooLong

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timer, number = _REAL if waiting else _OURS
    before = signal.signal(number, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0.0)
        signal.signal(number, before)
