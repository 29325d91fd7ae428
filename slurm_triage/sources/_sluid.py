"""SLUIDs: the names that Slurm 26.05 gives to single runs of jobs, beside the job id.

`s0AHM8PEWZGD00`: an `s` and 13 digits of Crockford's base 32 for 64 bits, of which the first 12 are the cluster. A
cluster of 0 is none: so are printed the row numbers of accounting before SLUIDs, and a job without one.

Source: SchedMD/slurm src/common/sluid.c and sluid.h of 26.05; recorded on 26.05.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_triage.sources._messages import job_and_step

FORM = r"s(?!00[0-3])[0-9A-F][0-9A-HJKMNP-TV-Z]{12}"
"""A regular expression for a SLUID, without what stands around it."""

_WHOLE = re.compile(FORM)
_BESIDE = re.compile(rf"\bJobId=(?P<job>\d{{1,10}}) SLUID=(?P<sluid>{FORM})(?!\w)")


def read(text: object) -> str | None:
    """The text if it is a SLUID, else None."""
    return text if isinstance(text, str) and _WHOLE.fullmatch(text) else None


def of_line(text: str, fields: Mapping[str, str]) -> dict[str, str]:
    """`{"sluid": ...}` where a line of a daemon's log names, beside the job that its fields name, the SLUID."""
    match = _BESIDE.search(text)
    return {"sluid": match["sluid"]} if match and match["job"] == job_and_step(fields)[0] else {}
