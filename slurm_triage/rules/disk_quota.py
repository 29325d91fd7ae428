"""Rule: a quota, or the room on a personal file system."""

import re

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._storage import CARRIERS
from slurm_triage.rules._told import ECHOES, outlived, proven

KEYS = re.compile(r"keyring|session key|keyctl", re.IGNORECASE)
"""The kernel's keys have a quota too (keyrings(7)), and it says EDQUOT."""


@rule("disk_quota", supersedes=(*ECHOES, "disk_full_node_local", "container_runtime_setup", "bus_error_io"))
def disk_quota(job: Job) -> Said:
    """The quota of the user or project, or the room on a personal file system, was used up.

    What happened: a write failed with EDQUOT, or a home or project file system is full. Often it is not the working
    directory but a cache in the home directory (containers, compilers, models).

    Who acts: the user.

    Hardware or software: software: an allotment is used up.

    First check: quota of every file system that the job writes to, bytes and inodes; caches in the home directory
    first.

        quota -s
        lfs quota -h -u $USER DIRECTORY 2>/dev/null
        df -h ~ .
        du -xsh ~/.cache ~/.local ~/.conda ~/.apptainer ~/.singularity ~/.triton 2>/dev/null

    As an administrator: the same as the file system sees it.

        repquota -as | grep USER
        lfs quota -u USER DIRECTORY

    What to do: look at the quota of every file system that the job writes to, bytes and inodes; move caches.

    What this is not: a broken file system.

    Check next: `disk_full_node_local` if the file system is the node's own; `container_runtime_setup` if only the
    unpacking of an image failed; `bus_error_io` if a mapped file could not grow.

    Sources: https://man7.org/linux/man-pages/man2/write.2.html, https://man7.org/linux/man-pages/man1/quota.1.html
    """
    of_files = [s for s in job.log.of("disk_quota") if not KEYS.search(s.cite.text)]
    quota = job.telling.given("the program says that a quota is used up", of_files)
    trouble = any_of("there was no room on a personal or project file system", quota, job.storage.full_shared)
    yield require(trouble)
    yield from proven(job, "a quota is used up", of_files, *CARRIERS)
    if job.storage.full_shared.holds:
        yield from proven(job, "a personal or project file system is full", job.storage.no_room, *CARRIERS)
    yield support(job.telling.last_of("a used-up quota was the last error", of_files))
    yield support(job.storage.full_shared)
    yield from outlived(job, trouble)
    yield owner(Owner.USER)
    yield summary("A quota, or the room on a personal or project file system, was used up.")
    yield action("Check quota and inodes of home and project; move caches elsewhere.", "quota -s; df -hi $HOME")
    yield from fitting_advice(job, "disk_full")
