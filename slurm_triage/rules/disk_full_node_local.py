"""Rule: a file system of the node was full."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, note, owner, refute, rule, summary
from slurm_triage.rules._storage import CARRIERS
from slurm_triage.rules._told import ECHOES, proven, told_by


@rule("disk_full_node_local", supersedes=(*ECHOES, "container_runtime_setup", "bus_error_io"))
def disk_full_node_local(job: Job) -> Said:
    """A file system was full (ENOSPC), by what is known one of the node itself (/tmp, local scratch).

    What happened: no space was left for the program or for the runtime that starts it.

    Who acts: the administrator, who sees what fills the node's disk; the user if the job's own files do.

    What to do: df -h on the node; write large temporary files elsewhere; clean up what earlier jobs left.

    What this is not: a quota of a user or project; that one says `Disk quota exceeded`.
    """
    yield from told_by(job, "the program says that a file system is full", job.storage.no_room, ("io_error",))
    if job.storage.named_local:
        yield from proven(job, "a file system of the node is full", job.storage.no_room, *CARRIERS)
    if job.storage.no_room and not job.storage.full_local.holds:
        yield refute(job.storage.full_shared)
    yield owner(Owner.ADMIN)
    yield summary("A file system was full.")
    yield action("See which file system is full, and who fills it.", "df -h; df -i; du -xsh /tmp/* | sort -h | tail")
    if not job.storage.full_local.holds:
        yield note("The message does not say which file system is full: it may be a shared one, or the user's.")
