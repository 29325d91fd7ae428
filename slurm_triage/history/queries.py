"""Reading the history: filters, the times they take, and the rows they find. Imports little, to be quick."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable

TOO_MANY_NODES = 500
"""Most nodes that one filter may name (SQLite limits the values of a statement, on old versions to 999)."""

# ---------------------------------------------------------------------------------------- times

_CALENDAR = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_UNIT = r"(?:\s*(seconds?|secs?|minutes?|mins?|hours?|days?|weeks?))"
_FROM_NOW = re.compile(rf"now(?:([+-])([0-9]{{1,9}}){_UNIT}?)?", re.IGNORECASE)
_AGO = re.compile(rf"([0-9]{{1,9}}){_UNIT}\s+ago", re.IGNORECASE)
_EPOCH = re.compile(r"@([0-9]{1,11}(?:\.[0-9]{1,9})?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

TIME_FORMS = "2026-11-30, 2026-11-30T10:00, 2026-11-30T10:00:00Z, now-3days, '3 days ago' or @EPOCH"
"""The forms of a time, for messages."""


def parse_time(text: str, now: float | None = None) -> float:
    """Epoch seconds of a time on the command line.

    A date is its 00:00:00. Without a zone (`Z`, `+01:00`) it is local time, as in sacct's options. `now-3days` (units
    seconds, the default, to weeks) and `3 days ago` count from `now`, a day being 86,400 seconds; `@123` is an epoch.
    Raises `ValueError` for anything else.
    """
    text = text.strip()
    now = time.time() if now is None else now
    if match := _FROM_NOW.fullmatch(text):
        if match[2] is None:
            return now
        span = int(match[2]) * _SECONDS[(match[3] or "s")[0].lower()]
        return now - span if match[1] == "-" else now + span
    if match := _AGO.fullmatch(text):
        return now - int(match[1]) * _SECONDS[match[2][0].lower()]
    if match := _EPOCH.fullmatch(text):
        return float(match[1])
    if match := _CALENDAR.fullmatch(text):
        from datetime import datetime, timedelta, timezone

        try:
            moment = datetime(*(int(match[i] or 0) for i in range(1, 7)))  # type: ignore[arg-type]
            if match[8]:
                digits = match[8].replace(":", "")
                span = 0 if digits == "Z" else int(digits[:3]) * 60 + int(digits[0] + digits[3:])
                moment = moment.replace(tzinfo=timezone(timedelta(minutes=span)))
            return moment.timestamp() + float(match[7] or 0)
        except (ValueError, OverflowError, OSError) as error:
            raise ValueError(f"{text!r} is no time: {error}") from None
    raise ValueError(f"{text!r} is no time; write {TIME_FORMS}")


def show_time(seconds: float | None, key: str = "") -> str | None:
    """ISO 8601 in UTC; for an unknown time the text `key` (a time whose zone is not known, without Z), else None."""
    if seconds is not None:
        try:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
        except (ValueError, OverflowError, OSError):
            return None
    return key or None


# ---------------------------------------------------------------------------------------- corrections

SAME_ATTEMPT = """x.cluster = j.cluster AND x.job_id = j.job_id AND x.start_key = a.start_key
    AND (x.submit_key = j.submit_key OR (x.start_key <> '' AND (x.submit_key = '' OR j.submit_key = '')))"""
"""Whether correction `x` is about attempt `a` of job `j`. Job id and start do: a submit time may be learned later."""

IN_FORCE = "x.undoes IS NULL AND NOT EXISTS (SELECT 1 FROM correction u WHERE u.undoes = x.id)"
"""Whether `x` is a correction that nobody has taken back."""

WITH_LATEST = f"""
WITH latest AS (
    SELECT a.id AS attempt, MAX(x.id) AS correction
    FROM correction x JOIN job j ON j.job_id = x.job_id JOIN attempt a ON a.job = j.id
    WHERE {SAME_ATTEMPT} AND {IN_FORCE} GROUP BY a.id
)"""
"""Goes before a SELECT from `FROM`: the correction that counts, for each attempt that has one (there are few)."""

FROM = """FROM attempt a JOIN job j ON j.id = a.job
LEFT JOIN latest ON latest.attempt = a.id LEFT JOIN correction c ON c.id = latest.correction"""
"""Attempts `a` with their jobs `j` and the correction `c` that counts; `c.id` is NULL where there is none."""

CAUSE = "COALESCE(c.cause, a.cause)"
"""The cause of an attempt as far as is known: what lists, filters and counts look at."""

CORRECTED_OWNER = "COALESCE(c.owner, 'unknown')"
"""Who has to act by a correction: where it does not say, nobody did, since the diagnosis spoke of another cause."""

OWNER = f"CASE WHEN c.id IS NULL THEN a.owner ELSE {CORRECTED_OWNER} END"
"""Who has to act, as far as is known."""

# ---------------------------------------------------------------------------------------- filters

_JOB = re.compile(r"([0-9]{1,20})(?:([_+])([0-9]{1,10}))?")


class Filters:
    """Conditions that rows must meet, all of them; the values of one condition are alternatives."""

    def __init__(self) -> None:
        """No condition: everything."""
        self._parts: list[str] = []
        self._values: list[str | float] = []
        self._window: list[str] = []
        self._window_values: list[float] = []

    def _any(self, column: str, values: list[str]) -> None:
        self._parts.append(f"{column} IN ({', '.join('?' * len(values))})")
        self._values.extend(values)

    def user(self, values: list[str]) -> None:
        """User names; a number is also taken as uid."""
        marks = ", ".join("?" * len(values))
        self._parts.append(f"(j.user_name IN ({marks}) OR CAST(j.uid AS TEXT) IN ({marks}))")
        self._values.extend(values * 2)

    def account(self, values: list[str]) -> None:
        """Accounts."""
        self._any("j.account", values)

    def partition(self, values: list[str]) -> None:
        """Partitions of the job (one that was submitted to several has their list as it ran)."""
        self._any("j.partition", values)

    def cluster(self, values: list[str]) -> None:
        """Clusters."""
        self._any("j.cluster", values)

    def cause(self, values: list[str]) -> None:
        """Ids of causes, of a corrected row the corrected one."""
        self._as_corrected("cause", "c.cause", values)

    def owner(self, values: list[str]) -> None:
        """Owners, of a corrected row the corrected one."""
        self._as_corrected("owner", CORRECTED_OWNER, values)

    def _as_corrected(self, column: str, corrected: str, values: list[str]) -> None:
        # The two lists come from indexes, so that neither a rare nor a common value makes it read all attempts. The
        # plus keeps the order of time, in which newest() can stop early.
        marks = ", ".join("?" * len(values))
        self._parts.append(
            f"+a.id IN (SELECT id FROM attempt WHERE {column} IN ({marks}) AND id NOT IN (SELECT attempt FROM latest) "
            f"UNION ALL SELECT latest.attempt FROM latest JOIN correction c ON c.id = latest.correction "
            f"WHERE {corrected} IN ({marks}))"
        )
        self._values.extend(values * 2)

    def program(self, cluster: str, user: str, glob: str) -> None:
        """Jobs of one user on one cluster (empty: unknown) whose name matches a pattern of SQL's GLOB."""
        self._parts.append("j.cluster = ? AND COALESCE(j.user_name, '') = ? AND COALESCE(j.name, '') GLOB ?")
        self._values.extend([cluster, user, glob])

    def said_cause(self, values: list[str]) -> None:
        """Ids of causes that the diagnosis names, whatever was corrected."""
        self._any("a.cause", values)

    def attempt_no(self, number: int) -> None:
        """Attempts of this number, as counted by the evidence."""
        self._parts.append("a.attempt_no = ?")
        self._values.append(number)

    def state(self, values: list[str]) -> None:
        """Slurm states; `CANCELLED` also finds `CANCELLED by 1001`."""
        part = "(a.state = ? OR substr(a.state, 1, length(?) + 1) = ? || ' ')"
        self._parts.append("(" + " OR ".join([part] * len(values)) + ")")
        self._values.extend(v.upper() for value in values for v in (value,) * 3)

    def node(self, values: list[str]) -> None:
        """Attempts that ran on one of these nodes. Raises `ValueError` for too many."""
        if len(values) > TOO_MANY_NODES:
            raise ValueError(f"{len(values)} nodes are too many for one question; the most is {TOO_MANY_NODES}")
        marks = ", ".join("?" * len(values))
        self._parts.append(f"a.id IN (SELECT attempt FROM attempt_node WHERE node IN ({marks}))")
        self._values.extend(values)

    def since(self, seconds: float) -> None:
        """At this time or later."""
        self._window.append("a.at >= ?")
        self._window_values.append(seconds)

    def until(self, seconds: float) -> None:
        """Before this time."""
        self._window.append("a.at < ?")
        self._window_values.append(seconds)

    def job(self, text: str) -> None:
        """A job: `123` (also all tasks of an array or all parts of a het job), `1001_4`, `1111+1`.

        Raises `ValueError` for anything else.
        """
        match = _JOB.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no job id; write 123, 1001_4 (array task) or 1111+1 (part of a het job)")
        if match[2] is None:
            self._parts.append("(j.job_id = ? OR j.array_id = ? OR j.het_id = ?)")
            self._values.extend([match[1]] * 3)
            return
        kind = ("j.array_id", "j.array_task") if match[2] == "_" else ("j.het_id", "j.het_offset")
        self._parts.append(f"(({kind[0]} = ? AND {kind[1]} = ?) OR j.shown_id = ? OR j.job_id = ?)")
        self._values.extend([match[1], match[3], match[0], match[0]])

    @property
    def has_window(self) -> bool:
        """Whether a time was asked for."""
        return bool(self._window)

    def sql(self) -> tuple[str, list[str | float]]:
        """The WHERE clause and its values."""
        parts = self._parts + self._window
        return ("WHERE " + " AND ".join(parts) if parts else "", [*self._values, *self._window_values])

    def sql_outside_time(self) -> tuple[str, list[str | float]]:
        """The same for rows of unknown time, which no window can hold."""
        return "WHERE " + " AND ".join([*self._parts, "a.at IS NULL"]), list(self._values)


