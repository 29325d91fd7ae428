"""Rule: requeued on request."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support, when


@rule("admin_requeue", supersedes=("cancelled_by_user", "external_signal", "app_error", "no_failure",
                                   "warning_signal_unhandled"))  # fmt: skip
def admin_requeue(job: Job) -> Said:
    """The attempt was ended by scontrol requeue, not by a failure.

    What happened: an operator, a node health script, or the job's own script after a checkpoint asked Slurm to put the
    job back into the queue. The next attempt truncates the output unless --open-mode=append is used.

    Who acts: whoever asked for it; nothing is broken.

    Hardware or software: neither. Somebody or a script asked for it. Ask for the reason: a health check may have found
    something on the node.

    First check: all runs of the job, and whether its own script requeues.

        sacct -D -j JOBID -o JobID,State,ExitCode,Start,End,NodeList
        grep -nE "scontrol +requeue" JOBSCRIPT

    As an administrator: who asked, by uid.

        grep -E "requeue.*JobId=JOBID|JobId=JOBID.*requeue" /var/log/slurm/slurmctld.log

    What to do: nothing, or ask the administrators if it was not you.

    What this is not: preemption, a node failure, or a failed launch.

    Check next: `preempted` if another job took the nodes; `node_fail` if a node was lost; `launch_failed` or
    `prolog_failed` if it never started.

    Sources: https://slurm.schedmd.com/scontrol.html, https://slurm.schedmd.com/sbatch.html
    """
    scheduling = job.scheduling
    by_itself = job.log.of("requeue_handler")
    yield require(scheduling.requeued)
    yield confirm(scheduling.requeue_said)
    yield support(scheduling.requeued)
    yield refute(scheduling.preempted)
    yield refute(job.node.lost)
    yield refute(job.launch.held_after_launch)
    yield refute(job.launch.prolog_message)
    yield refute(job.launch.never_ran)
    yield refute(scheduling.preempted_by_mistake)
    yield owner(Owner.USER if by_itself else Owner.ADMIN)
    yield when(job.attempt.end)
    who = "the job's own script" if by_itself else "an operator or a script"
    yield summary(f"The attempt was ended by a requeue that {who} asked for, not by a failure.")
    yield action("Nothing to repair: the job runs again, or waits held.", _show(job))


def _show(job: Job) -> str:
    return f"sacct -D -j {job.attempt.job_id or 'JOBID'} -o JobID,State,Start,End,Restarts"
