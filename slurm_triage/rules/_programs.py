"""What the rules about program files have in common."""

from __future__ import annotations

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.model import Fact


def exit_fits(job: Job, codes: tuple[int, ...], because: Fact) -> Fact:
    """Whether the job ended with one of the codes that this failure gives (shell: 126, 127; srun: the errno)."""
    says = f"the job ended with the code that goes with it ({' or '.join(map(str, codes))})"
    possible = job.exits.possible_codes
    info, cite = job.exits.job_exit
    if cite is not None and len(possible) == 1 and possible[0] in codes:
        return all_of(says, because, true(says, [cite]))
    return unknown(says, f"the job {info.meaning}", job.accounting.how)
