"""Whether a program works up to a number of nodes and fails from a larger one on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from slurm_triage.history.patterns.run import (
    LEAST,
    SURE,
    Holds,
    Pattern,
    Run,
    by_chance,
    mostly_fails,
    mostly_works,
    share,
)


def scale(runs: Sequence[Run]) -> Iterator[Pattern]:
    """The answer, if runs of different sizes are known."""
    sizes = sorted({len(run.nodes) for run in runs})
    if len(sizes) < 2:
        return
    cuts = []
    for low, high in pairwise(sizes):
        left = [run for run in runs if len(run.nodes) <= low]
        right = [run for run in runs if len(run.nodes) >= high]
        cuts.append((by_chance(left, right), low, high, left, right))
    p, low, high, left, right = min(cuts, key=lambda cut: cut[0])
    numbers = f"up to {_nodes(low)} {share(left)}, from {_nodes(high)} on {share(right)}"
    if p * len(cuts) > SURE or not mostly_fails(right) or not mostly_works(left):
        few = min(len(left), len(right)) < LEAST
        yield Pattern("scale", Holds.TOO_FEW if few else Holds.NO, f"size: {numbers}; that may be chance")
        return
    yield Pattern(
        "scale",
        Holds.YES,
        f"it works up to {_nodes(low)} and fails from {_nodes(high)} on: {numbers}",
        "the number of nodes decides: a limit of the program, of its communication, or of the fabric at that size",
        _bisect(low, high),
    )


def _bisect(low: int, high: int) -> str:
    """What to run next."""
    middle = round(math.sqrt(low * high))
    check = f"run a collective test (all_reduce) on {_nodes(high)}: if that fails too, it is the fabric"
    if low < middle < high:
        return f"run it once on {_nodes(middle)}, then half-way again between what works and what fails; {check}"
    return check


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
