"""Which rank failed first. Deaths by SIGTERM and SIGKILL after it are the launcher tearing the rest down.

With --kill-on-bad-exit neither the first signal nor the first exit code is anywhere in accounting: only the tasks' wait
statuses, srun's lines and the kernel log know (recorded on Slurm 22.05 to 26.05).

On one node slurmstepd's monotonic clock orders the tasks. Between nodes there are only wall clocks, which differ, and
srun's lines, which stand in the order in which the news came in. What they leave open is not named.
"""

from __future__ import annotations

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import short
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.exits import Death, Exits
from slurm_triage.model import Fact, FirstFailure, MemoryCounters, OomKill, TaskExit

ECHO = (signals.SIGTERM, signals.SIGKILL)
CLOCK_SPREAD = 0.25
"""Seconds by which clocks of two nodes may differ when nothing is known of them (NTP keeps far below this)."""
REAPING = 0.005
"""Seconds within which tasks that died together are reaped one after the other. wait(2) takes children that are dead
already in the order of their fork, whichever died first (kernel/exit.c, do_wait_thread)."""
ROUNDING = 2.0
"""Seconds by which a task may end outside its step as accounting prints it, in whole seconds of slurmctld's clock."""


class Ranks:
    """The order in which tasks of the deciding step failed."""

    def __init__(self, attempt: Attempt, accounting: Accounting, exits: Exits) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.exits = exits
        self.tasks = exits.records

    @once
    def _deaths(self) -> tuple[Death, ...]:
        """Deaths of tasks of the last failing step, witnessed by their status or by srun."""
        found = [d for d in self.exits.deaths if d.witness in ("status", "slurm") and d.step not in ("batch", "extern")]
        if self.accounting.steps_known and not self.accounting.app_steps():
            return ()  # the job had no step of its own: such lines are of another job's log
        steps = [d.step for d in found if d.step is not None]
        last = max(steps, key=_number, default=None)
        return tuple(d for d in found if d.step in (last, None))

    @once
    def _by_status(self) -> list[Death]:
        return sorted((d for d in self._deaths if d.witness == "status"), key=self._moment)

    @once
    def _by_srun(self) -> list[Death]:
        return sorted((d for d in self._deaths if d.witness == "slurm"), key=lambda d: (d.cite.file, d.cite.line))

    @once
    def failed(self) -> tuple[Death, ...]:
        """Deaths of application tasks that no teardown explains, first one first.

        SIGTERM and SIGKILL after another death are the teardown; one that surely comes before every other is not.
        """
        ordered = self._by_status or self._by_srun
        own = [d for d in ordered if d.signal not in ECHO]
        if not own:
            return ()
        kill = self._by_status[0] if self._by_status else None
        if kill is None or kill.signal not in ECHO or not self._before(kill, own[0]):
            return tuple(own)
        certain = _same_node(kill, own[0]) or self._srun_begins_with(kill)
        return (kill, *own) if certain else tuple(own)

    @once
    def unplaced_kill(self) -> Death | None:
        """A death by SIGTERM or SIGKILL that seems to come first, by the clock of another node and by nothing else.

        It may have been the first, or the teardown seen by a clock that is behind.
        """
        if not self.failed or self.failed[0].signal in ECHO or self._srun_begins_with(self.failed[0]):
            return None
        kill = self._by_status[0] if self._by_status else None
        early = kill is not None and kill.signal in ECHO and not _same_node(kill, self.failed[0])
        return kill if early else None

    def _srun_begins_with(self, death: Death) -> bool:
        """Whether the first task that srun names is this one."""
        said = self._by_srun[:1]
        return bool(said) and not set(task_numbers(death.ranks or "")).isdisjoint(task_numbers(said[0].ranks or ""))

    @property
    def first(self) -> FirstFailure | None:
        """The first failing task, where it can be told from the others; None inside the clocks' uncertainty."""
        return self._first[0]

    @property
    def undecided(self) -> Fact | None:
        """What stands in the way of naming the first of several failing tasks; None if one is named, or none failed."""
        why = self._first[1]
        how = "compare the first errors of these ranks in their own output; keep the nodes' clocks together (chronyc)"
        return unknown("which rank failed first", why, how) if why else None

    @once
    def _first(self) -> tuple[FirstFailure | None, str]:
        """The first failing task, else why it cannot be told where there are several to choose from."""
        if self._killed_as_a_group:
            return None, "the kernel killed all processes of the step at once (memory.oom.group)"
        killed = self._first_killed()
        if killed is not None:
            return killed, ""
        ranked = [d for d in self.failed if d.ranks]
        if not ranked:
            return None, ""
        first = ranked[0]
        if self.exits.job_exit[1] is not None and not self.exits.fits_end(first):
            return None, ""  # the job outlived it, or the line is of another job's log
        doubt = self._doubt(first)
        if doubt:
            return None, doubt
        rivals = [d for d in ranked[1:] if d.ranks != first.ranks and not self._before(first, d)]
        if rivals:
            return None, f"{_who(first)} and {_who(rivals[0])} failed too close together for their clocks"
        numbers = task_numbers(first.ranks or "")
        if len(numbers) != 1:
            return None, ""
        return FirstFailure(numbers[0], first.node, first.at, _what(first), first.cite), ""

    def _doubt(self, first: Death) -> str:
        """Whether srun's order contradicts the statuses, or a node of the step may have been earlier; why, or empty."""
        if first.witness != "status":
            return ""
        mine = set(task_numbers(first.ranks or ""))
        said = [d for d in self._by_srun if first.signal in ECHO or d.signal not in ECHO]
        if said and mine.isdisjoint(task_numbers(said[0].ranks or "")):
            return f"by the nodes' clocks it was {_who(first)}, but srun names another one first"
        if said:
            return ""
        if self.unplaced_kill is not None:
            kill = self.unplaced_kill
            return f"{_who(kill)} was killed before {_who(first)} failed, or its node's clock is behind"
        seen = self.tasks.every_node_seen(first.step)
        if seen is False or (seen is None and self.tasks.selective):
            return f"{_who(first)} is the first on its node, but not all nodes of the step left records"
        return ""

    # ------------------------------------------------------------------------------------------ clocks

    @once
    def _begins(self) -> dict[tuple[str | None, int], float]:
        """Epoch of the monotonic clock's zero by slurmstepd, as its first record shows it: time steps are left out."""
        found: dict[tuple[str | None, int], tuple[float, float]] = {}
        for task in self.exits.tasks:
            if task.stepd is not None and task.mono is not None and task.at is not None:
                key, pair = (task.node, task.stepd), (task.mono, task.at.lo - task.mono)
                found[key] = min(found.get(key, pair), pair)
        return {key: zero for key, (_, zero) in found.items()}

    def _moment(self, death: Death) -> float:
        task = death.task
        if task is not None and task.mono is not None and task.stepd is not None:
            zero = self._begins.get((task.node, task.stepd))
            if zero is not None:
                return zero + task.mono
        return death.at.lo if death.at else 0.0

    def _before(self, one: Death, other: Death) -> bool:
        """Whether `one` surely came before `other`. Undated lines of one file are told apart by their order."""
        if one.at is None or other.at is None:
            return one.cite.file == other.cite.file and one.cite.line < other.cite.line
        gap = self._moment(other) - self._moment(one)
        if not _same_node(one, other):
            return gap > CLOCK_SPREAD and not self._clocks_off
        if gap > REAPING or one.task is None or other.task is None:
            return gap > 0
        return gap >= 0 and _forked_after(one.task, other.task)

    @once
    def _clocks_off(self) -> bool:
        """Whether a task ended outside its step as slurmctld's clock has it: then the nodes' clocks are not one."""
        for task in self.exits.tasks:
            step = self.accounting.step(task.step or "")
            if step is None or step.start is None or step.end is None or task.at is None:
                continue
            if task.at.zoned != step.start.zoned or task.at.zoned != step.end.zoned:
                continue
            if task.at.hi < step.start.lo - ROUNDING or task.at.lo > step.end.hi + ROUNDING:
                return True
        return False

    # ------------------------------------------------------------------------------------------ memory

    @once
    def _killed_as_a_group(self) -> bool:
        """Whether several tasks died in one OOM kill of the whole step (srun --oom-kill-step)."""
        killed = {d.ranks for d in self._by_status if d.signal == signals.SIGKILL}
        steps = {d.step for d in self._by_status}
        counters = (e for e in self.attempt.events if isinstance(e, MemoryCounters) and e.step in steps)
        return len(killed) > 1 and not self.failed and any(c.events.get("oom_group_kill") for c in counters)

    def _own_kills(self) -> list[OomKill]:
        ids = self.attempt.ids | {self.attempt.job_id or ""}
        return [e for e in self.attempt.events if isinstance(e, OomKill) and e.job in ids and _app(e.step)]

    def _first_killed(self) -> FirstFailure | None:
        """The task that died of SIGKILL, before every other, when the OOM killer took a process of the step."""
        killed = [d for d in self._by_status if d.signal == signals.SIGKILL]
        if self._own_kills() and killed and killed[0] is self._by_status[0]:
            numbers = task_numbers(killed[0].ranks or "")
            alone = all(self._before(killed[0], other) for other in killed[1:])
            if len(numbers) == 1 and alone:
                return FirstFailure(
                    numbers[0], killed[0].node, killed[0].at, "killed by the OOM killer", killed[0].cite
                )
        blamed = [s for s in self.exits.signs("srun_task_oom") if s.fields.get("tasks")]
        blamed = [s for s in blamed if self.exits.place.on_our_node(s) is not False]
        recorded = any(s.state == "OUT_OF_MEMORY" for s in self.accounting.app_steps())
        own = recorded or not self.accounting.steps_known  # else the line is of another job's log
        if len(blamed) == 1 and own and not self.failed and not killed:
            numbers = task_numbers(blamed[0].fields["tasks"])
            if len(numbers) == 1:
                node = blamed[0].fields.get("node") or blamed[0].node
                return FirstFailure(numbers[0], node, blamed[0].at, "out of memory, says srun", blamed[0].cite)
        return None


def _number(step: str) -> int:
    return int(step[:9]) if step.isascii() and step.isdigit() else -1


def _app(step: str | None) -> bool:
    return step is not None and step[:1].isdigit()


def _same_node(one: Death, other: Death) -> bool:
    return one.node == other.node or (
        one.node is not None and other.node is not None and short(one.node) == short(other.node)
    )


def _forked_after(one: TaskExit, other: TaskExit) -> bool:
    """Whether slurmstepd would have reaped `other` before `one` if both had been dead."""
    return one.local_rank is not None and other.local_rank is not None and one.local_rank > other.local_rank


def _who(death: Death) -> str:
    return f"rank {death.ranks}" + (f" on {death.node}" if death.node else "")


def _what(death: Death) -> str:
    if death.signal:
        return f"died of {signals.name(death.signal)}"
    return f"exited with code {death.code}"


def task_numbers(text: str) -> list[int]:
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
