"""What the crash rules have in common."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, negation
from slurm_triage.model import Fact
from slurm_triage.rules import Item, confirm, refute, require, support, when

CRASH_ECHOES = ("app_error", "peer_rank_died", "mpi_abort", "accounting_state_wrong", "no_failure", "external_signal")
"""What a crash of one rank looks like from elsewhere; with --kill-on-bad-exit the rest die of SIGTERM or SIGKILL."""


KIN = (
    "sigsegv_handler", "sigbus_text", "sigill_text", "python_fatal_signal", "dataloader_worker_killed",
    "checkpoint_writer_frame", "tcl_fork_bug", "cpu_not_supported", "sigabrt_text", "time_signal", "x86_segfault",
    "x86_trap", "arm64_fault", "general_protection", "python_child_signal",
)  # fmt: skip
"""How crashes are told."""


def crash(job: Job, number: int, *log_ids: str, unless: Fact | None = None) -> Iterator[Item]:
    """The conditions shared by all faults: a witness of the status or the kernel confirms, other words support.

    `unless` is a fact that explains the signal away; while it is unknown nothing is confirmed.
    """
    may = died = job.program.may_have_crashed(number, *log_ids)
    if unless is not None:
        died = all_of(died.says, died, negation(f"not so that {unless.says}", unless))
    yield require(died)
    for witness in (job.program.crashed(number), job.program.kernel_fault(number)):
        if witness.holds:
            witness = all_of(witness.says, witness, job.proof.nothing_before(witness, *KIN, *log_ids))
        yield confirm(witness)
    if may.holds:
        may = all_of(may.says, may, job.proof.no_cause_before(may, *KIN, *log_ids))
    if not job.telling.survived.holds:  # else the script went on after it: possible, no more
        yield support(may)
    yield refute(srun_errno(job, number))
    first = job.ranks.first
    yield when(first.at if first else job.attempt.end)


def srun_errno(job: Job, number: int) -> Fact:
    """srun's own exit code (ENOENT 2, ENOEXEC 8, EACCES 13) is not a signal of the program."""
    lines = job.log.of("slurm_execve") if number in (8, 13) else ()
    if lines:
        return Fact("the number is srun's errno of a failed launch", True, tuple(s.cite for s in lines))
    return Fact("the number is srun's errno of a failed launch", False, (), "no execve() line of slurmstepd was seen")


def where(job: Job, number: int) -> str:
    """Rank, node and library of the crash, as far as known."""
    words = []
    first = job.ranks.first
    if first is not None and first.rank is not None and signals.name(number) in first.what:
        words.append(f"rank {first.rank}" + (f" on {first.node}" if first.node else "") + " failed first")
    library = job.program.faulting_library(number)
    if library:
        words.append(f"in {library}")
    return f" ({', '.join(words)})" if words else ""
