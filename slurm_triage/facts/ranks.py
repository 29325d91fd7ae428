"""Which rank failed first. Deaths by SIGTERM and SIGKILL after it are the launcher tearing the rest down.

With --kill-on-bad-exit neither the first signal nor the first exit code is anywhere in accounting: only the tasks' wait
statuses, srun's lines and the kernel log know (recorded on Slurm 22.05 to 26.05).
"""

from __future__ import annotations

from functools import cached_property

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.exits import Death, Exits
from slurm_triage.model import FirstFailure, OomKill

ECHO = (signals.SIGTERM, signals.SIGKILL)
CLOCK_SPREAD = 0.25
"""Seconds by which clocks of two nodes may differ when nothing is known of them (NTP keeps far below this)."""


class Ranks:
    """The order in which tasks of the deciding step failed."""

    def __init__(self, attempt: Attempt, accounting: Accounting, exits: Exits) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.exits = exits

    @cached_property
    def _deaths(self) -> tuple[Death, ...]:
        """Deaths of tasks of the last failing step, witnessed by their status or by srun."""
        found = [d for d in self.exits.deaths if d.witness in ("status", "slurm") and d.step not in ("batch", "extern")]
        if self.accounting.steps_known and not self.accounting.app_steps():
            return ()  # the job had no step of its own: such lines are of another job's log
        steps = [d.step for d in found if d.step is not None]
        last = max(steps, key=_number, default=None)
        return tuple(d for d in found if d.step in (last, None))

    @cached_property
    def _by_status(self) -> list[Death]:
        return sorted((d for d in self._deaths if d.witness == "status"), key=lambda d: d.at.lo if d.at else 0.0)

    @cached_property
    def _by_srun(self) -> list[Death]:
        return sorted((d for d in self._deaths if d.witness == "slurm"), key=lambda d: (d.cite.file, d.cite.line))

    @cached_property
    def failed(self) -> tuple[Death, ...]:
        """Deaths of application tasks that no teardown explains, first one first.

        SIGTERM and SIGKILL after another death are the teardown; one that comes before every other is not.
        """
        ordered = self._by_status or self._by_srun
        own = [d for d in ordered if d.signal not in ECHO]
        if not own:
            return ()
        if self._by_status and ordered[0].signal in ECHO and not _same_time(ordered[0], own[0]):
            return (ordered[0], *own)
        return tuple(own)

    @cached_property
    def first(self) -> FirstFailure | None:
        """The first failing task, where it can be told from the others; None inside the clocks' uncertainty."""
        killed = self._first_killed()
        if killed is not None:
            return killed
        ranked = [d for d in self.failed if d.ranks]
        if not ranked or not self._witnesses_agree(ranked[0]):
            return None
        if self.exits.job_exit[1] is not None and not self.exits.fits_end(ranked[0]):
            return None  # the job outlived it, or the line is of another job's log
        first = ranked[0]
        if any(other.ranks != first.ranks and _same_time(first, other) for other in ranked[1:]):
            return None
        numbers = _numbers(first.ranks or "")
        if len(numbers) != 1:
            return None
        return FirstFailure(numbers[0], first.node, first.at, _what(first), first.cite)

    def _witnesses_agree(self, first: Death) -> bool:
        """Whether srun's order does not contradict the statuses, and no node of the step is without any of them.

        Clocks of nodes differ; srun's lines are in the order in which the news came in.
        """
        if first.witness != "status":
            return True
        mine = set(_numbers(first.ranks or ""))
        said = [d for d in self._by_srun if first.signal in ECHO or d.signal not in ECHO]
        if said and mine.isdisjoint(_numbers(said[0].ranks or "")):
            return False
        step = self.accounting.step(first.step or "")
        seen = {d.ranks for d in self._by_status} | {str(t.rank) for t in self.exits.tasks if t.step == first.step}
        if step is not None and step.n_tasks is not None and len(seen) < step.n_tasks:
            return bool(said)  # some tasks left no status: only srun's agreeing word makes it sure
        return True

    def _own_kills(self) -> list[OomKill]:
        ids = self.attempt.ids | {self.attempt.job_id or ""}
        return [e for e in self.attempt.events if isinstance(e, OomKill) and e.job in ids and _app(e.step)]

    def _first_killed(self) -> FirstFailure | None:
        """The task that died of SIGKILL, before every other, when the OOM killer took a process of the step."""
        killed = [d for d in self._by_status if d.signal == signals.SIGKILL]
        if self._own_kills() and killed and killed[0] is self._by_status[0]:
            numbers = _numbers(killed[0].ranks or "")
            alone = len(killed) == 1 or not _same_time(killed[0], killed[1])
            if len(numbers) == 1 and alone:
                return FirstFailure(
                    numbers[0], killed[0].node, killed[0].at, "killed by the OOM killer", killed[0].cite
                )
        blamed = [s for s in self.exits.signs("srun_task_oom") if s.fields.get("tasks")]
        blamed = [s for s in blamed if self.exits.place.on_our_node(s) is not False]
        recorded = any(s.state == "OUT_OF_MEMORY" for s in self.accounting.app_steps())
        own = recorded or not self.accounting.steps_known  # else the line is of another job's log
        if len(blamed) == 1 and own and not self.failed and not killed:
            numbers = _numbers(blamed[0].fields["tasks"])
            if len(numbers) == 1:
                node = blamed[0].fields.get("node") or blamed[0].node
                return FirstFailure(numbers[0], node, blamed[0].at, "out of memory, says srun", blamed[0].cite)
        return None


def _number(step: str) -> int:
    return int(step[:9]) if step.isascii() and step.isdigit() else -1


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
