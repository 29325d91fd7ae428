"""Runs of one program, answers about them, and what all questions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from slurm_triage.history.patterns.stratified import Stratum, comparison

LEAST = 3
"""Failures below which nothing is said about what they have in common."""
SURE = 0.05
"""Probability of chance, all cuts that were tried counted, above which a difference is not one."""


class Holds(Enum):
    """Whether a pattern is there."""

    YES = "yes"
    NO = "no"
    TOO_FEW = "too few"


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt of the program. `cause` is None where it ended well; times in seconds, `end` since the epoch.

    `first_node` and `rank` are those that failed first, where a witness saw it; `tasks` how many ranks there were.
    """

    job: str
    end: float
    nodes: tuple[str, ...]
    cause: str | None = None
    owner: str = ""
    first_node: str | None = None
    rank: int | None = None
    tasks: int | None = None
    elapsed: float | None = None
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """The answer to one question: `about` is its word, `says` a sentence with its numbers.

    `means` is what follows from it, `next` what to run or look at; both are empty where nothing follows.
    """

    about: str
    holds: Holds
    says: str
    means: str = ""
    next: str = ""


def by_chance(left: Sequence[Run], right: Sequence[Run]) -> float:
    """Fisher's exact probability (mid-p) that the right group fails so much more often if both are alike."""
    total, failed = len(left) + len(right), failures(left) + failures(right)
    return comparison([Stratum(total, failed, len(right), failures(right))]).p


def failures(runs: Sequence[Run]) -> int:
    """How many of them failed."""
    return sum(run.cause is not None for run in runs)


def share(runs: Sequence[Run]) -> str:
    """`3 of 8 failed`."""
    return f"{failures(runs)} of {len(runs)} failed"


def mostly_fails(runs: Sequence[Run]) -> bool:
    """More than half of them failed."""
    return failures(runs) * 2 > len(runs)


def mostly_works(runs: Sequence[Run]) -> bool:
    """Less than half of them failed."""
    return failures(runs) * 2 < len(runs)
