"""What counts as the same kind of work: one user's runs of one program at about one size."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"[0-9]+")
PROGRAM_LIMIT = 200
"""Characters of a job's name that are kept."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Runs that are compared with each other. Empty texts are unknown; `size`: nodes, rounded up to a power of two."""

    cluster: str
    user: str
    program: str
    size: int


def program_of(name: str | None) -> str:
    """The name of a job without what differs from run to run: `train-17_seed3` is `train-#_seed#`."""
    return _NUMBER.sub("#", name or "")[:PROGRAM_LIMIT]


def size_of(nodes: int) -> int:
    """The number of nodes, rounded up to a power of two; at least 1."""
    return 1 << max(nodes - 1, 0).bit_length()


def workload(cluster: str | None, user: str | None, name: str | None, nodes: int) -> Workload:
    """The kind of work that a run of a job is."""
    return Workload(cluster or "", user or "", program_of(name), size_of(nodes))
