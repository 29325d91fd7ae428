"""Rule: the echo of another rank's end."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import not_an_echo

LINES = ("nccl_remote_exit", "pmix_peer_lost")
"""A transfer that was cancelled (mpi_transport_canceled) only makes it possible: the process itself was torn down."""


@rule("peer_rank_died", supersedes=("app_error",))
def peer_rank_died(job: Job) -> Said:
    """A rank lost its connection to another one, which had ended first.

    What happened: the message tells of the end of a rank somewhere else; that rank's own output holds the reason. A
    broken network looks the same from here.

    Who acts: the user looks for the first failure among the other ranks.

    Hardware or software: neither: an echo. What the other rank died of decides.

    First check: the first error in time over all ranks, and which tasks srun does not name among those it terminated.

        grep -nE "Error|error:|Traceback|Killed|signal" OUTPUT_FILE | head -40
        sacct -j JOBID -o JobID,State,ExitCode,NodeList

    What to do: order the errors of all ranks by time; the first one counts.

    What this is not: the first cause.

    Check next: `app_error`, `app_segfault`, `memcg_oom` or `gpu_oom` on the rank that went first; `network_link` if no
    rank ended before; `node_fail` if its node was lost.

    Sources: https://docs.pytorch.org/docs/stable/elastic/errors.html, https://slurm.schedmd.com/srun.html
    """
    lost = job.distributed.lost_peer
    yield require(lost)
    last = job.telling.last_word("a lost connection was the last thing to fail", *LINES)
    if not job.log.of(*LINES):
        last = unknown(last.says, "only a cancelled transfer was seen", job.log.how)
    yield support(all_of(last.says, last, _nobody_else(job)))
    yield from not_an_echo(job, lost)
    yield owner(Owner.USER)
    yield summary("A rank lost its connection to another rank; the reason lies with that other rank.")
    yield action("Find the rank that ended first: its output holds the reason.")
    yield from fitting_advice(job, "rank_died")


def _nobody_else(job: Job) -> Fact:
    """No rank names an error of its own: where one does, the lost connections are its echo."""
    says = "no rank names an error of its own"
    own = job.telling.own_errors[-1:]
    if own:
        return unknown(says, f"line {own[0].cite.line} names one", job.log.how)
    return true(says, job.log.of(*LINES)[:1])
