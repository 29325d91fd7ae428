"""What a file's name hints at: output of the job (in which anything may be printed), or a daemon's or tool's file."""

from __future__ import annotations

import re

_OUTPUT = re.compile(
    r"(?:.*\.(?:out|err|stdout|stderr)(?:\.\d+)?|(?:out|err|client|terminal)(?:[._-].*)?|slurm-\d+\S*)", re.I
)
_DAEMON = re.compile(
    r"(?:slurmctld|slurmd|slurmdbd|slurmstepd|kmsg|dmesg|kern|syslog|messages|journal|mcelog|"
    r"sacct|scontrol|squeue|sinfo|seff|sdiag|env\.|spank|pod|kubectl|events)[\w.-]*",
    re.I,
)


def is_output_name(name: str) -> bool:
    """A name of job output: `job.out`, `slurm-17.out`, `x.err`, `out/*`, `client.out`."""
    base = name.rsplit("/", 1)[-1]
    if "out" in name.split("/")[:-1]:
        return True
    return bool(_OUTPUT.fullmatch(base)) and not is_daemon_name(name)


def is_daemon_name(name: str) -> bool:
    """Whether a file's name says that a daemon or a tool wrote it, not the job."""
    return bool(_DAEMON.match(name.rsplit("/", 1)[-1]))
