"""The kernel log of this host, if it is one of the job's nodes and the caller may read it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from slurm_triage.live._command import Reply, run

RESTRICT = Path("/proc/sys/kernel/dmesg_restrict")
COMMANDS = (("dmesg",), ("journalctl", "--dmesg", "--quiet", "--no-pager", "--output=short-monotonic"))
"""Tried in this order. Both print seconds since boot."""


def this_node(nodes: Sequence[str]) -> str | None:
    """Which of the job's nodes this host is: by SLURMD_NODENAME, else by its host name; None if it is none of them."""
    full = socket.gethostname()
    for name in (os.environ.get("SLURMD_NODENAME", ""), full, full.partition(".")[0]):
        if name and name in nodes:
            return name
    return None


def boot_epoch() -> float:
    """Seconds since the epoch at kernel time 0. Kernel stamps stand still in suspend, as CLOCK_MONOTONIC."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def log(timeout: float) -> Reply:
    """The log from the first command that answers. `problem` tells why none did, with the setting that forbids it."""
    problems = []
    for command in COMMANDS:
        reply = run(command, timeout)
        if reply.output and (not reply.problem or reply.cut):
            return reply
        problems.append(reply.problem or f"{command[0]}: printed nothing")
    if "not permitted" in problems[0] and _restricted():
        problems[0] += " (kernel.dmesg_restrict is 1: only for administrators)"
    return Reply(problem="; ".join(problems))


def _restricted() -> bool:
    try:
        return RESTRICT.read_text("ascii").strip() == "1"
    except (OSError, ValueError):
        return False
