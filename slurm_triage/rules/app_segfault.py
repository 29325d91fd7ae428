"""Rule: segmentation fault."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._crash import CRASH_ECHOES, crash, where

HANDLERS = ("python_fatal_signal", "sigsegv_handler", "dataloader_worker_killed_segv", "tcl_fork_bug")
DAEMONS = ("mcelog", "slurmd", "slurmstepd", "slurmctld", "nv-hostengine", "nvidia-persiste", "systemd", "sshd")
"""Programs that belong to the node, not to a job (kernel lines cut names to 15 characters)."""


@rule("app_segfault", supersedes=CRASH_ECHOES)
def app_segfault(job: Job) -> Said:
    """A process of the job crashed with a segmentation fault.

    What happened: the program or one of its libraries touched memory that is not its own. The kernel names the
    library and the offset where it logs such faults; arm64 prints none by default, and a program with a handler of
    its own leaves none.

    Who acts: the user, or who maintains the library; not the hardware unless the same node does it to different
    programs.

    What to do: find the first rank that crashed, get a core file or a stack, check for mixed builds.

    What this is not: 0:11 with CANCELLED is not a cancellation; nobody cancelled anything.
    """
    yield from crash(job, signals.SIGSEGV, *HANDLERS)
    daemons = [s for s in job.log.of("x86_segfault") if s.fields.get("comm") in DAEMONS]
    yield owner(Owner.ADMIN if daemons and job.attempt.job_id is None else Owner.USER)
    yield summary(f"A process of the job died of a segmentation fault{where(job, signals.SIGSEGV)}.")
    yield action("Get a stack of the first process that crashed (core file or gdb).")
    yield action("Check for mixed builds of libraries and compilers.")
