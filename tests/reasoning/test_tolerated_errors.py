"""A message of an earlier trouble and a bad end of the job do not confirm each other."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    KEY_ERROR,
    clock,
    confirmed,
    controller,
    failed,
    hook,
    job,
    job_view,
    manifest,
    sacct,
    step,
    told,
)

CHDIR = "slurmstepd-c1: error: couldn't chdir to `/scratch/u/run7': No such file or directory: going to /tmp instead\n"
SHELL = "/var/spool/slurmd/job00077/slurm_script: line 3: "
USAGE = "usage: train.py [-h] --lr LR\ntrain.py: error: the following arguments are required: --lr\n"


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (CHDIR + KEY_ERROR, 1),
        (f"{CHDIR}solver: diverged at step 900\n", 3),
        (f"{SHELL}module: command not found\n{USAGE}", 2),
        (
            "slurmstepd-c1: error: execve(): gmx_mpi: No such file or directory\n"
            "srun: error: c1: task 0: Exited with exit code 2\nusing serial gmx\n" + "step\n" * 30 + USAGE,
            2,
        ),
        (
            f"{SHELL}./stats.sh: Permission denied\nsolver: diverged at step 900, code 13\n",
            13,
        ),
        (
            f"{SHELL}/opt/bin/nodeinfo: cannot execute binary file: Exec format error\n{KEY_ERROR}",
            1,
        ),
    ],
    ids=["directory", "directory-code-3", "module", "other-program", "permission", "format"],
)
def test_file_or_program_that_the_job_did_without(output: str, code: int) -> None:
    answer = told(failed(output, code))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert confirmed(answer) == {"app_error"}


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (
            'epoch 1\nTraceback (most recent call last):\n  File "t.py", line 1, in f\n    np.zeros(n)\n'
            "MemoryError: Unable to allocate 90 GiB\nretrying with chunks\nepoch 2\n" + "ok\n" * 5 + KEY_ERROR,
            1,
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space\nWARN task 3 failed, retrying on disk\n"
            + "ok\n" * 10
            + "java.lang.IllegalArgumentException: bad k\n",
            1,
        ),
        ("caught std::bad_alloc, using out-of-core solver\niteration 5\nnot converged\n", 4),
    ],
    ids=["python", "java", "c++"],
)
def test_failed_allocation_that_the_program_caught(output: str, code: int) -> None:
    answer = told(failed(output, code))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert confirmed(answer) == {"app_error"}


def test_time_limit_of_a_step_that_the_script_went_on_after() -> None:
    rows = (
        job("FAILED", "1:0"),
        step("batch", "FAILED", "1:0"),
        step("0", "TIMEOUT", "0:15", end=50),
        step("1", start=51),
    )
    message = f"slurmstepd-c1: error: *** STEP 77.0 ON c1 CANCELLED AT {clock(50)} DUE TO TIME LIMIT ***\n"
    output = message + "stage 1 reached its time slice, going on\n" + "stage 2\n" * 5 + KEY_ERROR
    answer = told(failed(output, more={"sacct.psv": sacct(*rows)}))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert confirmed(answer) == {"app_error"}


def test_signal_that_came_long_before_the_warning_signal_was_due() -> None:
    """Limit 60 minutes, --signal=USR1@60: due after 59 minutes. The job died of SIGUSR1 after five."""
    line = "sbatch --signal=USR1@60 x.sh"
    rows = (
        job("FAILED", "0:10", end=300, limit="60", submit_line=line),
        step("batch", "FAILED", "0:10", end=300),
    )
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "env.epilog_slurmctld.txt": hook(10, end=300),
            "slurmctld.log": controller("WTERMSIG 10", at=300),
            "job.out": "start\n",
        }
    )
    assert not {"warning_signal_unhandled", "time_limit"} & confirmed(answer)
    assert answer.cause not in ("warning_signal_unhandled", "time_limit")


@pytest.mark.parametrize("resumed", [30, 80], ids=["70-s-before", "20-s-before"])
@pytest.mark.parametrize("gang", [True, False])
def test_pause_before_an_error_that_no_pause_makes(gang: bool, resumed: int) -> None:
    config = CONFIG.replace("= OFF", "= GANG,SUSPEND") if gang else CONFIG
    preempted = clock(10) if gang else "None"
    pause = f"   PreemptTime={preempted}\n   SuspendTime={clock(resumed)} SecsPreSuspend=20\n"
    final = job_view("FAILED Reason=NonZeroExitCode", "1:0", more=pause + "   StdOut=/shared/job.out\n")
    more = {"scontrol-config.txt": config, "scontrol_show_job_final.txt": final, "manifest.toml": manifest("22.05.8")}
    answer = told(failed(KEY_ERROR, more=more))
    assert not {"preempted", "preempt_suspend"} & confirmed(answer)
    if resumed == 30:
        assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
