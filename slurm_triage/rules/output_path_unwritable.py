"""Rule: the output file cannot be opened."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, when


@rule("output_path_unwritable", supersedes=("app_error", "external_signal", "chdir_failed", "cancelled_by_user"))
def output_path_unwritable(job: Job) -> Said:
    """slurmstepd could not open the job's output (or input) file, so the job never ran.

    What happened: the directory of --output or --error does not exist, may not be written, or the file system is not
    there on the node. Slurm stores its own error 4021 as 0:53: that is no signal. There is no output file to read.

    Who acts: the user.

    What to do: create the directory before sbatch, or choose another; %j and other patterns make names, on versions
    before 24.11 never directories.

    What this is not: signal 53, and not a crash.
    """
    launch = job.launch
    yield require(any_of("the job's output could not be set up", launch.output_status, launch.output_refused))
    yield confirm(launch.output_refused)
    yield confirm(launch.output_status)
    yield owner(Owner.USER)
    yield when(job.attempt.start)
    path = job.accounting.first(lambda r: r.stdout)
    yield summary(f"The job's output file could not be opened{f' ({path})' if path else ''}; the program never ran.")
    yield action("Create the output directory or correct --output, then submit again.")
