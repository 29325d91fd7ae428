"""Rule: /dev/shm too small or full."""

import re
from collections.abc import Iterable, Iterator

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, false, negation, true
from slurm_triage.model import Fact, Owner, Sign
from slurm_triage.rules import Item, Said, action, confirm, owner, refute, require, rule, summary, support
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import proven

GUESS = re.compile(r"might be caused by|It is possible that|out of shared memory")
"""PyTorch says this of every bus error of a worker (torch/utils/data/_utils/signal_handling.py)."""
FULL = re.compile(r"unable to write to file </torch_|/dev/shm\b.{0,1000}(?:No space left|[Nn]ot enough)|"
                  r"(?:No space left|[Nn]ot enough).{0,1000}/dev/shm\b")  # fmt: skip
"""A write into shared memory found no room: that is no guess."""
KIN = ("sigbus_text", "dataloader_worker_killed", "no_space", "python_fatal_signal")


@rule("shm_exhausted", supersedes=("bus_error_io", "app_error", "peer_rank_died"))
def shm_exhausted(job: Job) -> Said:
    """Shared memory (/dev/shm or another tmpfs) was full or too small.

    What happened: data loader workers, MPI or NCCL share data through /dev/shm; containers often have 64 MB of it.
    Writing past its end gives SIGBUS.

    Who acts: the user, who sets the container's shared memory size (--shm-size, emptyDir medium Memory).

    Hardware or software: software. A file system in memory was full. The same signal comes from bad memory, but then
    the kernel log has a `Memory failure` or machine check line; without one suspect space first.

    First check: see how large /dev/shm is where the program runs (inside the container, if there is one), and how full.

        srun -w NODE -n1 df -h /dev/shm /tmp

    As an administrator: files that earlier jobs left there take room from the next one.

        ls -la --time-style=long-iso /dev/shm | head
        lsof +L1 /dev/shm

    What to do: make /dev/shm larger or use fewer workers; remember that it counts against the job's memory.

    What this is not: a memory limit kill; that one leaves oom_kill lines.

    Check next: `bus_error_io` if /dev/shm had room; `memcg_oom` if the kernel killed somebody, for its files count
    against the job; `memory_ecc_uncorrected` if the kernel log has a memory error.

    Sources: https://man7.org/linux/man-pages/man5/tmpfs.5.html,
    https://man7.org/linux/man-pages/man7/shm_overview.7.html,
    https://docs.pytorch.org/docs/stable/multiprocessing.html,
    https://docs.docker.com/reference/cli/docker/container/run/
    """
    said = job.log.has("a program says that shared memory is too small", "shm_too_small")
    yield require(said)
    yield support(said)
    full = job.machine.full("/dev/shm")
    if full:
        yield support(true("the node's /dev/shm was still full after the job's end", full))
    yield refute(job.memory.own_limit_hit)
    if said.holds:
        yield from _proofs(job)
    yield owner(Owner.USER)
    yield summary("Shared memory (/dev/shm) was too small for the program's workers.")
    yield action("Give the container or job more shared memory, or use fewer workers.", "df -h /dev/shm")
    yield from fitting_advice(job, "shared_memory")


def _proofs(job: Job) -> Iterator[Item]:
    """A bus error is looked for in the order: memory that lost data, a file that was cut, then /dev/shm."""
    lines = job.log.of("shm_too_small")
    no_room = [s for s in lines if FULL.search(s.cite.text) and not GUESS.search(s.cite.text)]
    lost = [w.sign for w in job.host.uncorrected if w.ours]
    hit = "memory of the node lost data"
    healthy = negation(
        "no memory error of the node explains the bus error",
        true(hit, lost[:1]) if lost else false(hit, "no such line was seen"),
    )
    says = "a process died of a bus error, and shared memory was full"
    yield support(job.program.full_shared_memory)
    if no_room:
        full = true("a write into shared memory found no room", no_room)
        died = job.program.crashed(signals.SIGBUS)
        if died.holds and not _follows(died, no_room):
            return  # two stories in one file, maybe
        yield confirm(all_of(says, died, full, healthy))
        yield from proven(job, "a write into shared memory found no room", no_room, *KIN, died_of=(signals.SIGBUS,))


def _follows(died: Fact, no_room: Iterable[Sign]) -> bool:
    """Whether no process had died before room was first missed, as far as one file tells the order.

    A file may hold the output of two jobs: a bus error above the first word of shared memory may be another story.
    """
    missed: dict[str, int] = {}
    for sign in no_room:
        missed.setdefault(sign.cite.file, sign.cite.line)
    return all(cite.line > missed.get(cite.file, 0) for cite in died.cites)
