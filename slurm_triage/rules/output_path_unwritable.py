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

    Hardware or software: software. A path that is not there or not writable. A file system that should be mounted on
    that node and is not, is the administrator's; other jobs on the node fail too then.

    First check: whether the directory exists, and is writable, where the job runs.

        sacct -j JOBID -o JobID,ExitCode,WorkDir%60,NodeList
        srun -w NODE -n1 bash -c 'ls -ld DIRECTORY; touch DIRECTORY/.probe && rm DIRECTORY/.probe'

    As an administrator: slurmd's log names the path and the errno.

        grep -E "JOBID.*(Could not open|No such file|Permission denied)" /var/log/slurm/slurmd.log

    What to do: create the directory before sbatch, or choose another; %j and other patterns make names, on versions
    before 24.11 never directories.

    What this is not: signal 53, and not a crash.

    Check next: `disk_quota` or `disk_full_node_local` if the errno is EDQUOT or ENOSPC; `chdir_failed` if the working
    directory is missing; `node_misconfigured` if the file system is missing on that node.

    Sources: https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/job_exit_code.html,
    https://slurm.schedmd.com/sacct.html
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
