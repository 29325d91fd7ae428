"""Whether a directory is one that the user would never find again: a node's own scratch place, or memory.

A local disk as such is none: on a cluster of one machine, or with homes on it, it is where users look.
"""

from __future__ import annotations

import re
from pathlib import Path

PLACES = ("/tmp", "/var/tmp", "/dev", "/run", "/var/run", "/proc", "/sys")
"""Directories of one node. A job may have a /tmp of its own (job_container), which this process never sees."""

MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "proc", "sysfs"})
"""File systems without a disk."""

_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")


def mounts(path: Path = Path("/proc/self/mountinfo")) -> list[tuple[str, str]]:
    """(place, type) of every mount, in the kernel's order; proc_pid_mountinfo(5). Raises `OSError`.

    Touches none of the file systems.
    """
    found = []
    for line in path.read_bytes().split(b"\n"):
        words = line.decode("utf-8", "surrogateescape").split(" ")
        if len(words) > 6 and "-" in words[6:-1]:
            kind = words[words.index("-", 6) + 1]
            found.append((_ESCAPE.sub(lambda match: chr(int(match[1], 8)), words[4]), kind))
    return found


def why_local(path: str, mounted: list[tuple[str, str]]) -> str:
    """Why a directory is local to this node, as a sentence; empty if it is not. `path` is absolute, without links."""
    for place in PLACES:
        if _below(path, place):
            return f"{place} is this node's own"
    kind, longest = "", -1
    for place, of in mounted:
        if _below(path, place) and len(place) >= longest:  # of two mounts on one place the later one counts
            kind, longest = of, len(place)
    return f"it is in this node's memory ({kind})" if kind in MEMORY else ""


def _below(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")
