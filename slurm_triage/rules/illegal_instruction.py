"""Rule: illegal instruction."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._crash import CRASH_ECHOES, crash, where


@rule("illegal_instruction", supersedes=CRASH_ECHOES)
def illegal_instruction(job: Job) -> Said:
    """A process met an instruction that the CPU does not have (SIGILL).

    What happened: a build for a newer or another CPU (AVX-512 on an old node, compiled caches brought from elsewhere),
    or a library's own trap instruction (ud2) after a failed check.

    Who acts: the user, who needs a build for the oldest node type in use.

    What to do: compare the node's CPU with the build; restrict with --constraint; clear compiled caches.

    What this is not: an exec format error: there the program never starts.
    """
    trapped = job.log.has("a library stopped itself with a trap instruction", "tcl_fork_bug", "glibc_abort")
    yield from crash(job, signals.SIGILL, "sigill_text", unless=trapped)
    yield owner(Owner.USER)
    yield summary(f"A process of the job died of an illegal instruction{where(job, signals.SIGILL)}.")
    yield action("Use a build for this node's CPU, or nodes that fit the build.", "lscpu")
