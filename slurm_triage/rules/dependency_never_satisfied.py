"""Rule: the dependency can never be met."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary


@rule("dependency_never_satisfied", supersedes=("cancelled_by_user", "app_error"))
def dependency_never_satisfied(job: Job) -> Said:
    """The job never started: a job that it depends on failed, so its dependency can never be met.

    What happened: with afterok and a failed predecessor the job waits for ever (DependencyNeverSatisfied), or is
    removed at once with --kill-on-invalid-dep=yes or kill_invalid_depend.

    Who acts: the user: the predecessor is the job to look at.

    Hardware or software: neither. Another job did not end as this one needed.

    First check: which job, and how it ended.

        scontrol show job JOBID | grep -E "Dependency|Reason"
        sacct -j OTHER_JOBID -o JobID,State,ExitCode

    What to do: diagnose the job that is named in the dependency.

    What this is not: a cancellation of a healthy job.

    Check next: `cancelled_by_user` if somebody removed it; `deadline` if it waited too long; then the cause of the
    other job.

    Sources: https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/slurm.conf.html,
    https://slurm.schedmd.com/job_reason_codes.html
    """
    fact = job.scheduling.dependency_never
    yield require(fact)
    yield confirm(fact)
    yield owner(Owner.USER)
    on = job.scheduling.dependency
    yield summary(f"The job never started: its dependency{f' ({on})' if on else ''} can never be met.")
    yield action("Look at the job that it depends on; that one failed.", _show(on))


def _show(dependency: str | None) -> str | None:
    digits = "".join(c if c.isdigit() else " " for c in dependency or "").split()
    return f"sacct -j {digits[0]} -o JobID,State,ExitCode" if digits else None
