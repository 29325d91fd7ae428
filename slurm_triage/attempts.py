"""Events of a case, sorted out: one `Attempt` per run of each job, array task or het component.

Requeued jobs keep their id, so an attempt is known by its start time. Lines that carry a time go to the attempt that
was running then; lines without one (the job's output, most of all) go to the last attempt that started, because Slurm
truncates the output at the start of the next one unless JobFileAppend says otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

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
    Voice,
)

SLACK = 2.5
"""Seconds by which lines of one attempt may precede its start (prolog, rounding of accounting to whole seconds)."""


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


def _base_id(text: str) -> str:
    """`1111` of `1111+1`, `1001` of `1001_4`."""
    return re.split(r"[_+]", text, maxsplit=1)[0]


def _raw_ids(events: Iterable[Event]) -> list[str]:
    """The raw job ids that the evidence is about, accounting first."""
    records = [e.job for e in events if isinstance(e, JobRecord) and e.job]
    if records:
        return sorted(set(records), key=_id_order)
    hooks = [e.job for e in events if isinstance(e, (HookEnv, ControllerJob)) and e.job]
    if hooks:
        return sorted(set(hooks), key=_id_order)
    tasks = Counter(_base_id(e.job) for e in events if e.job)
    return [tasks.most_common(1)[0][0]] if tasks else []


def _id_order(text: str) -> tuple[int, str]:
    head = re.match(r"\d+", text)
    return (int(head[0][:18]) if head else 0, text)


def _aliases(raw: str, events: Iterable[Event]) -> frozenset[str]:
    """All names under which lines may speak of this part: raw id, `1001_4`, `1111+1`."""
    names = {raw}
    for event in events:
        if isinstance(event, JobRecord) and event.job == raw:
            names.update(n for n in (event.shown_id,) if n)
        if isinstance(event, ControllerJob) and event.job == raw:
            array, task = event.values.get("ArrayJobId"), event.values.get("ArrayTaskId")
            if array and task:
                names.add(f"{array}_{task}")
            het, offset = event.values.get("HetJobId"), event.values.get("HetJobOffset")
            if het and offset:
                names.add(f"{het}+{offset}")
    return frozenset(names)


def _file_hint(name: str, parts: Sequence[str]) -> str | None:
    """The raw id that a file's name carries (`env.epilog.c1.1003.txt`), if exactly one part's id is in it."""
    words = set(re.split(r"[^0-9A-Za-z_+]+", name))
    hits = [part for part in parts if part in words]
    return hits[0] if len(hits) == 1 else None


def _output_files(record_events: Iterable[Event], raw: str) -> set[str]:
    """Base names of the part's output files, with Slurm's own patterns expanded where that is certain."""
    names: set[str] = set()
    for event in record_events:
        if isinstance(event, JobRecord) and event.job == raw:
            paths = [event.stdout, event.stderr]
            array = {"%A": event.array_id, "%a": event.array_task, "%j": raw, "%x": event.name, "%u": event.user}
        elif isinstance(event, ControllerJob) and event.job == raw:
            paths = [event.values.get("StdOut"), event.values.get("StdErr")]
            array = {}
        else:
            continue
        for path in paths:
            if not path:
                continue
            base = path.rsplit("/", 1)[-1]
            for pattern, value in array.items():
                if value is not None:
                    base = base.replace(pattern, value)
            if "%" not in base:
                names.add(base)
    return names


def _owned_by(
    event: Event, raw: str, aliases: frozenset[str], parts: Sequence[str], outputs: dict[str, str], sure: bool
) -> bool:
    """Whether `event` speaks of the part `raw` (or of no particular part).

    Logs hold lines of other jobs: slurmctld's of all jobs, a job's own output whatever it prints (another job's log,
    say). `sure` tells that accounting, a hook or the controller names this job.
    """
    if event.job is not None:
        if event.job in aliases:
            return True
        if isinstance(event, Sign) and event.id == "ctld_kill_request":  # scancel of an array or het job as a whole
            return any(re.match(rf"{re.escape(event.job)}[_+]", alias) for alias in aliases) and event.job not in parts
        if isinstance(event, OomKill):
            return True  # another job's kill on the node is evidence about this one too
        return not sure and len(parts) == 1 and isinstance(event, Sign)  # an excerpt: no record says which job it is
    if sure and isinstance(event, Sign) and event.cite.source == "slurmd_log":
        return False  # slurmd serves many jobs: a line of it that names none is nobody's
    if len(parts) == 1:
        return True
    base = event.cite.file.rsplit("/", 1)[-1]
    named = outputs.get(base) or _file_hint(event.cite.file, parts)
    return named is None or named == raw


def _same_start(one: Stamp | None, other: Stamp | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.zoned == other.zoned and abs(one.lo - other.lo) <= 1.0


def _trust(event: JobRecord | StepRecord) -> tuple[int, int, str, int]:
    final = {True: 0, None: 1, False: 2}[event.final]
    kind = {"sacct": 0, "sacct_json": 1}.get(event.cite.source, 2)
    return (final, kind, event.cite.file, event.cite.line)


@dataclass
class _Run:
    """One attempt while it is being put together."""

    start: Stamp | None
    submit: Stamp | None
    started: bool | None
    records: list[JobRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def _is_of(record: JobRecord | StepRecord, raw: str, alone: bool) -> bool:
    """Whether a record is of the part `raw`. A pasted line without an id is of the only part there is."""
    return record.job == raw or (record.job is None and alone)


def _runs_of(raw: str, events: Sequence[Event], alone: bool) -> list[_Run]:
    """The attempts that accounting (else the hooks, else the controller) shows for one part, in time order."""
    runs: list[_Run] = []
    records = sorted((e for e in events if isinstance(e, JobRecord) and _is_of(e, raw, alone)), key=_trust)
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
        for event in events:
            if not isinstance(event, (HookEnv, ControllerJob)) or event.job != raw or event.start is None:
                continue
            if not any(_same_start(event.start, start) for start in starts):
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
    # one of the two does not say when it started: the same attempt unless it says that it never did
    return record.started is not False and run.started is not False


def _run_at(stamp: Stamp | None, runs: Sequence[_Run]) -> _Run | None:
    """The run that was the current one at `stamp`."""
    if stamp is None:
        return None
    current: _Run | None = None
    for run in runs:
        if run.start is None:
            continue
        if run.start.zoned != stamp.zoned:
            return None
        if run.start.lo - SLACK <= stamp.hi:
            current = run
    return current or (runs[0] if runs else None)


def _attempt_hint(name: str) -> int | None:
    match = re.search(r"\.attempt(\d{1,3})\b", name)
    return int(match[1]) if match else None


def _place(event: Event, runs: Sequence[_Run], last_started: _Run) -> _Run | None:
    """The run an event belongs to; None for one from before the first run that the evidence knows of."""
    if isinstance(event, (HookEnv, ControllerJob)) and event.start is not None:
        for run in runs:
            if _same_start(run.start, event.start):
                return run
    hint = _attempt_hint(event.cite.file)
    if hint is not None and 1 <= hint <= len(runs):
        return runs[hint - 1]
    if isinstance(event, (HookEnv, ControllerJob)):
        return last_started
    first = runs[0].submit or runs[0].start
    of_node = isinstance(event, OomKill) or (isinstance(event, Sign) and event.voice is Voice.KERNEL)
    if (
        not of_node
        and event.at is not None
        and first is not None
        and event.at.before(replace(first, lo=first.lo - SLACK))
    ):
        return None  # slurmctld gives a requeued job a new submit time: this is an earlier attempt's
    return _run_at(event.at, runs) or last_started


def split(
    events: Sequence[Event],
    coverage: Sequence[Coverage] = (),
    version: tuple[int, int] | None = None,
    cluster: str | None = None,
) -> list[Attempt]:
    """All attempts of all parts, ordered by raw id and start. At least one, even when nothing names a job."""
    parts = _raw_ids(events)
    settings = tuple(e for e in events if isinstance(e, Setting))
    rest = [e for e in events if not isinstance(e, (Setting, JobRecord))]
    outputs = {name: raw for raw in parts for name in _output_files(events, raw)} if len(parts) > 1 else {}
    appends = any(s.key == "JobFileAppend" and s.value.strip() in ("1", "YES", "yes") for s in settings)
    sure = any(isinstance(e, (JobRecord, HookEnv, ControllerJob)) and e.job for e in events)
    attempts: list[Attempt] = []
    for raw in parts or [""]:
        aliases = _aliases(raw, events) if raw else frozenset()
        alone = len(parts) <= 1
        runs = _runs_of(raw, events, alone)
        last_started = next((r for r in reversed(runs) if r.started is not False), runs[-1])
        _place_steps(raw, events, runs, last_started, alone)
        for event in rest:
            if isinstance(event, StepRecord):
                continue
            if not raw or _owned_by(event, raw, aliases, parts, outputs, sure):
                run = _place(event, runs, last_started)
                if run is not None:
                    run.events.append(event)
        for number, run in enumerate(runs, 1):
            attempts.append(_finish(run, raw, number, len(runs), aliases, run is last_started or appends))
    return [replace(a, settings=settings, coverage=tuple(coverage), version=version, cluster=cluster) for a in attempts]


def _place_steps(raw: str, events: Sequence[Event], runs: Sequence[_Run], last_started: _Run, alone: bool) -> None:
    """Step lines follow the job line they belong to, in the same file."""
    by_record = {id(record): run for run in runs for record in run.records}
    current: dict[str, _Run] = {}
    for event in events:
        if isinstance(event, JobRecord) and _is_of(event, raw, alone):
            current[event.cite.file] = by_record.get(id(event), last_started)
        elif isinstance(event, StepRecord) and _is_of(event, raw, alone):
            (current.get(event.cite.file) or _run_at(event.start, runs) or last_started).steps.append(event)


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
