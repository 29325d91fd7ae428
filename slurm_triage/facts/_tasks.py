"""The task records of an attempt, and which tasks have none.

The project's plugin writes nothing for tasks that end with 0 before anything went wrong, and nothing at all for a node
where nothing did (docs/reference/spool.md). So a task without a record did not fail, if the records of its node were
read; of a node without any record nothing is known: it may have been all right, or its records were never collected.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_triage.attempts import Attempt
from slurm_triage.facts._once import once
from slurm_triage.facts.accounting import Accounting
from slurm_triage.model import StepInfo, TaskExit

Stepd = tuple[str | None, int | None]
"""Node and process id: one slurmstepd of a step."""


class Tasks:
    """Ends of tasks. The external step is left out: its task is a sleep of slurmstepd's own, killed at every end."""

    def __init__(self, attempt: Attempt, accounting: Accounting) -> None:
        self.accounting = accounting
        self.ends = tuple(e for e in attempt.events if isinstance(e, TaskExit) and e.step != "extern")
        self.infos = tuple(e for e in attempt.events if isinstance(e, StepInfo) and e.step != "extern")

    @property
    def selective(self) -> bool:
        """Whether the witness records only what went wrong: then a missing record says nothing by itself."""
        return bool(self.infos) or any(t.clean is not None for t in self.ends)

    @property
    def uid(self) -> int | None:
        """The job's user as slurmstepd knows it."""
        return next((i.uid for i in self.infos if i.uid is not None), None)

    def of(self, step: str | None) -> tuple[TaskExit, ...]:
        """The recorded ends of one step."""
        return tuple(t for t in self.ends if t.step == step)

    def count(self, step: str | None) -> int | None:
        """How many tasks the step has on all its nodes; None if nobody says."""
        if step == "batch":
            return 1
        told = [i.of for i in self.infos if i.step == step and i.of is not None]
        record = self.accounting.step(step or "")
        return max(told) if told else (record.n_tasks if record is not None else None)

    def every_node_seen(self, step: str | None) -> bool | None:
        """Whether each node with tasks of the step left records; None if the number of tasks is not known."""
        count = self.count(step)
        if count is None:
            return None
        here = {(i.node, i.stepd): i.tasks for i in self.infos if i.step == step}
        known = self._known(self.of(step))
        return sum(here.get(stepd) or known.get(stepd, 0) for stepd in {*here, *known}) >= count

    def every_end_known(self, step: str | None) -> bool | None:
        """Whether each task of the step is known to have ended; None if their number is not known."""
        count = self.count(step)
        return None if count is None else sum(self._known(self.of(step)).values()) >= count

    def ended_here(self, step: str | None, node: str | None) -> bool:
        """Whether each task of the step on this node is known to have ended, as far as their number is known."""
        here = [t for t in self.of(step) if node is None or t.node == node]
        wanted = {(i.node, i.stepd): i.tasks for i in self.infos if i.step == step and node in (None, i.node)}
        known = self._known(here)
        return bool(here) and all(known.get(stepd, 0) >= (tasks or 0) for stepd, tasks in wanted.items())

    @once
    def several(self) -> bool:
        """Whether the job had, or may have had, more than one task beside the batch script."""
        if len({(t.step, t.rank) for t in self.ends if t.step != "batch"}) > 1:
            return True
        if not self.selective:
            return False
        steps = {s.step for s in self.accounting.app_steps()} | {t.step for t in self.ends if t.step != "batch"}
        counts = [self.count(step) for step in steps]
        return not self.accounting.steps_known or len(steps) > 1 or any(count is None or count > 1 for count in counts)

    @staticmethod
    def _known(ends: Iterable[TaskExit]) -> dict[Stepd, int]:
        """Tasks known to have ended, by slurmstepd: the recorded ones and those that ended with 0 before."""
        ranks: dict[Stepd, set[int]] = {}
        clean: dict[Stepd, int] = {}
        for task in ends:
            stepd = (task.node, task.stepd)
            ranks.setdefault(stepd, set()).add(task.rank)
            clean[stepd] = max(clean.get(stepd, 0), task.clean or 0)
        return {stepd: len(found) + clean[stepd] for stepd, found in ranks.items()}
