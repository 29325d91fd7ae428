"""Rule: the working directory was missing and the job failed for it."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, any_of
from slurm_triage.model import Owner, Sign
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support

CHDIR = ("slurm_chdir", "slurmd_chdir")
MISSING = ("file_not_found", "command_not_found", "no_such_interpreter")
"""What a program says when a relative path leads nowhere."""


@rule("chdir_failed", supersedes=("app_error", "command_not_found"))
def chdir_failed(job: Job) -> Said:
    """The working directory does not exist on the node, Slurm went on in /tmp, and the job failed.

    What happened: slurmstepd could not enter the directory of --chdir (or of the submission) and says so; relative
    paths then point to nowhere.

    Who acts: the user; the administrator if the file system is missing on that node.

    Hardware or software: software. A directory is not there on the node; where a whole mount is missing the
    administrator acts.

    First check: the directory of the job, seen from the node.

        sacct -j JOBID -o JobID,WorkDir%80,NodeList
        srun -w NODE -n1 ls -ld DIRECTORY

    As an administrator: mounts of that node against those of another.

        findmnt -t nfs,nfs4,lustre,gpfs,beegfs

    What to do: check that the directory exists on the compute nodes.

    What this is not: harmful as such: a job that needs no relative path completes all the same.

    Check next: `command_not_found` if a program was missed for it; `node_misconfigured` if the file system is missing
    on that node; `output_path_unwritable` if there is no output at all.

    Sources: https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html
    """
    failed = all_of(
        "the working directory was missing and the job failed", job.launch.chdir_failed, job.program.failed_by_itself
    )
    missing = job.telling.last_word("its last word is that a file or program is missing", *MISSING)
    lost = job.proof.ended_on("it ended for want of a file below the directory", _below(job), *CHDIR)
    yield require(job.launch.chdir_failed)
    yield require(any_of("the job failed", job.program.failed_by_itself, lost))
    yield confirm(all_of("it failed for want of a file below the directory", failed, missing))
    yield confirm(lost)
    yield support(failed)
    yield owner(Owner.USER)
    path = _directory(job)
    where = f" {path}" if path else ""
    yield summary(f"The working directory{where} was not there on the node; the job ran in /tmp and failed.")
    yield action("Use a working directory that exists on the compute nodes (--chdir).")


def _directory(job: Job) -> str | None:
    return next((s.fields["path"] for s in job.log.of(*CHDIR) if s.fields.get("path")), None)


def _below(job: Job) -> list[Sign]:
    """Lines about a missing file that the directory would have held: by a relative path, its own, or one below /tmp."""
    places = ("/tmp/", f"{(_directory(job) or '/tmp').rstrip('/')}/")
    lines = (*job.log.of("file_not_found", "program_not_found"), *job.launch.execve("No such file or directory"))
    named = [(s, s.fields.get("path") or s.fields.get("file") or s.fields.get("command", "")) for s in lines]
    return [s for s, path in named if path and (not path.startswith("/") or path.startswith(places))]
