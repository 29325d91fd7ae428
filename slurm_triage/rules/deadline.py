"""Rule: --deadline passed."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, when


@rule("deadline", supersedes=("cancelled_by_user", "app_error"))
def deadline(job: Job) -> Said:
    """Slurm removed the job because it could no longer end before its --deadline.

    What happened: the job waited until its time limit no longer fitted before the deadline.

    Who acts: the user, who set the deadline.

    What to do: set a later deadline or a shorter time limit, or find out why the job waited so long.

    What this is not: the time limit of a running job.
    """
    yield require(job.scheduling.deadline)
    yield confirm(job.scheduling.deadline)
    yield owner(Owner.USER)
    yield when(job.attempt.end)
    yield summary("Slurm removed the job: it could no longer end before its --deadline.")
    yield action("Set a later --deadline or a shorter --time; see why it had to wait.")
