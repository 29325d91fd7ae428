"""Rule: a quota, or the room on a personal file system."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._storage import CARRIERS
from slurm_triage.rules._told import ECHOES, outlived, proven


@rule("disk_quota", supersedes=(*ECHOES, "disk_full_node_local", "container_runtime_setup", "bus_error_io"))
def disk_quota(job: Job) -> Said:
    """The quota of the user or project, or the room on a personal file system, was used up.

    What happened: a write failed with EDQUOT, or a home or project file system is full. Often it is not the working
    directory but a cache in the home directory (containers, compilers, models).

    Who acts: the user.

    What to do: look at the quota of every file system that the job writes to, bytes and inodes; move caches.

    What this is not: a broken file system.
    """
    quota = job.telling.said("the program says that a quota is used up", "disk_quota")
    trouble = any_of("there was no room on a personal or project file system", quota, job.storage.full_shared)
    yield require(trouble)
    of_files = [s for s in job.log.of("disk_quota") if "key" not in s.cite.text]  # the kernel's keys have a quota too
    yield from proven(job, "a quota is used up", of_files, *CARRIERS)
    if job.storage.full_shared.holds:
        yield from proven(job, "a personal or project file system is full", job.storage.no_room, *CARRIERS)
    yield support(job.telling.last_word("a used-up quota was the last error", "disk_quota"))
    yield support(job.storage.full_shared)
    yield from outlived(job, trouble)
    yield owner(Owner.USER)
    yield summary("A quota, or the room on a personal or project file system, was used up.")
    yield action("Check quota and inodes of home and project; move caches elsewhere.", "quota -s; df -hi $HOME")
