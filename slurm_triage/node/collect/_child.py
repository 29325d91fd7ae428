"""Something that may hang in a driver, done in a child of root that is killed when its time is up."""

from __future__ import annotations

from collections.abc import Callable

from slurm_triage.transport import killable

LIMIT = 256 * 1024
"""Most bytes of an answer."""
DRIVERS = killable.Children(most=4, grace=0.2)
"""The children of all collectors."""


def ask(work: Callable[[], bytes], seconds: float, limit: int = LIMIT) -> bytes | None:
    """What `work` returned, at most `limit` bytes; None if it raised, ended otherwise, took longer, never started."""
    try:
        return killable.run(lambda _: work()[:limit], seconds, limit, children=DRIVERS)
    except OSError:
        return None
