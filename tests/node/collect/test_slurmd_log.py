"""slurmd's lines of one job, from a log of many."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

from slurm_triage.case import from_files
from slurm_triage.model import Sign
from slurm_triage.node.collect import Budget, Collected, _slurm_conf, slurmd_log
from slurm_triage.node.job import Job
from slurm_triage.sources import parse

START = 1_796_010_000
END = START + 100


def stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) + ".123"


def line(at: float, text: str) -> str:
    return f"[{stamp(at)}] {text}\n"


OURS = (
    "Launching batch job 77 for UID 1001",
    "Launching batch JobId=77 SLUID=s0AHM8PEWRWD00 for UID 1001",
    "launch task StepId=77.0 request from UID:1001 GID:1001 HOST:10.0.0.4 PORT:48024",
    "[77.0] error: execve(): /x/prog: No such file or directory",
    "[77.batch] done with job",
    "error: Could not open stdout file /out/77.out: Permission denied job 77",
    "debug:  completed epilog for jobid 77",
)
OTHERS = (
    "Launching batch job 177 for UID 1002",
    "Launching batch job 770 for UID 1002",
    "[78.0] error: execve(): /secret: No such file or directory",
    "launch task StepId=1077.0 request from UID:1002",
    "[177.batch] error: *** JOB 177 CANCELLED ***",
    "debug:  a line about nothing",
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "slurmd.c1.log"
    monkeypatch.setattr(_slurm_conf, "settings", lambda budget: {"slurmdlogfile": f"{tmp_path}/slurmd.%n.log"})
    return path


def collect(job: Job | None = None, size: int = 256 * 1024) -> Collected:
    return slurmd_log.collect(job or Job("77", "c1", 1001, 1001, START, END), Budget(size=size))


def texts(found: Collected) -> list[str]:
    return [text[26:] for text in found.files.get("slurmd.c1.log", b"").decode().splitlines()]


def test_lines_that_name_the_job_and_no_other_ones(log: Path) -> None:
    mixed = [text for pair in itertools.zip_longest(OURS, OTHERS, fillvalue="") for text in pair]
    log.write_text(line(START - 500, "slurmd started") + "".join(line(START + 1, text) for text in mixed))
    found = collect()
    assert texts(found) == list(OURS)
    assert found.not_seen == []


def test_errors_without_a_job_count_in_its_time_only(log: Path) -> None:
    said = "error: Waiting for JobId=78 to end", "error: unable to reach controller", "Epilog: killed by timeout"
    log.write_text("".join(line(at, text) for at in (START - 5000, START + 5, END + 5000) for text in said))
    assert texts(collect()) == list(said[1:])


def test_a_job_whose_number_is_a_year_gets_no_others_lines(log: Path) -> None:
    log.write_text(line(START + 1, "[78.0] done with job") + line(START + 2, "[2026.0] done with job"))
    assert texts(collect(Job("2026", "c1", 1001, 1001, START, END))) == ["[2026.0] done with job"]


def test_the_name_of_an_array_task_and_of_a_cgroup(log: Path) -> None:
    log.write_text(
        line(START, "[70_7.batch] done with job") + line(START, "kill s0AHM8PEWRWD00 now") + line(START, "[70_71.0] x")
    )
    job = Job("77", "c1", 1001, 1001, START, END, array=("70", "7"), cgroup="s0AHM8PEWRWD00")
    assert texts(collect(job)) == ["[70_7.batch] done with job", "kill s0AHM8PEWRWD00 now"]


def test_of_too_many_the_last_ones(log: Path) -> None:
    log.write_text("".join(line(START + 1, f"[77.{n}] done with job") for n in range(1000)))
    found = collect(size=500)
    assert texts(found)[-1] == "[77.999] done with job"
    assert len(found.files["slurmd.c1.log"]) <= 500


def test_the_job_in_a_long_log_is_found(log: Path) -> None:
    before = "".join(line(START - 90_000 + n, f"[{n}.0] done with job") for n in range(60_000))
    log.write_text(before + line(START + 1, OURS[0]) + line(START + 2, "[123456.0] x"))
    assert texts(collect()) == [OURS[0]]


def test_a_log_that_begins_after_the_start_says_so(log: Path) -> None:
    log.write_text(line(START + 50, "[77.0] done with job"))
    assert "after the job's start: older lines may be in a rotated file" in collect().not_seen[0]


def test_only_the_end_of_a_huge_log_is_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurmd_log, "TAIL", 200)
    log.write_text("".join(line(START + n, f"[77.{n}] done with job") for n in range(50)))
    assert 0 < len(texts(collect())) <= 4


def test_secrets_are_masked(log: Path) -> None:
    log.write_text(line(START, "[77.0] error: exec prog --password hunter2"))
    assert b"hunter2" not in collect().files["slurmd.c1.log"]


def test_what_cannot_be_read_is_said(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "could not be read: No such file" in collect().not_seen[0]
    os.mkfifo(log)
    assert "is not a regular file" in collect().not_seen[0]
    monkeypatch.setattr(_slurm_conf, "settings", lambda budget: {})
    assert collect().not_seen == ["slurmd.c1.log: slurm.conf names no SlurmdLogFile"]
    monkeypatch.setattr(_slurm_conf, "settings", lambda budget: {"slurmdlogfile": "syslog"})
    assert collect().not_seen == ["slurmd.c1.log: SlurmdLogFile is syslog"]


@pytest.mark.parametrize(
    "data", [b"", b"\0\xff\n77\n", b"JobId=77" * 100_000, b"[9999-99-99T99:99:99] error: 77\n", b"\n" * 100_000]
)
def test_odd_logs(data: bytes, log: Path) -> None:
    log.write_bytes(data)
    assert len(collect().files.get("slurmd.c1.log", b"")) <= 5000


def test_the_engine_reads_what_is_collected(log: Path) -> None:
    log.write_text("".join(line(START + 1, text) for text in OURS))
    signs = [e for e in parse(from_files(collect().files))[0] if isinstance(e, Sign)]
    assert {"slurmd_launch", "slurmd_execve"} <= {s.id for s in signs}
    assert {s.job for s in signs} - {None} == {"77"}


# ------------------------------------------------------------------------------------------ slurm.conf


def test_settings_of_slurm_conf_and_of_what_it_includes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slurm.conf").write_text(
        "#SlurmdLogFile=/no\n SlurmdLogFile = /var/log/%h/%n.log # here\nInclude more.conf\nInclude none\n"
    )
    (tmp_path / "more.conf").write_text(
        "slurmdspooldir=/spool\nSlurmdLogFile=/second\nTmpFS=/scratch\nInclude more.conf\n"
    )
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert _slurm_conf.settings(Budget()) == {
        "slurmdlogfile": "/var/log/%h/%n.log", "slurmdspooldir": "/spool", "tmpfs": "/scratch",
    }  # fmt: skip
    host = os.uname().nodename.partition(".")[0]
    assert _slurm_conf.path("/var/log/%h/%n.log", "c1") == f"/var/log/{host}/c1.log"


def test_no_slurm_conf_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_slurm_conf, "PLACES", ())
    assert _slurm_conf.settings(Budget()) == {}


def test_a_server_that_does_not_answer_costs_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs() -> str:
        time.sleep(60)
        return ""

    monkeypatch.setattr(_slurm_conf, "_said", hangs)
    monkeypatch.setattr(_slurm_conf, "SECONDS", 0.2)
    began = time.monotonic()
    assert _slurm_conf.settings(Budget()) == {}
    assert time.monotonic() - began < 3.0
