"""The next item is made while the caller is at one, and never more than one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from slurm_triage.service.ahead import ahead


def test_order_is_kept_and_nothing_is_lost() -> None:
    assert list(ahead(iter(range(50)))) == list(range(50))
    assert list(ahead(iter(()))) == []
    assert list(ahead(iter([None, False, None]))) == [None, False, None]


def test_the_next_is_made_meanwhile_and_only_that() -> None:
    began = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(began):
            event.set()
            yield number

    found = ahead(items())
    assert not began[0].is_set()  # nothing is asked before somebody wants it
    assert next(found) == 0
    assert began[1].wait(10.0)
    assert not began[2].is_set()
    assert next(found) == 1
    assert began[2].wait(10.0)
    assert not began[3].is_set()
    found.close()  # type: ignore[attr-defined]


def test_what_goes_wrong_is_said_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(OSError, match="gone"):
        next(found)


def test_a_caller_that_fails_leaves_no_thread() -> None:
    before = threading.active_count()

    def work() -> None:
        for _ in ahead(iter(range(10))):
            raise ValueError("my own")

    with pytest.raises(ValueError, match="my own"):
        work()
    assert threading.active_count() == before
