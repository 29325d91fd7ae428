"""Rule: wrong architecture or not a program."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, require, rule, summary, support
from slurm_triage.rules._programs import exit_fits, said_alone


@rule("exec_format", supersedes=("app_error", "exec_permission"))
def exec_format(job: Job) -> Said:
    """A file is not a program for this machine (ENOEXEC, "Exec format error").

    What happened: a binary of another architecture (x86-64 on Arm or the other way round), a truncated file, or a
    script without a first line. The shell answers 126; srun answers 8, which looks like SIGFPE and is not.

    Who acts: the user.

    Hardware or software: software. The file was made for another processor, or is cut short. The processor works.

    First check: what the file is and what the node is.

        file PROGRAM
        srun -w NODE -n1 uname -m

    What to do: `file PROGRAM` shows its architecture, `uname -m` the node's; build or fetch the right one.

    What this is not: a crash of the program, which never ran.

    Check next: `x86_code_on_aarch64` if the file is x86-64 and the node aarch64; `illegal_instruction` if the program
    started and died of SIGILL; `exec_permission` if the mode is wrong; `disk_full_node_local` if the file is cut short.

    Sources: https://man7.org/linux/man-pages/man2/execve.2.html, https://docs.kernel.org/admin-guide/binfmt-misc.html,
    https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html
    """
    wrong = job.launch.wrong_format
    yield require(wrong)
    yield confirm(exit_fits(job, 126, 8, "Exec format error", "exec_format_error"))
    programs = [s for s in job.log.of("exec_format_error") if "ELF class" not in s.cite.text]  # that is of a library
    yield confirm(said_alone(job, *job.launch.execve("Exec format error"), *programs))
    yield support(wrong)
    yield owner(Owner.USER)
    what = next((s.fields["path"] for s in job.launch.execve("Exec format error") if s.fields.get("path")), None)
    yield summary(f"A file is not a program for this machine{f': {what}' if what else ''}.")
    yield action("Use a build for this node: compare `file PROGRAM` with `uname -m`.")
    if job.machine.architecture:
        yield note(f"The job's nodes are {job.machine.architecture} machines.")
