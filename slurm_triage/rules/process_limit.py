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

    Hardware or software: software: a limit.

    First check: the limits inside a job; they may differ from those on the login node.

        srun -w NODE -n1 bash -c 'ulimit -u; ulimit -l; ps -L -u $USER --no-headers | wc -l; nproc'

    As an administrator: limits of slurmd, and pids.max of the job's cgroup.

        systemctl show slurmd -p LimitNPROC -p LimitMEMLOCK -p TasksMax
        sysctl kernel.pid_max kernel.threads-max

    What to do: set OMP_NUM_THREADS and the like; compare ulimit -u and -l inside the job with those on the login node.

    What this is not: a lack of memory, though `Cannot allocate memory` may stand beside it.

    Check next: `malloc_failure` if memory was refused without fork; `file_descriptor_limit` if files were refused;
    `nccl_config` if only the network could not be set up.

    Sources: https://man7.org/linux/man-pages/man2/getrlimit.2.html,
    https://man7.org/linux/man-pages/man3/pthread_create.3.html, https://docs.kernel.org/admin-guide/cgroup-v2.html,
    https://slurm.schedmd.com/slurm.conf.html
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
