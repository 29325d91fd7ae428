"""Rule: the working directory was missing and the job failed for it."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary


@rule("chdir_failed", supersedes=("app_error", "command_not_found"))
def chdir_failed(job: Job) -> Said:
    """The working directory does not exist on the node, Slurm went on in /tmp, and the job failed.

    What happened: slurmstepd could not enter the directory of --chdir (or of the submission) and says so; relative
    paths then point to nowhere.

    Who acts: the user; the administrator if the file system is missing on that node.

    What to do: check that the directory exists on the compute nodes.

    What this is not: harmful as such: a job that needs no relative path completes all the same.
    """
    failed = all_of(
        "the working directory was missing and the job failed", job.launch.chdir_failed, job.program.failed_by_itself
    )
    yield require(failed)
    yield confirm(failed)
    yield owner(Owner.USER)
    path = job.accounting.first(lambda r: r.work_dir)
    where = f" {path}" if path else ""
    yield summary(f"The working directory{where} was not there on the node; the job ran in /tmp and failed.")
    yield action("Use a working directory that exists on the compute nodes (--chdir).")
