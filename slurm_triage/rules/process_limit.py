"""Rule: processes, threads, locked memory."""

import re

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import ECHOES, proven, told

FORK = re.compile(r"\bv?fork\w{0,8}(?:\(\))?: Resource temporarily unavailable")
"""fork(2) says EAGAIN of limits only. pthread_create(3) says it for want of memory too (glibc, allocate_stack)."""


@rule("process_limit", supersedes=(*ECHOES, "malloc_failure", "nccl_config"))
def process_limit(job: Job) -> Said:
    """A limit on processes, threads or locked memory was reached.

    What happened: fork or pthread_create was refused (EAGAIN): RLIMIT_NPROC or the cgroup's pids.max; or memory could
    not be locked for the network adapter (RLIMIT_MEMLOCK).

    Who acts: the user, who starts fewer threads; the administrator where the limit is too low for what was asked for.

    What to do: set OMP_NUM_THREADS and the like; compare ulimit -u and -l inside the job with those on the login node.

    What this is not: a lack of memory, though `Cannot allocate memory` may stand beside it.
    """
    ids = ("process_limit", "nccl_memlock")
    yield from told(job, "the program says that a limit on processes or locked memory is reached", *ids)
    forks = [s for s in job.log.of("process_limit") if FORK.search(s.cite.text)]
    yield from proven(job, "no further process may be started", forks)
    locked = bool(job.log.of("nccl_memlock")) and not job.log.of("process_limit")
    yield owner(Owner.USER)
    what = "locked memory" if locked else "processes or threads"
    yield summary(f"The limit on {what} was reached.")
    if locked:
        yield action("Check the locked-memory limit inside the job.", "ulimit -l")
    else:
        yield action("Start fewer threads per process (OMP_NUM_THREADS and the like).", "ulimit -u; nproc")
