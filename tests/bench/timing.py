"""Times of calls and how they are shown."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def timed(run: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1000


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(values: Sequence[float], high: int = 95) -> str:
    """Median, a high percentile and maximum in milliseconds."""
    median = statistics.median(values)
    return f"median {median:8.2f}  p{high} {quantile(values, high / 100):8.2f}  max {max(values):8.2f} ms"
