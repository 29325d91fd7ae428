"""Whose event it is: which job, array task or component of a heterogeneous job a line speaks of.

A line that names one of them is theirs; a line of a file that is the output of one of them is theirs; where several
could be meant, it is nobody's.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from slurm_triage.model import (
    ControllerJob,
    Event,
    HookEnv,
    JobRecord,
    OomKill,
    Sign,
    Stamp,
    TaskExit,
)
from slurm_triage.nodeset import expand
from slurm_triage.runs import Run, by_slurm, first, of_output
from slurm_triage.sources._outputs import OutputNames, letters

NODE_SLACK = 5.0
"""Seconds around a run in which a kernel line may be about it (clocks of nodes, rounding)."""
MOST_NODES = 4096
"""A part on more nodes than that is taken to be on any node."""
OF_NODES = frozenset({"slurmctld_log", "slurmd_log", "kernel_log"})
"""Sources that speak of nodes and of many jobs: the file's name says nothing of whose line it is."""
ENDS = frozenset({
    "ctld_boot_fail", "ctld_complete", "ctld_deadline", "ctld_dependency_never", "ctld_kill_request", "ctld_node_fail",
    "ctld_preempted", "ctld_prolog_fail", "ctld_requeue", "ctld_requeue_user", "ctld_time_limit",
})  # fmt: skip
"""Lines of slurmctld about the end of the job that they name."""


def _base_id(text: str) -> str:
    """`1111` of `1111+1`, `1001` of `1001_4`."""
    return re.split(r"[_+]", text, maxsplit=1)[0]


def raw_ids(events: Sequence[Event]) -> list[str]:
    """The raw job ids that the evidence is about: those of accounting, else of hooks and slurmctld's memory.

    Without either, the one that the job's own output speaks of most. A bare log of a daemon speaks of many jobs: each
    whose end it tells is a part of its own, and they come in the order of these lines.
    """
    for kinds in ((JobRecord,), (HookEnv, ControllerJob)):
        known = {e.job for e in events if isinstance(e, kinds) and e.job}
        if known:
            return list(known)
    said = Counter(_base_id(e.job) for e in events if e.job and of_output(e) and by_slurm(e))
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


def id_order(text: str) -> tuple[int, str]:
    """A sort key for job ids: by number, then as text."""
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


class Owners:
    """Whose an event is. Everything that is asked per event is looked up; 1,000 tasks of an array are usual."""

    def __init__(self, parts: Sequence[str], events: Sequence[Event], runs: Mapping[str, Sequence[Run]]) -> None:
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

    def __init__(self, runs: Mapping[str, Sequence[Run]]) -> None:
        found: dict[str | None, list[tuple[float, float, str]]] = {}
        expanded: dict[str, set[str]] = {}
        self._unknown = False
        self._zoned: set[bool] = set()
        for raw, of_part in runs.items():
            for run in of_part:
                if run.started is False:
                    continue
                end = first(r.end for r in run.records)
                folded = first(r.nodes for r in run.records) or ""
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
