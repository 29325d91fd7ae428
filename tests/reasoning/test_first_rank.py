"""The rank that failed first is named only where it is certain; ranks that died of its death are not."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    candidates,
    clock,
    confirmed,
    controller,
    hook,
    job,
    manifest,
    memcg_kill,
    sacct,
    step,
    task_exit,
    told,
)


def launched(
    spank: str,
    srun: str,
    *,
    state: str = "FAILED",
    code: str = "1:0",
    nodes: str = "c1",
    count: int = 1,
    raw: int = 256,
) -> dict[str, str]:
    """A job whose step 0 failed. `spank` holds the tasks' statuses, `srun` its messages."""
    rows = (
        job("FAILED", "1:0", nodes=nodes, count=count),
        step("batch", "FAILED", "1:0"),
        step("0", state, code, nodes=nodes, count=count),
    )
    return {
        "manifest.toml": manifest(),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(*rows),
        "env.epilog_slurmctld.txt": hook(raw, nodes=nodes),
        "spank.txt": spank,
        "job.out": srun,
    }


@pytest.mark.parametrize(
    ("files", "killed"),
    [
        (
            launched(
                task_exit(50, 2, 9) + task_exit(52, 0, 256) + task_exit(52.2, 1, 256) + task_exit(52.5, 3, 256),
                "srun: error: c1: task 2: Killed\nsrun: error: c1: task 0: Exited with exit code 1\n"
                "srun: error: c1: tasks 1,3: Exited with exit code 1\n",
            ),
            2,
        ),
        (
            launched(
                task_exit(50, 3, 9, node="c2") + task_exit(58, 0, 256),
                "srun: error: c2: task 3: Killed\nsrun: error: c1: task 0: Exited with exit code 1\n",
                nodes="c[1-2]",
                count=2,
            ),
            3,
        ),
        (
            launched(
                task_exit(50, 1, 15) + task_exit(58, 0, 256),
                "srun: error: c1: task 1: Terminated\nsrun: error: c1: task 0: Exited with exit code 1\n",
            ),
            1,
        ),
    ],
    ids=["kill", "kill-on-another-node", "terminate"],
)
def test_rank_that_lost_its_peer_to_a_signal_is_not_the_first(files: dict[str, str], killed: int) -> None:
    answer = told(files)
    assert answer.first_failure is None or answer.first_failure.rank == killed
    assert "app_error" not in confirmed(answer)


def test_rank_killed_for_memory_is_the_first() -> None:
    files = launched(
        task_exit(50, 1, 9) + task_exit(55, 0, 256),
        "srun: error: c1: task 1: Out Of Memory\nsrun: error: c1: task 0: Exited with exit code 1\n",
        state="OUT_OF_MEMORY",
        code="0:125",
    )
    answer = told({**files, "kmsg.c1.txt": memcg_kill(50, pid=901)})
    assert (answer.cause, answer.owner) == ("memcg_oom", Owner.USER)
    assert answer.first_failure is not None
    assert answer.first_failure.rank == 1
    assert "app_error" not in candidates(answer)


def test_statuses_of_one_node_of_two_do_not_name_the_first() -> None:
    files = launched(
        task_exit(60, 0, 256) + task_exit(60.1, 1, 256),
        "srun: error: c2: task 3: Segmentation fault\nsrun: error: c1: task 0: Exited with exit code 1\n"
        "srun: error: c1: task 1: Exited with exit code 1\n",
        nodes="c[1-2]",
        count=2,
    )
    answer = told(files)
    assert answer.first_failure is None or answer.first_failure.rank == 3
    assert "app_segfault" in candidates(answer)


def test_clock_of_another_node_that_is_seconds_behind() -> None:
    rows = (
        job("FAILED", "139:0", nodes="c[1-2]", count=2),
        step("batch", "FAILED", "11:0"),
        step("0", "CANCELLED", "0:11", nodes="c[1-2]", count=2),
    )
    answer = told(
        {
            "manifest.toml": manifest(),
            "sacct.psv": sacct(*rows),
            "spank.txt": task_exit(50, 0, 11) + task_exit(48, 3, 256, node="c2"),
            "job.out": "srun: error: c1: task 0: Segmentation fault\nsrun: error: c2: task 3: Exited with exit code 1\n",
        }
    )
    assert answer.first_failure is None or answer.first_failure.rank == 0
    assert (answer.cause, answer.owner) == ("app_segfault", Owner.USER)


def test_tasks_that_srun_ended_because_one_had_finished() -> None:
    """srun --wait ends the others so many seconds after the first task has finished, even with exit code 0."""
    rows = job("FAILED", "143:0"), step("batch", "FAILED", "15:0"), step("0", "CANCELLED", "0:15")
    output = (
        "srun: First task exited 60s ago\nsrun: StepId=77.0 task 0: exited\nsrun: StepId=77.0 tasks 1-2: running\n"
        "srun: Terminating StepId=77.0\n"
        f"slurmstepd-c1: error: *** STEP 77.0 ON c1 CANCELLED AT {clock(90)} ***\n"
        "srun: error: c1: tasks 1-2: Terminated\n"
    )
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "env.epilog_slurmctld.txt": hook(143 << 8),
            "slurmctld.log": controller("WEXITSTATUS 143"),
            "spank.txt": task_exit(30, 0, 0) + task_exit(90, 1, 15) + task_exit(90.1, 2, 15),
            "job.out": output,
        }
    )
    assert not {"external_signal", "cancelled_by_user"} & set(candidates(answer))
    assert answer.first_failure is None
