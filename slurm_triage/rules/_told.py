"""What rules have in common whose cause is named by a message of the program or by a line of the kernel log.

The program's own words make a cause likely at most: anything may be printed there. A kernel line may prove it, where it
falls into the job's time on its node and the program felt the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurm_triage.facts import Job
from slurm_triage.facts._kernel import Witness
from slurm_triage.facts._logic import all_of, any_of, negation
from slurm_triage.facts.gpu import KIN
from slurm_triage.model import Fact, Sign, Stamp
from slurm_triage.rules import Item, confirm, refute, require, support, when

ECHOES = (
    "app_error", "mpi_abort", "peer_rank_died", "nccl_timeout_desync", "external_signal", "cancelled_by_user",
    "rendezvous_failed",
)  # fmt: skip
"""What a first cause looks like from the other ranks, the launcher and Slurm (srun ends the step: CANCELLED AT)."""

GPU_ECHOES = (*ECHOES, "nccl_config", "gpu_row_remap_pending", "driver_mismatch")


def told(job: Job, says: str, *ids: str, kin: tuple[str, ...] = ()) -> Iterator[Item]:
    """A line of one of these families was printed, and the program named no other error after it."""
    yield from told_by(job, says, job.log.of(*ids), kin)


def told_by(job: Job, says: str, lines: tuple[Sign, ...], kin: tuple[str, ...] = ()) -> Iterator[Item]:
    """As `told`, for lines already picked."""
    said = job.telling.given(says, lines)
    yield require(said)
    yield support(job.telling.last_of(f"{says}, and names no other error after it", lines, *kin))
    yield from outlived(job, said)


def proven(job: Job, says: str, lines: Iterable[Sign], *kin: str, died_of: tuple[int, ...] = ()) -> Iterator[Item]:
    """These lines prove the cause where they are the last act and nothing else speaks against it (decision 12).

    Only for lines that no other cause prints: ask that of each family before using it here.
    """
    found = tuple(lines)
    if found:
        yield confirm(
            job.proof.ended_on(f"{says}; it ended on that, and nothing else speaks", found, *kin, died_of=died_of)
        )


def cuda_aborts(job: Job) -> tuple[str, ...]:
    """`cpp_exception` where all C++ exceptions are those with which PyTorch's destructors end after a CUDA error."""
    thrown = job.log.of("cpp_exception")
    ours = all(s.fields.get("type", "").startswith("c10::") or "CUDA" in s.cite.text for s in thrown)
    return ("cpp_exception",) if ours else ()


def outlived(job: Job, said: Fact) -> Iterator[Item]:
    """A job that ended well was not ended by what was said. Asked only where something was said."""
    if said.holds:
        yield refute(job.telling.survived)


def not_an_echo(job: Job, said: Fact) -> Iterator[Item]:
    """Broken connections and late collectives follow from every other end of a rank: those ends rule them out."""
    if said.holds:
        yield refute(job.telling.survived)
        yield refute(job.distributed.crashed_first)
        yield refute(job.memory.oom_killed)
        yield refute(job.scheduling.preempted)
        yield refute(job.scheduling.time_limit)
        yield refute(job.cancel.by_state)
        yield refute(job.node.lost)


def driver(
    job: Job,
    says: str,
    lines: tuple[Witness, ...],
    quoted: tuple[Sign, ...] = (),
    texts: tuple[str, ...] = (),
    unless: Fact | None = None,
    alone: bool = False,
    left_open: tuple[Witness, ...] = (),
) -> Iterator[Item]:
    """The GPU driver's lines (they may confirm), the same lines in the output, and the program's words for it.

    `unless` is a worse error that explains these lines: where it holds it refutes, and it must not be unknown for a
    proof. `alone`: in an excerpt of a kernel log that tells nothing else, lines that say it in words are a proof, too;
    not for numbers that mostly follow from something else (an excerpt may leave that out). `left_open` are lines that
    make the cause possible, no more.
    """
    kernel = job.gpu.seen(says, (*lines, *left_open))
    words = (*quoted, *job.log.of(*texts))
    seen = any_of(says, kernel, job.telling.given(says, words))
    yield require(seen)
    proof = job.gpu.proves(f"{says} while the job ran, and the program felt it", lines)
    if unless is not None:
        proof = all_of(proof.says, proof, negation(f"not so that {unless.says}", unless))
        yield refute(unless)
    yield confirm(proof)
    if alone and lines and (unless is None or unless.holds is False):
        worded = [w.sign for w in lines] if job.gpu.spelled_out(lines) else []
        yield confirm(job.proof.sole_story(f"{says}; the excerpt of the kernel log tells nothing else", worded))
    yield support(job.gpu.tells(f"{says}, and nothing else is named", lines))
    yield support(job.telling.last_of(f"the job's output says it: {says}", words, *KIN))
    yield when(first(lines or left_open))
    yield from outlived(job, seen)


def first(lines: Iterable[Witness]) -> Stamp | None:
    """When the first of the lines was printed, None if not known."""
    stamps = [w.sign.at for w in lines if w.sign.at is not None]
    return min(stamps, key=lambda s: s.lo) if stamps else None


def gpu_name(job: Job, lines: Iterable[Witness]) -> str:
    """`GPU 0000:3b:00 (GPU-0123...) on node7`, as far as the lines and the node's own list of GPUs say."""
    for witness in lines:
        pci = witness.sign.fields.get("pci")
        if pci:
            uuid = job.machine.gpu_uuid(pci, witness.sign.node)
            return (
                f"GPU {pci}"
                + (f" ({uuid})" if uuid else "")
                + (f" on {witness.sign.node}" if witness.sign.node else "")
            )
    return "a GPU"
