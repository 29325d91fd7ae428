"""Rule: nothing failed."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, negation
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support


@rule("no_failure")
def no_failure(job: Job) -> Said:
    """The job did what it was meant to do.

    What happened: state COMPLETED, every step ended with 0, and the sources that would show something else were read.

    Who acts: nobody.

    Hardware or software: neither. Nothing failed that the evidence would show.

    First check: the exit of every step.

        sacct -j JOBID -o JobID,JobName,State,ExitCode,DerivedExitCode

    What to do: nothing.

    What this is not: a promise that the results are right.

    Check next: `accounting_state_wrong` if a step failed; `memcg_oom_child_only` if a step has `0:125`; `time_limit` or
    `cancelled_by_user` if the state says so.

    Sources: https://slurm.schedmd.com/job_exit_code.html, https://slurm.schedmd.com/job_state_codes.html
    """
    yield require(job.outcome.ended_well)
    hides_nothing = all_of("it hides nothing", job.outcome.nothing_hidden, job.telling.calm_end)
    yield confirm(all_of("it ended well and hides nothing", job.outcome.ended_well, hides_nothing))
    yield support(job.outcome.ended_well)
    yield refute(negation("a step did not end well", job.outcome.all_steps_fine))
    yield refute(job.memory.oom_killed)
    yield refute(job.program.step_failed_unseen)
    yield refute(job.scheduling.preempted)
    yield refute(job.node.lost)
    yield refute(job.node.said_lost)
    yield refute(job.cancel.step_cancelled)
    yield owner(Owner.NOBODY)
    yield summary("Nothing failed: the job completed and all its steps ended with 0.")
    yield action("Nothing to do.")
