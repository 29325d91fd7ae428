"""Rule: preempted."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, require, rule, summary, when
from slurm_triage.rules._endings import after_term, grace_window


@rule("preempted", supersedes=("cancelled_by_user", "app_error", "external_signal", "no_failure", "time_limit",
                               "accounting_state_wrong", "warning_signal_unhandled", "admin_requeue", "preempt_suspend",
                               "mpi_abort", "peer_rank_died", "malloc_failure"))  # fmt: skip
def preempted(job: Job) -> Said:
    """A job of higher priority needed the nodes and Slurm preempted this one.

    What happened: preemption by partition priority or QOS. With GraceTime the steps get SIGTERM first and the job's
    end comes GraceTime later; then, as always, SIGTERM, KillWait, SIGKILL. With GraceTime=0 there still is SIGTERM and
    KillWait: exit 137 needs a program that outlived both.

    Who acts: nobody has to repair anything; it is the scheduler's policy.

    What to do: checkpoint on SIGTERM (or on the signal of --signal with send_user_signal), submit with --requeue, or
    use a partition or QOS that is not preempted.

    What this is not: a failure of the program or the node, and not a scancel (the root in `CANCELLED by 0` or in the
    JSON's kill_request_user is slurmctld itself).
    """
    scheduling = job.scheduling
    yield require(scheduling.preempted)
    yield confirm(scheduling.preempted)
    yield owner(Owner.SCHEDULER)
    sent = scheduling.term_sent
    yield when(sent[0] if sent else job.attempt.end)
    by = scheduling.preemptor
    whom = f" to make room for job {by[0]}" if by else ""
    mode = job.limits.preempt_mode
    how = f" (PreemptMode {mode[0]})" if mode and mode[0] != "OFF" else ""
    end = after_term(job)
    yield summary(f"Slurm preempted the job{whom}{how}; {grace_window(job)}{f'; {end}' if end else ''}.")
    yield action(
        "Nothing is broken: let it run again; save state on SIGTERM.",
        f"scontrol show job {job.attempt.job_id or 'JOBID'}",
    )
    yield action("To avoid preemption, ask which partitions or QOS are not preemptable.")
    if by is None:
        yield note("Who preempted it: slurmctld's log names the job (`preempted JobId=... to reclaim resources for`).")
