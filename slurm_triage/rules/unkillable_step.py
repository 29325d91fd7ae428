"""Rule: processes survived SIGKILL."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support


@rule("unkillable_step", supersedes=("cancelled_by_user",))
def unkillable_step(job: Job) -> Said:
    """Processes of the job did not die after SIGKILL and the node was drained ("Kill task failed").

    What happened: processes sat in the kernel (a hung file system, a GPU driver, a full core dump) and could not be
    ended within UnkillableStepTimeout.

    Who acts: the administrator.

    What to do: find what the processes waited for (hung task lines in the kernel log), then resume the node.

    What this is not: a fault of the program's logic; and if the job had been cancelled before, that ended it.
    """
    yield require(job.node.unkillable)
    yield confirm(job.node.stepd_gave_up)
    yield refute(job.cancel.by_state)
    yield support(job.node.reason_down)
    yield owner(Owner.ADMIN)
    yield summary("Processes of the job did not die after SIGKILL; Slurm drains the node for that.")
    yield action("Find what they waited for (hung task lines), then resume the node.")
