"""What this host's spool adds to a job that is asked for: read, never moved; and said where it cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_triage import live
from slurm_triage.live import witnesses
from slurm_triage.model import HookEnv, TaskExit
from tests.live.test_gather import notes, small
from tests.spool.writers import TASKS, as_nobody, epilog, epilogslurmctld, make, put, reachable

JOB = "1016"
START = 1782918656  # 2026-07-01T15:10:56 UTC


def of_job(data: bytes, job: str = JOB) -> bytes:
    return data.replace(b"1004", job.encode())


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = make(tmp_path / "spool")
    monkeypatch.setattr(witnesses, "SPOOLS", (str(path), str(tmp_path / "none")))
    return path


def contents(path: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_the_records_of_the_job_are_evidence(spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path, monkeypatch)
    put(spool, f"{JOB}.0.1.spank", of_job(epilog(start=START)))
    put(spool, f"{JOB}.0.2.epilogslurmctld", of_job(epilogslurmctld(start=START)), "done")
    put(spool, f"{JOB}.0.3.epilog", of_job(epilog(start=START)), "work")
    put(spool, f"{JOB}.tasks", of_job(TASKS), "tmp")
    put(spool, "1017.0.1.epilog", epilog("1017"))
    before = contents(spool)
    gathered = live.gather(JOB, timeout=20)
    assert gathered.files["tasks.c1.txt"] == of_job(TASKS)
    assert gathered.files["env.epilog_slurmctld.txt"] == of_job(epilogslurmctld(start=START))
    assert {n for n in gathered.files if n.startswith("env")} == {"env.epilog_slurmctld.txt", "env.spank.c1.txt"}
    events, _ = gathered.parse()
    assert {event.hook for event in events if isinstance(event, HookEnv)} == {"epilog_slurmd", "epilog_slurmctld"}
    assert any(isinstance(event, TaskExit) for event in events)
    assert "spool" not in notes(gathered)
    assert contents(spool) == before
    assert sorted(path.name for path in spool.iterdir()) == ["done", "new", "tmp", "work"]


def test_no_spool_is_no_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path, monkeypatch)
    monkeypatch.setattr(witnesses, "SPOOLS", (str(tmp_path / "none"),))
    gathered = live.gather(JOB, timeout=20)
    assert "spool" not in notes(gathered)
    assert witnesses.look({JOB}) == ({}, [])


def test_a_spool_that_cannot_be_used_is_said_once(spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path, monkeypatch)
    put(spool, f"{JOB}.0.1.epilog", of_job(epilog(start=START)))
    spool.chmod(0o777)
    gathered = live.gather(JOB, timeout=20)
    (said,) = [note for note in gathered.notes if note.file == "spool"]
    assert said.note.startswith(f"could not be read: {spool}: can be changed by its group or by all")
    assert not [name for name in gathered.files if name.startswith("env")]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    with reachable() as folder:
        path = make(folder / "spool")
        monkeypatch.setattr(witnesses, "SPOOLS", (str(path),))
        said = as_nobody(lambda: witnesses.look({JOB}))
    assert said == ({}, [f"could not be read: {path}: permission denied. A spool is read as root or as its owner"])


def test_what_is_no_record_is_said_and_not_used(spool: Path) -> None:
    put(spool, f"{JOB}.0.1.epilog", of_job(epilog(start=START)))
    put(spool, f"{JOB}.0.2.epilog", epilog("1017"))
    (spool / "new" / f"{JOB}.0.3.epilog").symlink_to("/etc/passwd")
    put(spool, "1017.0.2.epilog", b"")  # of another job: nobody asked
    files, problems = witnesses.look({JOB})
    assert list(files) == ["env.epilog.c1.txt"]
    assert [problem.partition("new/")[2] for problem in problems] == [
        f"{JOB}.0.2.epilog: not used: another job's id",
        f"{JOB}.0.3.epilog: not used: not a regular file",
    ]


def test_parts_are_kept_apart_by_their_ids(spool: Path) -> None:
    put(spool, "21.0.1.epilog", epilog("21"), at=1.0)
    put(spool, "22.0.1.epilog", epilog("22"), at=2.0)
    files, _ = witnesses.look({"21", "22", "23"})
    assert list(files) == ["env.epilog.c1.21.txt", "env.epilog.c1.22.txt"]


def test_tickets_of_several_attempts(spool: Path) -> None:
    """Those that name their start are told apart by it; of others only the newest can be of the last attempt."""
    put(spool, f"{JOB}.0.1.epilog", of_job(epilog(start=START)), at=1.0)
    put(spool, f"{JOB}.0.2.epilog", of_job(epilog(start=START + 100)), at=2.0)
    put(spool, f"{JOB}.0.3.epilogslurmctld", of_job(epilogslurmctld(start=None)), at=3.0)
    put(spool, f"{JOB}.0.4.epilogslurmctld", of_job(epilogslurmctld(start=None) + b"X=1\0"), at=4.0)
    files, problems = witnesses.look({JOB})
    assert list(files) == ["env.epilog.c1.txt", "env.epilog.c1.b.txt", "env.epilog_slurmctld.txt"]
    assert files["env.epilog_slurmctld.txt"].endswith(b"X=1\0")
    assert problems == [f"{JOB}.0.3.epilogslurmctld: not used: it does not say of which attempt it is"]
