"""Rule: segmentation fault."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._advice import fitting_advice
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

    Hardware or software: software, in nearly all cases. It is hardware only if different programs crash on the same
    node, or if memory error lines stand in its kernel log; the same program at the same place on many nodes is never
    hardware.

    First check: where it crashed. On arm64 the kernel prints no line by default, so that none there proves nothing.

        srun -n1 bash -c 'ulimit -c unlimited; PROGRAM'
        coredumpctl info
        gdb -batch -ex bt PROGRAM CORE
        PYTHONFAULTHANDLER=1 python TRAIN.py

    As an administrator: the kernel's line with library and offset, and whether others crash on this node.

        journalctl -k | grep -E "segfault at|general protection|traps:"
        sacct -a -X -N NODE -S now-7days -o JobID,User,ExitCode

    What to do: find the first rank that crashed, get a core file or a stack, check for mixed builds.

    What this is not: 0:11 with CANCELLED is not a cancellation; nobody cancelled anything.

    Check next: `checkpoint_segfault` if the stack goes through the checkpoint writer; `bus_error_io` if the signal was
    7; `illegal_instruction` if it was 4; `node_hardware_suspect` if it follows one node; `peer_rank_died` for the other
    ranks.

    Sources: https://man7.org/linux/man-pages/man7/signal.7.html, https://man7.org/linux/man-pages/man5/core.5.html,
    https://docs.python.org/3/library/faulthandler.html
    """
    yield from crash(job, signals.SIGSEGV, *HANDLERS)
    daemons = [s for s in job.log.of("x86_segfault") if s.fields.get("comm") in DAEMONS]
    yield owner(Owner.ADMIN if daemons and job.attempt.job_id is None else Owner.USER)
    yield summary(f"A process of the job died of a segmentation fault{where(job, signals.SIGSEGV)}.")
    yield action("Get a stack of the first process that crashed (core file or gdb).")
    yield action("Check for mixed builds of libraries and compilers.")
    yield from fitting_advice(job, "segfault")
