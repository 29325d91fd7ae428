"""`sacct --json` of 22.05 (plain numbers and strings), 23.02, and 23.11 to 26.05 (`{"set", "infinite", "number"}`).

Job by job, so that a file that was cut in the middle still gives the jobs before the cut. Exit codes are whole here
(nothing is subtracted), except that 22.05 and 23.02 print SUCCESS and 0 for every exit that was not a signal: there
only signals are taken. Sources: openapi/dbv0.0.38 and data_parser v0.0.39 to v0.0.45 of Slurm; recorded on 22.05.8,
24.11.5 and 26.05.5.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_triage.case import LINE_LIMIT, EvidenceFile
from slurm_triage.model import Cite, Event, JobRecord, ShownExit, Stamp, StepRecord, Unreadable
from slurm_triage.sources import TEXT_LIMIT, Context, _sacct, _sluid
from slurm_triage.sources._names import is_output_name

KIND = "sacct_json"

# a quote inside a JSON string is escaped, so that these cannot match inside one
_JOBS = re.compile(r'"jobs"\s*:\s*\[')
_META = re.compile(r'"meta"\s*:\s*(?=\{)')
_ACCOUNTING = re.compile(r'"(?:association|allocation_nodes|derived_exit_code|kill_request_user|sacct)"')
_CONTROLLER = re.compile(r'"(?:job_state|batch_host|last_sched_evaluation)"\s*:')
_BLANK = re.compile(r"[\s,]*")
_STEP_ID = re.compile(r"\d{1,10}(?:\+\d{1,5})?\.(\w{1,20})(?:\+\d{1,5})?")

_Json = Mapping[str, Any]


def recognise(name: str, head: Sequence[str]) -> float:
    """Whether it is an object with `jobs` as accounting prints them (`squeue --json` has `jobs` of another shape)."""
    if is_output_name(name):  # a job may print anything
        return 0.0
    text = "\n".join(head)[: 2 * LINE_LIMIT]
    if not text.lstrip().startswith("{") or _CONTROLLER.search(text):
        return 0.0
    if _ACCOUNTING.search(text):
        return 1.0 if _JOBS.search(text) else 0.6
    return 0.5 if _JOBS.search(text) and "sacct" in name else 0.0


# ----------------------------------------------------------------------------------------------- values of all shapes


def _get(value: Any, *path: str) -> Any:
    """The member at `path`, None if anything on the way is missing or no object."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _number(value: Any) -> float | None:
    """A number of any shape: plain, numeric text, or `{"set", "infinite", "number"}` (inf); None when not set."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return math.inf
        return _number(value.get("number")) if value.get("set") is True else None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18:
        return float(value)
    return None


def _count(value: Any) -> int | None:
    """A whole number that is not negative."""
    number = _number(value)
    return int(number) if number is not None and math.isfinite(number) and number >= 0 else None


def _text(value: Any) -> str | None:
    return _sacct.word(value) if isinstance(value, str) else None


def _tres(value: Any) -> str | None:
    """Trackable resources as sacct prints them in a table: `cpu=1,gres/gpu=2`."""
    if not isinstance(value, list):
        return None
    found = []
    for one in value:
        kind, name = (_text(_get(one, key)) for key in ("type", "name"))
        if kind:
            found.append(
                f"{kind}/{name}={_count(_get(one, 'count'))}" if name else f"{kind}={_count(_get(one, 'count'))}"
            )
    return ",".join(found) or None


def _verbatim(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: Any) -> Stamp | None:
    number = _count(value)
    return _sacct.epoch(number) if number else None  # 0: not set


def _words(value: Any) -> list[str]:
    """`"FAILED"` (22.05, 23.02) or `["FAILED"]`."""
    if isinstance(value, str):
        return [value]
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _exit(value: Any, trust_codes: bool) -> ShownExit | None:
    """The exit code; None when not set, not over (PENDING), or a code that this release does not print truly."""
    signal = _get(value, "signal")
    number = _count(_get(signal, "id"))
    if number is None:
        number = _count(_get(signal, "signal_id"))
    if number:
        return ShownExit(0, number)
    status = _words(_get(value, "status"))
    code = _count(_get(value, "return_code"))
    if not trust_codes or code is None or "PENDING" in status or "INVALID" in status:
        return None
    return ShownExit(code, 0)


def _trusts_codes(meta: Any, job: _Json, known: tuple[int, int] | None) -> bool:
    """Whether exit codes are true: from 23.11. By the file's own version, else by the shape of the state."""
    slurm = _get(meta, "slurm") or _get(meta, "Slurm")
    major, minor = _count(_get(slurm, "version", "major")), _count(_get(slurm, "version", "minor"))
    if major is not None and minor is not None:
        return (major, minor) >= (23, 11)
    if known is not None:
        return known >= (23, 11)
    return isinstance(_get(job, "state", "current"), list)


