"""Memory that ran short where the kernel's OOM killer killed nobody: daemons that kill early, nodes that were lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from slurm_triage.model import Diagnosis, Owner, Strength
from tests.reasoning.build import (
    START,
    confirmed,
    controller,
    failed,
    hook,
    job,
    kernel,
    node_kill,
    sacct,
    step,
    task_exit,
    told,
)

PRESSURE = (
    "systemd-oomd[700]: Killed {} due to memory pressure for /system.slice being 61.07% > 60.00% for > 20s with "
    "reclaim activity"
)
SCOPE = "/system.slice/slurmstepd.scope"
TERMINATED = 'earlyoom[811]: sending SIGKILL to process {} uid {} "python3": oom_score 1011, VmRSS 90000 MiB'


def journal(seconds: float, text: str) -> str:
    """A line of journalctl -o short-iso."""
    return f"{(START + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S+0000')} c1 {text}\n"


def killed(*lines: str) -> Diagnosis:
    """Task 0 (pid 900) of step 0 died of SIGKILL at the end; these lines stand in the node's journal."""
    head = journal(-900, "kernel: eth0: link becomes ready")
    rows = job("FAILED", "9:0"), step("batch", "FAILED", "9:0"), step("0", "FAILED", "0:9")
    more = {
        "sacct.psv": sacct(*rows),
        "env.epilog_slurmctld.txt": hook(137 << 8),
        "slurmctld.log": controller("WEXITSTATUS 137"),
        "spank.txt": task_exit(99, 0, 9, pid=900),
        "kmsg.c1.txt": "".join((head, *lines)),
    }
    return told(failed("srun: error: c1: task 0: Killed\n", more=more))


@pytest.mark.parametrize(
    "line",
    [
        PRESSURE.format(f"{SCOPE}/job_77/step_0"),
        PRESSURE.format(SCOPE),
        TERMINATED.format(900, 1001),
    ],
    ids=["the job's cgroup", "the cgroup of all jobs", "the task"],
)
def test_the_daemon_names_the_job(line: str) -> None:
    answer = killed(journal(98, line))
    assert "external_signal" in confirmed(answer)
    assert "memory was short" in answer.summary


@pytest.mark.parametrize(
    "line",
    [
        journal(98, PRESSURE.format(f"{SCOPE}/job_78/step_0")),
        journal(98, PRESSURE.format("/user.slice/user-1002.slice")),
        journal(98, TERMINATED.format(4711, 1002)),
        journal(-400, TERMINATED.format(900, 1001)),
        journal(98, "python3[5]: " + TERMINATED.format(900, 1001)),
    ],
    ids=["another job", "another user's session", "another user's process", "before the job", "somebody quotes it"],
)
def test_the_daemon_killed_something_else(line: str) -> None:
    assert "memory was short" not in killed(line).summary


def test_a_process_of_the_owner_that_is_no_task_makes_it_no_surer() -> None:
    answer = killed(journal(98, TERMINATED.format(4711, 1001)))
    assert "memory was short" in answer.summary
    assert "memory was short" not in killed().summary


def lost(*lines: str) -> Diagnosis:
    """Slurm lost the node of the job."""
    rows = job("NODE_FAIL", "0:0", end=400), step("batch", "CANCELLED", "0:15", end=400)
    return told(failed("", more={"sacct.psv": sacct(*rows), "kmsg.c1.txt": "".join(lines)}))


def notes(answer: Diagnosis) -> str:
    """All notes about the lost node."""
    return " ".join(note for v in answer.considered if v.cause == "node_fail" for note in v.notes)


def test_a_node_that_was_out_of_memory_before_it_was_lost() -> None:
    elsewhere = "/system.slice/slurmstepd.scope/job_99/step_0/user/task_0"
    answer = lost(node_kill(90, elsewhere, uid=1002))
    assert answer.cause == "node_fail"
    assert "out of memory before" in notes(answer)


def test_a_job_at_its_own_limit_takes_no_node_down() -> None:
    line = "Memory cgroup out of memory: Killed process 5 (x) total-vm:2kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB"
    assert "out of memory before" not in notes(lost(kernel(90, line)))
    assert "out of memory before" not in notes(lost(node_kill(-900, "/system.slice/x.service", uid=1002)))


def test_the_kernel_gave_up() -> None:
    answer = lost(kernel(90, "Kernel panic - not syncing: Fatal machine check"))
    assert "Fatal machine check" in notes(answer)


# ------------------------------------------------------------------------------------------------ whose limit, and of what

V2 = "/system.slice/slurmstepd.scope"


def limit_hit(above: str, *, rss: str = "", stats: str = "") -> Diagnosis:
    """A process of the job was killed at the limit of the cgroup `above`; `stats` are lines of that cgroup."""
    task = f"{V2}/job_77/step_0/user/task_0"
    kmsg = (
        kernel(98, "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")
        + kernel(98, "memory: usage 102400kB, limit 102400kB, failcnt 0")
        + kernel(98, f"Memory cgroup stats for {above}:")
        + "".join(kernel(98, line) for line in stats.splitlines())
        + kernel(
            98,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
            f"oom_memcg={above},task_memcg={task},task=python3,pid=4242,uid=1001",
        )
    )
    rows = job("OUT_OF_MEMORY", "0:125"), step("batch", "OUT_OF_MEMORY", "0:125"), step("0", "OUT_OF_MEMORY", "0:125")
    table = sacct(*rows).replace("4564K", rss or "4564K")
    more = {"sacct.psv": table, "kmsg.c1.txt": kmsg, "slurmctld.log": controller("OOM failure")}
    return told(failed("", more=more))


def said_of(answer: Diagnosis) -> str:
    """Summary and notes of the limit's rule."""
    return " ".join(
        " ".join((v.summary, *v.notes)) for v in answer.considered if v.cause == "memcg_oom" and v.strength.rank
    )


@pytest.mark.parametrize("above", [f"{V2}/job_77", f"{V2}/job_77/step_0", f"{V2}/job_77/step_0/user/task_0"])
def test_the_limit_of_job_step_or_task(above: str) -> None:
    answer = limit_hit(above)
    assert confirmed(answer) == {"memcg_oom"}
    assert "shares with others" not in answer.summary


def test_a_limit_around_the_job() -> None:
    answer = limit_hit(V2)
    assert (answer.cause, answer.strength, answer.owner) == ("memcg_oom", Strength.LIKELY, Owner.ADMIN)
    assert "shares with others" in answer.summary
    assert not any("Ask for more memory" in action.text for action in answer.actions)


def test_shared_memory_is_named_where_it_made_much_of_it() -> None:
    much = limit_hit(f"{V2}/job_77", stats="anon 40000000\nfile 61000000\nshmem 60000000\n")
    assert "/dev/shm" in said_of(much)
    little = limit_hit(f"{V2}/job_77", stats="anon 98000000\nfile 100\nshmem 100\n")
    assert "tmpfs" not in said_of(little)
    other_jobs = limit_hit(f"{V2}/job_78", stats="shmem 60000000\n")
    assert "tmpfs" not in said_of(other_jobs)


def test_a_sample_far_below_the_limit_is_no_peak() -> None:
    rows = job("OUT_OF_MEMORY", "0:125"), step("batch", "OUT_OF_MEMORY", "0:125"), step("0", "OUT_OF_MEMORY", "0:125")
    sampled = told(failed("", more={"sacct.psv": sacct(*rows), "slurmctld.log": controller("OOM failure")}))
    assert "sampled" in said_of(sampled)
    assert "sampled" not in said_of(limit_hit(f"{V2}/job_77"))
