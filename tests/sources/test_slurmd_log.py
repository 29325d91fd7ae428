"""slurmd's log of one node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import EvidenceFile, Manifest
from slurm_triage.clock import Clock, offset_of
from slurm_triage.model import Sign, Voice
from slurm_triage.sources import Context, slurmd_log

CONTEXT = Context(Clock(offset_of("Z")), Manifest())


def signs(text: str | bytes, name: str = "slurmd.c1.log") -> list[Sign]:
    data = text.encode() if isinstance(text, str) else text
    found = slurmd_log.parse(EvidenceFile(name, data=data), CONTEXT)
    return [event for event in found if isinstance(event, Sign)]


def one(text: str, name: str = "slurmd.c1.log") -> Sign:
    (sign,) = signs(text, name)
    return sign


@pytest.mark.parametrize(
    ("text", "id", "fields"),
    [
        ("[1065.0] get_exit_code task 3 died by signal: 11", "slurmd_task_signal", {"task": "3", "signal": "11"}),
        ("[1065.0] task 0 (9931) exited. Killed by signal 15.", "slurmd_task_signal", {"pid": "9931", "signal": "15"}),
        ("[1065.0] task 0 (9931) exited with exit code 137.", "slurmd_task_exit", {"code": "137"}),
        ("[1065.0] task 0 (9931) started 2026-11-30T15:00:12", "slurmd_task_started", {"pid": "9931"}),
        (
            "[1065.0] error: execve(): /shared/bin/engine: Exec format error",
            "slurmd_execve",
            {"path": "/shared/bin/engine", "error": "Exec format error"},
        ),
        (
            "[1065.0] error: Could not open stdout file /root/private/5.out: Permission denied",
            "slurmd_output_open",
            {"stream": "stdout", "path": "/root/private/5.out", "error": "Permission denied"},
        ),
        (
            "[1065.0] error: _init_task_stdio_fds: Could not open stdout file '/nonexistent/x.out': "
            "'No such file or directory'. Recursive path creation failed: 'Permission denied'.",
            "slurmd_output_open",
            {"path": "/nonexistent/x.out", "error": "No such file or directory"},
        ),
        (
            "[1065.0] error: Detected 1 oom_kill event in StepId=1065.0. Some of the step tasks have been OOM Killed.",
            "slurmd_oom",
            {"count": "1"},
        ),
        (
            "[1065.0] error: *** STEP 1065.0 ON c1 CANCELLED AT 2026-11-30T15:00:42 DUE TO PREEMPTION ***",
            "slurmd_cancelled",
            {"reason": "PREEMPTION"},
        ),
        (
            "[1065.0] error: *** STEP 1065.0 ON c1 CANCELLED AT 2026-11-30T15:00:42 DUE to SIGNAL Killed ***",
            "slurmd_cancelled",
            {"reason": "SIGNAL Killed"},
        ),
        (
            "[1065.0] stepd_cleanup: done with step (step_rc: 256, slurm_rc: 0 - No error)",
            "slurmd_done",
            {"step_rc": "256", "slurm_rc": "0"},
        ),
        (
            "[1065.0] stepd_cleanup: done with step (rc[0x8900]:Unknown error 35072, cleanup_rc[0x0]:No error)",
            "slurmd_done",
            {"rc": "0x8900"},
        ),
    ],
)
def test_lines_of_a_step(text: str, id: str, fields: dict[str, str]) -> None:
    sign = one(f"[2026-11-30T15:00:42.191] {text}")
    assert sign.id == id and sign.voice is Voice.SLURM
    assert (sign.job, sign.step, sign.node) == ("1065", "0", "c1")
    assert fields.items() <= dict(sign.fields).items()
    assert sign.at is not None


def test_the_batch_step_of_a_jobs_message_comes_from_the_prefix() -> None:
    sign = one("[2026-11-30T15:00:12.191] [1008.batch] error: *** JOB 1008 ON c1 CANCELLED AT 2026-11-30T15:00:12 ***")
    assert (sign.job, sign.step) == ("1008", "batch") and "reason" not in sign.fields


def test_lines_of_slurmd_itself() -> None:
    sign = one(
        "[2026-11-30T15:00:12.191] launch task StepId=1088.0 request from UID:1001 GID:1001 HOST:10.0.0.2 PORT:1"
    )
    assert (sign.id, sign.job, sign.step) == ("slurmd_launch", "1088", "0")
    sign = one("[2026-11-30T14:49:45.644] Launching batch JobId=1008 SLUID=sNAHMNPEWNN for UID 1001")
    assert (sign.id, sign.job) == ("slurmd_launch", "1008") and "sluid" not in sign.fields
    sign = one("[2026-11-30T14:49:21.728] Launching batch JobId=1102 SLUID=s0AHM8PEX3RE00 for UID 1001")
    assert (sign.job, sign.fields["sluid"]) == ("1102", "s0AHM8PEX3RE00")
    assert one("[2026-11-30T15:00:08.374] error: [job 1190] prolog failed status=1:0").job == "1190"
    assert one("[2026-11-30T15:00:49.100] slurmd version 24.11.5 started").id == "slurmd_started"


def test_the_node_of_a_syslog_line() -> None:
    found = signs(
        "Feb 22 17:46:38 node001 slurmd[13562]: spank-epilog: error: pyxis: mkdir: cannot create directory "
        "'/opt/dlami/nvme/tmp/enroot/data': Permission denied",
        "slurmd.log",
    )
    assert {s.id for s in found} == {"slurmd_epilog_failed", "slurmd_pyxis"} and {s.node for s in found} == {"node001"}
    assert one("[2026-11-30T15:00:49.100] slurmd version 24.11.5 started", "slurmd.log").node is None


def test_chatter_says_nothing() -> None:
    assert signs("[2026-11-30T15:00:49.100] [1065.0] error: Failed to send MESSAGE_TASK_EXIT: Connection refused") == []
    assert signs("[2026-11-30T15:00:49.100] [1065.0] Caught SIGPIPE. Ignoring.") == []


@pytest.mark.parametrize(
    ("name", "line", "least", "most"),
    [
        ("slurmd.c1.log", "[2026-11-30T15:00:12.191] [1065.0] done with job", 0.9, 1.0),
        ("x.txt", "[2026-11-30T15:00:12.191] [1065.0] done with job", 0.8, 0.9),
        ("x.txt", "Feb 22 17:46:38 node001 slurmd[13562]: x", 0.8, 0.9),
        ("job.out", "[2026-11-30T15:00:12.191] error: *** JOB 1 ON c1 CANCELLED AT 2026-11-30T15:00:12 ***", 0.0, 0.0),
        ("slurmctld.log", "[2026-11-30T15:00:42.106] Time limit exhausted for JobId=1119", 0.0, 0.0),
        ("slurmdbd.log", "[2026-11-30T15:00:42.106] hello", 0.0, 0.0),
        ("slurmd.log", "hello", 0.0, 0.0),
    ],
)
def test_recognise(name: str, line: str, least: float, most: float) -> None:
    assert least <= slurmd_log.recognise(name, [line]) <= most


@given(st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_any_bytes(data: bytes) -> None:
    assert 0.0 <= slurmd_log.recognise("slurmd.log", EvidenceFile("slurmd.log", data=data).head()) <= 1.0
    signs(data)