def _memory(job: _Json) -> tuple[int | None, str | None]:
    """Requested memory in bytes and what it is per: the total of the requested resources, else as asked (MB)."""
    for item in _get(job, "tres", "requested") or []:
        if _get(item, "type") == "mem":
            total = _count(_get(item, "count"))
            if total:
                return total << 20, None
    for key, per in (("memory_per_node", "node"), ("memory_per_cpu", "cpu")):
        size = _count(_get(job, "required", key))
        if size:
            return size << 20, per
    return None, None


def _peak(step: _Json) -> tuple[int | None, int | None, str | None]:
    """MaxRSS in bytes, its task and its node."""
    for item in _get(step, "tres", "requested", "max") or []:
        if _get(item, "type") == "mem":
            return _count(_get(item, "count")), _count(_get(item, "task")), _text(_get(item, "node"))
    return None, None, None


# ------------------------------------------------------------------------------------------------------------ records


def _job(job: _Json, cite: Cite, trust: bool, early: bool) -> JobRecord | Unreadable:
    number = _count(job.get("job_id"))
    if not number:
        return Unreadable(cite, why="a job without job_id")
    raw = str(number)
    state = _sacct.read_states(_words(_get(job, "state", "current") or job.get("state")))
    array_id = _count(_get(job, "array", "job_id")) or None
    task = _count(_get(job, "array", "task_id"))
    tasks = str(task) if task is not None else (_text(_get(job, "array", "task")) or "").strip("[]")
    het_id = _count(_get(job, "het", "job_id")) or None
    offset = _count(_get(job, "het", "job_offset"))
    shown = raw
    array_task = None
    if array_id and tasks:
        array_task = tasks if task is not None else f"[{tasks}]"
        shown = f"{array_id}_{array_task}"
    elif het_id and offset is not None:
        shown = f"{het_id}+{offset}"
    nodes = job.get("nodes") if isinstance(job.get("nodes"), str) else None
    elapsed = _number(_get(job, "time", "elapsed"))
    start, end = _time(_get(job, "time", "start")), _time(_get(job, "time", "end"))
    never = _sacct.never_started(state, "None" if start is None else None, nodes, elapsed)
    limit = _number(_get(job, "time", "limit"))
    memory, per = _memory(job)
    return JobRecord(
        cite,
        raw,
        None,
        shown_id=shown,
        array_id=str(array_id) if array_id else None,
        array_task=array_task,
        het_id=str(het_id) if het_id else None,
        het_offset=str(offset) if het_id and offset is not None else None,
        name=_verbatim(job.get("name")),
        user=_text(job.get("user")) or _text(_get(job, "association", "user")),
        account=_text(job.get("account")),
        partition=_text(job.get("partition")),
        qos=_text(job.get("qos")),
        cluster=_text(job.get("cluster")),
        state=state.word if state else None,
        flags=state.flags if state else (),
        cancelled_by=_text(job.get("kill_request_user")),
        exit=_exit(job.get("exit_code"), trust),
        derived=_exit(job.get("derived_exit_code"), trust),
        submit=_time(_get(job, "time", "submission")),
        start=None if never else start,
        started=False if never else True if start is not None and _sacct.read_nodes(nodes) else None,
        end=end,
        elapsed=elapsed,
        suspended=_number(_get(job, "time", "suspended")),
        time_limit=None if limit is None else limit * 60,
        reason=_text(_get(job, "state", "reason")),
        nodes=_sacct.read_nodes(nodes),
        n_nodes=_count(job.get("allocation_nodes")) or None,  # 0: none allocated
        failed_node=_text(job.get("failed_node")),
        req_mem=memory,
        req_mem_per=per,
        tres=_tres(_get(job, "tres", "allocated")),
        restarts=_count(job.get("restart_cnt")),
        sluid=_sluid.read(job.get("original_sluid")),
        record_sluid=_sluid.read(job.get("sluid")),
        work_dir=_verbatim(job.get("working_directory")),
        stdout=_verbatim(job.get("stdout_expanded")) or _verbatim(job.get("stdout")),
        stderr=_verbatim(job.get("stderr_expanded")) or _verbatim(job.get("stderr")),
        submit_line=_verbatim(job.get("submit_line")),
        final=_sacct.finality(state, end, early),
    )


def _step_name(step: _Json) -> str | None:
    """`batch`, `0`, ...: `{"id": "22.batch"}` from 23.11, `{"job_id": 22, "id": "batch"}` in 22.05."""
    value = _get(step, "step", "id")
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value) if value >= 0 else None
    if not isinstance(value, str):
        return None
    match = _STEP_ID.fullmatch(value)
    return match[1] if match else value if re.fullmatch(r"\w{1,20}", value) else None