FILTERS: dict[str, Callable[[Filters, list[str]], None]] = {
    "cluster": Filters.cluster,
    "user": Filters.user,
    "account": Filters.account,
    "cause": Filters.cause,
    "said_cause": Filters.said_cause,
    "owner": Filters.owner,
    "node": Filters.node,
    "partition": Filters.partition,
    "state": Filters.state,
}
"""The filters that take names, by the name of their option (`_` for `-`)."""

# ---------------------------------------------------------------------------------------- rows

_COLUMNS = f"""
a.id, j.cluster, j.job_id, j.shown_id, a.attempt_no, j.user_name, j.account, j.name, j.partition, j.qos, a.state,
a.exit_code, a.signal, a.core_dumped, a.raw_status, a.shown_by_sacct, j.submit_time, j.submit_key, a.start_time,
a.start_key, a.end_time, a.at, a.nodes, a.n_nodes, a.elapsed, a.cause, a.owner, a.strength, a.summary, a.revision,
a.diagnosed_at, a.first_failure_rank, a.first_failure_node, j.array_id, j.het_id,
c.id AS correction, c.cause AS corrected_cause, {CORRECTED_OWNER} AS corrected_owner,
c.by_user AS corrected_by, c.at AS corrected_at, c.why AS corrected_why,
c.verdict_cause, c.verdict_owner, c.verdict_strength
"""


