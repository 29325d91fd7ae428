"""Rule: a node did not boot for the job."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary


@rule("boot_fail", supersedes=("node_fail", "launch_failed", "cancelled_by_user"))
def boot_fail(job: Job) -> Said:
    """A node that was powered up for the job did not become ready in time.

    What happened: power saving or a cloud plugin was to start the node, and it did not register within ResumeTimeout.

    Who acts: the administrator.

    Hardware or software: either. A cloud without room, a resume script with an error and a board that does not start
    look the same to Slurm. The node's console tells them apart.

    First check: the state of the node and its reason.

        sacct -j JOBID -o JobID,State,NodeList,Start,End
        scontrol show node NODE | grep -E "State|Reason|BootTime"

    As an administrator: what the resume program said and what the console shows.

        scontrol show config | grep -E "ResumeProgram|ResumeTimeout"
        grep -E "NODE|ResumeTimeout" /var/log/slurm/slurmctld.log | tail

    What to do: look at the resume program's log, the cloud's quota and the node's console.

    What this is not: a failure of the job.

    Check next: `node_fail` if the node had been up; `launch_failed` if it was up and the launch failed; `prolog_failed`
    if its prolog failed.

    Sources: https://slurm.schedmd.com/power_save.html, https://slurm.schedmd.com/elastic_computing.html,
    https://slurm.schedmd.com/slurm.conf.html
    """
    yield require(job.node.boot_failed)
    yield confirm(job.node.boot_failed)
    yield owner(Owner.ADMIN)
    yield summary("A node did not come up for the job (power saving or cloud boot).")
    yield action("Look at ResumeProgram's log and at the node's console.", "sinfo -R")
