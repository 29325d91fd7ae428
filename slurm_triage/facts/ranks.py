"""Which rank failed first. Deaths by SIGTERM and SIGKILL after it are the launcher tearing the rest down.

With --kill-on-bad-exit neither the first signal nor the first exit code is anywhere in accounting: only the tasks' wait
statuses, srun's lines and the kernel log know (recorded on Slurm 22.05 to 26.05).
"""

from __future__ import annotations

from functools import cached_property

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts.exits import Death, Exits
from slurm_triage.model import Fact, FirstFailure, OomKill

ECHO = (signals.SIGTERM, signals.SIGKILL)
CLOCK_SPREAD = 0.25
"""Seconds by which clocks of two nodes may differ when nothing is known of them (NTP keeps far below this)."""


class Ranks:
    """The order in which tasks of the application's steps failed."""

    def __init__(self, attempt: Attempt, exits: Exits) -> None:
        self.attempt = attempt
        self.exits = exits

    @cached_property
    def failed(self) -> tuple[Death, ...]:
        """Deaths of application tasks that no teardown explains, in time order; batch and extern are left out."""
        steps = [d for d in self.exits.deaths if d.step not in ("batch", "extern") and d.witness in ("status", "slurm")]
        own = [d for d in steps if d.signal not in ECHO]
        by_status = [d for d in own if d.witness == "status"]
        if by_status:
            return tuple(sorted(by_status, key=lambda d: d.at.lo if d.at else 0.0))
        return tuple(sorted(own, key=lambda d: (d.cite.file, d.cite.line)))

    @cached_property
    def missing_from_terminated(self) -> Fact:
        """Whether srun lists all tasks of the step but some as Terminated: the missing ones failed by themselves."""
        says = "srun says Terminated for all tasks but some: those failed first"
        lines = [d for d in self.exits.deaths if d.witness == "slurm" and d.signal in ECHO and d.ranks]
        for death in lines:
            ranks = _numbers(death.ranks or "")
            if len(ranks) > 2 and len(ranks) < ranks[-1] - ranks[0] + 1:
                return true(says, [death.cite])
        if lines:
            return false(says, "the list has no gap", [d.cite for d in lines])
        return unknown(says, "srun printed no list of terminated tasks", self.exits.log.how)

    @cached_property
    def first(self) -> FirstFailure | None:
        """The first failing task, where it can be told from the others; None inside the clocks' uncertainty."""
        oom = [k for k in self._own_kills() if k.step and k.step[:1].isdigit()]
        ranked = [d for d in self.failed if d.ranks]
        if not ranked:
            return self._first_killed(oom)
        first = ranked[0]
        for other in ranked[1:]:
            if other.ranks != first.ranks and _same_time(first, other):
                return None
        numbers = _numbers(first.ranks or "")
        if len(numbers) != 1:
            return None
        return FirstFailure(numbers[0], first.node, first.at, _what(first), first.cite)

    def _own_kills(self) -> list[OomKill]:
        ids = self.attempt.ids | {self.attempt.job_id or ""}
        return [e for e in self.attempt.events if isinstance(e, OomKill) and e.job in ids]

    def _first_killed(self, kills: list[OomKill]) -> FirstFailure | None:
        """The task that died of SIGKILL when the OOM killer took one process of the step."""
        blamed = [s for s in self.exits.signs("srun_task_oom") if s.fields.get("tasks")]
        killed = [
            d for d in self.exits.deaths if d.signal == signals.SIGKILL and d.witness == "status" and _app(d.step)
        ]
        killed.sort(key=lambda d: d.at.lo if d.at else 0.0)
        if kills and killed and (len(killed) == 1 or not _same_time(killed[0], killed[1])):
            numbers = _numbers(killed[0].ranks or "")
            if len(numbers) == 1:
                return FirstFailure(
                    numbers[0], killed[0].node, killed[0].at, "killed by the OOM killer", killed[0].cite
                )
        for sign in blamed:
            numbers = _numbers(sign.fields["tasks"])
            if len(numbers) == 1 and len(blamed) == 1:
                node = sign.fields.get("node") or sign.node
                return FirstFailure(numbers[0], node, sign.at, "out of memory, says srun", sign.cite)
        return None


def _app(step: str | None) -> bool:
    return step is not None and step[:1].isdigit()


def _same_time(one: Death, other: Death) -> bool:
    """Whether two deaths cannot be told apart in time. Undated lines of one file are told apart by their order."""
    if one.at is None or other.at is None:
        return one.cite.file != other.cite.file
    spread = 0.0 if one.node == other.node else CLOCK_SPREAD
    return abs(one.at.lo - other.at.lo) <= spread


def _what(death: Death) -> str:
    if death.signal:
        return f"died of {signals.name(death.signal)}"
    return f"exited with code {death.code}"


def _numbers(text: str) -> list[int]:
    """`0-57,59-63` as numbers, sorted; empty for anything else. Bounded: a forged range cannot eat the memory."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not (low.isascii() and low.isdigit() and len(low) < 9) or (dash and not (high.isascii() and high.isdigit())):
            return []
        last = int(high) if dash and len(high) < 9 else int(low)
        if last - int(low) > 1_000_000 or len(found) > 1_000_000:
            return []
        found.extend(range(int(low), last + 1))
    return sorted(found)
