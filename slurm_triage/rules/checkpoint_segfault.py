"""Rule: segfault while a checkpoint is written."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._crash import CRASH_ECHOES
from slurm_triage.rules._told import outlived
from slurm_triage.rules.app_segfault import HANDLERS


@rule("checkpoint_segfault", supersedes=(*CRASH_ECHOES, "app_segfault", "nccl_timeout_desync"))
def checkpoint_segfault(job: Job) -> Said:
    """A process crashed in the code that writes a checkpoint.

    What happened: the native stack of the crash leads through the checkpoint's writer. Data that passes through there
    in bulk shows faults of the platform (memory, kernel, file system client) first.

    Who acts: the administrator looks at the platform; the user can tell whether it happens elsewhere.

    Hardware or software: either. The writer moves much memory through file system and network; a fault of the platform
    shows there first, and so does a bug of the writer. The same crash on other nodes and another file system speaks for
    the program.

    First check: save to another file system, on other nodes, and see whether it stays.

        sbatch --exclude=NODE JOBSCRIPT
        PYTHONFAULTHANDLER=1 python TRAIN.py

    As an administrator: kernel, driver and file system client of this node against others, and memory errors.

        uname -r
        cat /proc/driver/nvidia/version
        journalctl -k | grep -iE "EDAC|Hardware Error|segfault|LustreError"

    What to do: compare nodes, kernel and library versions; save to another file system to tell the two apart.

    What this is not: proven to be the platform. The stack says where, not why.

    Check next: `app_segfault` if it crashes elsewhere too; `memory_ecc_uncorrected` if the log has memory errors;
    `parallel_fs_error` or `nfs_error` if the file system complained; `nccl_timeout_desync` for what the other ranks
    print after it.

    Sources: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html,
    https://man7.org/linux/man-pages/man5/core.5.html
    """
    crash = job.program.may_have_crashed(signals.SIGSEGV, *HANDLERS)
    frames = job.telling.said("the stack leads through the writer of a checkpoint", "checkpoint_writer_frame")
    both = all_of("a process crashed while it wrote a checkpoint", crash, frames)
    yield require(both)
    yield support(both)
    yield from outlived(job, both)
    yield owner(Owner.ADMIN)
    yield summary("A process crashed with a segmentation fault while it wrote a checkpoint.")
    yield action("Save the checkpoint to another file system and compare nodes.")
