"""Rule: node failure."""

from slurm_triage.facts import Job
from slurm_triage.facts.shortage import node_was_short
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

    Hardware or software: either. Slurm only knows that the node did not answer. A machine check, a power event or a
    lost card in its log is hardware; a node that had run out of memory, a hung file system or a stopped slurmd is not;
    other nodes of the same switch at the same minute are the network.

    First check: which node, since when, and what others say about it.

        sacct -j JOBID -o JobID,State,NodeList,End
        scontrol show node NODE | grep -E "State|Reason|BootTime|SlurmdStartTime"

    As an administrator: the last lines before the end of that boot, and the board's own log.

        journalctl -k -b -1 -n 100
        last -x reboot shutdown | head
        ipmitool sel elist | tail -20

    What to do: look at the node's console, kernel log and reason; submit again without that node.

    What this is not: an error of the program, though the survivor's messages look like one.

    Check next: `global_oom` if the kernel killed processes before; `memory_ecc_uncorrected`, `gpu_fallen_off_bus` or
    `pcie_error` if the log has such lines; `network_link` if several nodes went away together; `boot_fail` if it never
    came up.

    Sources: https://slurm.schedmd.com/slurm.conf.html, https://slurm.schedmd.com/troubleshoot.html,
    https://slurm.schedmd.com/job_state_codes.html
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
    short = node_was_short(job)
    if short.holds:
        yield note(f"The node was out of memory before that: {short.cites[0].text}")
        yield action("See who used the memory: a node that finds none does not answer slurmctld.")
    panic = job.kernel.of("kernel_panic")
    if panic:
        yield note(f"Its kernel gave up: {panic[0].sign.cite.text}")
    yield note("Why the node failed is not in the job's evidence; its own kernel log and console can tell.")
