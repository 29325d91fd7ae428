"""Rule: bus error."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Condition, Owner, Role
from slurm_triage.rules import Said, action, note, owner, refute, rule, summary, support
from slurm_triage.rules._crash import CRASH_ECHOES, crash, where


@rule("bus_error_io", supersedes=CRASH_ECHOES)
def bus_error_io(job: Job) -> Said:
    """A process died of a bus error (SIGBUS): the data behind mapped memory was not there.

    What happened: a mapped file was truncated, replaced or on a failing file system, or /dev/shm was full. The kernel
    prints no line for these; it does print one when memory itself is bad.

    Who acts: the user, unless the kernel log shows memory or storage errors.

    Hardware or software: either; look at the kernel log first. `Memory failure`, machine check or EDAC lines make it
    memory; I/O errors make it the disk; without any line it is a file that was cut short, a full file system or
    /dev/shm.

    First check: space and quota of what the program maps, and whether somebody replaced a file under it.

        srun -w NODE -n1 df -h /dev/shm /tmp .
        quota -s
        ls -l --time-style=full-iso FILE

    As an administrator: whether memory or a disk complained at that time.

        journalctl -k | grep -iE "Memory failure|Hardware Error|EDAC|I/O error|nfs: server"

    What to do: see which file the program had mapped; check space in /dev/shm and quota; do not replace a binary while
    jobs run it.

    What this is not: a sign of bad hardware by itself.

    Check next: `shm_exhausted` if /dev/shm is full; `memory_ecc_uncorrected` if the kernel log has a memory error;
    `disk_quota` or `disk_full_node_local` if there is no room; `nfs_error` or `parallel_fs_error` if the file system
    complained.

    Sources: https://man7.org/linux/man-pages/man2/mmap.2.html, https://man7.org/linux/man-pages/man7/signal.7.html,
    https://docs.kernel.org/mm/hwpoison.html
    """
    finer = job.log.of("shm_too_small") or any(w.ours for w in job.host.uncorrected)
    for item in crash(job, signals.SIGBUS, "sigbus_text"):
        if finer and isinstance(item, Condition) and item.role is Role.CONFIRM:
            yield support(item.fact)  # the signal is proven, a file behind it is not
        else:
            yield item
    yield refute(job.memory.oom_killed)
    yield owner(Owner.USER)
    yield summary(f"A process of the job died of a bus error{where(job, signals.SIGBUS)}.")
    yield action("Check the mapped file (truncated, replaced, quota) and /dev/shm.", "df -h /dev/shm")
    yield note("A full /dev/shm gives the same signal and no kernel line: `df -h /dev/shm` inside the job would tell.")
