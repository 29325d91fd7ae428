"""Rule: MPI ended the job."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import unknown
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import not_an_echo, proven

LINES = ("mpi_abort", "mpi_error")
CALLED = ("application called MPI_Abort", "MPI_ABORT was invoked")
"""The program itself called it. `Fatal error in PMPI_...` may tell of a peer that was killed."""


@rule("mpi_abort", supersedes=("app_error", "external_signal"))
def mpi_abort(job: Job) -> Said:
    """A rank called MPI_Abort, or MPI's error handler ended the job.

    What happened: one rank met an error and ended all of them. The others only got SIGTERM or SIGKILL.

    Who acts: the user.

    Hardware or software: software. A rank decided to end the job, and says why just before.

    First check: the lines of the rank that called it, above the MPI message.

        grep -nE -B20 "MPI_ABORT was invoked|MPI_Abort|application called MPI_Abort" OUTPUT_FILE | head -60

    What to do: read what that rank printed just before.

    What this is not: a kill by Slurm, though srun prints CANCELLED for the step.

    Check next: `app_error` for the error before it; `app_segfault` if a signal is named instead; `network_link` if the
    MPI error is about the transport; `scale_dependent` if a queue was too small; `rendezvous_failed` if MPI_Init
    failed.

    Sources: https://docs.open-mpi.org/en/v5.0.7/man-openmpi/man3/MPI_Abort.3.html,
    https://slurm.schedmd.com/mpi_guide.html
    """
    said = job.telling.said("a rank ended the job through MPI_Abort", *LINES)
    yield require(said)
    calls = [s for s in job.log.of("mpi_abort") if any(words in s.cite.text for words in CALLED)]
    yield from proven(job, "a rank called MPI_Abort", calls, died_of=(signals.SIGABRT,))
    if job.log.of("mpi_transport_canceled"):
        why = "the transport was cancelled under MPI, so that something else ended the job"
        yield support(
            unknown("MPI_Abort came first", why, "look for what ended the job: scancel, a limit, another rank")
        )
    else:
        yield support(job.telling.last_word("MPI_Abort was the last thing said", *LINES))
    yield from not_an_echo(job, said)
    yield owner(Owner.USER)
    ranks = [s.fields["rank"] for s in job.log.of(*LINES) if s.fields.get("rank")]
    yield summary(f"Rank {ranks[0]} ended the job through MPI." if ranks else "A rank ended the job through MPI.")
    yield action("Read what that rank printed just before MPI_Abort.")
    yield from fitting_advice(job, "rank_died")