def _step(step: Any, job: str | None, at: _Place, trust: bool, early: bool) -> StepRecord | Unreadable:
    name = _step_name(step) if isinstance(step, Mapping) else None
    if name is None:
        return Unreadable(at.cite(None), job, None, "a step without id")
    state = _sacct.read_states(_words(step.get("state")))
    end = _time(_get(step, "time", "end"))
    peak, task, node = _peak(step)
    return StepRecord(
        at.cite(end),
        job,
        name,
        name=_verbatim(_get(step, "step", "name")),
        state=state.word if state else None,
        cancelled_by=_text(step.get("kill_request_user")),
        exit=_exit(step.get("exit_code"), trust),
        start=_time(_get(step, "time", "start")),
        end=end,
        elapsed=_number(_get(step, "time", "elapsed")),
        nodes=_sacct.read_nodes(_text(_get(step, "nodes", "range"))),
        n_tasks=_count(_get(step, "tasks", "count")),
        max_rss=peak,
        max_rss_task=task,
        max_rss_node=node,
        submit_line=_verbatim(_get(step, "step", "submit_line")),
        final=_sacct.finality(state, end, early),
    )


# --------------------------------------------------------------------------------------------------------------- file


_JSON = json.JSONDecoder()
_STEP_KEY = re.compile(r'"id"\s*:\s*"')
_JOB_KEY = re.compile(r'"job_id"\s*:\s*[1-9]')


class _Place:
    """The line where an object begins."""

    def __init__(self, context: Context, file: EvidenceFile, text: str) -> None:
        self.context, self.file, self.text = context, file, text
        self.position, self.line = 0, 1
        self.shown = ""

    def move(self, position: int) -> None:
        """To a later position of the text."""
        self.line += self.text.count("\n", self.position, position)
        self.position = position
        begin = self.text.rfind("\n", 0, position) + 1
        stop = self.text.find("\n", begin, begin + TEXT_LIMIT)
        self.shown = self.text[begin : stop if stop >= 0 else begin + TEXT_LIMIT].rstrip("\r").lstrip("\ufeff")

    def show_key(self, stop: int, pattern: re.Pattern[str]) -> None:
        """To the line of the object that ends at `stop` which holds the key: in indented JSON its first is only `{`."""
        found = pattern.search(self.text, self.position, stop)
        if found:
            self.move(found.start())

    def show_step(self, stop: int, name: str) -> None:
        """The same for a step's id."""
        for found in _STEP_KEY.finditer(self.text, self.position, stop):
            if self.text.startswith(name + '"', found.end()) and found.end() + len(name) < stop:
                self.move(found.start())
                return

    def cite(self, at: Stamp | None) -> Cite:
        """The citation of that line."""
        return self.context.cite(KIND, self.file, self.line, self.shown, at=at)


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """A `JobRecord` and its `StepRecord`s for each job; `Unreadable` where the JSON is broken or cut."""
    text = file.text()
    yield from _sacct.settle(list(_records(text, _Place(context, file, text), context)), False)


def _decode(text: str, position: int) -> tuple[Any, int]:
    """The value at `position` and where it ends. Raises ValueError for all that is not readable JSON."""
    try:
        return _JSON.raw_decode(text, position)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _meta(text: str) -> Any:
    for match in _META.finditer(text):
        try:
            value, _ = _decode(text, match.end())
        except ValueError:
            return None
        if isinstance(_get(value, "slurm") or _get(value, "Slurm"), Mapping):
            return value
    return None


def _records(text: str, at: _Place, context: Context) -> Iterator[Event]:
    early = _sacct.asked_early(at.file.name)
    found = _JOBS.search(text)
    if not found:
        at.move(0)
        yield Unreadable(at.cite(None), why="no list of jobs in this JSON")
        return
    meta = _meta(text)
    position = found.end()
    while True:
        blank = _BLANK.match(text, position)
        position = blank.end() if blank else position
        if text.startswith("]", position):
            return
        at.move(min(position, max(len(text) - 1, 0)))
        try:
            job, position = _decode(text, position)
        except ValueError as error:
            why = "nested too deep" if "nested" in str(error) else "the JSON is broken or cut here"
            yield Unreadable(at.cite(None), why=f"{why}; the jobs from here on were not read")
            return
        if not isinstance(job, Mapping):
            yield Unreadable(at.cite(None), why="not an object in the list of jobs")
            continue
        trust = _trusts_codes(meta, job, context.manifest.version)
        at.show_key(position, _JOB_KEY)
        record = _job(job, at.cite(_time(_get(job, "time", "end"))), trust, early)
        yield record
        steps = job.get("steps")
        for step in steps if isinstance(steps, list) else ():
            name = _get(step, "step", "id")
            if isinstance(name, str):
                at.show_step(position, name)
            yield _step(step, record.job, at, trust, early)
