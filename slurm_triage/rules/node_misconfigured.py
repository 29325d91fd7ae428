"""Rule: the node is not set up for jobs."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, any_of, false, true
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support
from slurm_triage.rules._told import ECHOES, outlived, proven

LINES = (
    "slurm_container_join", "slurmd_container_join", "slurm_task_plugin", "slurm_user_lookup", "slurmd_user_lookup",
    "slurm_plugin_stack", "slurmd_plugin_stack",
)  # fmt: skip
"""Lines with which slurmd or slurmstepd says that it could not set the job up."""
OWN_ACTS = ("slurm_container_join", "slurmd_container_join", "slurm_user_lookup", "slurmd_user_lookup")
"""Those of them that nothing in the job's request brings about (a binding or an option of a plugin may)."""


@rule("node_misconfigured", supersedes=(*ECHOES, "launch_failed", "prolog_failed"))
def node_misconfigured(job: Job) -> Said:
    """The node itself could not run jobs: a plugin, a mount, a name service or its disk is broken.

    What happened: slurmd or slurmstepd failed at setting the job up (job_container, SPANK plugin, user lookup), or a
    local file system of the node had shut down or turned read-only.

    Who acts: the administrator.

    Hardware or software: either. A missing mount or plugin is software; a file system that went read-only or shut down
    mostly follows an error of its disk, which the kernel log shows before it.

    First check: whether other jobs fail on this node, and only there.

        sacct -a -X -N NODE -S now-1days -o JobID,User,State,ExitCode,End

    As an administrator: what slurmd says, and the state of local disks and mounts.

        grep -E "error" /var/log/slurm/slurmd.log | tail -30
        findmnt
        df -h /tmp /var/spool/slurmd
        journalctl -k | grep -iE "I/O error|EXT4-fs error|XFS .*(shutdown|Corruption)|nvme"

    What to do: drain the node, repair it; the job can be submitted again without that node.

    What this is not: an error of the program, which mostly never ran.

    Check next: `disk_full_node_local` if df shows no room; `prolog_failed` if a check found it first; `driver_mismatch`
    if it is the GPU driver; `chdir_failed` if only one directory is missing.

    Sources: https://slurm.schedmd.com/troubleshoot.html, https://slurm.schedmd.com/job_container_tmpfs.html,
    https://slurm.schedmd.com/slurm.conf.html
    """
    said = job.telling.said("Slurm could not set the job up on the node", *LINES)
    disk = job.storage.seen("a local file system of the node failed", job.storage.broken_local)
    read_only = job.telling.said("a file system was read-only", "read_only_fs")
    lost = "Slurm's copy of the batch script was not in the node's spool"
    spool = true(lost, job.launch.script_lost) if job.launch.script_lost else false(lost, "no line says that")
    broken = any_of(
        "the node is not in order", said, spool, all_of("a local disk failed under the job", disk, read_only)
    )
    yield require(broken)
    yield confirm(job.storage.proves("a local file system failed and the program felt it", job.storage.broken_local))
    mine = "Slurm could not set the job up on the node"
    yield from proven(job, mine, job.log.of(*OWN_ACTS), *LINES, "srun_launch_failed", "slurmd_io_setup")
    yield support(broken)
    yield from outlived(job, broken)
    yield owner(Owner.ADMIN)
    yield summary("The node was not in order: Slurm could not set the job up on it, or its disk failed.")
    yield action("Drain the node and repair what the line names.", "sinfo -R")
    yield action("As the job's owner: submit again without that node (--exclude).")
