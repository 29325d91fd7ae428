"""What the runs of one program have in common when they fail.

Each question gets an answer with its numbers, or "too few runs to tell": nothing is concluded from two failures.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurm_triage.history.patterns.change import change
from slurm_triage.history.patterns.partition import partition
from slurm_triage.history.patterns.retry import retry
from slurm_triage.history.patterns.run import Holds, Pattern, Run
from slurm_triage.history.patterns.same_node import same_node
from slurm_triage.history.patterns.same_rank import same_rank
from slurm_triage.history.patterns.same_time import same_time
from slurm_triage.history.patterns.scale import scale


def patterns(runs: Sequence[Run]) -> list[Pattern]:
    """The answers, those that hold first; none if no run failed."""
    ordered = sorted(runs, key=lambda run: run.end)
    if all(run.cause is None for run in ordered):
        return []
    found = [*scale(ordered), *change(ordered), *partition(ordered), same_node(ordered), same_rank(ordered)]
    found += [*same_time(ordered), retry(ordered)]
    return sorted(found, key=lambda one: (one.holds is not Holds.YES, one.holds is Holds.TOO_FEW))
