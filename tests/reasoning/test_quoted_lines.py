"""Lines in the output that name no job: quoted from an older run, or of a failure that the job lived through."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    KEY_ERROR,
    candidates,
    completed,
    confirmed,
    controller,
    failed,
    hook,
    job,
    manifest,
    sacct,
    step,
    task_exit,
    told,
)

OLD_SRUN = (
    "== log of previous run ==\nsrun: error: c7: task 3: Segmentation fault (core dumped)\n"
    "srun: Terminating StepId=50.0\nslurmstepd: error: *** STEP 50.0 ON c7 CANCELLED AT 2026-11-29T14:00:00 ***\n"
    "== end ==\n"
)
OLD_SHELL = (
    "tail ../run1/slurm-50.out:\n/var/spool/slurmd/job00050/slurm_script: line 5: 12345 Segmentation fault      "
    "(core dumped) ./sim\n---\n"
)
OLD_OOM = "$ cat slurm-50.out\nsrun: error: c7: task 3: Out Of Memory\n$ # fixed now\n"
CHAT = (
    "Q: my job died with 'slurmstepd: error: Detected 1 oom_kill event in StepId=77.batch. Some of the step tasks have "
    "been OOM Killed.' what now\nA: raise --mem\n"
)


@pytest.mark.parametrize(
    ("quoted", "not_said"),
    [
        (OLD_SRUN, "app_segfault"),
        (OLD_SHELL, "app_segfault"),
        (OLD_OOM, "memcg_oom"),
        (CHAT, "memcg_oom"),
        ("note: Detected 2 oom_kill events in yesterday's run\n", "memcg_oom"),
    ],
    ids=["srun-of-another-job", "shell-of-another-job", "oom-of-another-job", "chat", "note"],
)
def test_quoted_failure_before_an_error_of_the_program(quoted: str, not_said: str) -> None:
    answer = told(failed(quoted + KEY_ERROR))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert confirmed(answer) == {"app_error"}
    assert not_said not in candidates(answer)


@pytest.mark.parametrize(
    "output",
    [OLD_OOM + "done\n", "Segmentation fault\nKilled\nAll 40 tests passed\n"],
    ids=["oom-of-another-job", "bare-words"],
)
def test_quoted_failure_in_a_job_that_ended_well(output: str) -> None:
    answer = told(completed(output))
    assert (answer.cause, answer.owner) == ("no_failure", Owner.NOBODY)
    assert confirmed(answer) == {"no_failure"}
    assert not {"memcg_oom", "memcg_oom_child_only", "global_oom"} & set(candidates(answer))


def test_probe_that_crashed_and_was_done_without() -> None:
    probe = "/x/slurm_script: line 9: 4000 Segmentation fault      (core dumped) ./probe_avx\nfalling back to sse\n"
    answer = told(failed(probe + "epoch\n" * 10 + KEY_ERROR))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert "app_segfault" not in confirmed(answer)


def test_early_step_that_crashed_and_was_done_without() -> None:
    ends = {7: ("CANCELLED", "0:11"), 50: ("FAILED", "3:0")}
    rows = [job("FAILED", "3:0", end=1000), step("batch", "FAILED", "3:0", end=1000)]
    for number in range(51):
        state, code = ends.get(number, ("COMPLETED", "0:0"))
        rows.append(step(str(number), state, code, start=number * 19, end=number * 19 + 18))
    output = (
        "srun: error: c1: task 0: Segmentation fault\nstage 7 failed, using fallback\n" + "ok\n" * 30
    ) + "invalid input deck: nx=0\nsrun: error: c1: task 0: Exited with exit code 3\n"
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "env.epilog_slurmctld.txt": hook(3 << 8, end=1000),
            "slurmctld.log": controller("WEXITSTATUS 3", at=1000),
            "spank.txt": task_exit(7 * 19 + 18, 0, 11, step="7") + task_exit(968, 0, 3 << 8, step="50"),
            "job.out": output,
        }
    )
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert "app_segfault" not in confirmed(answer)
    assert answer.first_failure is None or "3" in answer.first_failure.what
