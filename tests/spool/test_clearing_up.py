"""What died is put back, what is too much is dropped and counted, and how that is said."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from slurm_triage.spool import Folder, Limits, Spool, SpoolError, _counts, _folders
from tests.spool.writers import TASKS, make, names, put, ticket

NOW = time.time()
HOUR = 3600.0


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return make(tmp_path / "spool")


def open_at(path: Path, now: float = NOW) -> Spool:
    return Spool(str(path), clock=lambda: now)


# ------------------------------------------------------------------------------------------------ recover


def test_what_a_dead_reader_held_is_put_back_and_what_a_living_one_holds_is_not(spool: Path) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=1.0)
    put(spool, "2.0.1.epilog", ticket("2"), at=2.0)
    with open_at(spool) as dead:
        next(dead.claim())
    with open_at(spool) as living, open_at(spool) as other:
        (held,) = living.claim()
        assert held.job == "2"
        assert other.recover(0.0).back == 1
        assert names(spool, "new") == ["1.0.1.epilog"]
        assert names(spool, "work") == ["2.0.1.epilog"]
        assert living.done(held)


def test_what_no_reader_moves_to_work_goes_to_bad(spool: Path) -> None:
    put(spool, "odd", b"", "work")
    put(spool, "also odd", b"")
    (spool / "work" / "1.0.1.epilog").mkdir()
    with open_at(spool) as opened:
        assert opened.recover(0.0).refused == 3
    assert names(spool, "bad") == ["1.0.1.epilog", "also odd", "odd"]


def test_task_records_of_a_job_whose_epilog_never_ran(spool: Path) -> None:
    put(spool, "1004.tasks", TASKS, "tmp", at=NOW - HOUR - 1)
    put(spool, "1005.tasks", TASKS, "tmp", at=NOW - HOUR + 1)
    put(spool, f"1004.{int(NOW - HOUR - 1)}.0.tasks", b"an older one\n")
    with open_at(spool) as opened:
        assert opened.recover(HOUR).tasks == 1
        second = f"1004.{int(NOW - HOUR - 1)}.10000000.tasks"
        assert names(spool, "tmp") == ["1005.tasks"]
        assert names(spool, "new") == sorted([f"1004.{int(NOW - HOUR - 1)}.0.tasks", second])
        assert (spool / "new" / second).read_bytes() == TASKS
        assert {record.kind for record in opened.claim()} == {"tasks"}


def test_tickets_whose_writer_died(spool: Path) -> None:
    old = NOW - 2 * HOUR
    put(spool, "1.0.1.spank", ticket("1"), "tmp", at=old)
    put(spool, "2.0.1.epilog", ticket("2") + b"SLURM_JOB_EXIT_C", "tmp", at=old)
    put(spool, "3.0.1.epilog", ticket("3"), "tmp", at=NOW)
    put(spool, "4.0.1.epilog", ticket("5"), "tmp", at=old)
    put(spool, "5.0.1.tasks", TASKS, "tmp", at=old)
    put(spool, "odd", b"\0", "tmp", at=old)
    os.mkfifo(spool / "tmp" / "6.tasks")
    os.utime(spool / "tmp" / "6.tasks", (old, old))
    with open_at(spool) as opened:
        found = opened.recover(HOUR)
        assert (found.tickets, found.refused) == (1, 5)
        assert dict(opened.state().refused) == {"torn": 3, "wrong name": 1, "not a regular file": 1}
    assert names(spool, "new") == ["1.0.1.spank"]
    assert names(spool, "tmp") == ["3.0.1.epilog"]


# ------------------------------------------------------------------------------------------------ trim


def test_done_and_bad_go_before_the_oldest_that_waits(spool: Path) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=NOW - 50)
    put(spool, "2.0.1.tasks", TASKS, at=NOW - 40)
    put(spool, "3.0.1.epilog", ticket("3"), at=NOW - 30)
    put(spool, "4.0.1.epilog", ticket("4"), "done", at=NOW - 10)
    put(spool, "odd", b"x", "bad", at=NOW - 20)
    with open_at(spool) as opened:
        trimmed = opened.trim(Limits(files=5))
        assert (trimmed.done, trimmed.bad, trimmed.lost) == (0, 0, {})
        trimmed = opened.trim(Limits(files=4))
        assert (trimmed.done, trimmed.bad, trimmed.lost, trimmed.size) == (0, 1, {}, 1)
        trimmed = opened.trim(Limits(files=2))
        assert (trimmed.done, trimmed.bad, dict(trimmed.lost)) == (1, 0, {"epilog": 1})
        assert names(spool, "new") == ["2.0.1.tasks", "3.0.1.epilog"]
        trimmed = opened.trim(Limits(size=len(ticket("3"))))
        assert dict(trimmed.lost) == {"tasks": 1}
        assert dict(opened.state().dropped) == {"epilog": 1, "tasks": 1}
    with open_at(spool) as opened:
        assert dict(opened.state().dropped) == {"epilog": 1, "tasks": 1}


def test_what_is_too_old_goes(spool: Path) -> None:
    for folder in ("new", "done", "bad"):
        put(spool, "1.0.1.epilog", ticket("1"), folder, at=NOW - 101)
        put(spool, "2.0.1.epilog", ticket("2"), folder, at=NOW - 99)
    with open_at(spool) as opened:
        trimmed = opened.trim(Limits(age=100))
    assert (trimmed.done, trimmed.bad, dict(trimmed.lost)) == (1, 1, {"epilog": 1})


def test_what_is_held_counts_and_stays(spool: Path) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=1.0)
    put(spool, "2.0.1.epilog", ticket("2"), at=2.0)
    with open_at(spool) as opened:
        next(opened.claim())
        assert dict(opened.trim(Limits(files=1, age=1e12)).lost) == {"epilog": 1}
    assert names(spool, "work") == ["1.0.1.epilog"]


def test_what_is_no_record_is_counted_as_other(spool: Path) -> None:
    put(spool, "odd", b"", at=NOW)
    with open_at(spool) as opened:
        assert dict(opened.trim(Limits(files=0)).lost) == {"other": 1}


def test_of_folders_only_empty_ones_are_removed(spool: Path) -> None:
    for name in ("empty", "full"):
        (spool / "bad" / name).mkdir(parents=True)
    (spool / "bad").chmod(0o700)
    (spool / "bad" / "full" / "x").write_bytes(b"")
    with open_at(spool) as opened:
        assert opened.trim(Limits(files=0)).bad == 1
    assert names(spool, "bad") == ["full"]


def test_what_another_reader_took_is_not_counted_as_lost(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=NOW)
    real = _counts.change

    def taken_meanwhile(*args: object) -> None:
        monkeypatch.setattr(_counts, "change", real)
        real(*args)  # type: ignore[arg-type]
        (spool / "new" / "1.0.1.epilog").unlink()

    monkeypatch.setattr(_counts, "change", taken_meanwhile)
    with open_at(spool) as opened:
        assert opened.trim(Limits(files=0)).lost == {}
        assert opened.state().dropped == {}


def test_a_full_disk_is_made_empty_all_the_same(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=NOW)
    real = _folders.replace_file

    def full(*args: object) -> None:
        if names(spool, "new"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(_counts, "replace_file", full)
    with open_at(spool) as opened:
        assert dict(opened.trim(Limits(files=0)).lost) == {"epilog": 1}
        assert dict(opened.state().dropped) == {"epilog": 1}


def test_a_read_only_disk_is_a_sentence(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=NOW)

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(_counts, "replace_file", read_only)
    with open_at(spool) as opened, pytest.raises(SpoolError, match="the spool cannot be used: Read-only file system"):
        opened.trim(Limits(files=0))
    assert names(spool, "new") == ["1.0.1.epilog"]


def test_the_defaults_hold_what_a_node_writes() -> None:
    assert Limits() == Limits(64 << 20, 5000, 7 * 86400.0)


# ------------------------------------------------------------------------------------------------ the writers' drops


def test_every_byte_of_the_writers_is_counted_once(spool: Path) -> None:
    now = time.time()  # the kernel's stamps count here
    late = os.open(spool / "dropped", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(late, b"11")
    with open_at(spool, now) as opened:
        assert opened.state().dropped == {"writers": 2}
        opened.trim()
        opened.trim()
        os.write(late, b"1")  # had opened it before it was renamed
        os.close(late)
        assert opened.state().dropped == {"writers": 3}
    (spool / "dropped").write_bytes(b"1")
    with open_at(spool, now + 100) as opened:
        opened.trim()
        assert opened.state().dropped == {"writers": 4}
    with open_at(spool, now + 200) as opened:
        opened.trim()
        assert opened.state().dropped == {"writers": 4}
    assert sorted(path.name for path in spool.iterdir() if path.is_file()) == ["counts.json"]


def test_a_crash_between_counting_and_removing_counts_once(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (spool / "dropped").write_bytes(b"111")
    now = time.time()
    with open_at(spool, now) as opened:
        opened.trim()
    real = os.unlink

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "unlink", killed)
    with open_at(spool, now + 100) as opened, pytest.raises(KeyboardInterrupt):
        opened.trim()
    monkeypatch.setattr(os, "unlink", real)
    with open_at(spool, now + 100) as opened:
        assert opened.state().dropped == {"writers": 3}
        opened.trim()
        assert opened.state().dropped == {"writers": 3}


# ------------------------------------------------------------------------------------------------ state


def test_an_empty_spool(spool: Path) -> None:
    with open_at(spool) as opened:
        state = opened.state()
    assert set(state.folders.values()) == {Folder()}
    assert (state.jobs, state.dropped, state.refused, state.disabled, state.problems) == (
        frozenset(),
        {},
        {},
        False,
        (),
    )


def test_what_lies_there(spool: Path) -> None:
    put(spool, "1.0.1.epilog", b"12345", at=NOW - 12)
    put(spool, "1.0.2.spank", b"12345", at=NOW + 5)  # a clock that was set back
    put(spool, "2.0.1.epilog", b"", at=NOW - 3)
    put(spool, "9.tasks", TASKS, "tmp", at=NOW - 100)
    (spool / "disabled").touch()
    before = sorted(spool.rglob("*"))
    with open_at(spool) as opened:
        state = opened.state()
    assert state.folders["new"].files == 3
    assert state.folders["new"].size == 10
    assert state.folders["new"].oldest == pytest.approx(12.0)
    assert (state.folders["tmp"].files, state.folders["tmp"].size) == (1, len(TASKS))
    assert (state.jobs, state.disabled, state.problems) == (frozenset({"1", "2"}), True, ())
    assert sorted(spool.rglob("*")) == before


def test_what_is_wrong(spool: Path) -> None:
    put(spool, "odd", b"")
    put(spool, "1.0.1.epilog", b"").chmod(0o666)
    (spool / "tmp" / "x").mkdir()
    (spool / "counts.json").write_bytes(b'{"dropped": 5}')
    with open_at(spool) as opened:
        assert opened.state().problems == (
            "tmp/ holds 1 that no writer leaves; they are never read",
            "new/ holds 2 that no writer leaves; they are never read",
            "counts.json cannot be understood: drops are counted from zero",
        )


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"\xff", b'{"dropped":{"a":"x"},"refused":{},"read":""}'])
def test_counts_that_are_none_start_from_zero(text: bytes, spool: Path) -> None:
    (spool / "counts.json").write_bytes(text)
    put(spool, "odd", b"")
    with open_at(spool) as opened:
        assert list(opened.claim()) == []
        assert opened.state().refused == {"wrong name": 1}
