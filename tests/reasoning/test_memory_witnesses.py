"""Whose memory ran out: the kernel's line decides, counters of cgroup v1 at the limit do not."""

from __future__ import annotations

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    EPOCH,
    candidates,
    confirmed,
    counters,
    ended,
    failed,
    job,
    manifest,
    node_kill,
    own_limit_here_and_node_full_there,
    sacct,
    step,
    step_info,
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


# ------------------------------------------------------------------------------------------------ the project's plugin

MIB = 1 << 20
NO_LIMIT = 9223372036854771712


def killed(records: str, out: str = "") -> dict[str, str]:
    """Rank 1 of two was killed and Slurm counted it; no kernel log was collected."""
    rows = (
        job("OUT_OF_MEMORY", "0:125"),
        step("batch", "FAILED", "1:0"),
        step("0", "OUT_OF_MEMORY", "0:125", tasks=2),
    )
    first = step_info(50, tasks=2, of=2) + ended(50, 1, 9, clean=1)
    files = {"manifest.toml": manifest(), "sacct.psv": sacct(*rows), "spank.txt": first + records}
    return {**files, "job.out": out} if out else files


def v1(peak: int, *, kills: int = 1, memsw: int = 0) -> str:
    """Counters of cgroup v1: the kill is counted in the victim's own cgroup only, the limit stands with the job's."""
    state = "oom_control=oom_kill_disable 0,under_oom 0,oom_kill"
    swap = f"memsw_max_usage={memsw or peak} memsw_limit={100 * MIB}"
    return (
        counters(50, "task", f"failcnt=0 max_usage={peak} limit={NO_LIMIT} {state} {kills}")
        + counters(50, "step", f"failcnt=0 max_usage={peak} limit={100 * MIB} {state} 0 {swap}")
        + counters(50, "job", f"failcnt=0 max_usage={peak} limit={100 * MIB} {state} 0 {swap}")
    )


def v2(text: str, *, peak: int) -> str:
    return counters(50, "job", f"events={text} local={text} peak={peak} max={100 * MIB} swap_max=max")


def test_v1_kill_at_the_limit_of_the_job() -> None:
    answer = told(killed(v1(100 * MIB)))
    assert (answer.cause, answer.owner) == ("memcg_oom", Owner.USER)
    assert not confirmed(answer)  # page cache alone brings the peak to the limit
    assert answer.first_failure is None or answer.first_failure.rank == 1


def test_v1_kill_at_the_limit_of_memory_and_swap() -> None:
    answer = told(killed(v1(60 * MIB, memsw=100 * MIB)))
    assert answer.cause == "memcg_oom"


def test_v1_kill_far_below_the_limit_is_not_the_jobs() -> None:
    answer = told(killed(v1(20 * MIB)))
    assert answer.cause == "global_oom"
    assert "memcg_oom" not in candidates(answer)
    assert not confirmed(answer)  # a memory policy would look the same
    assert answer.owner is not Owner.USER
    assert any("oom_kill 1" in cite.text for cite in answer.evidence)


def test_v1_without_a_counted_kill_says_nothing_of_the_limit() -> None:
    answer = told(killed(v1(20 * MIB, kills=0)))
    assert answer.cause == "memcg_oom" and not confirmed(answer)
    assert "global_oom" in candidates(answer)


def test_v2_own_limit() -> None:
    answer = told(killed(v2("low 0,high 0,max 20,oom 1,oom_kill 1,oom_group_kill 0", peak=100 * MIB)))
    assert (answer.cause, answer.owner) == ("memcg_oom", Owner.USER)
    assert confirmed(answer) == {"memcg_oom"}


def test_v2_node_out_of_memory() -> None:
    answer = told(killed(v2("low 0,high 0,max 0,oom 0,oom_kill 1,oom_group_kill 0", peak=20 * MIB)))
    assert answer.cause == "global_oom"
    assert "memcg_oom" not in candidates(answer)
    assert not confirmed(answer)


def test_counters_that_could_not_be_read_are_not_zero() -> None:
    unread = "".join(counters(50, level, "unread=gone") for level in ("task", "step", "job"))
    answer = told(killed(unread))
    assert answer.cause == "memcg_oom" and not confirmed(answer)
    assert "global_oom" in candidates(answer)
    considered = [c.fact for v in answer.considered for c in v.conditions]
    assert any(
        fact.holds is None and "could not be looked at" in fact.because and "gone" in fact.because
        for fact in considered
    )


def test_tasks_killed_as_a_group_have_no_first() -> None:
    """srun --oom-kill-step kills all tasks of the step; they are reaped in the order of their fork."""
    group = "low 0,high 0,max 20,oom 1,oom_kill 2,oom_group_kill 1"
    records = ended(50.02, 0, 9) + counters(50, "step", f"events={group} local={group}")
    answer = told(killed(records))
    assert answer.first_failure is None
    assert any("at once" in item.fact for item in answer.missing)


def test_task_that_survived_a_kill_of_its_child() -> None:
    """Both tasks ended with 0, one of them unrecorded, so the main process went on; a task still missing may not have."""
    rows = job("COMPLETED", "0:0"), step("batch"), step("0", "OUT_OF_MEMORY", "0:125", tasks=2)
    grew = v2("low 0,high 0,max 20,oom 1,oom_kill 1,oom_group_kill 0", peak=100 * MIB)
    all_ended = step_info(50, tasks=2, of=2) + ended(50, 1, 0, clean=1) + grew
    files = {"manifest.toml": manifest(), "sacct.psv": sacct(*rows), "spank.txt": all_ended}
    assert told(files).cause == "memcg_oom_child_only"
    srun_only = sacct(job("OUT_OF_MEMORY", "0:125"), step("0", "OUT_OF_MEMORY", "0:125", tasks=2))
    answer = told({**files, "sacct.psv": srun_only})
    assert answer.cause == "memcg_oom_child_only"
    one_missing = step_info(50, tasks=2, of=2) + ended(50, 1, 0) + grew
    answer = told({**files, "sacct.psv": srun_only, "spank.txt": one_missing})
    assert answer.cause == "memcg_oom"
