"""Which rank failed first by what launchers and ranks printed, where no task's wait status tells.

Every one of these witnesses can be an echo: a launcher sees the first end of its own node, a rank may only have lost a
peer. So a rank is named only if all witnesses that speak name the same one.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_triage import signals
from slurm_triage.facts._once import once
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.log import Log
from slurm_triage.facts.ranks import task_numbers
from slurm_triage.facts.telling import Telling
from slurm_triage.model import FirstFailure, Sign

TEARDOWN = (signals.SIGTERM, signals.SIGKILL)
MANY = 100_000
"""Ranks of a step up to which the one that is missing in srun's lines is looked for."""


class FirstWords:
    """The first failing rank, as it was told."""

    def __init__(self, accounting: Accounting, exits: Exits, log: Log, telling: Telling) -> None:
        self.accounting = accounting
        self.exits = exits
        self.log = log
        self.telling = telling

    @once
    def first(self) -> FirstFailure | None:
        """The rank that every witness names; None if none speaks or they do not agree."""
        told = [*self._torchrun(), *self._mpirun(), *self._abort(), *self._own_errors(), *self._not_torn_down()]
        return told[0] if told and len({failure.rank for failure in told}) == 1 else None

    def _torchrun(self) -> Iterator[FirstFailure]:
        """`Root Cause (first observed failure)`: the first end on one node, as that node's agent saw it.

        A worker that was told to end (-15) is none. Of several nodes the earliest by their clocks counts.
        """
        found = [s for s in self.log.of("torchrun_root_cause") if s.fields.get("rank", "").isdigit()]
        found = [s for s in found if s.fields.get("exitcode") != "-15"]
        nodes = self.accounting.first(lambda r: r.n_nodes)
        if not found or (nodes is not None and nodes > 1 and len({s.fields.get("host") for s in found}) < nodes):
            return
        times = sorted(s.fields.get("time", "") for s in found)
        first = min(found, key=lambda s: s.fields.get("time", ""))
        if len(found) == 1 or (times[0] and times[0] != times[1]):
            code = first.fields.get("exitcode", "?")
            what = f"the first end that torchrun saw (exit code {code})"
            yield FirstFailure(int(first.fields["rank"]), first.fields.get("host"), first.at, what, first.cite)

    def _mpirun(self) -> Iterator[FirstFailure]:
        """mpirun, or Lightning's launcher, names the process whose end it saw first."""
        for sign in self.log.of("torchrun_child_failed"):
            if sign.fields.get("rank") and sign.fields.get("exitcode") != "-15":
                what = f"the first end that its launcher saw (exit code {sign.fields['exitcode']})"
                yield FirstFailure(int(sign.fields["rank"]), sign.node, sign.at, what, sign.cite)
        for sign in self.log.of("mpirun_task_signal", "mpi_launcher_note"):
            rank = sign.fields.get("first_rank") or (
                sign.fields.get("rank") if sign.id == "mpirun_task_signal" else None
            )
            number = signals.number_of(sign.fields.get("signal") or "")
            if rank and number != signals.SIGTERM:
                what = f"the first end that mpirun saw{f' ({signals.name(number)})' if number else ''}"
                yield FirstFailure(int(rank), sign.fields.get("node"), sign.at, what, sign.cite)

    def _abort(self) -> Iterator[FirstFailure]:
        """A rank that called MPI_Abort by itself."""
        for sign in self.log.of("mpi_abort"):
            rank = sign.fields.get("rank", "")
            if rank.isdigit() and ("application called" in sign.cite.text or "was invoked" in sign.cite.text):
                yield FirstFailure(int(rank), sign.node, sign.at, "called MPI_Abort", sign.cite)

    def _own_errors(self) -> Iterator[FirstFailure]:
        """Ranks with an error of their own: what only tells of another's end is left out."""
        seen = set()
        for sign in self.telling.own_errors:
            rank = sign.fields.get("rank", "")
            if rank.isdigit() and "rank_of" not in sign.fields and rank not in seen:
                seen.add(rank)
                yield FirstFailure(int(rank), sign.node, sign.at, "named an error of its own", sign.cite)

    def _not_torn_down(self) -> Iterator[FirstFailure]:
        """Slurm ended the step `DUE TO TASK FAILURE`: the task that srun does not report as ended by that had failed.

        Without those words it may have been done: srun --wait ends the others then. The tasks that are there are known
        from the step's record, or from a gap between the others.
        """
        lines = [s for s in self.log.of("srun_task_signal") if self._torn(s)]
        if (
            not lines
            or not self.log.of("slurm_task_failure")
            or len(self.log.of("srun_task_signal")) > len(lines)
            or self.log.of("srun_task_exit")
        ):
            return
        ended = {n for s in lines for n in task_numbers(s.fields.get("tasks") or s.fields.get("task") or "")}
        step = self.accounting.step(self.exits.last_step or "")
        count = max(step.n_tasks if step is not None and step.n_tasks else 0, max(ended, default=-1) + 1)
        if count <= MANY and len(ended) == count - 1 >= 2:
            rank = next(n for n in range(count) if n not in ended)
            yield FirstFailure(rank, None, None, "the only task that the teardown did not end", lines[0].cite)

    @staticmethod
    def _torn(sign: Sign) -> bool:
        return signals.number_of(sign.fields.get("signal", "")) in TEARDOWN
