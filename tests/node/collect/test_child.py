"""A child for what may hang: its answer, or none."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_triage.node.collect import _child
from slurm_triage.transport import killable


def _raises() -> bytes:
    raise OSError("no")


def _dies() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def _exits() -> bytes:
    raise SystemExit(0)


def test_an_answer() -> None:
    assert _child.ask(lambda: b"yes", 5.0) == b"yes"
    assert _child.ask(lambda: b"x" * 1_000_000, 5.0, 300_000) == b"x" * 300_000


@pytest.mark.parametrize("work", [_raises, _dies, _exits])
def test_no_answer_is_none(work: Callable[[], bytes]) -> None:
    assert _child.ask(work, 5.0) in (None, b"")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # nothing is left


def test_time_is_kept_and_the_child_killed() -> None:
    def hangs() -> bytes:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
        return b"late"

    began = time.monotonic()
    assert _child.ask(hangs, 0.2) is None
    assert time.monotonic() - began < 2.0
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_child_that_hangs_holds_no_file_of_the_agent(tmp_path: Path) -> None:
    """The agent's lock is one: it would be held until the driver answers."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        held = _child.ask(lambda: b"held" if os.path.exists(f"/proc/self/fd/{lock}") else b"free", 5.0)  # noqa: PTH110
    finally:
        os.close(lock)
    assert held == b"free"


def test_with_too_many_left_behind_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child.DRIVERS, "left", set(range(_child.DRIVERS.most)))
    monkeypatch.setattr(killable, "_reaped", lambda pid: False)
    assert _child.ask(lambda: b"yes", 5.0) is None


def test_a_child_that_cannot_be_started_leaves_no_open_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert [_child.ask(lambda: b"x", 1.0) for _ in range(5)] == [None] * 5
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
