"""What the rules about program files have in common."""

from __future__ import annotations

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.facts.program import ERROR_LINES
from slurm_triage.model import Fact, Sign


def exit_fits(job: Job, shell: int, errno: int, error: str, *ids: str) -> Fact:
    """Whether the job ended with the code that this failure gives, and the failure was the last word.

    `ids` are the shell's own messages, to which it answers 126 or 127. srun hands on the errno (2, 8, 13) of its task's
    execve: that counts only with slurmstepd's line of the step that ended the job, since programs use such small codes
    for anything.
    """
    says = f"the job ended with the code that goes with it ({shell} from the shell, {errno} from srun)"
    possible = job.exits.possible_codes
    info, cite = job.exits.job_exit
    if cite is not None and len(possible) == 1:
        last = [s for s in job.launch.execve(error) if _of_last_step(job, s, errno)]
        if possible[0] == shell and job.log.of(*ids):
            return all_of(says, job.telling.last_word("the shell's message is the last word", *ids), true(says, [cite]))
        if possible[0] == errno and last:
            place = max((s.cite.file, s.cite.line) for s in last)
            later = [s for s in job.log.of(*ERROR_LINES) if s.cite.file == place[0] and s.cite.line > place[1]]
            if later:
                return unknown(says, f"another error follows in line {later[0].cite.line}", job.log.how)
            return true(says, [cite, *(s.cite for s in last)])
    return unknown(says, f"the job {info.meaning}", job.accounting.how)


def said_alone(job: Job, *lines: Sign) -> Fact:
    """As `exit_fits` where no exit of the job was seen: slurmstepd's or the shell's word is its last act.

    Whoever starts a program knows why it could not. The shell's own `Permission denied` is left to the exit code 126:
    it says the same of a file that a redirection may not write.
    """
    says = "whoever was to start the program says why it could not, and nothing else speaks"
    if job.exits.job_exit[1] is not None:
        return unknown(says, "the job's exit code decides", job.accounting.how)
    return job.proof.ended_on(says, lines, *KIN)


KIN = ("srun_launch_failed", "module_not_found", "slurmd_execve")
"""What goes with a program that is missing: the module that should have brought it."""


def _of_last_step(job: Job, line: Sign, errno: int) -> bool:
    """Whether the execve() line is of the batch script or of the step that ended the job."""
    if line.step is not None:
        return line.step in ("batch", job.exits.last_step)
    steps = job.accounting.app_steps()
    last = job.accounting.step(job.exits.last_step or "")
    return len(steps) < 2 or (last is not None and last.exit is not None and last.exit.code == errno)
