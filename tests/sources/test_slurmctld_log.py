"""slurmctld's log and node reasons."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import EvidenceFile, Manifest
from slurm_triage.clock import Clock, offset_of
from slurm_triage.model import Sign, Voice
from slurm_triage.sources import Context, slurmctld_log

CONTEXT = Context(Clock(offset_of("Z")), Manifest())


def signs(text: str | bytes) -> list[Sign]:
    data = text.encode() if isinstance(text, str) else text
    file = EvidenceFile("slurmctld.log", data=data)
    return [event for event in slurmctld_log.parse(file, CONTEXT) if isinstance(event, Sign)]


def one(text: str) -> Sign:
    (sign,) = signs(text)
    return sign


def test_a_job_from_submit_to_end() -> None:
    found = signs(
        "[2026-11-30T15:11:18.000] _slurm_rpc_submit_batch_job: JobId=1019 InitPrio=1 usec=401\n"
        "[2026-11-30T15:11:18.015] sched: Allocate JobId=1019 NodeList=c1 #CPUs=1 Partition=main\n"
        "[2026-11-30T15:11:20.100] _job_complete: JobId=1019 WEXITSTATUS 137\n"
        "[2026-11-30T15:11:20.101] _job_complete: JobId=1019 done\n"
    )
    assert [s.id for s in found] == ["ctld_submit", "ctld_start", "ctld_complete", "ctld_complete"]
    assert {s.job for s in found} == {"1019"} and all(s.voice is Voice.SLURM for s in found)
    assert found[1].node == "c1" and found[2].fields["code"] == "137" and found[3].fields["done"] == "done"
    assert found[0].at is not None and found[0].at.hi - found[0].at.lo < 0.01


def test_array_and_het_ids_are_raw_ids() -> None:
    sign = one("[2026-11-30T15:00:12.191] _job_complete: JobId=1001_4(1005) WTERMSIG 11")
    assert (sign.job, sign.fields["shown"], sign.fields["signal"]) == ("1005", "1001_4", "11")
    sign = one("[2026-11-30T15:11:18.015] sched/backfill: _start_job: Started JobId=1130+1(1131) in main on c2")
    assert (sign.job, sign.fields["shown"]) == ("1131", "1130+1")


@pytest.mark.parametrize(
    ("text", "how", "by"),
    [
        ("preempted JobId=1138 has been requeued to reclaim resources for JobId=1144", "requeued", "1144"),
        ("preempted JobId=1135 has been killed to reclaim resources for JobId=1140", "killed", "1140"),
        ("preempted JobId=1166 has been requeued", "requeued", None),
        ("preempted JobId=1167 has been killed", "killed", None),
        ("slurm_job_preempt: preempted JobId=1141 had to be killed", "had to be killed", None),
        ("preempted JobId=1141 has been killed to reclaim resources for JobId=Invalid", "killed", None),
    ],
)
def test_preemption_in_every_wording(text: str, how: str, by: str | None) -> None:
    sign = one(f"[2026-11-30T15:00:42.106] {text}")
    assert (sign.id, sign.fields["how"], sign.fields.get("by")) == ("ctld_preempted", how, by)


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (
            "debug:  setting 8 sec preemption grace time for JobId=24 to reclaim resources for JobId=25",
            "ctld_preempt_grace",
        ),
        ("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1008 uid 1001", "ctld_kill_request"),
        ("Time limit exhausted for JobId=1119", "ctld_time_limit"),
        ("Killing JobId=1014 on failed node f2", "ctld_node_fail"),
        ("requeue job JobId=1017 due to failure of node f2", "ctld_node_fail"),
        ("error: Nodes f2 not responding, setting DOWN", "ctld_node_fail"),
        ("error: Nodes r1 not responding", "ctld_node_not_responding"),
        ("_job_complete: requeue JobId=1142 per user/system request", "ctld_requeue_user"),
        ("Requeuing JobId=1138", "ctld_requeue"),
        ("Recovered JobId=1001 Assoc=4", "ctld_recovered"),
        ("_kill_dependent: Job dependency can't be satisfied, cancelling JobId=1029", "ctld_dependency_never"),
        (
            "purge_old_job: JobId=1024 with time_limit 1 exceeded deadline 2026-11-30T15:11:54 and cancelled",
            "ctld_deadline",
        ),
        ("_slurm_rpc_suspend(suspend) for 1139 usec=866", "ctld_suspend"),
        ("error: Prolog launch failure, JobId=1191", "ctld_prolog_fail"),
        ("drain_nodes: node x1 state set to DRAIN", "ctld_drain"),
        ("_job_complete: JobId=1088 OOM failure", "ctld_complete"),
    ],
)
def test_one_family_each(text: str, id: str) -> None:
    assert one(f"[2026-11-30T15:00:42.106] {text}").id == id


def test_a_refused_allocation_is_no_start() -> None:
    assert (
        signs("[2026-11-30T15:00:42.106] sched: _slurm_rpc_allocate_resources JobId=1147 NodeList=(null) usec=420")
        == []
    )


def test_reasons_of_nodes() -> None:
    sign = one("node215: Reason=Node unexpectedly rebooted [slurm@2022-07-23T15:27:10]")
    assert sign.id == "node_reason" and sign.node == "node215" and sign.fields["by"] == "slurm"
    assert sign.at is not None
    sign = one("node[001-002],node[102-110] Reason=Node unexpectedly rebooted [slurm@2022-07-23T15:31:00]")
    assert sign.node is None and sign.fields["nodes"] == "node[001-002],node[102-110]"
    sign = one("REASON USER TIMESTAMP NODELIST\nbad cable alice 2024-01-25T15:12:23 node002\n")
    assert sign.fields["reason"] == "bad cable" and sign.fields["by"] == "alice" and sign.node == "node002"
    assert one("NODELIST|REASON|USER|TIMESTAMP\nx1|Prolog error|root|2026-11-30T15:16:58\n").node == "x1"
    assert one("Kill task failed").fields == {"reason": "Kill task failed"}
    sign = one("NodeName=n7 Arch=x86_64\n   State=DOWN\n   Reason=Not responding [slurm@2026-11-30T15:00:54]\n")
    assert sign.fields["nodes"] == "n7" and sign.node == "n7"


@pytest.mark.parametrize(
    ("name", "line", "least", "most"),
    [
        ("slurmctld.log", "[2026-11-30T15:00:42.106] Time limit exhausted for JobId=1119", 0.9, 1.0),
        ("x.txt", "[2026-11-30T15:00:42.106] Time limit exhausted for JobId=1119", 0.8, 0.9),
        ("slurmctld.log", "Kill task failed", 0.8, 1.0),
        ("slurmctld.log", "hello", 0.0, 0.0),
        ("job.out", "[2026-11-30T15:00:42.106] Time limit exhausted for JobId=1119", 0.0, 0.0),
        ("sacct.txt", "JobId=1 JobState=PENDING Reason=launch_failed_requeued_held", 0.0, 0.0),
        ("slurmd.c1.log", "[2026-11-30T15:00:12.191] Launching batch job 1008 for UID 1001", 0.0, 0.0),
    ],
)
def test_recognise(name: str, line: str, least: float, most: float) -> None:
    assert least <= slurmctld_log.recognise(name, [line]) <= most


@given(st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_any_bytes(data: bytes) -> None:
    assert 0.0 <= slurmctld_log.recognise("slurmctld.log", EvidenceFile("slurmctld.log", data=data).head()) <= 1.0
    signs(data)


def test_sluid_beside_the_job() -> None:
    """As recorded on 26.05.5."""
    sign = one(
        "[2026-11-30T14:49:21.424] _slurm_rpc_submit_batch_job: JobId=1102 SLUID=s0AHM8PEX3RE00 InitPrio=1 usec=1892"
    )
    assert (sign.job, sign.fields["sluid"]) == ("1102", "s0AHM8PEX3RE00")
    sign = one(
        "[2026-11-30T15:00:12.191] _job_complete: JobId=1001_4(1005) WTERMSIG 11 JobId=1102 SLUID=s0AHM8PEX3RE00"
    )
    assert sign.job == "1005" and "sluid" not in sign.fields  # another job's
