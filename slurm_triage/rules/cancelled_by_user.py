"""Rule: cancelled or signalled with scancel."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of, negation
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support, when
from slurm_triage.rules._endings import after_term


@rule("cancelled_by_user", supersedes=("app_error", "external_signal", "no_failure", "accounting_state_wrong",
                                       "warning_signal_unhandled", "mpi_abort", "peer_rank_died"))  # fmt: skip
def cancelled_by_user(job: Job) -> Said:
    """Somebody ended the job, a step of it, or sent it a signal with scancel.

    What happened: scancel by the owner, a workflow tool acting for the owner, or an operator. Slurm sends SIGCONT and
    SIGTERM, after KillWait SIGKILL; scancel of a step kills at once; scancel --signal or --batch leaves no word in
    accounting, only slurmctld's log has it.

    Who acts: the owner if it was the owner; the administrator if root or somebody else did it.

    Hardware or software: neither. Somebody or something asked for it.

    First check: the uid behind `CANCELLED by`; 0 is root or slurmctld itself.

        sacct -j JOBID -o JobID,State%30,ExitCode,User,End
        getent passwd UID

    As an administrator: slurmctld's log names the uid of every request, also where accounting does not.

        grep -E "REQUEST_KILL_JOB JobId=JOBID" /var/log/slurm/slurmctld.log

    What to do: if nobody remembers, look for a workflow tool or a script that calls scancel.

    What this is not: preemption, a time limit, or a failure of the program.

    Check next: `preempted` if another job took the nodes; `time_limit` if the elapsed time is the limit;
    `dependency_never_satisfied` if it never started; `node_fail` if a node was lost in that minute.

    Sources: https://slurm.schedmd.com/scancel.html, https://slurm.schedmd.com/sacct.html,
    https://slurm.schedmd.com/job_state_codes.html
    """
    cancel = job.cancel
    somebody = any_of(
        "somebody cancelled or signalled the job through Slurm",
        cancel.by_state, cancel.request_logged, cancel.step_cancelled, cancel.cancel_message, cancel.state_cancelled,
    )  # fmt: skip
    yield require(somebody)
    if job.attempt.started is False:  # it may have been cancelled only because it could never start
        yield require(negation("no dependency kept it from starting", job.scheduling.dependency_never))
    yield confirm(cancel.by_state)
    yield confirm(cancel.request_logged)
    yield confirm(cancel.step_cancelled)
    yield support(cancel.state_cancelled)
    yield support(cancel.cancel_message)
    yield refute(job.scheduling.preempted)
    yield refute(job.scheduling.time_limit)
    yield refute(job.scheduling.dependency_never)
    yield refute(job.node.lost)
    yield refute(job.launch.prolog_status)
    who = cancel.who
    name = f" by {who[0]}" if who else ""
    if cancel.by_owner is False:
        yield owner(Owner.ADMIN)
        role = "not its owner"
    elif cancel.by_owner:
        yield owner(Owner.USER)
        role = "its owner"
    else:
        yield owner(Owner.USER if who is None or who[0] not in ("0", "root") else Owner.ADMIN)
        role = "who that is, the evidence does not say" if who else "by whom, the evidence does not say"
    sent = job.scheduling.term_sent
    yield when(sent[0] if sent else job.attempt.end)
    what = "A step of the job" if cancel.step_cancelled.holds and not cancel.by_state.holds else "The job"
    never = " before it ever started" if job.attempt.started is False else ""
    whole = job.attempt.started is not False and cancel.by_state.holds  # scancel of a step kills at once
    end = after_term(job) if whole else ""
    by_step = cancel.step_cancelled.holds and not cancel.request_logged.holds and not cancel.by_state.holds
    how = "ended through Slurm (scancel of the step, or a signal to srun)" if by_step else "ended with scancel"
    yield summary(f"{what} was {how}{name} ({role}){never}{f'; {end}' if end else ''}.")
    job_id = job.attempt.job_id or "JOBID"
    yield action(
        "If you did not do it: look for a workflow tool that calls scancel."
        if cancel.by_owner is not False
        else "Ask the administrators why they cancelled it.",
        f"sacct -D -j {job_id} -o JobID,State%30,ExitCode,Start,End",
    )
