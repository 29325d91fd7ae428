"""Whose memory ran out: the kernel's line decides, counters of cgroup v1 at the limit do not."""

from __future__ import annotations

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    EPOCH,
    candidates,
    confirmed,
    failed,
    job,
    manifest,
    node_kill,
    own_limit_here_and_node_full_there,
    sacct,
    step,
    task_exit,
    told,
)

IN_JOB = "/slurm/uid_1001/job_77/step_batch/task_0"
KILLED = (
    task_exit(99.5, 0, 9, step="batch") + f"{EPOCH + 99.5:.3f} node=c1 stepd=500 task_exit job=77 step=batch memcg job "
    "failcnt=900 max_usage=104857600 limit=104857600 oom_control=oom_kill_disable 0,under_oom 0,oom_kill 0\n"
)
"""The batch script was killed; the job's use had been at its limit, which page cache alone can do."""


def out_of_memory(kmsg: str | None) -> dict[str, str]:
    """A job that Slurm calls OUT_OF_MEMORY, with counters of cgroup v1."""
    rows = job("OUT_OF_MEMORY", "0:125"), step("batch", "OUT_OF_MEMORY", "0:125")
    files = {
        "manifest.toml": manifest(),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(*rows),
        "spank.txt": KILLED,
    }
    return files if kmsg is None else {**files, "kmsg.txt": kmsg}


def test_counter_at_the_limit_without_the_kernels_word() -> None:
    answer = told(out_of_memory(None))
    assert answer.cause == "memcg_oom"
    assert not confirmed(answer)
    assert "global_oom" in candidates(answer)
    assert not any("--mem" in action.text for action in answer.actions)


def test_counter_at_the_limit_and_the_node_out_of_memory() -> None:
    answer = told(out_of_memory(node_kill(99, IN_JOB)))
    assert answer.cause == "global_oom"
    assert confirmed(answer) == {"global_oom"}
    assert answer.owner is not Owner.USER


def test_counter_at_the_limit_and_half_of_the_kernels_word() -> None:
    """`Out of memory: Killed process` is printed for the node and for a memory policy, never for a job's own limit."""
    lines = [line for line in node_kill(99, IN_JOB).splitlines() if "oom-kill:" not in line]
    answer = told(out_of_memory("\n".join(lines) + "\n"))
    assert answer.cause == "global_oom"
    assert "memcg_oom" not in candidates(answer)
    assert not confirmed(answer)


def test_own_limit_on_one_node_and_another_node_out_of_memory() -> None:
    answer = told(own_limit_here_and_node_full_there())
    assert answer.cause in ("memcg_oom", "global_oom")
    assert {"memcg_oom", "global_oom"} <= confirmed(answer)


def test_kill_without_memory_limits_confirms_nothing() -> None:
    config = CONFIG + "\nCgroup Support Configuration:\nConstrainRAMSpace       = no\nConstrainSwapSpace      = no\n"
    output = "/x/slurm_script: line 4: 3321 Killed                  python3 train.py\n"
    answer = told(failed(output, 137, more={"scontrol-config.txt": config}))
    assert answer.cause == "external_signal"
    assert not confirmed(answer)  # the kernel's log was not read: the node may have been out of memory
    assert answer.owner is Owner.UNKNOWN
