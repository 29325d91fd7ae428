"""Rule: a collective that not all ranks reached."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._told import not_an_echo, proven

LINES = ("nccl_timeout", "gloo_timeout", "nccl_mismatch")


@rule("nccl_timeout_desync", supersedes=("app_error", "mpi_abort", "peer_rank_died", "external_signal"))
def nccl_timeout_desync(job: Job) -> Said:
    """A collective operation did not finish: a rank is slow, missing, or in another collective.

    What happened: the watchdog waited for its time-out and ended the job. The rank that reports it is the one that
    waited, not the one at fault.

    Who acts: the user, unless another rank's failure is found.

    What to do: find the rank that did not join (highest lag in sequence numbers); look for paths that only some ranks
    take, uneven data, a slow save on rank 0.

    What this is not: a reason for a longer time-out, and not proof of a network fault.
    """
    late = job.distributed.late_collective
    yield require(late)
    differ = [s for s in job.log.of("nccl_mismatch") if "Detected mismatch" in s.cite.text]
    yield from proven(job, "the ranks were in different collectives", differ)
    yield support(job.telling.last_word("a collective was the last thing to fail", *LINES))
    yield from not_an_echo(job, late)
    yield owner(Owner.USER)
    split = bool(job.distributed.ranks_disagree.holds)
    yield summary("The ranks were in different collectives." if split else "A collective did not finish on all ranks.")
    yield action("Find the rank that did not join the collective, and why.", "grep -n 'Watchdog\\|collective' LOG")
