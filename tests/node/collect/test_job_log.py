"""Reading the job's own output: what counts as it, and what is said where nothing can be read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_triage.node import as_user
from slurm_triage.node.collect import Budget, Collected, job_log
from slurm_triage.node.job import Job

START, END = 1_796_010_000, 1_796_010_100


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of the child, in this process."""

    def run(job: Job, work: Callable[[], bytes], seconds: float, limit: int, first_uid: int | None) -> bytes:
        if first_uid is not None and job.uid < first_uid:
            raise as_user.AsUserError("a system user")
        answer = work()
        assert len(answer) <= limit and 0 < seconds <= 5.0
        return answer

    monkeypatch.setattr(as_user, "run", run)


def job(out: str = "", err: str = "", **more: object) -> Job:
    values = {"start": START, "end": END, "batch_host": True, **more}
    return Job("77", "c1", os.getuid(), os.getgid(), stdout=out, stderr=err, work_dir="/", **values)  # type: ignore[arg-type]


def wrote(path: Path, data: bytes, at: float = END - 1) -> str:
    path.write_bytes(data)
    os.utime(path, (at, at))
    return str(path)


def why(found: Collected) -> str:
    assert found.files == {}
    (said,) = found.not_seen
    return said


def test_output_and_errors_are_two_files(tmp_path: Path) -> None:
    out, err = wrote(tmp_path / "o", b"started\nKeyError: 3\n"), wrote(tmp_path / "e", b"srun: error: x")
    found = job_log.collect(job(out, err), Budget())
    assert found.files == {"job.out": b"started\nKeyError: 3\n", "job.err": b"srun: error: x\n"}
    assert found.manifest == {"line_ranges": {"job.out": [[1, 2]], "job.err": [[1, 1]]}}
    assert found.not_seen == []


def test_one_path_for_both_is_read_once(tmp_path: Path) -> None:
    out = wrote(tmp_path / "o", b"x\n")
    assert list(job_log.collect(job(out, out), Budget()).files) == ["job.out"]


def test_patterns_are_filled_in(tmp_path: Path) -> None:
    wrote(tmp_path / "run-77.out", b"x\n")
    assert job_log.collect(job(f"{tmp_path}/run-%j.out"), Budget()).files == {"job.out": b"x\n"}


def test_only_the_batch_host_reads(tmp_path: Path) -> None:
    found = job_log.collect(job(wrote(tmp_path / "o", b"x\n"), batch_host=False), Budget())
    assert (found.files, found.not_seen) == ({}, [])


def test_an_unknown_path_is_said() -> None:
    assert "did not tell" in why(job_log.collect(job(), Budget()))
    assert "cannot be made out" in why(job_log.collect(job("/x/%x.out"), Budget()))
    assert "/dev/null" in why(job_log.collect(job("/dev/null"), Budget()))


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    assert why(job_log.collect(job(f"{tmp_path}/none"), Budget())).startswith("job.out: no such file on this node")


def test_a_pipe_a_folder_and_a_device_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (f"{tmp_path}/pipe", str(tmp_path), "/dev/zero", f"{tmp_path}/x\0y"):
        assert why(job_log.collect(job(path), Budget())).startswith("job.out: ")


def test_who_is_a_person_is_the_settings_to_say(tmp_path: Path) -> None:
    path = wrote(tmp_path / "o", b"x\n")
    assert job_log.collect(job(path), Budget(first_uid=os.getuid())).files
    assert "a system user" in why(job_log.collect(job(path), Budget(first_uid=os.getuid() + 1)))


def test_a_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    path = wrote(tmp_path / "o", b"secret\n")
    other = Job("77", "c1", os.getuid() + 1, 1, START, END, stdout=path, batch_host=True)
    assert f"belongs to uid {os.getuid()}" in why(job_log.collect(other, Budget()))


def test_a_link_to_a_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    wrote(tmp_path / "o", b"secret\n")
    (tmp_path / "link").symlink_to(tmp_path / "o")
    other = Job("77", "c1", os.getuid() + 1, 1, START, END, stdout=f"{tmp_path}/link", batch_host=True)
    assert "belongs to uid" in why(job_log.collect(other, Budget()))


def test_a_file_from_before_or_after_the_attempt_is_not_its_output(tmp_path: Path) -> None:
    old = wrote(tmp_path / "old", b"KeyError: of the day before\n", START - 3600)
    assert "before the job began" in why(job_log.collect(job(old), Budget()))
    new = wrote(tmp_path / "new", b"KeyError: of the next attempt\n", END + 600)
    assert "600 seconds after the job's end" in why(job_log.collect(job(new), Budget()))
    assert job_log.collect(job(new, end=None), Budget()).files


def test_a_child_that_fails_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> bytes:
        raise as_user.AsUserError("took longer than 5 seconds")

    monkeypatch.setattr(as_user, "run", run)
    found = job_log.collect(job(wrote(tmp_path / "o", b"x\n")), Budget())
    assert why(found) == "job.out: could not be read: took longer than 5 seconds"


@pytest.mark.parametrize(
    "answer", [b"", b"{}", b"[1]\nx", b'[{"size": "x"}]\n', b"\xff", b'[{"size":1,"ranges":[1]}]\nx']
)
def test_an_answer_that_is_none_is_a_sentence(answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_user, "run", lambda *_: answer)
    assert why(job_log.collect(job(wrote(tmp_path / "o", b"x\n")), Budget())).startswith("job.out: could not be read")


def test_a_huge_file_is_read_at_its_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "HEAD", 1000)
    monkeypatch.setattr(job_log, "TAIL", 3000)
    lines = [b"%06d step\n" % number for number in range(1, 2001)]
    lines[1500] = b"error: never read\n"
    lines[1990] = b"error: near the end\n"
    found = job_log.collect(job(wrote(tmp_path / "o", b"".join(lines))), Budget())
    data = found.files["job.out"]
    assert data.startswith(b"000001 step\n") and data.endswith(b"002000 step\n")
    assert b"error: near the end" in data and b"never" not in data
    (note,) = found.not_seen
    assert "line numbers above 83 count from byte" in note  # 83 lines of 12 bytes fit into 1,000
    (runs,) = found.manifest["line_ranges"].values()
    assert runs[0] == [1, 20] and sum(last - first + 1 for first, last in runs) == data.count(b"\n")
    assert all(before[1] < after[0] for before, after in itertools.pairwise(runs))


def test_the_budget_holds_for_both_files_together(tmp_path: Path) -> None:
    big = b"".join(b"error %d of kind %s\n" % (n, b"%x" % n * 40) for n in range(40_000))
    found = job_log.collect(job(wrote(tmp_path / "o", big), wrote(tmp_path / "e", big)), Budget(size=20_000))
    assert 5_000 < sum(map(len, found.files.values())) <= 20_000
