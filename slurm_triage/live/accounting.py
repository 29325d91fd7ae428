"""What accounting says of the job: `sacct -P` with the columns that this sacct knows, and `sacct --json`.

Both are asked. Only the text says by uid who cancelled; only JSON has whole exit codes up to 24.11 and is safe against
job names with separators and newlines.
"""

from __future__ import annotations

import re

from slurm_triage.live._command import Reply, run

COLUMNS = (
    "JobIDRaw", "JobID", "JobName", "User", "UID", "Account", "Partition", "QOS", "Cluster", "State", "ExitCode",
    "DerivedExitCode", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "Reason",
    "NNodes", "NodeList", "FailedNode", "NTasks", "NCPUS", "ReqMem", "MaxRSS", "MaxRSSTask", "MaxRSSNode", "AveRSS",
    "MaxVMSize", "TRESUsageInMax", "Restarts", "Flags", "WorkDir", "StdOut", "StdErr", "SubmitLine", "Comment",
    "AdminComment", "SystemComment",
)  # fmt: skip
"""Columns that are asked for, where this sacct has them. FailedNode, Restarts, StdOut and StdErr are not in 22.05."""

ALWAYS = (
    "JobIDRaw", "JobID", "JobName", "User", "UID", "Account", "Partition", "QOS", "Cluster", "State", "ExitCode",
    "DerivedExitCode", "Submit", "Start", "End", "ElapsedRaw", "Suspended", "TimelimitRaw", "NNodes", "NodeList",
    "NTasks", "ReqMem", "MaxRSS", "MaxRSSTask", "MaxRSSNode", "WorkDir",
)  # fmt: skip
"""Columns that every sacct from 20.11 on has: asked for when it does not say which it knows."""

_VERSION = re.compile(rb"slurm\S* +(\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)")
_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,5})?")


def job_id(text: str) -> str | None:
    """The text if it is a job id as Slurm's tools take it (`123`, `123_4`, `123+1`), else None.

    Nothing else is ever handed to a command: no option, no list, no name.
    """
    return text if _JOB_ID.fullmatch(text) else None


def version(timeout: float) -> tuple[str | None, Reply]:
    """(`24.11.5`, the answer) of `sacct --version`; None when it does not say."""
    reply = run(["sacct", "--version"], timeout, 4096)
    match = _VERSION.search(reply.output)
    return (match[1].decode() if match else None), reply


def columns(timeout: float) -> tuple[str, ...]:
    """The columns to ask for: those of `COLUMNS` that `sacct --helpformat` names, `ALWAYS` when it names none."""
    reply = run(["sacct", "--helpformat"], timeout, 1 << 20)
    known = set(reply.output.decode("ascii", "replace").lower().split())
    return tuple(name for name in COLUMNS if name.lower() in known) or ALWAYS


def table(job: str, names: tuple[str, ...], timeout: float) -> Reply:
    """`sacct -P` of all attempts of `job`, with its header."""
    return run(["sacct", "-D", "-P", "-j", job, "-o", ",".join(names)], timeout)


def document(job: str, timeout: float) -> Reply:
    """`sacct --json` of all attempts of `job`. A sacct that prints anything else has no JSON: said in `problem`."""
    reply = run(["sacct", "-D", "-j", job, "--json"], timeout)
    if not reply.problem and not reply.output.lstrip().startswith(b"{"):
        return Reply(problem="sacct --json: this sacct prints no JSON")
    return reply
