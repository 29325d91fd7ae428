"""Rule: time limit."""

from slurm_triage.facts import Job
from slurm_triage.facts.numbers import span
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, when
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._endings import after_term


@rule("time_limit", supersedes=("app_error", "external_signal", "cancelled_by_user", "warning_signal_unhandled",
                                "accounting_state_wrong", "mpi_abort", "peer_rank_died"))  # fmt: skip
def time_limit(job: Job) -> Said:
    """The job (or one of its steps) reached its time limit.

    What happened: Slurm sent SIGTERM at the limit and SIGKILL after KillWait. Exit codes say nothing here: the state
    TIMEOUT does.

    Who acts: the user.

    Hardware or software: neither. A clock ran out. It becomes a question of hardware only if the same work was much
    faster before, on other nodes.

    First check: compare the time that was used with the limit, and see when the last line of output was written.

        sacct -j JOBID -o JobID,State,Elapsed,Timelimit,TotalCPU,MaxRSS
        ls -l --time-style=full-iso OUTPUT_FILE

    As an administrator: whether this job was slower than the same work on other nodes.

        sacct -a -X --name JOBNAME -o JobID,NodeList,Elapsed,State -S now-14days

    What to do: first find out whether the job still made progress at the end. If it did, ask for more time or
    checkpoint (--signal gives a warning ahead of the limit). If it hung, more time only costs more.

    What this is not: a crash.

    Check next: `hang_until_time_limit` if the output stopped long before the end; `warning_signal_unhandled` if it died
    of the signal of --signal; `nfs_error` or `parallel_fs_error` if it waited for files.

    Sources: https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/slurm.conf.html,
    https://slurm.schedmd.com/job_state_codes.html
    """
    yield require(job.scheduling.time_limit)
    yield confirm(job.scheduling.time_limit)
    yield refute(job.scheduling.preempted)
    yield owner(Owner.USER)
    sent = job.scheduling.term_sent
    yield when(sent[0] if sent else job.attempt.end)
    elapsed, end = job.accounting.first(lambda r: r.elapsed), after_term(job)
    said = f"; {end}" if end else ""
    yield summary(
        f"Slurm ended the job at its time limit (ran {span(elapsed)}, limit {span(job.limits.time_limit)}){said}."
    )
    job_id = job.attempt.job_id or "JOBID"
    yield action(
        "See in the output whether it still made progress before the end.",
        f"sacct -j {job_id} -o JobID,Elapsed,Timelimit,TotalCPU,State",
    )
    yield action("If it did: save state before the limit (--signal), or plan for a longer run. If not, it hung.")
    yield from fitting_advice(job, "time_limit")
