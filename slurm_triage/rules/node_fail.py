"""Rule: node failure."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, refute, require, rule, summary, support, when


@rule("node_fail", supersedes=("cancelled_by_user", "external_signal", "app_error", "peer_rank_died", "mpi_abort",
                               "accounting_state_wrong", "no_failure", "admin_requeue"))  # fmt: skip
def node_fail(job: Job) -> Said:
    """Slurm lost a node of the job (it stopped answering, rebooted, or was set down).

    What happened: slurmctld heard nothing from a node for SlurmdTimeout, or the node came back as rebooted, or an
    administrator set it down. The tasks on the other nodes were told to end with SIGTERM.

    Who acts: the administrator, who finds out why the node went away. The job's evidence alone cannot tell hardware
    from network, kernel or a node driven out of memory.

    What to do: look at the node's console, kernel log and reason; submit again without that node.

    What this is not: an error of the program, though the survivor's messages look like one.
    """
    yield require(job.node.trouble)
    yield confirm(job.node.lost)
    yield support(job.node.said_lost)
    yield support(job.node.went_down)
    yield refute(job.node.boot_failed)
    yield refute(job.scheduling.preempted)
    yield owner(Owner.ADMIN)
    yield when(job.attempt.end)
    names = ", ".join(job.node.names) or "a node"
    yield summary(f"Slurm lost {names} while the job ran.")
    yield action(
        "Find out why the node went away before it takes new jobs.",
        f"scontrol show node {job.node.names[0]}" if job.node.names else "sinfo -R",
    )
    yield action("As the job's owner: submit again, without that node until it is explained.")
    yield note("Why the node failed is not in the job's evidence; its own kernel log and console can tell.")
