"""Rule: the state hides a failed step."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary


@rule("accounting_state_wrong", supersedes=("no_failure", "app_error"))
def accounting_state_wrong(job: Job) -> Said:
    """A step failed, but the job counts as COMPLETED with exit code 0.

    What happened: the job's state is the exit code of its batch script. A script that goes on after a failed srun and
    ends with 0 hides the failure.

    Who acts: nobody's machine is broken; the script's author makes it stop on errors (set -e, srun || exit).

    Hardware or software: software. The script hid the failure of one of its steps; the step's own exit says what kind
    of failure it was.

    First check: the exit of each step, and the derived exit code, which is the highest of the steps.

        sacct -j JOBID -o JobID,JobName,State,ExitCode,DerivedExitCode
        grep -nE "set -e|srun" JOBSCRIPT

    What to do: do not trust the results; look at the step's own exit code.

    What this is not: a bug in Slurm.

    Check next: `memcg_oom_child_only` if a step has `0:125`; `app_error` or `app_segfault` for the step's own failure;
    `no_failure` if the step was meant to fail.

    Sources: https://slurm.schedmd.com/job_exit_code.html, https://slurm.schedmd.com/sacct.html
    """
    yield require(job.program.step_failed_unseen)
    yield confirm(job.program.step_failed_unseen)
    yield refute(job.memory.oom_killed)
    yield refute(job.cancel.step_cancelled)
    yield refute(job.scheduling.preempted)
    yield owner(Owner.USER)
    yield summary("A step of the job failed, but the script went on to exit 0, so the job counts as COMPLETED.")
    job_id = job.attempt.job_id or "JOBID"
    yield action(
        "Look at the failed step; make the script stop on errors (set -e).",
        f"sacct -j {job_id} -o JobID,JobName,State,ExitCode",
    )
