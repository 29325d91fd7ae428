"""Events of a case, sorted out: one `Attempt` per run of each job, array task or het component.

Two questions are answered for every event: whose is it (`parts`), and which run is it from (`runs`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from slurm_triage.model import (
    ControllerJob,
    Coverage,
    Event,
    HookEnv,
    JobRecord,
    Setting,
    Sign,
    Stamp,
    StepInfo,
    StepRecord,
    TaskExit,
    Voice,
)
from slurm_triage.parts import Owners, id_order, raw_ids
from slurm_triage.runs import Course, Run, appends, runs_of, trust
from slurm_triage.sluids import is_sluid, jobs, resolved

MOST_UNRECORDED = 100
"""Most jobs that are told apart when nothing but daemons' logs names them."""


@dataclass(frozen=True)
class Attempt:
    """The evidence of one attempt. `job_id` is the raw id, None when no line names one.

    `records` and `steps` are its accounting lines, most trustworthy first; `events` everything else, in the order of
    files and lines. `has_log` is False when the job's output on disk is a later attempt's. `sluid_known` is whether its
    own SLUID is known: a cgroup named by any other one is then another job's.
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
    sluid_known: bool = False
    ids: frozenset[str] = field(default_factory=frozenset)


def split(
    events: Sequence[Event],
    coverage: Sequence[Coverage] = (),
    version: tuple[int, int] | None = None,
    cluster: str | None = None,
) -> list[Attempt]:
    """All attempts of all parts, ordered by raw id and start. At least one, even when nothing names a job."""
    settings = tuple(e for e in events if isinstance(e, Setting))
    if settings:
        events = [e for e in events if not isinstance(e, Setting)]
    sluids = jobs(events)
    events = resolved(events, sluids)
    parts = raw_ids(events)
    if len(parts) > MOST_UNRECORDED and not any(isinstance(e, (JobRecord, HookEnv, ControllerJob)) for e in events):
        note = f"they tell the end of {len(parts)} jobs; only the last {MOST_UNRECORDED} were looked at"
        coverage = (*coverage, Coverage("logs of the daemons", None, note=note))
        parts = parts[-MOST_UNRECORDED:]
    parts.sort(key=id_order)
    alone = len(parts) <= 1
    books: dict[str, list[JobRecord | StepRecord]] = {raw: [] for raw in parts or [""]}
    rest: list[Event] = []
    for event in events:
        if isinstance(event, (JobRecord, StepRecord)):
            # A pasted line without an id is of the only part there is.
            raw = event.job if event.job is not None or not alone else next(iter(books))
            if raw in books:
                books[raw].append(event)
        else:
            rest.append(event)
    views: dict[str, list[HookEnv | ControllerJob]] = {raw: [] for raw in books}
    for event in rest:
        if isinstance(event, (HookEnv, ControllerJob)) and event.job in views:
            views[event.job].append(event)
    restarts: dict[str, set[int]] = {raw: set() for raw in books}
    for event in rest:
        if isinstance(event, StepInfo) and event.job in restarts and event.restart is not None:
            restarts[event.job].add(event.restart)
    runs = {raw: runs_of(books[raw], views[raw], restarts[raw]) for raw in books}
    owners = Owners(parts, events, runs)
    mine: dict[str, list[Event]] = {raw: [] for raw in books}
    for event in rest:
        for raw in owners.of(event):
            mine[raw].append(event)
    ours: dict[str, set[str]] = {}
    for name, raw in sluids.items():
        ours.setdefault(raw, set()).add(name)
    append = any(s.key == "JobFileAppend" and s.value.strip().lower() in ("1", "yes") for s in settings)
    found = [
        attempt
        for raw, of_part in runs.items()
        for attempt in _attempts(
            raw, of_part, books[raw], views[raw], mine[raw], owners.ids(raw), append, ours.get(raw, frozenset())
        )
    ]
    return [replace(a, settings=settings, coverage=tuple(coverage), version=version, cluster=cluster) for a in found]


def _attempts(
    raw: str,
    runs: Sequence[Run],
    book: Sequence[JobRecord | StepRecord],
    views: Sequence[HookEnv | ControllerJob],
    events: Sequence[Event],
    ids: frozenset[str],
    append: bool,
    sluids: Collection[str],
) -> Iterator[Attempt]:
    """The attempts of one part."""
    course = Course(runs, events, appends(book, views, append))
    course.learn((*book, *events), sluids)
    _place_steps(book, course)
    for event in events:
        run = course.run_of(event)
        if run is not None:
            run.events.append(event)
    for number, run in enumerate(runs, 1):
        said = any(isinstance(e, Sign) and e.id == "log_end" for e in run.events)
        yield _finish(run, raw, number, len(runs), ids, run is course.last or said or course.append)


def _place_steps(book: Sequence[JobRecord | StepRecord], course: Course) -> None:
    """Step lines follow the job line they belong to, in the same file."""
    by_record = {id(record): run for run in course.runs for record in run.records}
    current: dict[str, Run] = {}
    for event in book:
        if isinstance(event, JobRecord):
            current[event.cite.file] = by_record.get(id(event), course.last)
        else:
            (current.get(event.cite.file) or course.at(event.start) or course.last).steps.append(event)


def _finish(run: Run, raw: str, number: int, count: int, ids: frozenset[str], has_log: bool) -> Attempt:
    end = next((r.end for r in run.records if r.end is not None), None)
    start, started = run.start, run.started
    if (end is None or start is None) and started is not False:
        for event in run.events:
            if isinstance(event, (HookEnv, ControllerJob)):
                start = start or event.start
                end = end or event.end
    if start is not None:
        started = True
    if started is None and any(_shows_a_start(e) for e in run.events):
        started = True
    return Attempt(
        raw or None,
        number,
        count,
        tuple(sorted(run.records, key=trust)),
        tuple(sorted(run.steps, key=trust)),
        tuple(run.events),
        start=start,
        end=end,
        started=started,
        has_log=has_log,
        sluid_known=bool(run.sluids) or is_sluid(raw),
        ids=ids,
    )


def _shows_a_start(event: Event) -> bool:
    if isinstance(event, Sign):
        return event.voice in (Voice.PROGRAM, Voice.SLURM)
    return isinstance(event, TaskExit) and event.step != "extern"
