"""Kernel and controller lines of other processes and jobs, and such lines printed by the job itself."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    KEY_ERROR,
    candidates,
    clock,
    confirmed,
    failed,
    job,
    kernel,
    manifest,
    memcg_kill,
    node_kill,
    sacct,
    step,
    task_exit,
    told,
)

OOM_CAUSES = {"memcg_oom", "memcg_oom_child_only", "global_oom", "oom_numa_cpuset"}
FOREIGN_CRASH = (
    "firefox[222]: segfault at 0 ip 0000000000401136 sp 00007ffe error 6 in libxul.so[401000+1000] likely on CPU 1 "
    "(core 1, socket 0)"
)


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("kmsg.c1.txt", node_kill(60, "/user.slice/user-1001.slice/session-4.scope", comm="code-server")),
        ("kmsg.c1.txt", memcg_kill(60, cgroup="/docker/abcdef")),
        ("kmsg.n99.txt", node_kill(60, "/")),
    ],
    ids=["login-session", "container", "other-node"],
)
def test_kill_of_a_process_that_only_has_the_same_user(file: str, lines: str) -> None:
    answer = told(failed(KEY_ERROR, more={file: lines}))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert not OOM_CAUSES & set(candidates(answer))


@pytest.mark.parametrize(
    "printed",
    [
        memcg_kill(60),
        f"[{clock(20)}.102] preempted JobId=77 has been killed to reclaim resources for JobId=90\n",
    ],
    ids=["kernel", "controller"],
)
def test_output_file_of_the_job_is_no_witness_for_others_whatever_its_name(printed: str) -> None:
    files = failed("")
    del files["job.out"]
    rows = job("FAILED", "1:0", stdout="/shared/myrun.txt"), step("batch", "FAILED", "1:0")
    answer = told({**files, "sacct.psv": sacct(*rows), "myrun.txt": printed + KEY_ERROR})
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert not (OOM_CAUSES | {"preempted"}) & set(candidates(answer))


def test_preemption_that_made_room_for_the_job() -> None:
    lines = (
        (0, "preempted JobId=22 has been killed to reclaim resources for JobId=23"),
        (5, "sched: Allocate JobId=23 NodeList=c1 #CPUs=1 Partition=high"),
        (90, "_job_complete: JobId=23 WEXITSTATUS 1"),
        (90, "_job_complete: JobId=23 done"),
    )
    log = "".join(f"[{clock(second)}.120] {text}\n" for second, text in lines)
    answer = told({"manifest.toml": manifest(), "slurmctld.log": log})
    assert answer.job.job_id == "23"
    assert answer.cause == "app_error"
    assert "preempted" not in candidates(answer)
    victim = next(part for part in answer.parts if part.job.job_id == "22")
    assert (victim.cause, victim.owner) == ("preempted", Owner.SCHEDULER)


def test_crash_of_a_program_on_a_node_that_is_not_the_jobs() -> None:
    answer = told(failed("ok\n", 139, more={"kmsg.n99.txt": kernel(50, FOREIGN_CRASH)}))
    assert answer.cause == "app_segfault"
    assert not confirmed(answer)
    assert not any("firefox" in cite.text for cite in answer.evidence)


def test_crash_of_a_program_before_the_job_names_no_library() -> None:
    rows = job("FAILED", "139:0"), step("batch", "FAILED", "11:0"), step("0", "CANCELLED", "0:11")
    answer = told(
        {
            "manifest.toml": manifest(),
            "sacct.psv": sacct(*rows),
            "spank.txt": task_exit(99, 0, 11),
            "job.out": "srun: error: c1: task 0: Segmentation fault\n",
            "kmsg.c1.txt": kernel(-700, FOREIGN_CRASH),
        }
    )
    assert (answer.cause, answer.owner) == ("app_segfault", Owner.USER)
    assert "app_segfault" in confirmed(answer)
    assert "libxul" not in answer.summary
    assert not any("firefox" in cite.text for cite in answer.evidence)
