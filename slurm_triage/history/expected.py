"""From a correction to the label of a case of the corpus (`expect.toml`, as `tests/accuracy.py` reads it)."""

from __future__ import annotations

import json
import re

from slurm_triage.history.corrections import Correction
from slurm_triage.report.mask import clean, secrets


def label(correction: Correction) -> str:
    """The label as TOML. `correction` is one that counts.

    Who corrected it and on which cluster is left out: labels are published. Where the correction does not say who has
    to act, the owner is not counted (`owner_derivable = false`).
    """
    lines = [
        f"cause = {_text(correction.cause or 'unknown')}",
        f"owner = {_text(correction.owner or 'unknown')}",
        "also = []   # further causes that a diagnosis may name instead",
    ]
    if correction.owner is None:
        lines.append("owner_derivable = false   # who has to act was not said")
    if re.fullmatch(r"[1-9][0-9]{0,17}", correction.key.job_id):
        lines.append(f"job_ids = [{correction.key.job_id}]")
    lines.append(f"notes = {_text(secrets(correction.why))}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A basic string of TOML: JSON's escapes of quotes and backslashes are its own; `clean` leaves nothing else."""
    return json.dumps(clean(value), ensure_ascii=False)
