"""Rule: suspended for another job, then failed or looked hung."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of
from slurm_triage.facts.numbers import span
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, refute, require, rule, summary, support


@rule("preempt_suspend", supersedes=("app_error", "hang_until_time_limit"))
def preempt_suspend(job: Job) -> Said:
    """The job was suspended (preemption by SUSPEND, gang scheduling, or an administrator) and ended badly after it.

    What happened: all processes were stopped for a while. Programs with their own watchdogs, timeouts towards servers
    or wall-clock checks often fail when they go on.

    Who acts: the scheduler's policy is behind it; the user can make the program bear a pause.

    Hardware or software: neither. The job was stopped and went on later. A program that fails in that moment lost time,
    not hardware.

    First check: compare the suspended time with the time-out that the program speaks of.

        sacct -j JOBID -o JobID,State,Elapsed,Suspended,Start,End

    As an administrator: whether preemption or gang scheduling suspends here.

        scontrol show config | grep -iE "PreemptMode|SchedulerTimeSlice"

    What to do: look at the suspended time beside the program's own timeout.

    What this is not: a hang of the program.

    Check next: `hang_until_time_limit` if it never went on; `nccl_timeout_desync` if a collective timed out without any
    suspension; `preempted` if it was ended and not suspended.

    Sources: https://slurm.schedmd.com/preempt.html, https://slurm.schedmd.com/gang_scheduling.html,
    https://slurm.schedmd.com/sacct.html
    """
    scheduling = job.scheduling
    yield require(all_of("it was suspended and failed", scheduling.suspended, job.program.failed_by_itself))
    yield support(scheduling.failed_right_after_pause)
    yield refute(job.telling.error_of_logic)
    yield owner(Owner.SCHEDULER)
    pause = job.accounting.first(lambda r: r.suspended)
    yield summary(f"The job was suspended for {span(pause)} and failed by itself after that.")
    yield action("Compare the pause with the program's own timeouts.")
