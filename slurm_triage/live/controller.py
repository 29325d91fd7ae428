"""What slurmctld still holds in memory of the job: `scontrol show job -d`. It forgets after MinJobAge (300 seconds)."""

from __future__ import annotations

from slurm_triage.live._command import Reply, run

FORGOTTEN = "slurmctld no longer has the job in memory (MinJobAge)"


def job(id_: str, timeout: float) -> Reply:
    """The record of the job, array or heterogeneous job. `problem` is `FORGOTTEN` when slurmctld does not know it."""
    reply = run(["scontrol", "show", "job", "-d", id_], timeout)
    said = reply.error + reply.output[:4096].decode("utf-8", "replace")
    if not reply.output.lstrip().startswith(b"JobId=") and (
        "Invalid job id" in said or "No jobs in the system" in said
    ):
        return Reply(problem=FORGOTTEN)
    if not reply.problem and b"JobId=" not in reply.output:
        return Reply(problem="scontrol: printed no job")
    return reply
