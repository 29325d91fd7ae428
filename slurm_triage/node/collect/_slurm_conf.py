"""The few settings of slurm.conf that say where slurmd keeps its things. The file is read; nobody is asked."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from slurm_triage.node.collect import Budget, _child, _files

PLACES = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")
"""Where it is looked for after $SLURM_CONF; the second is that of nodes without a file of their own."""
LIMIT = 4 * 1024 * 1024
SECONDS = 2.0
"""Longest that reading may take: many sites have the file on a server."""
INCLUDES = 20
"""Most further files that `Include` may name."""
KEYS = frozenset({"slurmdlogfile", "slurmdspooldir", "tmpfs"})
"""The settings that are of interest, in small letters."""

_SETTING = re.compile(r"^[ \t]*([A-Za-z]+)[ \t]*=[ \t]*(\S+)", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*include[ \t]+(\S+)", re.MULTILINE | re.IGNORECASE)

_round: tuple[float, dict[str, str]] | None = None


def settings(budget: Budget) -> dict[str, str]:
    """The settings `KEYS` by name, as far as they are said; empty if no file can be read. Read once a round."""
    global _round
    if _round is None or not budget.now or _round[0] != budget.now:
        answer = _child.ask(lambda: _said().encode("utf-8", "replace"), SECONDS) or b""
        lines = (line.split("=", 1) for line in answer.decode("utf-8", "replace").splitlines())
        _round = (budget.now, {parts[0]: parts[1] for parts in lines if len(parts) == 2})
    return _round[1]


def path(value: str, node: str) -> str:
    """A path with slurmd's patterns filled in: %h is the host's name, %n the node's (slurm.conf(5))."""
    return value.replace("%h", socket.gethostname().partition(".")[0]).replace("%n", node)


def _said() -> str:
    """`key=value` lines of the first file that can be read. In the child."""
    for where in (os.environ.get("SLURM_CONF", ""), *PLACES):
        text = _files.text(where, LIMIT) if where.startswith("/") else None
        if text:
            found = parse(text, Path(where).parent)
            return "\n".join(f"{key}={value}" for key, value in found.items() if key in KEYS)
    return ""


def parse(text: str, folder: Path) -> dict[str, str]:
    """Settings that stand first in their line, by name in small letters, of a file in `folder` and what it includes."""
    found: dict[str, str] = {}
    pending, seen = [text], 0
    while pending:
        said = re.sub(r"(?<!\\)#.*", "", pending.pop())
        found.update((key.lower(), value) for key, value in _SETTING.findall(said) if key.lower() not in found)
        for name in _INCLUDE.findall(said):
            seen += 1
            if seen <= INCLUDES and (more := _files.text(str(folder / name), LIMIT)):
                pending.append(more)
    return found
