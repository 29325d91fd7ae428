"""Records of the spool as evidence: which of them belong to one attempt of a job, and under which names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_triage.spool import Record

SAME_START = 1
"""Seconds by which start times of one attempt may differ (docs/adr/0006)."""

BEFORE_START = 2.5
"""Seconds by which a line of an attempt may precede its start: prolog, rounding (docs/adr/0006)."""

SAME_WRITER = 60
"""Seconds within which one process writes the task records' name and its ticket; later its pid may be another's."""

_NODE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
_NODE_IN_LINE = re.compile(rb"[0-9.]+ node=(\S{1,64}) ")
_SLURM_IN_LINE = re.compile(rb" slurm=([0-9][0-9.]{0,19})(?: |$)", re.MULTILINE)


@dataclass
class Attempt:
    """Records of one attempt. `start` is the epoch of its start as the hooks told it, None if they did not."""

    start: int | None = None
    records: list[Record] = field(default_factory=list)


def start_of(env: Mapping[str, str]) -> int | None:
    """SLURM_JOB_START_TIME of a hook, in seconds of the epoch; None where it is missing or 0 (22.05 has none)."""
    text = env.get("SLURM_JOB_START_TIME", "")
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,10}", text) else None


def node_of(record: Record) -> str | None:
    """The node that a record is about, if it is a name of a node: Slurm's word in a ticket, else the writer's."""
    name = record.env.get("SLURMD_NODENAME", "")
    if record.kind == "tasks" and (match := _NODE_IN_LINE.match(record.data)):
        name = match[1].decode("utf-8", "replace")
    return name if _NODE.fullmatch(name) else None


def file_name(record: Record, node: str | None = None) -> str:
    """The name of a record in an evidence folder. `node` is for records that do not name one."""
    if record.kind == "epilogslurmctld":
        return "env.epilog_slurmctld.txt"
    what = record.kind if record.kind == "tasks" else f"env.{record.kind}"
    shown = node_of(record) or node
    return f"{what}.{shown}.txt" if shown else f"{what}.txt"


def names(wanted: str) -> Iterator[str]:
    """The name, then others that mean the same. Letters: a number could be taken for the id of a part of the job."""
    yield wanted
    stem, _, end = wanted.rpartition(".")
    yield from (f"{stem}.{'b' * count}.{end}" for count in range(1, 100))


def files(records: Sequence[Record]) -> dict[str, bytes]:
    """The evidence files of one attempt, with `manifest.toml`.

    Task records of one node are one file, in the order of `records`. A second ticket of one hook and node gets another
    name, unless it says the same.
    """
    found: dict[str, bytes] = {}
    nodes = {node for record in records if (node := node_of(record))}
    only = next(iter(nodes)) if len(nodes) == 1 else None
    for record in records:
        name = file_name(record, only)
        if record.kind == "tasks" and name in found:
            gap = b"" if found[name].endswith(b"\n") else b"\n"
            found[name] += gap + record.data
        elif record.data not in found.values():
            found[next(free for free in names(name) if free not in found)] = record.data
    return {"manifest.toml": _manifest(records), **found}


def _manifest(records: Sequence[Record]) -> bytes:
    lines = ["# gathered by slurm-triage spool collect", 'env_format = "nul"']
    cluster = next((name for r in records if (name := r.env.get("SLURM_CLUSTER_NAME"))), "")
    if _NODE.fullmatch(cluster):
        lines.append(f"cluster = {json.dumps(cluster)}")  # a JSON string is one of TOML
    for record in records:
        if record.kind == "tasks" and (match := _SLURM_IN_LINE.search(record.data)):
            lines.append(f'slurm = "{match[1].decode("ascii")}"')
            break
    return ("\n".join(lines) + "\n").encode("ascii")


def attempts(records: Sequence[Record]) -> list[Attempt]:
    """The attempts of one job, in the order in which they ran.

    Tickets tell them apart by the attempt's start. Where Slurm does not give it, the first ticket of a hook on a node
    is of the first attempt, and so on. Task records go with the ticket of the process that moved them; else to the
    first attempt that ended after their last line, and had started before it; else they are an attempt of their own.
    """
    in_order = sorted(records, key=lambda r: (r.mtime, r.name))
    found = _by_start([r for r in in_order if r.kind != "tasks"])
    for record in in_order:
        if record.kind == "tasks":
            owner = _of_tasks(record, found)
            if owner is None:
                found.append(Attempt(None, [record]))
            else:
                owner.records.append(record)
    return sorted(found, key=_moment)


def _moment(attempt: Attempt) -> float:
    return float(attempt.start) if attempt.start is not None else min(record.mtime for record in attempt.records)


def _by_start(tickets: Sequence[Record]) -> list[Attempt]:
    found: list[Attempt] = []
    for ticket in tickets:
        start = start_of(ticket.env)
        if start is None:
            continue
        for attempt in found:
            if attempt.start is not None and abs(attempt.start - start) <= SAME_START:
                attempt.records.append(ticket)
                break
        else:
            found.append(Attempt(start, [ticket]))
    found.sort(key=_moment)
    seen: dict[tuple[str, str | None], int] = {}
    for ticket in tickets:
        if start_of(ticket.env) is None:
            place = (ticket.kind, node_of(ticket))
            index = seen.get(place, 0)
            seen[place] = index + 1
            if index == len(found):
                found.append(Attempt())
            found[index].records.append(ticket)
    return found


def _of_tasks(record: Record, found: Sequence[Attempt]) -> Attempt | None:
    """The attempt whose task records these are, None if there is no sign of it."""
    node = node_of(record)
    for attempt in found:
        for ticket in attempt.records:
            same = ticket.kind == "spank" and ticket.pid == record.pid and node_of(ticket) in (node, None)
            if same and abs(ticket.seconds - record.seconds) <= SAME_WRITER:
                return attempt
    for attempt in found:
        ends = [ticket.mtime for ticket in attempt.records if ticket.kind != "tasks"]
        if attempt.start is not None and record.mtime < attempt.start - BEFORE_START:
            continue
        if ends and record.mtime <= max(ends):
            return attempt
    return None
