"""What is taken for a record, and what goes to bad/ unread."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.spool import Record, Spool, SpoolError, _records
from tests.spool.writers import TASKS, UID, make, names, put, ticket

as_root = pytest.mark.skipif(UID != 0, reason="only root can give files away and make devices")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return make(tmp_path / "spool")


def claim(path: Path) -> list[Record]:
    with Spool(str(path)) as spool:
        found = list(spool.claim())
        for record in found:
            assert spool.done(record)
        return found


def refused(path: Path) -> dict[str, int]:
    with Spool(str(path)) as spool:
        return dict(spool.state().refused)


def test_records_come_oldest_first_and_whole(spool: Path) -> None:
    put(spool, "1004.1796051467.79.spank", ticket(SLURM_JOB_NAME="a\nb"), at=30.0)
    put(spool, "1004.1796051467.79.tasks", TASKS, at=20.0)
    put(spool, "7.0.2.epilogslurmctld", ticket("7"), at=10.0)
    put(spool, "7.0.1.epilog", ticket("7", "0"), at=10.0)
    found = claim(spool)
    assert [(r.job, r.seconds, r.pid, r.kind) for r in found] == [
        ("7", 0, 1, "epilog"),
        ("7", 0, 2, "epilogslurmctld"),
        ("1004", 1796051467, 79, "tasks"),
        ("1004", 1796051467, 79, "spank"),
    ]
    assert [r.uid for r in found] == [0, 1001, None, 1001]
    assert (found[2].data, found[2].mtime, found[2].env) == (TASKS, 20.0, {})
    assert found[3].env["SLURM_JOB_NAME"] == "a\nb"
    assert not found[3].cut
    assert names(spool, "done") == sorted(r.name for r in found)
    assert names(spool, "new") == names(spool, "work") == names(spool, "bad") == []


def test_of_one_job(spool: Path) -> None:
    for job in ("1004", "100", "7"):
        put(spool, f"{job}.0.1.epilog", ticket(job))
    with Spool(str(spool)) as opened:
        waiting = opened.waiting()
        assert waiting == {job: [f"{job}.0.1.epilog"] for job in ("1004", "100", "7")}
        assert [record.job for record in opened.claim(waiting["100"])] == ["100"]
        assert list(opened.claim(waiting["100"])) == []
    assert len(names(spool, "new")) == 2


def test_of_variables_with_one_name_the_first_counts(spool: Path) -> None:
    put(spool, "1004.0.1.epilog", b"SLURM_JOB_UID=1001\0SLURM_JOB_UID=0\0SLURM_JOB_ID=1004\0SLURM_JOB_ID=5\0NOTHING\0")
    (record,) = claim(spool)
    assert (record.uid, record.env["SLURM_JOB_ID"]) == (1001, "1004")


def test_a_value_cannot_imitate_a_variable(spool: Path) -> None:
    put(spool, "1004.0.1.epilog", b"SLURM_JOB_NAME=x\nSLURM_JOB_UID=0\0" + ticket())
    assert claim(spool)[0].uid == 1001


def test_a_cut_ticket_ends_after_its_last_whole_variable(spool: Path) -> None:
    put(spool, "1004.0.1.epilog", ticket(SLURM_JOB_NODELIST="c1") + b"SLURM_JOB_END_TIME=17960")
    (record,) = claim(spool)
    assert record.cut
    assert record.data == ticket(SLURM_JOB_NODELIST="c1")
    assert "SLURM_JOB_END_TIME" not in record.env


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no job id"),
        (b"SLURM_JOB_UID=1001\0", "no job id"),
        (ticket("1005"), "another job's id"),
        (b"SLURM_JOB_ID=1004\0", "no uid"),
        (b"SLURM_JOB_ID=1004\0SLURM_JOB_UID=100", "no uid"),  # cut: half a number is another user's
        (ticket(uid="10x"), "no uid"),
        (ticket(uid="-1"), "no uid"),
        (ticket(uid=" 1"), "no uid"),
        (ticket(uid=""), "no uid"),
        (ticket(uid="١٠٠١"), "no uid"),
        (ticket(uid="1001\n"), "no uid"),
        (ticket(X="y" * 70_000), "too large"),
    ],
)
def test_a_ticket_that_is_none(data: bytes, why: str, spool: Path) -> None:
    put(spool, "1004.0.1.epilog", data)
    assert claim(spool) == []
    assert refused(spool) == {why: 1}
    assert names(spool, "bad") == ["1004.0.1.epilog"]


def test_a_ticket_of_64_kib_and_the_plugins_own_variables_is_one(spool: Path) -> None:
    put(spool, "1004.0.1.epilog", ticket(X="y" * 66_000))
    assert len(claim(spool)) == 1


def test_task_records_beyond_their_limit_are_not_read(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(spool, "1004.0.1.tasks", TASKS)
    os.truncate(path, 1 << 40)
    monkeypatch.setattr(os, "pread", None)
    assert claim(spool) == []
    assert refused(spool) == {"too large": 1}


@pytest.mark.parametrize(
    "name",
    [
        "1004.0.1", "1004.0.1.tasks.tmp", ".1004.0.1.tasks", "1004.0.1.Tasks", "x.0.1.tasks", "1004.-1.1.tasks",
        "1004.0.1.tasks\n", "1\n004.0.1.tasks", "1004.0.1.epilog_slurmctld", "١٠٠٤.0.1.tasks", "..1004.0.1.tasks",
        "...", "12345678901.0.1.tasks", "1004..1.tasks", "1004.tasks", "-rf", "a" * 255,
    ],
)  # fmt: skip
def test_a_name_that_is_none(name: str, spool: Path) -> None:
    put(spool, name, ticket())
    assert claim(spool) == []
    assert refused(spool) == {"wrong name": 1}
    assert names(spool, "bad") == [name]


def test_a_name_that_is_not_utf8(spool: Path) -> None:
    with open(os.fsencode(spool) + b"/new/\xff.0.1.tasks", "wb"):  # noqa: PTH123 (bytes)
        pass
    assert claim(spool) == []
    assert [os.fsencode(name) for name in names(spool, "bad")] == [b"\xff.0.1.tasks"]


def test_what_is_no_plain_file_is_moved_but_not_opened(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(ticket())
    new = spool / "new"
    (new / "1004.0.1.epilog").symlink_to(secret)
    (new / "1004.0.2.epilog").symlink_to(tmp_path / "nothing")
    (new / "1004.0.3.epilog").mkdir()
    (new / "1004.0.3.epilog" / "within").write_bytes(b"x")
    os.mkfifo(new / "1004.0.4.epilog")
    with socket.socket(socket.AF_UNIX) as server, monkeypatch.context() as patch:
        patch.chdir(new)
        server.bind("1004.0.5.epilog")
    put(spool, "1004.0.9.epilog", ticket())
    real, opened = os.open, []

    def seen(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", seen)
    assert [record.pid for record in claim(spool)] == [9]
    monkeypatch.undo()
    assert [name for name in opened if str(name).startswith("1004")] == ["1004.0.9.epilog"]
    assert refused(spool) == {"not a regular file": 5}
    assert len(names(spool, "bad")) == 5
    assert (spool / "bad" / "1004.0.1.epilog").is_symlink()
    assert secret.read_bytes() == ticket()


@as_root
def test_a_device_is_not_opened(spool: Path) -> None:
    try:
        os.mknod(spool / "new" / "1004.0.1.tasks", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    assert claim(spool) == []
    assert refused(spool) == {"not a regular file": 1}


@as_root
def test_a_file_of_somebody_else(spool: Path) -> None:
    os.chown(put(spool, "1004.0.1.epilog", ticket()), 1001, -1)
    assert claim(spool) == []
    assert refused(spool) == {"wrong owner": 1}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_change(mode: int, spool: Path) -> None:
    put(spool, "1004.0.1.epilog", ticket()).chmod(mode)
    assert claim(spool) == []
    assert refused(spool) == {"writable for others": 1}


def test_a_file_with_another_name_elsewhere(spool: Path, tmp_path: Path) -> None:
    os.link(put(spool, "1004.0.1.epilog", ticket()), tmp_path / "other")
    assert claim(spool) == []
    assert refused(spool) == {"several links": 1}
    assert (tmp_path / "other").read_bytes() == ticket()


def test_one_that_cannot_be_read_costs_only_itself(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=1.0)
    put(spool, "2.0.1.epilog", ticket("2"), at=2.0)
    real = os.pread

    def broken(file: int, size: int, offset: int) -> bytes:
        if Path(f"/proc/self/fd/{file}").readlink().name.startswith("1."):
            raise OSError(5, "Input/output error")
        return real(file, size, offset)

    monkeypatch.setattr(os, "pread", broken)
    assert [record.job for record in claim(spool)] == ["2"]
    assert refused(spool) == {"unreadable": 1}


def test_nothing_is_overwritten(spool: Path) -> None:
    for folder in ("work", "done", "bad"):
        put(spool, "1004.0.1.epilog", b"old", folder)
        put(spool, "odd", b"old", folder)
    put(spool, "1004.0.1.epilog", ticket())
    put(spool, "odd", b"")
    (record,) = claim(spool)
    assert (record.name, record.pid) == ("1004.0.10000001.epilog", 10000001)
    assert names(spool, "done") == ["1004.0.1.epilog", "1004.0.10000001.epilog", "odd"]
    assert names(spool, "bad") == ["1004.0.1.epilog", "odd", "odd~1"]
    for folder in ("work", "done", "bad"):
        assert (spool / folder / "1004.0.1.epilog").read_bytes() == b"old"


def test_a_long_name_still_finds_a_free_one(spool: Path) -> None:
    name = "ü" * 127 + "x"
    put(spool, name, b"old", "bad")
    put(spool, name, b"")
    claim(spool)
    assert len(list((spool / "bad").iterdir())) == 2
    assert names(spool, "new") == []


def test_refused_and_released(spool: Path) -> None:
    put(spool, "1.0.1.epilog", ticket("1"), at=1.0)
    put(spool, "2.0.1.epilog", ticket("2"), at=2.0)
    with Spool(str(spool)) as opened:
        one, two = opened.claim()
        assert names(spool, "work") == [one.name, two.name]
        assert opened.refuse(one, "no such cluster")
        assert opened.release(two)
        assert names(spool, "new") == [two.name]
        assert dict(opened.state().refused) == {"no such cluster": 1}
        with pytest.raises(ValueError, match="not held"):
            opened.done(two)
        (again,) = opened.claim()
        (spool / "work" / again.name).unlink()
        assert not opened.done(again)


def test_a_record_that_changed_hands_before_it_was_locked_is_left(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another reader put it back, took it, handed it on, and took a new one of the same name."""
    put(spool, "1004.0.1.epilog", ticket())
    real = fcntl.flock

    def late(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        (spool / "done").mkdir(mode=0o700, exist_ok=True)
        (spool / "work" / "1004.0.1.epilog").rename(spool / "done" / "1004.0.1.epilog")
        put(spool, "1004.0.1.epilog", ticket(X="new"), "work")
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with Spool(str(spool)) as opened:
        assert list(opened.claim()) == []
    assert (spool / "work" / "1004.0.1.epilog").read_bytes() == ticket(X="new")


@pytest.mark.parametrize("code", [28, 30, 122])
def test_a_full_or_read_only_disk_is_a_sentence(code: int, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(spool, "1004.0.1.epilog", ticket())

    def failing(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("slurm_triage.spool._folders.move", failing)
    with Spool(str(spool)) as opened, pytest.raises(SpoolError, match=f"spool: .*{os.strerror(code)}"):
        list(opened.claim())
    assert names(spool, "new") == ["1004.0.1.epilog"]


def test_no_descriptor_is_left_open(spool: Path) -> None:
    put(spool, "1.0.1.epilog", ticket("1"))
    put(spool, "2.0.1.epilog", b"")
    put(spool, "x", b"")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Spool(str(spool)) as opened:
        list(opened.claim())
        opened.recover(0)
        opened.trim()
        opened.peek({"1"})
        opened.state()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_name_may_say_whose_job_it_is(spool: Path) -> None:
    put(spool, "1004.1001.1796051467.79.tasks", TASKS, at=1.0)
    put(spool, "1004.1001.1796051467.79.spank", ticket(), at=2.0)
    put(spool, "1004.1002.1796051467.79.epilog", ticket(), at=3.0)
    put(spool, "1004.1001.1796051467.79.spank", b"old", "work")
    tasks, taken = claim(spool)
    assert (tasks.uid, tasks.seconds, tasks.pid, tasks.kind) == (1001, 1796051467, 79, "tasks")
    assert (taken.uid, taken.name) == (1001, "1004.1001.1796051467.10000079.spank")
    assert refused(spool) == {"another user's uid": 1}


def test_names_say_what_they_are() -> None:
    assert _records.parse_name("1004.1001.1796051467.79.spank") == ("1004", 1001, 1796051467, 79, "spank")
    assert _records.parse_name("1004.1796051467.79.tasks") == ("1004", None, 1796051467, 79, "tasks")
    assert _records.growing_job("1004.tasks") == "1004"
    assert _records.growing_job("1004.0.1.tasks") is None
