"""A diagnosis in one line."""

from __future__ import annotations

from slurm_triage.model import Diagnosis
from slurm_triage.report.document import strength
from slurm_triage.report.text import words


def brief(diagnosis: Diagnosis) -> str:
    """`<jobid> <cause> <owner> <strength> <summary>`, ASCII, secrets masked, not cut; `-` where there is no job id.

    The first four fields hold no blanks, so that `cut` and `awk` can take them apart.
    """
    job = words(diagnosis.job.shown_id or diagnosis.job.job_id or "").replace(" ", "_") or "-"
    cause = words(diagnosis.cause).replace(" ", "_") or "-"
    fields = (job, cause, diagnosis.owner.value, strength(diagnosis.strength), words(diagnosis.summary))
    return " ".join(fields).rstrip()
