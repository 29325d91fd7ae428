"""From the evidence of one attempt to the details that the history keeps beside the document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurm_triage.history.store import Detail, StepDetail, TaskDetail
from slurm_triage.model import Event, JobRecord, ShownExit, Stamp, StepRecord, TaskExit


def detail_of(records: Sequence[JobRecord], steps: Sequence[StepRecord], events: Iterable[Event]) -> Detail:
    """The details of an attempt from its accounting lines (most trustworthy first) and its other events.

    For each value the first record that knows it counts; a step or task that is read from two files is kept once.
    """
    limits = [r.time_limit for r in records if r.time_limit is not None]
    uids = [r.uid for r in records if r.uid is not None]
    dirs = [r.work_dir for r in records if r.work_dir]
    spans = [r.elapsed for r in records if r.elapsed is not None]
    counts = [r.n_nodes for r in records if r.n_nodes is not None]
    memory = [total for total in map(_memory, records) if total is not None]
    return Detail(
        uid=uids[0] if uids else None,
        work_dir=dirs[0] if dirs else None,
        req_mem=memory[0] if memory else None,
        time_limit=limits[0] if limits else None,
        elapsed=spans[0] if spans else None,
        n_nodes=counts[0] if counts else None,
        steps=_steps(steps),
        tasks=_tasks(events),
    )


def _memory(record: JobRecord) -> int | None:
    """Bytes requested for the whole job; None where a value per CPU would have to be multiplied by an unknown."""
    if record.req_mem is None or record.req_mem_per is None:
        return record.req_mem
    if record.req_mem_per == "node" and record.n_nodes:
        return record.req_mem * record.n_nodes
    return None


def _steps(records: Iterable[StepRecord]) -> tuple[StepDetail, ...]:
    found: dict[str, StepDetail] = {}
    for record in records:
        if record.step is None or record.step in found:
            continue
        found[record.step] = StepDetail(
            record.step,
            record.state,
            _code(record.exit, record.state),
            record.exit.signal if record.exit else None,
            _epoch(record.start),
            _epoch(record.end),
            record.n_tasks,
            record.max_rss,
        )
    return tuple(found.values())


def _code(shown: ShownExit | None, state: str | None) -> int | None:
    """The exit code if the text is sure to show it: where 128 may have been subtracted, 9 could be 137."""
    if shown is None:
        return None
    sure = shown.minus_128 is False or shown.code >= 128 or (shown.code == 0 and state == "COMPLETED")
    return shown.code if sure else None


def _tasks(events: Iterable[Event]) -> tuple[TaskDetail, ...]:
    found: dict[tuple[str | None, int, str | None], TaskDetail] = {}
    for event in events:
        if isinstance(event, TaskExit):
            detail = TaskDetail(
                event.rank, event.step, event.node, event.code, event.signal, event.core_dumped, _epoch(event.at)
            )
            found.setdefault((event.step, event.rank, event.node), detail)
    return tuple(found.values())


def _epoch(stamp: Stamp | None) -> float | None:
    return stamp.lo if stamp is not None and stamp.zoned else None
