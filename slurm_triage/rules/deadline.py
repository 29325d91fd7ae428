"""Rule: --deadline passed."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, when


@rule("deadline", supersedes=("cancelled_by_user", "app_error"))
def deadline(job: Job) -> Said:
    """Slurm removed the job because it could no longer end before its --deadline.

    What happened: the job waited until its time limit no longer fitted before the deadline.

    Who acts: the user, who set the deadline.

    Hardware or software: neither. A date that the job was given.

    First check: the deadline, the limit, and how long the job waited.

        sacct -j JOBID -o JobID,State,Submit,Eligible,Start,End,Timelimit,SubmitLine%80

    What to do: set a later deadline or a shorter time limit, or find out why the job waited so long.

    What this is not: the time limit of a running job.

    Check next: `time_limit` if it ran into its limit; `dependency_never_satisfied` if it waited for another job;
    `cancelled_by_user` if somebody ended it.

    Sources: https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/job_state_codes.html
    """
    yield require(job.scheduling.deadline)
    yield confirm(job.scheduling.deadline)
    yield owner(Owner.USER)
    yield when(job.attempt.end)
    yield summary("Slurm removed the job: it could no longer end before its --deadline.")
    yield action("Set a later --deadline or a shorter --time; see why it had to wait.")
