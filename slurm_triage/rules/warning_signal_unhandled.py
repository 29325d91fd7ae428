"""Rule: died of the warning signal it asked for."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import negation
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support


@rule("warning_signal_unhandled", supersedes=("app_error", "accounting_state_wrong", "external_signal"))
def warning_signal_unhandled(job: Job) -> Said:
    """The program died of the warning signal requested with --signal, because nothing handled it.

    What happened: --signal=USR1@60 asks Slurm to send a signal ahead of the time limit. A program without a handler
    dies of it: that is the signal's default.

    Who acts: the user.

    Hardware or software: neither. Slurm sent a signal that the job itself had asked for.

    First check: see what signal was asked for and how close to the limit the end was. `10` is USR1, `12` is USR2.

        sacct -j JOBID -o JobID,State,ExitCode,Elapsed,Timelimit,SubmitLine%80
        grep -nE "signal|trap" JOBSCRIPT

    What to do: install a handler in the program, or send the signal to the batch shell only (--signal=B:USR1@60).

    What this is not: a crash, and not a scancel.

    Check next: `time_limit` if it outlived the signal; `preempted` if preemption sends the signal (send_user_signal);
    `cancelled_by_user` if scancel --signal sent it.

    Sources: https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/slurm.conf.html,
    https://man7.org/linux/man-pages/man7/signal.7.html
    """
    wanted = job.limits.warning_signal
    numbers = (wanted[0],) if wanted else (signals.SIGUSR1, signals.SIGUSR2)
    died = job.exits.killed_by(*numbers)
    yield require(died)
    yield confirm(job.limits.died_of_warning(died))
    yield support(died)
    yield refute(negation("the signal came long before it was due", job.limits.warning_due))
    yield refute(job.cancel.request_logged)
    yield refute(job.scheduling.preempted)
    yield owner(Owner.USER)
    name = signals.name(numbers[0]) if wanted else "a user signal (USR1 or USR2)"
    yield summary(f"The program died of {name}, the warning ahead of the time limit, because it does not handle it.")
    yield action("Handle the signal in the program, or signal the batch shell only.")
    yield action("--signal=B:USR1@60 sends it to the batch shell alone.")
