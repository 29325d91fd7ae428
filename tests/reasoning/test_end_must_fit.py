"""What is seen must fit the job's end: helpers that were stopped, lines of other jobs, kills that came first."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    KEY_ERROR,
    candidates,
    clock,
    completed,
    confirmed,
    failed,
    job,
    job_view,
    manifest,
    own_limit_here_and_node_full_there,
    sacct,
    step,
    task_exit,
    timeout_command,
    told,
)
from tests.reasoning.test_first_rank import launched
from tests.reasoning.test_quoted_lines import OLD_OOM


@pytest.mark.parametrize(
    "files", [completed(OLD_OOM + "done\n"), failed(OLD_OOM + KEY_ERROR)], ids=["done", "keyerror"]
)
def test_quoted_srun_oom_of_node_c7_is_first_failure(files: dict[str, str]) -> None:
    assert told(files).first_failure is None


def test_step_cancelled_by_owner_then_keyerror() -> None:
    rows = job("FAILED", "1:0"), step("batch", "FAILED", "1:0"), step("0", "CANCELLED by 1001", "0:9", end=20)
    output = "scancel 77.0 (monitor no longer needed)\n" + "epoch\n" * 20 + KEY_ERROR
    answer = told(failed(output, more={"sacct.psv": sacct(*rows)}))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)


def test_checkpoint_signal_of_completed_job_is_no_requeue() -> None:
    answer = told({**completed("caught USR1: checkpoint\ndone\n")})
    assert "admin_requeue" not in candidates(answer)


def test_C2_checkpoint_signal_before_a_keyerror_is_no_requeue() -> None:
    answer = told(failed("caught USR1: checkpoint\nepoch\n" + KEY_ERROR))
    assert "admin_requeue" not in candidates(answer)
    assert answer.cause == "app_error"


def test_srun_says_segfault_first_then_exit_codes() -> None:
    answer = told(
        launched(
            task_exit(60, 0, 256) + task_exit(60.1, 1, 256),
            "srun: error: c2: task 3: Segmentation fault\nsrun: error: c1: task 0: Exited with exit code 1\n"
            "srun: error: c1: task 1: Exited with exit code 1\n",
            nodes="c[1-2]",
            count=2,
        )
    )
    assert "app_error" not in confirmed(answer)
    assert answer.cause == "app_segfault"


@pytest.mark.parametrize(
    ("files", "rank"),
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
                task_exit(50, 1, 15) + task_exit(58, 0, 256),
                "srun: error: c1: task 1: Terminated\nsrun: error: c1: task 0: Exited with exit code 1\n",
            ),
            1,
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
    ],
    ids=["kill", "term", "two-nodes"],
)
def test_rank_killed_first_is_named_and_external_signal_is_a_candidate(files: dict[str, str], rank: int) -> None:
    answer = told(files)
    assert answer.first_failure is not None and answer.first_failure.rank == rank
    assert "external_signal" in candidates(answer)


def test_keyerror_20_s_after_resume() -> None:
    pause = f"   PreemptTime=None\n   SuspendTime={clock(80)} SecsPreSuspend=20\n   StdOut=/shared/job.out\n"
    answer = told(
        failed(
            KEY_ERROR,
            more={"scontrol_show_job_final.txt": job_view("FAILED Reason=NonZeroExitCode", "1:0", more=pause)},
        )
    )
    assert "app_error" in candidates(answer)
    assert answer.cause == "app_error"


def test_timeout_command_124_is_not_said_to_be_scancel() -> None:
    answer = told(timeout_command())
    assert candidates(answer).get("cancelled_by_user") in (None, "possible")


def test_completed_job_with_a_cancelled_helper_step_is_no_failure_at_least_as_candidate() -> None:
    rows = job("COMPLETED", "0:0"), step("batch"), step("0", "CANCELLED by 1001", "0:9", end=50), step("1")
    answer = told(
        {
            "manifest.toml": manifest(),
            "sacct.psv": sacct(*rows),
            "job.out": "scancel 77.0  # stop the server step\ndone\n",
        }
    )
    assert "no_failure" in candidates(answer)


def test_evidence_of_global_oom_is_not_the_kill_at_the_own_limit() -> None:
    answer = told(own_limit_here_and_node_full_there())
    assert answer.cause == "memcg_oom"  # ten seconds earlier
