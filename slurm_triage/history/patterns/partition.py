"""Whether a program fails in one partition and works in the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_triage.history.patterns.run import SURE, Holds, Pattern, Run, by_chance, mostly_fails, mostly_works, share


def partition(runs: Sequence[Run]) -> Iterator[Pattern]:
    """The answer, if there is such a partition."""
    cuts = []
    for name in sorted({run.partition for run in runs if run.partition}):
        inside = [run for run in runs if run.partition == name]
        outside = [run for run in runs if run.partition != name]
        if outside:
            cuts.append((by_chance(outside, inside), name, inside, outside))
    if not cuts:
        return
    p, name, inside, outside = min(cuts, key=lambda cut: cut[0])
    if p * len(cuts) <= SURE and mostly_fails(inside) and mostly_works(outside):
        says = f"it fails in partition {name} ({share(inside)}) and not elsewhere ({share(outside)})"
        yield Pattern("partition", Holds.YES, says, "its nodes differ: architecture, driver, memory, image")
