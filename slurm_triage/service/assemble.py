"""The evidence of one job, from accounting and from what its nodes sent: which of it belongs to which attempt.

A node is believed about the jobs that accounting says it had, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurm_triage.nodeset import expand
from slurm_triage.service.glance import Glance
from slurm_triage.service.intake import Told
from slurm_triage.sources import by_kind
from slurm_triage.spool_evidence import names

RECORDS = ("env.", "tasks.")
"""How the names of records begin. Several of a kind may come from one node; of other files one counts."""
LOGS = ("kmsg.", "slurmd.", "job.")
"""Of these the longest one counts, of measurements the last one."""
KINDS = {
    "env.": "hook_env",
    "tasks.": "task_exits",
    "kmsg.": "kernel_log",
    "slurmd.": "slurmd_log",
    "job.": "job_log",
    "node.": "node_facts",
    "counters.": "node_readings",
    "gpu.": "node_readings",
    "filesystems.": "node_readings",
}
"""What nodes may send, by the beginning of the name: the kind of source that reads it (slurm_triage.sources), whatever
stands in it. Accounting is not among it: that is asked, not told."""
MOST_UNSEEN = 300
"""Most sentences about what nodes could not look at; they are for people."""
OFF = 1.0
"""Seconds by which a node's clock may be off before its times are shifted."""
CONTROLLER = "controller"


@dataclass
class Assembled:
    """Files and manifest of a case. `heard` has the nodes that spoke of the last attempt, `last` when (epoch).

    `foreign` are sentences about what was left out because its sender has no say in the job.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    not_seen: list[str] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)
    last: float = 0.0
    foreign: list[str] = field(default_factory=list)


def assemble(glance: Glance, told: Iterable[Told]) -> Assembled:
    """What the nodes of a job sent, under the names of an evidence folder."""
    found = Assembled()
    several = len(glance.attempts) > 1
    # A job of thousands of nodes has as many cases: nothing here may look through all of them for each.
    nodes = [frozenset(expand(attempt.nodes) or ()) for attempt in glance.attempts]
    records: set[bytes] = set()
    unseen: dict[str, None] = {}
    for case in sorted(told, key=lambda one: one.received):
        index = glance.attempt_of(case.start, case.ended)
        why = _foreign(glance, case, index, nodes)
        if why:
            found.foreign.append(why)
            continue
        assert index is not None
        number = index + 1 if several else None
        renamed = _add(found.files, case, number, records)
        _merge(found.manifest, _shifted(case), renamed)
        unseen.update(dict.fromkeys(case.not_seen))
        if index == len(glance.attempts) - 1:
            if case.role != CONTROLLER:
                found.heard.add(case.node)
            found.last = max(found.last, case.ended)
    found.not_seen = list(unseen)[:MOST_UNSEEN]
    if len(unseen) > MOST_UNSEEN:
        found.not_seen.append(f"nodes: {len(unseen) - MOST_UNSEEN} more things that they could not look at")
    if found.files:
        found.not_seen += _silent(glance, found)
    return found


def _foreign(glance: Glance, case: Told, index: int | None, nodes: Sequence[frozenset[str]]) -> str:
    """Why a case is not evidence of the job; empty if it is. `nodes` are those of each attempt."""
    if index is None:
        return f"{case.node} speaks of an attempt that accounting does not have"
    attempt = glance.attempts[index]
    if attempt.uid is not None and case.uid >= 0 and case.uid != attempt.uid:
        return f"{case.node} speaks of a job of uid {case.uid}, accounting of uid {attempt.uid}"
    if case.role != CONTROLLER and case.node not in nodes[index]:
        return f"{case.node} speaks of a job that it did not have"
    return ""


def _add(files: dict[str, bytes], case: Told, number: int | None, records: set[bytes]) -> dict[str, str]:
    """Puts the files of a case to the others; returns the new names by the old. `records` are those seen so far."""
    renamed: dict[str, str] = {}
    for name, data in case.files.items():
        if KINDS.get(name[: name.find(".") + 1]) not in by_kind():
            continue  # nothing here reads it, and it must not be taken for something else
        wanted = name if number is None else _of_attempt(name, number)
        if name.startswith(RECORDS):
            if data in records:
                continue
            records.add(data)
            free = next((free for free in names(wanted) if free not in files), None)
            if free is None:
                continue  # a hundred of one kind from one node: no agent sends so many
            wanted = free
        elif name.startswith(LOGS) and wanted in files and len(files[wanted]) >= len(data):
            continue  # several nodes can read one output file, and of a second look at a ring the start is gone
        files[wanted] = data
        renamed[name] = wanted
    return renamed


def _of_attempt(name: str, number: int) -> str:
    stem, dot, rest = name.partition(".")
    return f"{stem}.attempt{number}{dot}{rest}"


def _shifted(case: Told) -> Mapping[str, Any]:
    """The manifest of a case, with the epoch of kernel time 0 by the service's clock."""
    boot = case.manifest.get("boot_epoch")
    if not isinstance(boot, dict) or abs(case.offset) <= OFF:
        return case.manifest
    moved = {node: at + case.offset for node, at in boot.items() if isinstance(at, (int, float))}
    return {**case.manifest, "boot_epoch": moved}


def _merge(into: dict[str, Any], more: Mapping[str, Any], renamed: Mapping[str, str]) -> None:
    for key, value in more.items():
        if key == "line_ranges" and isinstance(value, dict):
            kept = {renamed[name]: ranges for name, ranges in value.items() if name in renamed}
            into.setdefault(key, {}).update(kept)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            into[key].update(value)
        elif isinstance(value, dict):
            into[key] = dict(value)  # the case's own must stay as it is
        else:
            into[key] = value


def _silent(glance: Glance, found: Assembled) -> list[str]:
    """A sentence about the nodes of the last attempt that sent nothing."""
    if not glance.attempts:
        return []
    silent = [node for node in expand(glance.attempts[-1].nodes) or () if node not in found.heard]
    if not silent:
        return []
    some = ", ".join(silent[:3]) + (f" and {len(silent) - 3} more" if len(silent) > 3 else "")
    return [f"kernel log: {some} sent nothing: nothing went wrong there that its witnesses saw, or it could not"]


def everybody_spoke(glance: Glance, found: Assembled) -> bool:
    """Whether every node of the last attempt sent its evidence."""
    nodes: Sequence[str] = tuple(expand(glance.attempts[-1].nodes) or ()) if glance.attempts else ()
    return bool(nodes) and all(node in found.heard for node in nodes)