def newest(db: sqlite3.Connection, filters: Filters, limit: int | None) -> list[sqlite3.Row]:
    """Rows that meet the filters, newest first, those of unknown time last; at most `limit` (None: all).

    `cause`, `owner` and `strength` are the diagnosis's own; `correction` is NULL where nobody has corrected it.
    """
    where, values = filters.sql()
    return db.execute(
        f"{WITH_LATEST} SELECT {_COLUMNS} {FROM} {where} ORDER BY a.at DESC, a.id DESC LIMIT ?",
        [*values, -1 if limit is None else limit],
    ).fetchall()


def by_job(db: sqlite3.Connection, filters: Filters, limit: int | None) -> list[sqlite3.Row]:
    """Rows with their document (`diagnosis`), by cluster, job id and time: the attempts of a job in their order."""
    where, values = filters.sql()
    return db.execute(
        f"{WITH_LATEST} SELECT {_COLUMNS}, a.diagnosis {FROM} {where} "
        "ORDER BY j.cluster, length(j.job_id), j.job_id, COALESCE(j.submit_time, a.at), a.start_time IS NULL, "
        "a.start_time, a.start_key, a.id LIMIT ?",
        [*values, -1 if limit is None else limit],
    ).fetchall()


def unknown_time(db: sqlite3.Connection, filters: Filters) -> int:
    """How many rows meet the filters but have no known time."""
    where, values = filters.sql_outside_time()
    return int(db.execute(f"{WITH_LATEST} SELECT COUNT(*) {FROM} {where}", values).fetchone()[0])


def steps(db: sqlite3.Connection, attempt: int) -> list[sqlite3.Row]:
    """The recorded steps of an attempt (`id` of a row)."""
    return db.execute("SELECT * FROM step WHERE attempt = ? ORDER BY ordinal", (attempt,)).fetchall()


def tasks(db: sqlite3.Connection, attempt: int) -> list[sqlite3.Row]:
    """The recorded tasks of an attempt (`id` of a row)."""
    return db.execute("SELECT * FROM task WHERE attempt = ? ORDER BY ordinal", (attempt,)).fetchall()
