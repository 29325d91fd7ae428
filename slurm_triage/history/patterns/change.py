"""Whether a program worked until some run and fails since, and what is recorded of that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_triage.history.patterns.run import LEAST, SURE, Holds, Pattern, Run, by_chance, failures, share

UNSEEN = (
    "what is recorded of the runs (nodes, size, partition) did not change then: look at program, input, image, "
    "modules and driver"
)


def change(runs: Sequence[Run]) -> Iterator[Pattern]:
    """The answer, if there was a change. Runs in the order of their end."""
    cuts = [(by_chance(runs[:at], runs[at:]), at) for at in range(LEAST, len(runs) - LEAST + 1)]
    if not cuts:
        return
    p, at = min(cuts)
    before, after = runs[:at], runs[at:]
    clear = failures(after) * 4 >= len(after) * 3 and failures(before) * 4 <= len(before)
    if p * len(cuts) > SURE or not clear:
        return
    last, first = before[-1].job, after[0].job
    yield Pattern(
        "change",
        Holds.YES,
        f"it worked until job {last} ({share(before)}) and fails since job {first} ({share(after)})",
        _differs(before, after) or UNSEEN,
        f"compare job {last} with job {first}: what was changed between them?",
    )


def _differs(before: Sequence[Run], after: Sequence[Run]) -> str:
    """What all runs after a change have that none before it had."""
    found = []
    for what, of in (("partition", _partitions), ("number of nodes", _sizes)):
        old, new = of(before), of(after)
        if old and new and not set(old) & set(new):
            found.append(f"{what}: {', '.join(map(str, old))} before, {', '.join(map(str, new))} since")
    old_nodes = {node for run in before for node in run.nodes}
    if not any(old_nodes & set(run.nodes) for run in after):
        found.append("nodes: none of those from before since")
    return "; ".join(found)


def _partitions(runs: Sequence[Run]) -> Sequence[object]:
    return sorted({run.partition for run in runs if run.partition})


def _sizes(runs: Sequence[Run]) -> Sequence[object]:
    return sorted({len(run.nodes) for run in runs})
