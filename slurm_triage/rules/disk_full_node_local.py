"""Rule: a file system of the node was full."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, note, owner, refute, rule, summary
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._storage import CARRIERS
from slurm_triage.rules._told import ECHOES, proven, told_by

SHORT = "Wrote only"
"""A write that was cut short: by a full disk, a quota or a limit on file sizes."""


@rule("disk_full_node_local", supersedes=(*ECHOES, "container_runtime_setup", "bus_error_io"))
def disk_full_node_local(job: Job) -> Said:
    """A file system was full (ENOSPC), by what is known one of the node itself (/tmp, local scratch).

    What happened: no space was left for the program or for the runtime that starts it.

    Who acts: the administrator, who sees what fills the node's disk; the user if the job's own files do.

    Hardware or software: software: the disk is full, not broken. A broken one prints I/O errors in the kernel log and
    often turns read-only.

    First check: which file system, bytes and inodes, and what of it is yours.

        srun -w NODE -n1 bash -c 'df -h /tmp .; df -i /tmp .; du -sh /tmp/* 2>/dev/null | sort -h | tail -5'

    As an administrator: what fills it, also files that were removed and are still open.

        df -h
        du -xh --max-depth=2 /tmp /var | sort -h | tail
        lsof +L1 | head

    What to do: df -h on the node; write large temporary files elsewhere; clean up what earlier jobs left.

    What this is not: a quota of a user or project; that one says `Disk quota exceeded`.

    Check next: `disk_quota` if the message says quota or the file system is a shared one; `shm_exhausted` if it is
    /dev/shm; `node_misconfigured` if it is read-only; `container_runtime_setup` if an image was unpacked there.

    Sources: https://man7.org/linux/man-pages/man2/write.2.html, https://man7.org/linux/man-pages/man1/df.1.html
    """
    yield from told_by(job, "the program says that a file system is full", job.storage.no_room, ("io_error",))
    if job.storage.named_local:
        said = [s for s in job.storage.no_room if SHORT not in s.cite.text]
        yield from proven(job, "a file system of the node is full", said, *CARRIERS)
    if job.storage.no_room and not job.storage.full_local.holds:
        yield refute(job.storage.full_shared)
    yield owner(Owner.ADMIN)
    yield summary("A file system was full.")
    yield action("See which file system is full, and who fills it.", "df -h; df -i; du -xsh /tmp/* | sort -h | tail")
    yield from fitting_advice(job, "disk_full")
    if not job.storage.full_local.holds:
        yield note("The message does not say which file system is full: it may be a shared one, or the user's.")
