"""Rule: bus error."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, note, owner, refute, rule, summary
from slurm_triage.rules._crash import CRASH_ECHOES, crash, where


@rule("bus_error_io", supersedes=CRASH_ECHOES)
def bus_error_io(job: Job) -> Said:
    """A process died of a bus error (SIGBUS): the data behind mapped memory was not there.

    What happened: a mapped file was truncated, replaced or on a failing file system, or /dev/shm was full. The kernel
    prints no line for these; it does print one when memory itself is bad.

    Who acts: the user, unless the kernel log shows memory or storage errors.

    What to do: see which file the program had mapped; check space in /dev/shm and quota; do not replace a binary while
    jobs run it.

    What this is not: a sign of bad hardware by itself.
    """
    yield from crash(job, signals.SIGBUS, "sigbus_text")
    yield refute(job.memory.oom_killed)
    yield owner(Owner.USER)
    yield summary(f"A process of the job died of a bus error{where(job, signals.SIGBUS)}.")
    yield action("Check the mapped file (truncated, replaced, quota) and /dev/shm.", "df -h /dev/shm")
    yield note("A full /dev/shm gives the same signal and no kernel line: `df -h /dev/shm` inside the job would tell.")
