"""Rule: file not executable."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support
from slurm_triage.rules._programs import exit_fits, said_alone


@rule("exec_permission", supersedes=("app_error",))
def exec_permission(job: Job) -> Said:
    """A file may not be executed by the user.

    What happened: the execute bit is missing, the file system is mounted noexec, or a directory above it is closed.
    The shell answers 126; srun answers 13 (EACCES), which looks like SIGPIPE and is not.

    Who acts: the user.

    Hardware or software: software. Permissions or mount options.

    First check: the mode of the file and of every directory above it, and the mount's options.

        namei -l PROGRAM
        findmnt -T PROGRAM -o TARGET,FSTYPE,OPTIONS

    What to do: chmod u+x, or call the interpreter explicitly.

    What this is not: signal 13.

    Check next: `command_not_found` if the file is not there; `exec_format` if the message says so;
    `container_runtime_setup` if it is an image's program.

    Sources: https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html,
    https://man7.org/linux/man-pages/man2/execve.2.html, https://man7.org/linux/man-pages/man8/mount.8.html
    """
    closed = job.launch.not_executable
    yield require(closed)
    yield confirm(exit_fits(job, 126, 13, "Permission denied", "permission_denied_exec"))
    yield confirm(said_alone(job, *job.launch.execve("Permission denied")))
    yield support(closed)
    yield owner(Owner.USER)
    what = next((s.fields["path"] for s in job.launch.execve("Permission denied") if s.fields.get("path")), None)
    yield summary(f"A file could not be executed (permission denied){f': {what}' if what else ''}.")
    yield action("Set the execute bit (chmod u+x FILE) or call its interpreter.")
