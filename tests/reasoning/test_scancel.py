"""A request to signal or cancel in slurmctld's log, or a step that was cancelled, is not yet the end of the job."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
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
    timeout_command,
    told,
)

REQUEST = "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=77 uid {}"


@pytest.mark.parametrize(
    "extra",
    [
        [(20, REQUEST.format(1001))],
        [(101, REQUEST.format(1001))],
        [
            (20, REQUEST.format(1005)),
            (20, "error: Security violation, REQUEST_KILL_JOB RPC for JobId=77 from uid 1005"),
        ],
    ],
    ids=["signal-for-a-checkpoint", "a-second-too-late", "denied"],
)
def test_request_that_did_not_end_the_job(extra: list[tuple[int, str]]) -> None:
    answer = told(failed(KEY_ERROR, more={"slurmctld.log": controller(extra=extra)}))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert "cancelled_by_user" not in candidates(answer)
    assert confirmed(answer) == {"app_error"}


def test_signal_for_a_checkpoint_in_a_job_that_ended_well() -> None:
    log = controller("WEXITSTATUS 0", extra=[(20, REQUEST.format(1001))], at=4000)
    answer = told(
        {
            **completed("caught USR1: checkpoint\ndone\n"),
            "sacct.psv": sacct(job("COMPLETED", "0:0", end=4000), step("batch", end=4000)),
            "env.epilog_slurmctld.txt": hook(0, end=4000),
            "slurmctld.log": log,
        }
    )
    assert (answer.cause, answer.owner) == ("no_failure", Owner.NOBODY)
    assert "cancelled_by_user" not in candidates(answer)


def test_helper_step_that_the_job_cancelled_before_it_failed() -> None:
    rows = job("FAILED", "1:0"), step("batch", "FAILED", "1:0"), step("0", "CANCELLED by 1001", "0:9", end=20)
    output = "scancel 77.0 (monitor no longer needed)\n" + "epoch\n" * 20 + KEY_ERROR
    answer = told(failed(output, more={"sacct.psv": sacct(*rows)}))
    assert "cancelled_by_user" not in confirmed(answer)


def test_helper_step_that_a_job_cancelled_which_ended_well() -> None:
    rows = job("COMPLETED", "0:0"), step("batch"), step("0", "CANCELLED by 1001", "0:9", end=50), step("1")
    output = "scancel 77.0  # stop the server step\ndone\n"
    answer = told({"manifest.toml": manifest(), "sacct.psv": sacct(*rows), "job.out": output})
    assert answer.cause in ("no_failure", "unknown")
    assert not {"cancelled_by_user", "external_signal"} & set(candidates(answer))


def test_step_torn_down_by_srun_itself_proves_no_scancel() -> None:
    """srun that gets a signal (here from timeout(1), exit code 124) ends its step in its user's name."""
    answer = told(timeout_command())
    assert not {"cancelled_by_user", "external_signal"} & confirmed(answer)
    assert answer.owner is not Owner.ADMIN
