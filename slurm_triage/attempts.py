"""Events of a case, sorted out: one `Attempt` per run of each job, array task or het component.

Two questions are answered for every event. *Whose is it?* A line that names a job, a task or a component is theirs; a
line of a file that is the output of one of them is theirs; where several could be meant, it is nobody's. *Which run is
it from?* Requeued jobs keep their id, so a run is known by its start time, and lines that carry a time go to the run
that was the current one then. Slurm truncates the output at the start of the next run unless JobFileAppend or
--open-mode say otherwise: lines of it without a time are of the last run that started. Other lines whose time cannot
be compared with the runs' are of none of several runs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from slurm_triage.model import (
    ControllerJob,
    Coverage,
    Event,
    HookEnv,
    JobRecord,
    OomKill,
    Setting,
    Sign,
    Stamp,
    StepRecord,
    TaskExit,
    Voice,
)
from slurm_triage.nodeset import expand
from slurm_triage.sources import JOB_OUTPUT
from slurm_triage.sources._outputs import OutputNames, letters

_T = TypeVar("_T")

SLACK = 2.5
"""Seconds by which lines of one attempt may precede its start (prolog, rounding of accounting to whole seconds)."""
NODE_SLACK = 5.0
"""Seconds around a run in which a kernel line may be about it (clocks of nodes, rounding)."""
MOST_UNRECORDED = 100
"""Most jobs that are told apart when nothing but daemons' logs names them."""
MOST_NODES = 4096
"""A part on more nodes than that is taken to be on any node."""
OF_NODES = frozenset({"slurmctld_log", "slurmd_log", "kernel_log"})
"""Sources that speak of nodes and of many jobs: the file's name says nothing of whose line it is."""
ENDINGS = frozenset({
    "slurm_cancelled", "slurm_cancelled_signal", "slurm_node_failure", "slurm_preempted", "slurm_requeue",
    "slurm_time_limit",
})  # fmt: skip
"""Dated lines that slurmstepd writes into the output when a run is being ended."""
ENDS = frozenset({
    "ctld_boot_fail", "ctld_complete", "ctld_deadline", "ctld_dependency_never", "ctld_kill_request", "ctld_node_fail",
    "ctld_preempted", "ctld_prolog_fail", "ctld_requeue", "ctld_requeue_user", "ctld_time_limit",
})  # fmt: skip
"""Lines of slurmctld about the end of the job that they name."""


