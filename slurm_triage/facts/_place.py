"""Whether a line of a shared log is about the job's nodes and time.

Logs of the controller, of nodes and of the kernel, and whatever a job prints, speak of many jobs. A line that names no
job is about this one only if it names a node of the job (or none at all) and, where it has a time, falls into the job.
"""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts.accounting import Accounting
from slurm_triage.model import Event, Sign
from slurm_triage.nodeset import expand

BEFORE, AFTER = 60.0, 60.0
"""Seconds around the attempt in which a daemon's line may still be about it (SlurmdTimeout is noticed late)."""


class Place:
    """Nodes and time of the attempt."""

    def __init__(self, attempt: Attempt, accounting: Accounting) -> None:
        self.attempt = attempt
        folded = accounting.first(lambda r: r.nodes)
        for hook in accounting.hooks:
            folded = folded or hook.values.get("SLURM_JOB_NODELIST") or hook.values.get("SLURM_NODELIST")
        for value, _ in accounting.view_values("NodeList"):
            folded = folded or value
        self.nodes = frozenset(short(n) for n in (expand(folded) or ()) if folded) if folded else frozenset()

    def on_our_node(self, event: Event) -> bool | None:
        """True if the line names a node of the job, False if only others, None if it names none or ours are unknown."""
        if not self.nodes:
            return None
        named = self._named(event)
        if not named:
            return None
        return bool(named & self.nodes)

    def _named(self, event: Event) -> set[str]:
        names: set[str] = set()
        if isinstance(event, Sign):
            for key in ("node", "nodes"):
                text = event.fields.get(key)
                if text:
                    names.update(short(n) for n in expand(text) or (text,))
        if not names and event.node:
            names.add(short(event.node))
        return names

    def in_time(self, event: Event) -> bool | None:
        """Whether the line falls into the attempt (and a minute around it); None if that cannot be told."""
        at, start, end = event.at, self.attempt.start, self.attempt.end
        if at is None or start is None or end is None or at.zoned != start.zoned or at.zoned != end.zoned:
            return None
        return at.hi >= start.lo - BEFORE and at.lo <= end.hi + AFTER

    def ours(self, event: Event) -> bool:
        """Not surely about other nodes or another time."""
        return self.on_our_node(event) is not False and self.in_time(event) is not False

    def surely_ours(self, event: Event) -> bool:
        """On a node of the job and in its time, both known; or the evidence names no nodes of a job at all."""
        if not self.nodes and self.attempt.start is None:
            return True
        return self.on_our_node(event) is True and self.in_time(event) is True


def short(node: str) -> str:
    """The host name without its domain."""
    return node.split(".", 1)[0].lower()
