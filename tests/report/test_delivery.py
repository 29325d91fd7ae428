"""The file beside the job's output."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.model import Diagnosis, JobIdentity, Owner, Strength
from slurm_triage.report import delivery
from slurm_triage.report.delivery import Refused, deliver, file_name, merge
from slurm_triage.report.text import render
from tests.report.samples import PREEMPTED, UNKNOWN, at

FIRST = PREEMPTED
SECOND = replace(PREEMPTED, job=replace(PREEMPTED.job, attempt=2, start=at(200), end=at(300)))
MARK = "==== slurm-triage 1: cluster=mini job=1119 submit=2026-11-30T15:10:55Z start={} lines={} ===="
MARK1 = MARK.format("2026-11-30T15:10:56Z", 2)
MARK2 = MARK.format("2026-11-30T15:14:11Z", 2)


def test_one_section_per_attempt_in_time_order(tmp_path: Path) -> None:
    path = deliver(tmp_path, SECOND, "second\nend\n")
    assert path == tmp_path / "1119.diagnosis.txt"
    assert path is not None
    assert path.read_text() == f"{MARK2}\nsecond\nend\n"
    deliver(tmp_path, FIRST, "first\nend\n")
    assert path.read_text() == f"{MARK1}\nfirst\nend\n{MARK2}\nsecond\nend\n"
    deliver(tmp_path, FIRST, "first again\nend\n")
    assert path.read_text() == f"{MARK1}\nfirst again\nend\n{MARK2}\nsecond\nend\n"
    assert [p.name for p in tmp_path.iterdir()] == ["1119.diagnosis.txt"]


def test_text_that_is_not_ours_stays(tmp_path: Path) -> None:
    path = tmp_path / "1119.diagnosis.txt"
    path.write_bytes(b"my notes\xff\n" + f"{MARK1}\nold\nend\n".encode() + b"asked Ada\n\n")
    deliver(tmp_path, FIRST, "new\nend\n")
    deliver(tmp_path, SECOND, "second\nend\n")
    expected = (
        b"my notes\xff\n" + f"{MARK1}\nnew\nend\n".encode() + b"asked Ada\n\n" + f"{MARK2}\nsecond\nend\n".encode()
    )
    assert path.read_bytes() == expected


def test_attempts_without_a_start_do_not_replace_each_other(tmp_path: Path) -> None:
    for attempt in (1, 2, 2):
        deliver(tmp_path, replace(UNKNOWN, job=replace(UNKNOWN.job, attempt=attempt)), f"attempt {attempt}\n")
    content = (tmp_path / "77.diagnosis.txt").read_text()
    assert content.count("attempt 1\n") == 1
    assert content.count("attempt 2\n") == 1


def test_last_line_is_the_verdict(tmp_path: Path) -> None:
    page = render(FIRST)
    path = deliver(tmp_path, FIRST, page)
    assert path is not None
    assert path.read_text().endswith("\n" + page.split("\n")[0] + "\n")


def test_forged_marker_breaks_nothing(tmp_path: Path) -> None:
    forged = f"quote\n{MARK2}\nstill the first\nend\n"
    deliver(tmp_path, FIRST, forged)
    deliver(tmp_path, SECOND, "second\nend\n")
    deliver(tmp_path, FIRST, "clean\nend\n")
    assert (tmp_path / "1119.diagnosis.txt").read_text() == f"{MARK1}\nclean\nend\n{MARK2}\nsecond\nend\n"
    odd = replace(FIRST, job=replace(FIRST.job, cluster="a ====\n==== b"))
    assert "cluster=a___________b job=1119" in merge(b"", odd, "x").decode()


@settings(deadline=None)
@given(st.text(), st.text())
def test_sections_are_found_again_whatever_they_say(one: str, two: str) -> None:
    first = merge(b"", FIRST, one)
    both = merge(first, SECOND, two)
    assert both.startswith(first)
    assert merge(both, FIRST, one) == both
    assert merge(both, SECOND, two) == both


@settings(deadline=None)
@given(st.binary())
def test_any_old_content_stays(old: bytes) -> None:
    new = merge(old, FIRST, "x\n")
    assert new.startswith(old)
    assert new.endswith(b"lines=1 ====\nx\n")


def test_a_section_cut_by_hand_does_not_swallow_the_next() -> None:
    content = MARK.format("2026-11-30T15:10:56Z", 40) + f"\nrest\n{MARK2}\nsecond\nend\n"
    assert merge(content.encode(), FIRST, "a\nb\n").decode() == f"{MARK1}\na\nb\n{MARK2}\nsecond\nend\n"


def test_oldest_sections_are_dropped_and_counted(tmp_path: Path) -> None:
    for n in range(6):
        again = replace(FIRST, job=replace(FIRST.job, start=at(1000 * n)))
        deliver(tmp_path, again, f"run {n}\n{'x' * 400}\n", limit=1200)
    content = (tmp_path / "1119.diagnosis.txt").read_text()
    assert content.startswith("==== slurm-triage 1: 4 older section(s) dropped to keep this file small ====\n")
    assert "run 3\n" not in content
    assert "run 4\n" in content
    assert "run 5\n" in content
    assert len(content) < 1400


def test_no_failure_writes_nothing(tmp_path: Path) -> None:
    fine = Diagnosis(JobIdentity(job_id="1"), "no_failure", Owner.NOBODY, Strength.CONFIRMED, "Ended well.")
    assert deliver(tmp_path, fine, "x\n") is None
    assert list(tmp_path.iterdir()) == []


def test_mode(tmp_path: Path) -> None:
    path = deliver(tmp_path, FIRST, "x\n")
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    deliver(tmp_path, SECOND, "x\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_symbolic_link_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "1119.diagnosis.txt").symlink_to(victim)
    with pytest.raises(Refused):
        deliver(tmp_path, FIRST, "x\n")
    assert victim.read_text() == "precious"
    assert (tmp_path / "1119.diagnosis.txt").is_symlink()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(make: object, tmp_path: Path) -> None:
    assert callable(make)
    make(tmp_path / "1119.diagnosis.txt")
    with pytest.raises(Refused):
        deliver(tmp_path, FIRST, "x\n")
    assert len(list(tmp_path.iterdir())) == 1


def test_huge_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_READ_LIMIT", 100)
    (tmp_path / "1119.diagnosis.txt").write_bytes(b"x" * 101)
    with pytest.raises(Refused):
        deliver(tmp_path, FIRST, "x\n")


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(tmp_path, FIRST, "x\n")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        deliver(tmp_path, SECOND, "y\n")
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["1119.diagnosis.txt"]
    assert "y\n" not in (tmp_path / "1119.diagnosis.txt").read_text()


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        deliver(tmp_path / "gone", FIRST, "x\n")


@pytest.mark.parametrize(
    ("job", "name"),
    [
        (JobIdentity(job_id="1065"), "1065.diagnosis.txt"),
        (JobIdentity(job_id="1005", shown_id="1001_4", array="1001", array_task="4"), "1001_4.diagnosis.txt"),
        (JobIdentity(job_id="1001", shown_id="1001_[5-9]", array="1001", array_task="[5-9]"), "1001.diagnosis.txt"),
        (JobIdentity(job_id="1112", shown_id="1111+1", het="1111", het_offset="1"), "1112.diagnosis.txt"),
    ],
)
def test_file_name(job: JobIdentity, name: str) -> None:
    assert file_name(job) == name


@pytest.mark.parametrize("job_id", [None, "", "../x", "a/b", ".x", "1\n2", "x" * 65])
def test_no_file_name(job_id: str | None) -> None:
    with pytest.raises(Refused):
        file_name(JobIdentity(job_id=job_id))