@dataclass(frozen=True)
class Attempt:
    """The evidence of one attempt. `job_id` is the raw id, None when no line names one.

    `records` and `steps` are its accounting lines, most trustworthy first; `events` everything else, in the order of
    files and lines. `has_log` is False when the job's output on disk is a later attempt's.
    """

    job_id: str | None = None
    number: int = 1
    count: int = 1
    records: tuple[JobRecord, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    events: tuple[Event, ...] = ()
    settings: tuple[Setting, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    version: tuple[int, int] | None = None
    cluster: str | None = None
    start: Stamp | None = None
    end: Stamp | None = None
    started: bool | None = None
    has_log: bool = True
    ids: frozenset[str] = field(default_factory=frozenset)


def split(
    events: Sequence[Event],
    coverage: Sequence[Coverage] = (),
    version: tuple[int, int] | None = None,
    cluster: str | None = None,
) -> list[Attempt]:
    """All attempts of all parts, ordered by raw id and start. At least one, even when nothing names a job."""
    parts = _raw_ids(events)
    if len(parts) > MOST_UNRECORDED and not any(isinstance(e, (JobRecord, HookEnv, ControllerJob)) for e in events):
        note = f"they tell the end of {len(parts)} jobs; only the last {MOST_UNRECORDED} were looked at"
        coverage = (*coverage, Coverage("logs of the daemons", None, note=note))
        parts = parts[-MOST_UNRECORDED:]
    parts.sort(key=_id_order)
    settings = tuple(e for e in events if isinstance(e, Setting))
    alone = len(parts) <= 1
    books: dict[str, list[JobRecord | StepRecord]] = {raw: [] for raw in parts or [""]}
    rest: list[Event] = []
    for event in events:
        if isinstance(event, (JobRecord, StepRecord)):
            # A pasted line without an id is of the only part there is.
            raw = event.job if event.job is not None or not alone else next(iter(books))
            if raw in books:
                books[raw].append(event)
        elif not isinstance(event, Setting):
            rest.append(event)
    views: dict[str, list[HookEnv | ControllerJob]] = {raw: [] for raw in books}
    for event in rest:
        if isinstance(event, (HookEnv, ControllerJob)) and event.job in views:
            views[event.job].append(event)
    runs = {raw: _runs_of(books[raw], views[raw]) for raw in books}
    owners = _Owners(parts, events, runs)
    mine: dict[str, list[Event]] = {raw: [] for raw in books}
    for event in rest:
        for raw in owners.of(event):
            mine[raw].append(event)
    append = any(s.key == "JobFileAppend" and s.value.strip().lower() in ("1", "yes") for s in settings)
    found = [
        attempt
        for raw, of_part in runs.items()
        for attempt in _attempts(raw, of_part, books[raw], views[raw], mine[raw], owners.ids(raw), append)
    ]
    return [replace(a, settings=settings, coverage=tuple(coverage), version=version, cluster=cluster) for a in found]


def _attempts(
    raw: str,
    runs: Sequence[_Run],
    book: Sequence[JobRecord | StepRecord],
    views: Sequence[HookEnv | ControllerJob],
    events: Sequence[Event],
    ids: frozenset[str],
    append: bool,
) -> Iterator[Attempt]:
    """The attempts of one part."""
    course = _Course(runs, events, _appends(book, views, append))
    _place_steps(book, course)
    for event in events:
        run = course.run_of(event)
        if run is not None:
            run.events.append(event)
    for number, run in enumerate(runs, 1):
        said = any(isinstance(e, Sign) and e.id == "log_end" for e in run.events)
        yield _finish(run, raw, number, len(runs), ids, run is course.last or said or course.append)


# ------------------------------------------------------------------------------------------------ whose event


def _base_id(text: str) -> str:
    """`1111` of `1111+1`, `1001` of `1001_4`."""
    return re.split(r"[_+]", text, maxsplit=1)[0]


def _raw_ids(events: Sequence[Event]) -> list[str]:
    """The raw job ids that the evidence is about: those of accounting, else of hooks and slurmctld's memory.

    Without either, the one that the job's own output speaks of most. A bare log of a daemon speaks of many jobs: each
    whose end it tells is a part of its own, and they come in the order of these lines.
    """
    for kinds in ((JobRecord,), (HookEnv, ControllerJob)):
        known = {e.job for e in events if isinstance(e, kinds) and e.job}
        if known:
            return list(known)
    said = Counter(_base_id(e.job) for e in events if e.job and _of_output(e) and _by_slurm(e))
    if said:
        return [said.most_common(1)[0][0]]
    ended: dict[str, None] = {}
    for event in events:
        if event.job and (isinstance(event, TaskExit) or (isinstance(event, Sign) and event.id in ENDS)):
            ended.pop(_base_id(event.job), None)
            ended[_base_id(event.job)] = None
    if ended:
        return list(ended)
    named = Counter(_base_id(e.job) for e in events if e.job)
    return [named.most_common(1)[0][0]] if named else []


def _of_output(event: Event) -> bool:
    return event.cite.source == JOB_OUTPUT


def _by_slurm(event: Event) -> bool:
    return isinstance(event, Sign) and event.voice is Voice.SLURM


def _id_order(text: str) -> tuple[int, str]:
    head = re.match(r"\d+", text)
    return (int(head[0][:18]) if head else 0, text)


def _shown_ids(event: Event) -> Iterator[str]:
    """Further names of the part that the event speaks of: `1001_4`, `1111+1`."""
    if isinstance(event, JobRecord) and event.shown_id:
        yield event.shown_id
    elif isinstance(event, (ControllerJob, HookEnv)):
        keys = ("ArrayJobId", "ArrayTaskId", "HetJobId", "HetJobOffset")
        if isinstance(event, HookEnv):
            keys = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_HET_JOB_ID", "SLURM_HET_JOB_OFFSET")
        array, task, het, offset = (event.values.get(key) for key in keys)
        if array and task:
            yield f"{array}_{task}"
        if het and offset:
            yield f"{het}+{offset}"
    elif isinstance(event, Sign) and re.fullmatch(r"\d{1,12}[_+]\d{1,9}", event.fields.get("shown", "")):
        yield event.fields["shown"]


class _Owners:
    """Whose an event is. Everything that is asked per event is looked up; 1,000 tasks of an array are usual."""

    def __init__(self, parts: Sequence[str], events: Sequence[Event], runs: Mapping[str, Sequence[_Run]]) -> None:
        self.parts = parts
        self.alone = len(parts) <= 1
        self._recorded = any(isinstance(e, (JobRecord, HookEnv, ControllerJob)) and e.job for e in events)
        self._names = {raw: raw for raw in parts}
        self._ids: dict[str, set[str]] = {raw: {raw} for raw in parts}
        for event in events:
            if event.job is None:
                continue
            base = _base_id(event.job)
            if event.job in self._ids:
                for name in _shown_ids(event):
                    self._add(event.job, name)
            elif not self._recorded and base in self._ids:
                self._add(base, event.job)  # an excerpt: no record tells tasks or components apart
        self._whole: dict[str, list[str]] = {}
        for name, raw in self._names.items():
            if name != raw and _base_id(name) not in self._ids:
                self._whole.setdefault(_base_id(name), []).append(raw)
        self._masters = {_base_id(name) for name in self._names if _base_id(name) != name}
        self._files: dict[str, tuple[str, ...]] = {}
        self._outputs = OutputNames((), {})
        self._pids: dict[str, set[tuple[str, str | None]]] = {}
        self._windows = _Windows({})
        if not self.alone:
            records = [e for e in events if isinstance(e, (JobRecord, ControllerJob, HookEnv)) and e.job in self._ids]
            self._outputs = OutputNames(records, letters(records))
            for event in events:
                if isinstance(event, TaskExit) and event.pid is not None and event.job in self._names:
                    self._pids.setdefault(str(event.pid), set()).add((self._names[event.job], event.node))
            self._windows = _Windows(runs)

    def _add(self, raw: str, name: str) -> None:
        if self._names.setdefault(name, raw) == raw:
            self._ids[raw].add(name)

    def ids(self, raw: str) -> frozenset[str]:
        """All names under which lines may speak of this part."""
        return frozenset(self._ids.get(raw, ()))

    def of(self, event: Event) -> Sequence[str]:
        """The parts that the event is evidence for.

        Logs hold lines of other jobs: slurmctld's of all jobs, a job's own output whatever it prints. A line that
        names another job is never ours; only another job's OOM kill on the node is evidence about this one, too.
        """
        if not self.parts:
            return ("",)
        if event.job is not None:
            named = self._names.get(event.job)
            if named is not None:
                return (named,)
            if isinstance(event, Sign) and event.id == "ctld_kill_request":  # scancel of an array or het job as a whole
                return self._whole.get(event.job, ())
            return self.parts if isinstance(event, OomKill) else ()
        source = event.cite.source
        if self._recorded and isinstance(event, Sign) and source == "slurmd_log":
            return ()  # slurmd serves many jobs: a line of it that names none is nobody's
        if self.alone or isinstance(event, OomKill) or source == "slurmctld_log":
            return self.parts  # what slurmctld says of a node is about every job on it
        if isinstance(event, Sign) and source == "kernel_log":
            return self._felt_by(event)
        return () if source in OF_NODES else self._of_file(event.cite.file)

    def _felt_by(self, sign: Sign) -> Sequence[str]:
        """A kernel line: of the part whose task has the pid, else of the only part that was on the node then."""
        pid = sign.fields.get("pid")
        if pid is not None and pid in self._pids:
            tasks = {raw for raw, node in self._pids[pid] if node is None or sign.node in (None, node)}
            if tasks:
                return tuple(tasks) if len(tasks) == 1 else ()
        return self._windows.only_one_at(sign.at, sign.node)

    def _of_file(self, name: str) -> Sequence[str]:
        """The part whose file this is, if exactly one's."""
        if name not in self._files:
            pieces = name.split("/")
            owners: Collection[str] = self._outputs.owners(pieces[-1])
            while pieces and not owners:
                owners = self._in_name(pieces.pop())
            self._files[name] = tuple(owners)
        found = self._files[name]
        return found if len(found) == 1 else ()

    def _in_name(self, text: str) -> set[str]:
        """The parts whose ids stand in a name: `env.epilog.c1.1003.txt`, `slurm-100_3.out`, `slurm-111+1.out`.

        `100_3` is task 3 of array 100 and never the task whose raw id is 100, known or not.
        """
        found: set[str] = set()
        words = re.split(r"([^0-9A-Za-z])", text)  # word, separator, word, ...
        index = 0
        while index < len(words):
            word = words[index]
            follows = words[index + 2] if index + 2 < len(words) else ""
            if word in self._masters and follows.isdigit() and words[index + 1] in "_+-.":
                for sign in "_+":
                    raw = self._names.get(f"{word}{sign}{follows}")
                    if raw is not None:
                        found.add(raw)
                index += 4
                continue
            if word in self._ids:
                found.add(word)
            index += 2
        return found


class _Windows:
    """When the parts ran on which nodes: what a line about a node at a time may be about."""

    def __init__(self, runs: Mapping[str, Sequence[_Run]]) -> None:
        found: dict[str | None, list[tuple[float, float, str]]] = {}
        expanded: dict[str, set[str]] = {}
        self._unknown = False
        self._zoned: set[bool] = set()
        for raw, of_part in runs.items():
            for run in of_part:
                if run.started is False:
                    continue
                end = _first(r.end for r in run.records)
                folded = _first(r.nodes for r in run.records) or ""
                if folded not in expanded:
                    expanded[folded] = {_short(n) for n in expand(folded) or ()}
                nodes = expanded[folded]
                if run.start is None or end is None or run.start.zoned != end.zoned or not 0 < len(nodes) <= MOST_NODES:
                    self._unknown = True  # a part that may have been anywhere at any time
                    continue
                self._zoned.add(run.start.zoned)
                window = (run.start.lo - NODE_SLACK, end.hi + NODE_SLACK, raw)
                for node in (*nodes, None):
                    found.setdefault(node, []).append(window)
        self._windows = {node: sorted(windows) for node, windows in found.items()}
        self._latest: dict[str | None, list[float]] = {}
        for node, windows in self._windows.items():
            latest = float("-inf")
            self._latest[node] = [latest := max(latest, window[1]) for window in windows]

    def only_one_at(self, at: Stamp | None, node: str | None) -> Sequence[str]:
        """The part that was on the node (any node, if None) at that time, if it is surely the only one."""
        if at is None or self._unknown or self._zoned != {at.zoned}:
            return ()
        key = _short(node) if node else None
        windows, latest = self._windows.get(key, []), self._latest.get(key, [])
        found: set[str] = set()
        for index in range(bisect_right(windows, (at.hi, float("inf"), "")) - 1, -1, -1):
            if latest[index] < at.lo or len(found) > 1:
                break
            if windows[index][1] >= at.lo:
                found.add(windows[index][2])
        return tuple(found) if len(found) == 1 else ()


def _short(node: str) -> str:
    return node.partition(".")[0].lower()


# ------------------------------------------------------------------------------------------------ which run


@dataclass
class _Run:
    """One attempt while it is being put together."""

    start: Stamp | None
    submit: Stamp | None
    started: bool | None
    records: list[JobRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def _same_start(one: Stamp | None, other: Stamp | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.zoned == other.zoned and abs(one.lo - other.lo) <= 1.0


def _trust(event: JobRecord | StepRecord) -> tuple[int, int, str, int]:
    final = {True: 0, None: 1, False: 2}[event.final]
    kind = {"sacct": 0, "sacct_json": 1}.get(event.cite.source, 2)
    return (final, kind, event.cite.file, event.cite.line)


def _runs_of(book: Sequence[JobRecord | StepRecord], views: Sequence[HookEnv | ControllerJob]) -> list[_Run]:
    """The attempts that accounting (else the hooks, else the controller) shows for one part, in time order."""
    runs: list[_Run] = []
    records = sorted((e for e in book if isinstance(e, JobRecord)), key=_trust)
    pieces = [r for r in records if r.state == "RESIZING"]
    for record in (r for r in records if r.state != "RESIZING"):
        for run in runs:
            if _same_attempt(run, record):
                run.records.append(record)
                run.start = run.start or record.start
                run.submit = run.submit or record.submit
                break
        else:
            runs.append(_Run(record.start, record.submit, record.started, [record]))
    if not runs:
        starts: list[Stamp] = []
        for event in views:
            if event.start is not None and not any(_same_start(event.start, start) for start in starts):
                starts.append(event.start)
        runs = [_Run(start, None, True) for start in starts] or [_Run(None, None, None)]
    runs.sort(key=lambda r: (r.start or r.submit or Stamp(float("inf"), float("inf"))).lo)
    if pieces and runs:
        runs[-1].records.extend(pieces)
    return runs


def _same_attempt(run: _Run, record: JobRecord) -> bool:
    if run.start is not None and record.start is not None:
        return _same_start(run.start, record.start)
    if run.start is None and record.start is None:
        return run.submit is None or record.submit is None or _same_start(run.submit, record.submit)
    # One of the two does not say when it started: the same attempt, unless it says that it never did or was submitted
    # at another time (slurmctld gives a requeued job a new submit time).
    if run.submit is not None and record.submit is not None and not _same_start(run.submit, record.submit):
        return False
    return record.started is not False and run.started is not False


def _waits(run: _Run) -> bool:
    """Whether the run has not started, now or ever: nothing can be its output."""
    pending = run.start is None and bool(run.records) and all(r.state == "PENDING" for r in run.records)
    return run.started is False or pending


def _appends(book: Sequence[JobRecord | StepRecord], views: Sequence[HookEnv | ControllerJob], default: bool) -> bool:
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


class _Course:
    """The runs of one part, and which of them an event is from."""

    def __init__(self, runs: Sequence[_Run], events: Sequence[Event], append: bool) -> None:
        self.runs = runs
        self.append = append
        self._ran = [r for r in runs if not _waits(r)] or list(runs)
        self.last = self._ran[-1]
        self._marks: dict[str, list[_Mark]] = {}
        if len(self._ran) > 1:
            for event in events:
                if not isinstance(event, Sign) or not _of_output(event) or not _by_slurm(event):
                    continue
                run = self.at(event.at)
                if run in self._ran and run is not self.last:
                    mark = _Mark(event.cite.line, self._ran.index(run), event.id in ENDINGS)
                    self._marks.setdefault(event.cite.file, []).append(mark)
        for marks in self._marks.values():
            marks.sort(key=lambda m: m.line)

    def run_of(self, event: Event) -> _Run | None:
        """The run that an event is from; None for one from before the first run, or if it could be of several."""
        if isinstance(event, (HookEnv, ControllerJob)) and event.start is not None:
            for run in self.runs:
                if _same_start(run.start, event.start):
                    return run
        hint = _attempt_hint(event.cite.file)
        if hint is not None and 1 <= hint <= len(self.runs):
            return self.runs[hint - 1]
        if isinstance(event, (HookEnv, ControllerJob)):
            return self.last
        if _of_output(event) and not _by_slurm(
            event
        ):  # programs print times of any zone: such a time counts only where it fits a run
            return self._inside(event.at) or self._by_line(event)
        first = self.runs[0].submit or self.runs[0].start
        of_node = isinstance(event, OomKill) or (isinstance(event, Sign) and event.voice is Voice.KERNEL)
        early = event.at is not None and first is not None and event.at.before(replace(first, lo=first.lo - SLACK))
        if early and not of_node:
            return None  # slurmctld gives a requeued job a new submit time: this is an earlier attempt's
        return self.at(event.at) or (self._by_line(event) if _of_output(event) else self._only)

    @property
    def _only(self) -> _Run | None:
        """The run of what has no time: the only one that there was."""
        return self.last if len(self._ran) == 1 else None

    def at(self, stamp: Stamp | None) -> _Run | None:
        """The run that was the current one at `stamp`; None if the times cannot be compared."""
        starts = [run.start for run in self.runs if run.start is not None]
        if stamp is None or not starts or any(start.zoned != stamp.zoned for start in starts):
            return None
        current = self.runs[0]
        for run in self.runs:
            if run.start is not None and run.start.lo - SLACK <= stamp.hi:
                current = run
        return current

    def _inside(self, stamp: Stamp | None) -> _Run | None:
        """The run during which `stamp` lies."""
        run = self.at(stamp)
        if run is None or stamp is None or run.start is None or stamp.hi < run.start.lo - SLACK:
            return None
        end = _first(r.end for r in run.records)
        return run if end is None or end.zoned != stamp.zoned or stamp.lo <= end.hi + SLACK else None

    def _by_line(self, event: Event) -> _Run | None:
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


def _place_steps(book: Sequence[JobRecord | StepRecord], course: _Course) -> None:
    """Step lines follow the job line they belong to, in the same file."""
    by_record = {id(record): run for run in course.runs for record in run.records}
    current: dict[str, _Run] = {}
    for event in book:
        if isinstance(event, JobRecord):
            current[event.cite.file] = by_record.get(id(event), course.last)
        else:
            (current.get(event.cite.file) or course.at(event.start) or course.last).steps.append(event)


def _finish(run: _Run, raw: str, number: int, count: int, ids: frozenset[str], has_log: bool) -> Attempt:
    end = next((r.end for r in run.records if r.end is not None), None)
    start, started = run.start, run.started
    if (end is None or start is None) and started is not False:
        for event in run.events:
            if isinstance(event, (HookEnv, ControllerJob)):
                start = start or event.start
                end = end or event.end
    if start is not None:
        started = True
    if started is None and any(isinstance(e, Sign) and e.voice in (Voice.PROGRAM, Voice.SLURM) for e in run.events):
        started = True
    return Attempt(
        raw or None,
        number,
        count,
        tuple(sorted(run.records, key=_trust)),
        tuple(sorted(run.steps, key=_trust)),
        tuple(run.events),
        start=start,
        end=end,
        started=started,
        has_log=has_log,
        ids=ids,
    )


def _first(values: Iterable[_T | None]) -> _T | None:
    return next((value for value in values if value is not None), None)
