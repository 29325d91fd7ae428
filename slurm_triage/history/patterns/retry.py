"""Whether running a program once more is worth it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from slurm_triage.history.patterns.run import LEAST, Holds, Pattern, Run


def retry(runs: Sequence[Run]) -> Pattern:
    """The answer. Runs in the order of their end."""
    cause = runs[-1].cause if runs else None
    last = len(list(takewhile(lambda run: run.cause == cause, reversed(runs))))
    if cause is not None and last >= LEAST:
        says = f"the last {last} runs failed with the same cause ({cause}) and none ended well in between"
        return Pattern("retry", Holds.NO, says, "as it is it will fail again: stop, and change something first")
    tried = [then for before, then in pairwise(runs) if before.cause is not None]
    if len(tried) < LEAST:
        return Pattern("retry", Holds.TOO_FEW, f"retry: {len(tried)} failures were followed by another run")
    well = sum(run.cause is None for run in tried)
    says = f"of {len(tried)} runs after a failure {well} ended well"
    if well * 2 >= len(tried):
        return Pattern("retry", Holds.YES, says, "trying again is worth it, from the last checkpoint")
    return Pattern("retry", Holds.NO, says, "trying again seldom helps")
