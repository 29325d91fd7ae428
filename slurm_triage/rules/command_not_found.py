"""Rule: command not found."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, any_of, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support
from slurm_triage.rules._programs import exit_fits, said_alone


@rule("command_not_found", supersedes=("app_error",))
def command_not_found(job: Job) -> Said:
    """A program, or the interpreter named in a script's first line, does not exist on the node.

    What happened: a module was not loaded, a path is wrong, or the program lies on a disk that this node does not
    have. The shell answers 127; srun answers 2 (ENOENT), which is not an exit code of the program.

    Who acts: the user.

    Hardware or software: software. The program never ran. A program that is found on other nodes and not on this one is
    a mount or an image of that node.

    First check: look for it where the job runs, with the environment of the job.

        srun -w NODE -n1 bash -lc 'command -v PROGRAM; echo "$PATH"; head -1 SCRIPT | cat -A'
        ldd PROGRAM | grep "not found"

    What to do: check module and PATH in the batch script, and that the file exists on the compute node.

    What this is not: an error of the program, which never ran.

    Check next: `exec_permission` if the code is 126 or 13; `exec_format` if it is there and of another architecture;
    `chdir_failed` if a relative path was used; `container_runtime_setup` if it should be in an image.

    Sources: https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html,
    https://man7.org/linux/man-pages/man2/execve.2.html, https://slurm.schedmd.com/srun.html
    """
    missing = job.launch.not_found
    program = job.telling.said("a shell could not start a program that is not there", "program_not_found")
    yield require(any_of(missing.says, missing, program))
    yield confirm(
        exit_fits(
            job, 127, 2, "No such file or directory", "command_not_found", "no_such_interpreter", "program_not_found"
        )
    )
    lines = (*job.launch.execve("No such file or directory"), *job.log.of("command_not_found", "no_such_interpreter"))
    yield confirm(said_alone(job, *lines))
    yield support(all_of(missing.says, missing, _nobody_died(job)))
    yield owner(Owner.USER)
    what = next((s.fields["path"] for s in job.launch.execve("No such file") if s.fields.get("path")), None)
    what = what or next((s.fields["command"] for s in job.log.of("command_not_found") if s.fields.get("command")), None)
    yield summary(f"A program was not found on the node{f': {what}' if what else ''}.")
    yield action("Load the module or correct the path in the batch script.")
    yield action("Check that the file exists on that node.")


def _nobody_died(job: Job) -> Fact:
    """No process is known to have died of a signal: a script that goes on after that may miss a command later."""
    says = "no process of the job died of a signal"
    died = [d for d in job.exits.deaths if d.signal and d.witness != "convention"]
    if died and 127 not in job.exits.possible_codes:
        return unknown(says, "one did, and the job's exit code does not decide", job.accounting.how)
    return true(says, ())
