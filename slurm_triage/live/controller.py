"""What slurmctld still holds in memory of the job: `scontrol show job -d`. It forgets after MinJobAge (300 seconds)."""

from __future__ import annotations

import re

from slurm_triage.live._command import Reply, run

FORGOTTEN = "slurmctld no longer has the job in memory (MinJobAge)"

_UNKNOWN = re.compile(r"Invalid job id|No jobs in the system|^Job [0-9_+]{1,30} not found", re.MULTILINE)
"""The last form is printed on standard output, for a task or a component (seen on 24.11.5)."""


def job(id_: str, timeout: float) -> Reply:
    """The record of the job, array or heterogeneous job. `problem` is `FORGOTTEN` when slurmctld does not know it."""
    reply = run(["scontrol", "show", "job", "-d", id_], timeout)
    said = reply.error + reply.output[:4096].decode("utf-8", "replace")
    if _UNKNOWN.search(said) and not reply.output.lstrip().startswith(b"JobId="):
        return Reply(problem=FORGOTTEN)
    if not reply.problem and b"JobId=" not in reply.output:
        return Reply(problem="scontrol: printed no job")
    return reply
