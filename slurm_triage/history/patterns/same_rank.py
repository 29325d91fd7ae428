"""Whether the same rank of a program fails first, or another one each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slurm_triage.history.patterns.run import LEAST, SURE, Holds, Pattern, Run

FIRST = "rank 0 does what the others do not: checkpoints, logs, input"
OTHER = "its part of the work or of the data"


def same_rank(runs: Sequence[Run]) -> Pattern:
    """The answer."""
    known = [run for run in runs if run.cause is not None and run.rank is not None and (run.tasks or 2) > 1]
    if len(known) < LEAST:
        return Pattern("rank", Holds.TOO_FEW, f"rank: of {len(known) or 'no'} failure is known which rank was first")
    ranks = Counter(run.rank for run in known)
    rank, count = ranks.most_common(1)[0]
    tasks = max(2, *(max(run.tasks or 0, (run.rank or 0) + 1) for run in known))
    # By chance all others hit the rank of the first so seldom:
    if count == len(known) and tasks ** -(count - 1.0) <= SURE:
        says = f"the same rank fails first each time: rank {rank} in {count} failures, of {tasks} ranks"
        means = f"not chance, and not the hardware if the nodes differ: {OTHER if rank else FIRST}"
        return Pattern("rank", Holds.YES, says, means)
    if len(ranks) >= LEAST and count * 2 <= len(known):
        says = f"rank: {len(ranks)} different ranks failed first in {len(known)} failures"
        return Pattern("rank", Holds.NO, says, "another rank each time: nothing about one part of the work")
    says = f"rank: rank {rank} failed first in {count} of {len(known)} failures; that may be chance"
    return Pattern("rank", Holds.TOO_FEW, says)
