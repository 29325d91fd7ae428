"""What the memory rules have in common: the sentence, the numbers and the advice."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_triage.facts import Job
from slurm_triage.facts.memory import NEAR
from slurm_triage.facts.numbers import size
from slurm_triage.facts.shortage import shared_memory
from slurm_triage.model import Action, Stamp
from slurm_triage.rules import _Note, action, note

OOM_ECHOES = (
    "external_signal", "app_error", "bus_error_io", "shm_exhausted", "mpi_abort", "peer_rank_died",
    "accounting_state_wrong", "network_link", "warning_signal_unhandled",
)  # fmt: skip
"""What an OOM kill looks like from elsewhere: SIGKILL, exit 1 of srun, a torn-down step, broken peers."""

MUCH = 0.25
"""Share of a limit from which on files in shared memory are worth a word."""


def first_kill(job: Job, *constraints: str) -> Stamp | None:
    """When the first process of the job was OOM-killed (for one of these reasons, if named); None if not known."""
    kills = [k for k in job.memory.kills if not constraints or k.constraint in constraints] or job.memory.kills
    stamps = [k.at for k in kills if k.at is not None]
    return min(stamps, key=lambda s: s.lo) if stamps else None


def victim(job: Job) -> str:
    """The victim in words: program, step and rank where they are known."""
    words = "a process"
    if job.memory.kills and job.memory.kills[0].victim:
        words = f"{job.memory.kills[0].victim}"
    first = job.ranks.first
    if first is not None and first.rank is not None and "memory" in first.what + "OOM killer":
        words += f" (rank {first.rank}" + (f" on {first.node})" if first.node else ")")
    return words


def use_and_limit(job: Job) -> str:
    """`peak 100.0 MiB of 100.0 MiB`, as far as known."""
    return f"highest use {size(job.memory.peak or job.memory.max_rss)}, limit {size(job.memory.limit)}"


def caveats(job: Job) -> Iterator[_Note]:
    """What the numbers do not show by themselves: files in shared memory, and what a sample misses."""
    memory = job.memory
    shared = shared_memory(job)
    if shared and memory.limit and shared[0] >= MUCH * memory.limit:
        yield note(
            f"{size(shared[0])} of it were shared memory and files on tmpfs (/dev/shm): they count for the job, belong "
            "to no process, and stay until they are removed."
        )
    if memory.peak is None and memory.max_rss and memory.limit and memory.max_rss < NEAR * memory.limit:
        yield note(
            f"MaxRSS ({size(memory.max_rss)}) is far below the limit ({size(memory.limit)}): it is sampled, every "
            "30 s by default, so that a fast rise is not in it, and it leaves out files in /dev/shm."
        )


def ask(job: Job) -> str:
    """A command that shows requested and used memory of every step."""
    job_id = job.attempt.job_id or "JOBID"
    return f"sacct -j {job_id} -o JobID,State,ExitCode,ReqMem,MaxRSS,MaxRSSTask,MaxRSSNode"


def own_limit_advice(job: Job) -> Iterator[Action]:
    """More memory only where the job's own limit is proven; else look first."""
    if job.memory.own_limit_hit.holds:
        yield action("Ask for more memory (--mem or --mem-per-cpu), or use less per rank.", ask(job))
        yield action("First check whether the use grows without end: more memory then only delays the kill.")
    else:
        yield action("Find out whose memory ran out: the job's own limit or the node.", ask(job))
        yield action("The node's kernel log says it; change the request only after that.")
