"""Which run of a part an event is from.

Requeued jobs keep their id, so a run is known by its start time, and lines that carry a time go to the run that was the
current one then. Slurm truncates the output at the start of the next run unless JobFileAppend or --open-mode say
otherwise: lines of it without a time are of the last run that started. Records of the SPANK plugin say how often the
job was requeued before. A line of the kernel with the SLUID of a run is of that run (see `sluids`). Other lines whose
time cannot be compared with the runs' are of none of several runs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from slurm_triage.model import (
    ControllerJob,
    Event,
    HookEnv,
    JobRecord,
    MemoryCounters,
    OomKill,
    Sign,
    Stamp,
    StepInfo,
    StepRecord,
    TaskExit,
    Voice,
)
from slurm_triage.sluids import in_path, of_cgroup, said_by
from slurm_triage.sources import JOB_OUTPUT

_T = TypeVar("_T")

SLACK = 2.5
"""Seconds by which lines of one attempt may precede its start (prolog, rounding of accounting to whole seconds)."""
ENDINGS = frozenset({
    "slurm_cancelled", "slurm_cancelled_signal", "slurm_node_failure", "slurm_preempted", "slurm_requeue",
    "slurm_time_limit",
})  # fmt: skip
"""Dated lines that slurmstepd writes into the output when a run is being ended."""


def of_output(event: Event) -> bool:
    """Whether the event is a line of a job's own output."""
    return event.cite.source == JOB_OUTPUT


def by_slurm(event: Event) -> bool:
    """Whether Slurm speaks in the line."""
    return isinstance(event, Sign) and event.voice is Voice.SLURM


