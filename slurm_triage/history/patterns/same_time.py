"""Whether a program fails after about the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_triage.history.patterns.run import LEAST, Holds, Pattern, Run

ALIKE = 0.10
"""Share of the median by which elapsed times may differ and still be the same time."""
SHORTEST = 30.0
"""Seconds: what fails at once fails at its start, not "at the same time"."""


def same_time(runs: Sequence[Run]) -> Iterator[Pattern]:
    """The answer, if the times are alike. A time limit is no such time."""
    bad = [run for run in runs if run.cause not in (None, "time_limit")]
    spans = sorted(run.elapsed for run in bad if run.elapsed is not None)
    if len(spans) < LEAST:
        return
    median = spans[len(spans) // 2]
    if median < SHORTEST or spans[-1] - spans[0] > ALIKE * median:
        return
    good = [run.elapsed for run in runs if run.cause is None and run.elapsed is not None]
    if any(spans[0] * (1 - ALIKE) <= took <= spans[-1] * (1 + ALIKE) for took in good):
        return  # that is how long it takes
    longer = sum(took > spans[-1] for took in good)
    first, last = _span(spans[0]), _span(spans[-1])
    says = (
        f"it fails after the same time: {len(spans)} failures after {first if first == last else f'{first} to {last}'}"
    )
    if longer:
        yield Pattern("time", Holds.YES, f"{says}, while {longer} runs that ended well went on longer")
        return
    yield Pattern(
        "time",
        Holds.YES,
        says,
        "the same point of the work: a checkpoint, the end of an epoch, memory that is full by then",
        "what does the program do at that time? Make it do that at once, in the smallest run that still shows it",
    )


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
