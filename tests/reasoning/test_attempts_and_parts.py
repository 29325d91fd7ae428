"""What belongs to one task of an array, one component or one run is not said of the others."""

from __future__ import annotations

import pytest

from slurm_triage.model import Diagnosis, Owner
from tests.reasoning.build import (
    CONFIG,
    KEY_ERROR,
    candidates,
    confirmed,
    controller,
    hook,
    job,
    kernel,
    manifest,
    memcg_kill,
    sacct,
    step,
    task_exit,
    told,
)

OOM_CAUSES = {"memcg_oom", "memcg_oom_child_only", "global_oom", "oom_numa_cpuset"}


def array(*ends: tuple[str, str]) -> str:
    """Accounting of array 100: raw ids from 101, tasks from 1."""
    rows: list[str] = []
    for task, (state, code) in enumerate(ends, 1):
        id, shown = str(100 + task), f"100_{task}"
        rows += [job(state, code, id=id, shown=shown), step("batch", state, code, id=id, shown=shown)]
    return sacct(*rows)


FAILED, DONE = ("FAILED", "1:0"), ("COMPLETED", "0:0")


# ------------------------------------------------------------------------------------------------ parts


def test_output_files_that_only_their_names_give_to_the_tasks() -> None:
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": array(FAILED, DONE, FAILED),
            "env.epilog_slurmctld.101.txt": hook(256, id="101"),
            "env.epilog_slurmctld.103.txt": hook(256, id="103"),
            "slurm-100_1.out": KEY_ERROR,
            "slurm-100_2.out": "done\n",
            "slurm-100_3.out": "srun: error: c1: task 0: Segmentation fault\n",
        }
    )
    first, second, third = answer.parts
    assert (first.cause, second.cause) == ("app_error", "no_failure")
    assert "app_segfault" not in candidates(first)
    assert "app_segfault" not in candidates(second)
    assert "app_segfault" in candidates(third)
    assert not any("KeyError" in cite.text for cite in third.evidence)


def test_one_failed_task_among_tasks_that_complained_and_went_on() -> None:
    complaint = "slurmstepd-c1: error: couldn't chdir to `/x': No such file or directory: going to /tmp instead\n"
    files = {
        "manifest.toml": manifest("23.11.4"),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": array(DONE, DONE, FAILED, DONE, DONE),
    }
    for task in range(1, 6):
        files[f"out/slurm-100_{task}.out"] = KEY_ERROR if task == 3 else f"{complaint}Killed\ndone\n"
    answer = told(files)
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert [part.cause for part in answer.parts] == [
        "no_failure",
        "no_failure",
        "app_error",
        "no_failure",
        "no_failure",
    ]
    assert all("chdir_failed" not in candidates(diagnosis) for diagnosis in (answer, answer.parts[2]))
    assert any("KeyError" in cite.text for cite in answer.evidence)


def test_crash_in_the_kernel_log_of_one_task_of_three() -> None:
    crash = "solver[555]: segfault at 0 ip 0000000000401136 sp 00007ffe error 6 in solver[401000+1000] likely on CPU 1"
    answer = told(
        {
            "manifest.toml": manifest(),
            "sacct.psv": array(FAILED, FAILED, FAILED),
            "kmsg.c1.txt": kernel(50, crash),
            "slurm-100_2.out": "/x/script: line 2: 555 Segmentation fault ./solver\n",
        }
    )
    assert [part.cause for part in answer.parts] == ["app_error", "app_segfault", "app_error"]
    assert all("app_segfault" not in candidates(part) for part in (answer.parts[0], answer.parts[2]))


def test_crash_in_the_second_component_is_not_of_the_first() -> None:
    rows = (
        job("COMPLETED", "0:0", id="111", shown="111+0"),
        step("batch", id="111", shown="111+0"),
        step("0", id="111", shown="111+0"),
        job("FAILED", "139:0", id="112", shown="111+1"),
        step("0", "CANCELLED", "0:11", id="112", shown="111+1"),
    )
    exits = task_exit(50, 0, 0, job="111") + task_exit(50, 1, 11, job="112")
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "spank.txt": exits + task_exit(60, 0, 0, job="111", step="batch"),
            "job.out": "srun: error: c1: task 1: Segmentation fault\n",
        }
    )
    first, second = answer.parts
    assert first.cause == "no_failure"
    assert "app_segfault" not in candidates(first)
    assert (second.cause, second.owner) == ("app_segfault", Owner.USER)
    assert "app_segfault" in confirmed(second)


def test_jobs_in_one_table_are_not_an_array() -> None:
    rows = (
        job("COMPLETED", "0:0", id="70"),
        job("FAILED", "1:0", id="71"),
        step("batch", "FAILED", "1:0", id="71"),
        job("TIMEOUT", "0:0", id="72"),
        job("OUT_OF_MEMORY", "0:125", id="73"),
    )
    answer = told({"manifest.toml": manifest(), "sacct.psv": sacct(*rows)})
    assert answer.cause != "array_mixed"
    assert {part.job.job_id: part.cause for part in answer.parts} == {
        "70": "no_failure",
        "71": "app_error",
        "72": "time_limit",
        "73": "memcg_oom",
    }


# ------------------------------------------------------------------------------------------------ attempts


def two_runs(batch: str, code: str) -> str:
    """Accounting of a job that was requeued at second 100 and failed in its second run, seconds 300 to 400."""
    return sacct(
        job("REQUEUED", "0:0"),
        step("batch", batch, code),
        job("FAILED", "1:0", start=300, end=400),
        step("batch", "FAILED", "1:0", start=300, end=400),
    )


def last(answer: Diagnosis) -> Diagnosis:
    """The second of two runs."""
    assert answer.job.attempt == 2
    assert [part.job.attempt for part in answer.parts] == [1, 2]
    return answer.parts[-1]


@pytest.mark.parametrize("boot", [False, True], ids=["no-clock", "kernel-clock-only"])
def test_kill_in_the_first_run_that_cannot_be_dated(boot: bool) -> None:
    answer = told(
        {
            "manifest.toml": manifest(offset=False, boot=boot),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": two_runs("OUT_OF_MEMORY", "0:125"),
            "kmsg.txt": memcg_kill(99, step="step_batch"),
            "job.out": KEY_ERROR,
        }
    )
    assert last(answer).cause == answer.cause == "app_error"
    assert not OOM_CAUSES & confirmed(last(answer))
    assert "memcg_oom" in candidates(answer.parts[0])


def test_crash_in_the_first_run_that_cannot_be_dated() -> None:
    answer = told(
        {
            "manifest.toml": manifest(offset=False, boot=False),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": two_runs("CANCELLED", "0:15"),
            "spank.txt": task_exit(50, 0, 11) + task_exit(399, 0, 256, step="batch"),
            "job.out": KEY_ERROR,
        }
    )
    assert last(answer).cause == answer.cause == "app_error"
    assert "app_segfault" not in confirmed(last(answer))


def test_crash_of_the_first_run_in_an_output_file_that_goes_on() -> None:
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG.replace("JobFileAppend           = 0", "JobFileAppend           = 1"),
            "sacct.psv": two_runs("CANCELLED", "0:15"),
            "env.epilog_slurmctld.txt": hook(256, start=300, end=400),
            "slurmctld.log": controller(start=300, at=400),
            "job.out": f"run 1\nsrun: error: c1: task 2: Segmentation fault\nrequeueing\nrun 2\n{KEY_ERROR}",
        }
    )
    assert last(answer).cause == answer.cause == "app_error"
    assert "app_segfault" not in confirmed(last(answer))
