"""Rule: illegal instruction."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import unknown
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._crash import CRASH_ECHOES, crash, where


@rule("illegal_instruction", supersedes=CRASH_ECHOES)
def illegal_instruction(job: Job) -> Said:
    """A process met an instruction that the CPU does not have (SIGILL).

    What happened: a build for a newer or another CPU (AVX-512 on an old node, compiled caches brought from elsewhere),
    or a library's own trap instruction (ud2) after a failed check.

    Who acts: the user, who needs a build for the oldest node type in use.

    Hardware or software: software, in nearly all cases: a build for another processor, or a trap that a library sets on
    purpose. A faulty processor also fails in other programs on that node.

    First check: what the processor can do against what the program was built for.

        srun -w NODE -n1 bash -c 'lscpu | grep -E "Architecture|Model name|Flags"'
        gdb -batch -ex run -ex 'x/i $pc' --args PROGRAM

    As an administrator: the kernel's line names the program and the address (`trap invalid opcode`, x86 only).

        journalctl -k | grep -E "trap invalid opcode|undefined instruction"

    What to do: compare the node's CPU with the build; restrict with --constraint; clear compiled caches.

    What this is not: an exec format error: there the program never starts.

    Check next: `x86_code_on_aarch64` if the node is Arm; `exec_format` if it never started; `app_segfault` if the
    signal was 11; `node_hardware_suspect` if different programs die so on one node.

    Sources: https://man7.org/linux/man-pages/man7/signal.7.html,
    https://numpy.org/doc/stable/reference/simd/build-options.html
    """
    trapped = job.log.has("a library stopped itself with a trap instruction", "tcl_fork_bug", "glibc_abort")
    if trapped.holds is False and _only_a_parent_says(job):
        why = "only the parent of the process tells of it; libraries end themselves so, too (Tcl_Panic, __builtin_trap)"
        trapped = unknown(trapped.says, why, "read the kernel log for `trap invalid opcode`")
    yield from crash(job, signals.SIGILL, "sigill_text", unless=trapped)
    yield owner(Owner.USER)
    yield summary(f"A process of the job died of an illegal instruction{where(job, signals.SIGILL)}.")
    yield action("Use a build for this node's CPU, or nodes that fit the build.", "lscpu")
    yield from fitting_advice(job, "illegal_instruction")


def _only_a_parent_says(job: Job) -> bool:
    """Whether a parent in Python is all that tells of the signal: what the process itself said may be missing."""
    deaths = [d for d in job.exits.deaths if d.signal == signals.SIGILL]
    return bool(deaths) and all(d.wrapped for d in deaths) and not job.program.kernel_fault(signals.SIGILL).holds
