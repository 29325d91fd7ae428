"""Writing the history: one diagnosis in, the rows of its attempts replaced in one transaction."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from slurm_triage.clock import Clock, show
from slurm_triage.history import good_runs
from slurm_triage.history.database import HistoryError, connect, explained, writing
from slurm_triage.history.good_runs import GoodRun
from slurm_triage.model import Stamp
from slurm_triage.nodeset import fold

__all__ = ["Detail", "History", "HistoryError", "StepDetail", "TaskDetail"]

CONTRACT = "slurm-triage/diagnosis/1"
"""Schema name of the documents that can be recorded (docs/reference/diagnosis-json.md)."""

BATCH = 100
"""Diagnoses that `History.batch` writes in one transaction: others wait so long, and so many are done again at most."""

GOOD_BATCH = 1000
"""Runs that ended well which `History.record_good` writes in one transaction."""

UNLIMITED = -1.0
"""How an unlimited time limit is stored."""


@dataclass(frozen=True, slots=True)
class StepDetail:
    """A step: times in epoch seconds, `max_rss` in bytes, `code`/`signal` its exit; None = unknown."""

    step: str
    state: str | None = None
    code: int | None = None
    signal: int | None = None
    start: float | None = None
    end: float | None = None
    n_tasks: int | None = None
    max_rss: int | None = None


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """How one task ended. `at` in epoch seconds; None = unknown."""

    rank: int
    step: str | None = None
    node: str | None = None
    code: int | None = None
    signal: int | None = None
    core_dumped: bool | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """What the history keeps of an attempt and the document does not carry; None = unknown.

    `req_mem` in bytes for the whole job, `time_limit` in seconds (inf = UNLIMITED), `elapsed` in seconds,
    `diagnosed_at` in epoch seconds (default: now). `parts` has the details of the document's `parts`, in their order.
    """

    uid: int | None = None
    work_dir: str | None = None
    req_mem: int | None = None
    time_limit: float | None = None
    elapsed: float | None = None
    n_nodes: int | None = None
    steps: tuple[StepDetail, ...] = ()
    tasks: tuple[TaskDetail, ...] = ()
    diagnosed_at: float | None = None
    parts: tuple[Detail | None, ...] = ()


class History:
    """An open history, as a context manager. `db` is the connection, for `queries`."""

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        """A history on an open connection; use `open`."""
        self.db = db
        self.path = path
        self._left: int | None = None  # of a batch: how many more go into the open transaction
        self._size = 0

    @classmethod
    def open(cls, path: str | Path, readonly: bool = False) -> History:
        """Opens the file; a writer creates it (mode 0640) or brings its schema up to date. Raises `HistoryError`."""
        place = Path(path).absolute()
        return cls(connect(place, readonly=readonly), place)

    def close(self) -> None:
        """Closes the file."""
        self.db.close()

    def __enter__(self) -> History:
        """The history itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the file."""
        self.close()

    def record(self, document: Mapping[str, Any], detail: Detail | None = None) -> int:
        """Records every attempt of a diagnosis document, in one transaction; returns how many there were.

        Each part without parts of its own is an attempt; of a document without parts, the document itself. A part that
        names no job id has no identity and is not recorded. An attempt that is already there is replaced, with the
        same rows when the document is the same. Without `detail`, steps, tasks and the other details that were
        recorded earlier stay. Raises `HistoryError`, and nothing is recorded then.
        """
        with explained(self.path):
            if self._left is not None:
                return self._one_of_many(document, detail)
            with writing(self.db):
                return self._write(document, detail)

    @contextmanager
    def batch(self, size: int = BATCH) -> Iterator[None]:
        """Within it `record` writes up to `size` diagnoses in one transaction, which costs much less.

        A document that cannot be recorded costs no other. What was recorded before the last `size` stays even if the
        block, or the history, fails. Raises `HistoryError`.
        """
        self._left = self._size = size
        try:
            yield
            with explained(self.path):
                if self.db.in_transaction:
                    self.db.execute("COMMIT")
        finally:
            self._left = None
            with suppress(sqlite3.Error):
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")

    def record_good(self, runs: Sequence[GoodRun]) -> int:
        """Records runs that ended well, some in a transaction; returns how many were new. Raises `HistoryError`."""
        new = 0
        for first in range(0, len(runs), GOOD_BATCH):
            with explained(self.path), writing(self.db):
                new += good_runs.record(self.db, runs[first : first + GOOD_BATCH])
        return new

    def _one_of_many(self, document: Mapping[str, Any], detail: Detail | None) -> int:
        """Records in the open transaction; a document at fault leaves nothing behind in it."""
        assert self._left is not None
        if not self.db.in_transaction:
            self.db.execute("BEGIN IMMEDIATE")
            self._left = self._size
        self.db.execute("SAVEPOINT document")
        try:
            count = self._write(document, detail)
        except Exception:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK TO document")
                self.db.execute("RELEASE document")
            raise
        self.db.execute("RELEASE document")
        self._left -= 1
        if not self._left:
            self.db.execute("COMMIT")
        return count

    def _write(self, document: Mapping[str, Any], detail: Detail | None) -> int:
        if document.get("schema") != CONTRACT:
            raise HistoryError(
                f"history {self.path}: cannot record a document of schema {document.get('schema')!r}, only {CONTRACT}. "
                f"Record it with the slurm-triage that made it."
            )
        try:
            found = [(part, extra) for part, extra in _attempts(document, detail) if _job_id(part)]
            for part, extra in found:
                _write(self.db, self.path, part, extra)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise HistoryError(
                f"history {self.path}: the diagnosis is no document ({type(error).__name__}: {error}). Not recorded."
            ) from error
        return len(found)


# ---------------------------------------------------------------------------------------- reading the document
# The document is ours, but its texts are not: every member is taken only if it has the right type.


def _attempts(document: Mapping[str, Any], detail: Detail | None) -> Iterator[tuple[Mapping[str, Any], Detail | None]]:
    """The documents without parts of their own, in order, with their details."""
    waiting = [(document, detail)]
    while waiting:
        part, extra = waiting.pop()
        parts = _maps(part, "parts")
        if not parts:
            yield part, extra
        extras = extra.parts if extra else ()
        pairs = [(p, extras[i] if i < len(extras) else None) for i, p in enumerate(parts)]
        waiting.extend(reversed(pairs))


_MAP = (dict, Mapping)
"""What an object of a document may be; a dict is looked for first, since asking an abstract class takes long."""


def _map(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, _MAP) else {}


def _maps(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = document.get(key)
    if not isinstance(value, (list, Sequence)) or isinstance(value, (str, bytes)):
        return []
    return [item for item in value if isinstance(item, _MAP)]


def _clean(value: str) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair. All else is kept as it is."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _text(document: Mapping[str, Any], key: str) -> str | None:
    value = document.get(key)
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else _clean(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _whole(value: object, bits: int = 64) -> int | None:
    """An integer that fits into a column of so many bits, else None."""
    if isinstance(value, int) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return int(value)
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _stamp(document: Mapping[str, Any], key: str) -> Stamp | None:
    value = document.get(key)
    return _read_time(value) if isinstance(value, str) else None


@lru_cache(maxsize=1024)
def _read_time(text: str) -> Stamp | None:
    return Clock().local(text)


def _epoch(stamp: Stamp | None) -> float | None:
    """Epoch seconds; None also for a time of unknown zone, which may be half a day off."""
    return stamp.lo if stamp is not None and stamp.zoned else None


def _key(stamp: Stamp | None) -> str:
    return "" if stamp is None else show(stamp)


def _job_id(document: Mapping[str, Any]) -> str:
    job = _map(document, "job")
    return _text(job, "job_id") or _text(job, "shown_id") or ""


# ---------------------------------------------------------------------------------------- writing the rows


def _write(db: sqlite3.Connection, path: Path, document: Mapping[str, Any], detail: Detail | None) -> None:
    """One attempt: its job's row completed, its own rows replaced."""
    try:
        text = json.dumps({**document, "schema": CONTRACT}, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise HistoryError(f"history {path}: the diagnosis is not a JSON document ({error}). Not recorded.") from error
    about = _map(document, "job")
    submit, start, end = (_stamp(about, key) for key in ("submit", "start", "end"))
    job = _write_job(db, document, detail, submit, start)
    nodes = _nodes(about)
    exit_info = _map(about, "exit")
    first = _map(document, "first_failure")
    begun, ended = _epoch(start), _epoch(end)
    values: dict[str, Any] = {
        "job": job,
        "start_key": _key(start),
        "start_time": begun,
        "end_time": ended,
        "at": next((t for t in (ended, begun, _epoch(submit)) if t is not None), None),
        "attempt_no": _whole(about.get("attempt"), 32) or 1,
        "state": _text(about, "state"),
        "exit_code": _whole(exit_info.get("code")),
        "signal": _whole(exit_info.get("signal"), 32),
        "core_dumped": _whole(exit_info.get("core_dumped"), 32),
        "raw_status": _whole(exit_info.get("raw")),
        "shown_by_sacct": _text(exit_info, "shown_by_sacct"),
        "cause": _text(document, "cause") or "unknown",
        "owner": _text(document, "owner") or "unknown",
        "strength": _text(document, "strength") or "unknown",
        "summary": _text(document, "summary") or "",
        "first_failure_rank": _whole(first.get("rank"), 32),
        "first_failure_node": _text(first, "node"),
        "nodes": fold(nodes) if nodes else None,
        "diagnosis": text,
    }
    span = ended - begun if begun is not None and ended is not None and ended >= begun else None
    counted = len(nodes) or None
    old = db.execute("SELECT * FROM attempt WHERE job = ? AND start_key = ?", (job, values["start_key"])).fetchone()
    if detail is not None or old is None:
        given = detail or Detail()
        values["elapsed"] = span if _number(given.elapsed) is None else _number(given.elapsed)
        values["n_nodes"] = counted if _whole(given.n_nodes, 32) is None else _whole(given.n_nodes, 32)
    else:
        values["elapsed"] = old["elapsed"] if span is None else span
        values["n_nodes"] = old["n_nodes"] if counted is None else counted
    values["diagnosed_at"] = _number(detail.diagnosed_at) if detail else None
    if old is None:
        values["revision"] = 1
        if values["diagnosed_at"] is None:
            values["diagnosed_at"] = time.time()
        values["id"] = attempt = _next_id(db, "attempt")
        _insert(db, "attempt", values)
    else:
        attempt = int(old["id"])
        changed = any(old[key] != values[key] for key in ("cause", "owner", "strength"))
        values["revision"] = old["revision"] + changed
        if values["diagnosed_at"] is None:
            values["diagnosed_at"] = old["diagnosed_at"] if old["diagnosis"] == text else time.time()
        _update(db, "attempt", values, attempt)
    if old is not None:
        details = ("step", "task") if detail is not None else ()
        for table in ("citation", "finding", "missing", "attempt_node", *details):
            db.execute(f"DELETE FROM {table} WHERE attempt = ?", (attempt,))
    _write_document_rows(db, attempt, document, nodes, values)
    if detail is not None:
        _write_detail_rows(db, attempt, detail)


def _write_job(
    db: sqlite3.Connection,
    document: Mapping[str, Any],
    detail: Detail | None,
    submit: Stamp | None,
    start: Stamp | None,
) -> int:
    """The row of the attempt's job, found or made. What this diagnosis does not know of the job stays as it was."""
    about = _map(document, "job")
    detail = detail or Detail()
    limit = detail.time_limit
    values: dict[str, Any] = {
        "cluster": _text(about, "cluster") or "",
        "job_id": _job_id(document),
        "submit_key": _key(submit),
        "submit_time": _epoch(submit),
        "shown_id": _text(about, "shown_id"),
        "array_id": _text(about, "array"),
        "array_task": _text(about, "array_task"),
        "het_id": _text(about, "het"),
        "het_offset": _text(about, "het_offset"),
        "user_name": _text(about, "user"),
        "uid": _whole(detail.uid),
        "account": _text(about, "account"),
        "name": _text(about, "name"),
        "partition": _text(about, "partition"),
        "qos": _text(about, "qos"),
        "work_dir": None if detail.work_dir is None else _clean(detail.work_dir),
        "req_mem": _whole(detail.req_mem),
        "time_limit": UNLIMITED if limit == math.inf else _number(limit),
    }
    row = db.execute(_SAME_JOB, (values["cluster"], values["job_id"], values["submit_key"])).fetchone()
    if start is not None and not values["submit_key"]:
        same = (values["cluster"], values["job_id"], _key(start))
        row = db.execute(_SAME_ATTEMPT, same).fetchone() or row
    if row is None:
        values["id"] = _next_id(db, "job")
        _insert(db, "job", values)
    else:
        kept = {key: row[key] if value is None or value == "" else value for key, value in values.items()}
        _update(db, "job", kept, row["id"])
    number = int(values["id"] if row is None else row["id"])
    if start is not None and values["submit_key"]:
        _move_in(db, number, values, _key(start))
    return number


_SAME_JOB = "SELECT * FROM job WHERE cluster = ? AND job_id = ? AND submit_key = ?"
_SAME_ATTEMPT = """
SELECT job.* FROM job JOIN attempt ON attempt.job = job.id
WHERE cluster = ? AND job_id = ? AND submit_key <> '' AND start_key = ?
"""
"""Job id and start time are a safe key of an attempt: evidence without a submit time need not make a second row."""


def _move_in(db: sqlite3.Connection, job: int, values: Mapping[str, Any], start_key: str) -> None:
    """Moves the attempt to `job`, whose submit time is known, if it was recorded without one before."""
    identity = (values["cluster"], values["job_id"])
    nameless = "SELECT id FROM job WHERE cluster = ? AND job_id = ? AND submit_key = ''"
    db.execute(
        f"UPDATE attempt SET job = ? WHERE start_key = ? AND job IN ({nameless})",
        (job, start_key, *identity),
    )
    db.execute(f"DELETE FROM job WHERE id IN ({nameless}) AND id NOT IN (SELECT job FROM attempt)", identity)


def _nodes(about: Mapping[str, Any]) -> list[str]:
    value = about.get("nodes")
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return []
    return list(dict.fromkeys(_clean(node) for node in value if isinstance(node, str) and node))


def _write_document_rows(
    db: sqlite3.Connection, attempt: int, document: Mapping[str, Any], nodes: list[str], values: Mapping[str, Any]
) -> None:
    at = values["at"]
    db.executemany("INSERT INTO attempt_node VALUES (?, ?, ?)", [(attempt, node, at) for node in nodes])
    causes = [("cause", values["cause"], values["strength"], values["owner"], _maps(document, "evidence"))]
    for item in _maps(document, "also"):
        cause = _text(item, "cause")
        if cause:
            found = _maps(item, "evidence")
            causes.append(("also", cause, _text(item, "strength"), _text(item, "owner"), found))
    citations: list[tuple[object, ...]] = []
    for number, (*_, cites) in enumerate(causes):
        for cite in cites:
            words = [_text(cite, key) for key in ("source", "node", "file")]
            line, moment = _whole(cite.get("line"), 32), _epoch(_stamp(cite, "time"))
            citations.append((attempt, len(citations), number, *words, line, moment, _text(cite, "text")))
    db.executemany(
        "INSERT INTO finding VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(attempt, number, *cause, at) for number, (*cause, _) in enumerate(causes)],
    )
    db.executemany("INSERT INTO citation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", citations)
    db.executemany(
        "INSERT INTO missing VALUES (?, ?, ?, ?, ?)",
        [
            (attempt, number, _text(item, "fact") or "", _text(item, "would_settle"), _text(item, "how"))
            for number, item in enumerate(_maps(document, "missing"))
        ],
    )


def _write_detail_rows(db: sqlite3.Connection, attempt: int, detail: Detail) -> None:
    steps: list[dict[str, Any]] = [
        {
            "attempt": attempt,
            "ordinal": number,
            "step": _clean(step.step),
            "state": None if step.state is None else _clean(step.state),
            "exit_code": _whole(step.code),
            "signal": _whole(step.signal, 32),
            "start_time": _number(step.start),
            "end_time": _number(step.end),
            "n_tasks": _whole(step.n_tasks, 32),
            "max_rss": _whole(step.max_rss),
        }
        for number, step in enumerate(detail.steps)
    ]
    tasks: list[dict[str, Any]] = [
        {
            "attempt": attempt,
            "ordinal": number,
            "step": None if task.step is None else _clean(task.step),
            "rank": _whole(task.rank, 32),
            "node": None if task.node is None else _clean(task.node),
            "code": _whole(task.code, 32),
            "signal": _whole(task.signal, 32),
            "core_dumped": _whole(task.core_dumped, 32),
            "at": _number(task.at),
        }
        for number, task in enumerate(detail.tasks)
    ]
    _insert(db, "step", *steps)
    _insert(db, "task", *tasks)


def _next_id(db: sqlite3.Connection, table: str) -> int:
    """The next free id; safe because a record holds the write lock from its first statement on."""
    return int(db.execute(f"SELECT COALESCE(MAX(id), 0) + 1 FROM {table}").fetchone()[0])


def _insert(db: sqlite3.Connection, table: str, *rows: Mapping[str, Any]) -> None:
    """Rows of the same columns."""
    if rows:
        names = ", ".join(rows[0])
        marks = ", ".join("?" * len(rows[0]))
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        db.executemany(sql, [tuple(row.values()) for row in rows])


def _update(db: sqlite3.Connection, table: str, values: Mapping[str, Any], row: int) -> None:
    names = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE {table} SET {names} WHERE id = ?", (*values.values(), row))