@dataclass
class Run:
    """One attempt while it is being put together."""

    start: Stamp | None
    submit: Stamp | None
    started: bool | None
    restart: int | None = None
    """How often the job had been requeued before this attempt, None if not known."""
    records: list[JobRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    sluids: set[str] = field(default_factory=set)
    """The SLUIDs that surely name the cgroups of this attempt: one, as far as anything tells it."""


def _same_start(one: Stamp | None, other: Stamp | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.zoned == other.zoned and abs(one.lo - other.lo) <= 1.0


def _close(one: Stamp | None, other: Stamp | None) -> bool:
    """Whether the two are one moment, as two daemons saw it."""
    apart = one.seconds_since(other) if one is not None and other is not None else None
    return apart is not None and abs(apart) <= SLACK


def _lasts(run: Run, at: Stamp | None) -> bool:
    """Whether the run had surely begun at that time and not yet ended."""
    end = first(r.end for r in run.records)
    if at is None or run.start is None or end is None or not at.zoned == run.start.zoned == end.zoned:
        return False
    return at.hi >= run.start.lo - SLACK and at.lo <= end.hi


def trust(event: JobRecord | StepRecord) -> tuple[int, int, str, int]:
    """A sort key: the most trustworthy record first (final before early, text before JSON before pasted tables)."""
    final = {True: 0, None: 1, False: 2}[event.final]
    kind = {"sacct": 0, "sacct_json": 1}.get(event.cite.source, 2)
    return (final, kind, event.cite.file, event.cite.line)


def runs_of(
    book: Sequence[JobRecord | StepRecord], views: Sequence[HookEnv | ControllerJob], restarts: Collection[int] = ()
) -> list[Run]:
    """The attempts that accounting (else the hooks, else the controller) shows for one part, in time order.

    Where none of them tells when an attempt started, each of the requeue counts `restarts` is one.
    """
    runs: list[Run] = []
    records = sorted((e for e in book if isinstance(e, JobRecord)), key=trust)
    pieces = [r for r in records if r.state == "RESIZING"]
    for record in (r for r in records if r.state != "RESIZING"):
        for run in runs:
            if _same_attempt(run, record):
                run.records.append(record)
                run.start = run.start or record.start
                run.submit = run.submit or record.submit
                break
        else:
            runs.append(Run(record.start, record.submit, record.started, records=[record]))
    if not runs:
        starts: list[Stamp] = []
        for event in views:
            if event.start is not None and not any(_same_start(event.start, start) for start in starts):
                starts.append(event.start)
        runs = [Run(start, None, True) for start in starts]
        if not runs and len(restarts) > 1:
            runs = [Run(None, None, True, restart) for restart in sorted(restarts)]
        runs = runs or [Run(None, None, None)]
    runs.sort(key=lambda r: (r.start or r.submit or Stamp(float("inf"), float("inf"))).lo)
    if pieces and runs:
        runs[-1].records.extend(pieces)
    for run in runs:
        said = {r.restarts for r in run.records if r.restarts is not None}
        if len(said) == 1:
            run.restart = said.pop()
    return runs


def _same_attempt(run: Run, record: JobRecord) -> bool:
    if run.start is not None and record.start is not None:
        return _same_start(run.start, record.start)
    if run.start is None and record.start is None:
        return run.submit is None or record.submit is None or _same_start(run.submit, record.submit)
    # One of the two does not say when it started: the same attempt, unless it says that it never did or was submitted
    # at another time (slurmctld gives a requeued job a new submit time).
    if run.submit is not None and record.submit is not None and not _same_start(run.submit, record.submit):
        return False
    return record.started is not False and run.started is not False


def _waits(run: Run) -> bool:
    """Whether the run has not started, now or ever: nothing can be its output."""
    pending = run.start is None and bool(run.records) and all(r.state == "PENDING" for r in run.records)
    return run.started is False or pending


def appends(book: Sequence[JobRecord | StepRecord], views: Sequence[HookEnv | ControllerJob], default: bool) -> bool:
    """Whether the output of the next run is appended: --open-mode of sbatch, else JobFileAppend of the cluster."""
    lines = [r.submit_line for r in book if isinstance(r, JobRecord) and r.submit_line]
    lines += [v.values["SubmitLine"] for v in views if v.values.get("SubmitLine")]
    for line in lines:
        mode = re.search(r"\s--open-mode[= ]([at])", line)
        if mode:
            return mode[1] == "a"
    return default


def _attempt_hint(name: str) -> int | None:
    match = re.search(r"\.attempt(\d{1,3})\b", name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class _Mark:
    """A line of the output whose time is in the run `run` (by index); `ending` if that run was ended there."""

    line: int
    run: int
    ending: bool


class Course:
    """The runs of one part, and which of them an event is from."""

    def __init__(self, runs: Sequence[Run], events: Sequence[Event], append: bool) -> None:
        self.runs = runs
        self.append = append
        self._ran = [r for r in runs if not _waits(r)] or list(runs)
        self.last = self._ran[-1]
        self._marks: dict[str, list[_Mark]] = {}
        if len(self._ran) > 1:
            for event in events:
                if not isinstance(event, Sign) or not of_output(event) or not by_slurm(event):
                    continue
                run = self.at(event.at)
                if run in self._ran and run is not self.last:
                    mark = _Mark(event.cite.line, self._ran.index(run), event.id in ENDINGS)
                    self._marks.setdefault(event.cite.file, []).append(mark)
        for marks in self._marks.values():
            marks.sort(key=lambda m: m.line)
        counts = [run.restart for run in self.runs]
        whole = None not in counts and len(set(counts)) == len(counts)
        self._by_count = {run.restart: run for run in self.runs if run.restart is not None} if whole else {}
        self._requeues = sorted(
            {(e.at.hi, e.restart) for e in events if isinstance(e, StepInfo) and e.at and e.restart is not None}
        )
        self._by_sluid: dict[str, Run] = {}

    def learn(self, witnesses: Iterable[Event], ours: Collection[str]) -> None:
        """Which run has which of the SLUIDs `ours`, as accounting, hooks, slurmctld, slurmd and task records say it.

        One that seems to be of two runs is of neither.
        """
        said: dict[str, dict[int, Run]] = {}
        named: list[tuple[str, Run]] = []
        for event in witnesses:
            names = [name for name in said_by(event) if name in ours]
            run = self._named_in(event) if names else None
            if run is not None:
                for name in names:
                    said.setdefault(name, {})[id(run)] = run
                named += [(name, run) for name in names if name == of_cgroup(event)]
        self._by_sluid = {name: next(iter(found.values())) for name, found in said.items() if len(found) == 1}
        for name, run in named:
            if self._by_sluid.get(name) is run:
                run.sluids.add(name)

    def _named_in(self, event: Event) -> Run | None:
        """The run whose SLUID the event tells; None where it may be that of another attempt, seen here or not."""
        if isinstance(event, JobRecord):
            if event.state == "RESIZING":  # the next record of the same run begins where this one ends
                return self.at(event.end) or self._only
            return next((run for run in self.runs if any(record is event for record in run.records)), None)
        if isinstance(event, StepInfo):
            return self.run_of(event)
        if isinstance(event, (HookEnv, ControllerJob)):
            found = [run for run in self.runs if _same_start(run.start, event.start)]
        elif isinstance(event, Sign) and event.id == "ctld_submit":
            found = [run for run in self.runs if _close(run.submit, event.at)]
        else:
            found = [run for run in self.runs if _lasts(run, event.at)]
        return found[0] if len(found) == 1 else None

    def run_of(self, event: Event) -> Run | None:
        """The run that an event is from; None for one from before the first run, or if it could be of several."""
        if isinstance(event, (HookEnv, ControllerJob)) and event.start is not None:
            for known in self.runs:
                if _same_start(known.start, event.start):
                    return known
        sluid = in_path(event)
        if sluid is not None and sluid in self._by_sluid:
            return self._by_sluid[sluid]
        hint = _attempt_hint(event.cite.file)
        if hint is not None and 1 <= hint <= len(self.runs):
            return self.runs[hint - 1]
        if isinstance(event, (HookEnv, ControllerJob)):
            return self.at(event.at) or self.last
        record = event if isinstance(event, (StepInfo, TaskExit, MemoryCounters)) else None
        if record is not None and record.restart is not None and self._by_count:
            return self._by_count.get(record.restart)
        if of_output(event) and not by_slurm(
            event
        ):  # programs print times of any zone: such a time counts only where it fits a run
            return self._inside(event.at) or self._by_line(event)
        first = self.runs[0].submit or self.runs[0].start
        of_node = isinstance(event, OomKill) or (isinstance(event, Sign) and event.voice is Voice.KERNEL)
        early = event.at is not None and first is not None and event.at.before(replace(first, lo=first.lo - SLACK))
        if early and not of_node:
            return None  # slurmctld gives a requeued job a new submit time: this is an earlier attempt's
        run = self.at(event.at)
        count = self._requeues_before(record) if run is None and record is not None else None
        if count is not None and self._by_count:
            return self._by_count.get(count)
        if count is not None and len(self.runs) > 1:
            return self.runs[count] if count < len(self.runs) else None
        return run or (self._by_line(event) if of_output(event) else self._only)

    def _requeues_before(self, record: StepInfo | TaskExit | MemoryCounters) -> int | None:
        """How often the job had been requeued before the attempt that the record is of, None if it cannot be told.

        Steps do not know that number; the batch scripts before and after them in time do, if no attempt is between.
        """
        if record.restart is not None or record.at is None:
            return record.restart
        index = bisect_left(self._requeues, (record.at.lo, 0))
        before = self._requeues[index - 1][1] if index else -1
        if index < len(self._requeues) and self._requeues[index][1] - before <= 1:
            return self._requeues[index][1]
        return None

    @property
    def _only(self) -> Run | None:
        """The run of what has no time: the only one that there was."""
        return self.last if len(self._ran) == 1 else None

    def at(self, stamp: Stamp | None) -> Run | None:
        """The run that was the current one at `stamp`; None if the times cannot be compared."""
        starts = [run.start for run in self.runs if run.start is not None]
        if stamp is None or not starts or any(start.zoned != stamp.zoned for start in starts):
            return None
        current = self.runs[0]
        for run in self.runs:
            if run.start is not None and run.start.lo - SLACK <= stamp.hi:
                current = run
        return current

    def _inside(self, stamp: Stamp | None) -> Run | None:
        """The run during which `stamp` lies."""
        run = self.at(stamp)
        if run is None or stamp is None or run.start is None or stamp.hi < run.start.lo - SLACK:
            return None
        end = first(r.end for r in run.records)
        return run if end is None or end.zoned != stamp.zoned or stamp.lo <= end.hi + SLACK else None

    def _by_line(self, event: Event) -> Run | None:
        """The run of a line of the output that has no time, by what stands before and after it in the file."""
        marks = self._marks.get(event.cite.file)
        if not marks and (len(self._ran) == 1 or not self.append):
            return self.last
        first, last = 0, len(self._ran) - 1
        for mark in marks or ():
            if mark.line >= event.cite.line:
                last = mark.run
                break
            first = mark.run + mark.ending
        return self._ran[last] if min(first, last) == last else None


def first(values: Iterable[_T | None]) -> _T | None:
    """The first value that is not None."""
    return next((value for value in values if value is not None), None)
