"""Rule: a hang that ended at the time limit."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support

SILENT_PART = 0.5
SILENT_AT_LEAST = 1800.0
"""A silence counts when it is half of the run and at least half an hour: programs may write rarely."""


@rule("hang_until_time_limit")
def hang_until_time_limit(job: Job) -> Said:
    """The job reached its time limit after a long silence.

    What happened: the last dated line of the output is much older than the end: the program waited or hung.

    Who acts: the user.

    What to do: get stacks of all ranks while it hangs (py-spy dump, gdb -p); find who waits for whom.

    What this is not: a job that needs more time; a higher --time only lengthens the wait.
    """
    yield require(job.scheduling.time_limit)
    limit = job.scheduling.time_limit
    yield support(all_of("it was silent until the limit", limit, _silence(job)))
    yield owner(Owner.USER)
    yield summary("The job reached its time limit after a long silence of its output.")
    yield action("Get stacks of all ranks while it hangs.", "srun --overlap --jobid JOBID py-spy dump --pid PID")


def _silence(job: Job) -> Fact:
    says = "the output was silent for most of the run"
    start, end = job.attempt.start, job.attempt.end
    last = [s for s in job.log.of("log_end", "log_tail") if s.at is not None]
    told = [s for s in last if not s.cite.text.lstrip("[").startswith(("slurmstepd", "srun"))]
    if start is None or end is None or not told:
        return unknown(says, "the output has no dated lines near its end", "time stamps in the output; py-spy, sstat")
    run, gap = end.seconds_since(start), end.seconds_since(told[-1].at) if told[-1].at else None
    if run is not None and gap is not None and gap >= max(SILENT_AT_LEAST, SILENT_PART * run):
        return true(says, told[-1:])
    return unknown(says, "its last dated line is not old", "sstat or py-spy while it runs")
