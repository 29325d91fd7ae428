"""Rule: preempted."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, require, rule, summary, when
from slurm_triage.rules._advice import fitting_advice
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

    Hardware or software: neither. The scheduler took the nodes for another job. Hardware has no part in it, however the
    program's last words look.

    First check: the state says PREEMPTED (from 24.05 also if the job ended in its grace time); scontrol shows the time
    as long as slurmctld knows the job.

        sacct -D -j JOBID -o JobID,State,ExitCode,QOS,Partition,Start,End
        scontrol show job JOBID | grep -E "Preempt|Requeue|Restarts"

    As an administrator: which job took the place, and by which rule.

        scontrol show config | grep -i preempt
        grep -E "preempted|JobId=JOBID" /var/log/slurm/slurmctld.log

    What to do: checkpoint on SIGTERM (or on the signal of --signal with send_user_signal), submit with --requeue, or
    use a partition or QOS that is not preempted.

    What this is not: a failure of the program or the node, and not a scancel (the root in `CANCELLED by 0` or in the
    JSON's kill_request_user is slurmctld itself).

    Check next: `preempt_suspend` if the job was suspended instead; `cancelled_by_user` if somebody called scancel;
    `admin_requeue` if it was requeued on request; `time_limit` if the elapsed time is the limit.

    Sources: https://slurm.schedmd.com/preempt.html, https://slurm.schedmd.com/job_state_codes.html,
    https://slurm.schedmd.com/slurm.conf.html
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
    yield from fitting_advice(job, "preemption")
    if by is None:
        yield note("Who preempted it: slurmctld's log names the job (`preempted JobId=... to reclaim resources for`).")
