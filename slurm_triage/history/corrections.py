"""Corrections: what people know better than the diagnosis. Writing one, taking it back, and reading them.

A correction belongs to an attempt by its keys (cluster, job id, submit and start time), so recording the attempt again
leaves it alone. The latest that was not taken back counts; all are kept.
"""

from __future__ import annotations

import os
import pwd
import sqlite3
import time
from dataclasses import dataclass

from slurm_triage.clock import show
from slurm_triage.history.queries import IN_FORCE, SAME_ATTEMPT, WITH_LATEST
from slurm_triage.model import JobIdentity
from slurm_triage.report.mask import clean

WHY_LIMIT = 500
"""Characters of a reason: it stands at the top of what the user reads."""

COUNTS, REPLACED, UNDONE, UNDO, NO_ATTEMPT = "counts", "replaced", "undone", "undo", "no attempt"
"""How a row stands: it is what counts; a later one does; it was taken back; it takes one back; its attempt is gone."""


class Refused(Exception):
    """Nothing was changed; the message says why."""


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Which attempt. Texts as in the history's tables: `''` is unknown or, for `start_key`, never started."""

    cluster: str
    job_id: str
    submit_key: str
    start_key: str


@dataclass(frozen=True, slots=True)
class Correction:
    """One row. `cause` is None for a row that takes the correction `undoes` back; `owner` None = not said.

    `at` in epoch seconds. The `verdict_` members are what the diagnosis said when the row was written, the `now_`
    members what it says now. `attempt` is the id of the attempt's row; it and all that the row would say are None if
    the attempt is no longer in the history. `start_time` and `end_time` in epoch seconds, None = not known.
    """

    id: int
    key: AttemptKey
    undoes: int | None
    cause: str | None
    owner: str | None
    why: str
    by_user: str
    at: float
    verdict_cause: str
    verdict_owner: str
    verdict_strength: str
    verdict_revision: int
    standing: str
    attempt: int | None
    shown_id: str
    attempt_no: int | None
    start_time: float | None
    end_time: float | None
    now_cause: str | None
    now_owner: str | None
    now_strength: str | None

    @property
    def agrees_now(self) -> bool:
        """Whether the diagnosis has come to say the same."""
        return self.cause is not None and self.cause == self.now_cause and self.owner in (None, self.now_owner)


def key_of(job: JobIdentity) -> AttemptKey:
    """The key under which the history keeps this attempt."""
    submit, start = (show(stamp).replace("n/a", "") for stamp in (job.submit, job.start))
    return AttemptKey(job.cluster or "", job.job_id or job.shown_id or "", submit, start)


# ---------------------------------------------------------------------------------------- reading

_SELECT = f"""{WITH_LATEST}
SELECT x.*, now.attempt_no, now.start_time, now.end_time, now.cause AS now_cause, now.owner AS now_owner,
    now.strength AS now_strength, (SELECT shown_id FROM job WHERE id = now.job) AS shown_id,
    now.id AS attempt, CASE WHEN x.undoes IS NOT NULL THEN '{UNDO}' WHEN NOT ({IN_FORCE}) THEN '{UNDONE}'
        WHEN now.id IS NULL THEN '{NO_ATTEMPT}' WHEN x.id IN (SELECT correction FROM latest) THEN '{COUNTS}'
        ELSE '{REPLACED}' END AS standing
FROM correction x LEFT JOIN attempt now
    ON now.id = (SELECT a.id FROM job j JOIN attempt a ON a.job = j.id WHERE {SAME_ATTEMPT} LIMIT 1)"""


def _made(row: sqlite3.Row) -> Correction:
    values = {name: row[name] for name in Correction.__dataclass_fields__ if name not in ("key", "shown_id")}
    key = AttemptKey(*(row[name] for name in AttemptKey.__dataclass_fields__))
    return Correction(key=key, shown_id=row["shown_id"] or row["job_id"], **values)


def since(db: sqlite3.Connection, after: int = 0) -> list[Correction]:
    """Rows with an `id` above `after`, in the order in which they were written, those that take one back among them.

    For each attempt named here, `of` says what counts now. Ids only grow and no row is ever removed, so the highest one
    seen is where to go on.
    """
    return [_made(row) for row in db.execute(f"{_SELECT} WHERE x.id > ? ORDER BY x.id", (after,))]


def of(db: sqlite3.Connection, key: AttemptKey) -> Correction | None:
    """The correction that counts for an attempt of the history, None if there is none."""
    rows = db.execute(
        f"{_SELECT} WHERE x.cluster = ? AND x.job_id = ? AND x.start_key = ? ORDER BY x.id DESC",
        (key.cluster, key.job_id, key.start_key),
    )
    for found in map(_made, rows):
        both = (found.key.submit_key, key.submit_key)
        if found.standing == COUNTS and (both[0] == both[1] or (key.start_key and "" in both)):
            return found
    return None


# ---------------------------------------------------------------------------------------- writing


def reason(text: str) -> str:
    """A reason as it is stored: one line, nothing in it that a terminal would obey. Raises `ValueError` if too long."""
    found = clean(" ".join(text.split()))
    if len(found) > WHY_LIMIT:
        raise ValueError(f"the reason has {len(found)} characters; the most is {WHY_LIMIT}")
    return found


def caller() -> str:
    """Who runs this, as sudo or the system's list of users names them. No proof: the environment can be set."""
    name = os.environ.get("SUDO_USER")
    if not name:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = str(os.getuid())
    return clean(" ".join(name.split()))[:64]


def correct(db: sqlite3.Connection, row: sqlite3.Row, cause: str, owner: str | None, why: str, by: str) -> int:
    """Adds a correction of the attempt `row` (of `queries`); returns its id. Within `writing`.

    `owner` None: who has to act is as the diagnosis says if its cause is right, else not known. `why` is of `reason`.
    Raises `Refused` when that is what the diagnosis says already.
    """
    if cause == row["cause"]:
        if owner in (None, row["owner"]):
            more = "; --undo takes the correction back" if row["correction"] is not None else ""
            raise Refused(f"the diagnosis says {cause} ({row['strength']}), owner {row['owner']}, itself{more}")
        owner = owner or row["owner"]
    return _add(db, row, why, by, cause=cause, owner=owner)


def undo(db: sqlite3.Connection, row: sqlite3.Row, why: str, by: str) -> int:
    """Takes the correction that counts for the attempt `row` back; returns the id of the new row. Within `writing`.

    The correction before it counts again, if there is one. Raises `Refused` when there is nothing to take back.
    """
    if row["correction"] is None:
        raise Refused("there is no correction to take back")
    return _add(db, row, why, by, undoes=row["correction"])


def _add(
    db: sqlite3.Connection,
    row: sqlite3.Row,
    why: str,
    by: str,
    *,
    cause: str | None = None,
    owner: str | None = None,
    undoes: int | None = None,
) -> int:
    number = int(db.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM correction").fetchone()[0])
    key = (row["cluster"], row["job_id"], row["submit_key"], row["start_key"])
    verdict = (row["cause"], row["owner"], row["strength"], row["revision"])
    db.execute(
        "INSERT INTO correction VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (number, *key, undoes, cause, owner, why, by, time.time(), *verdict),
    )
    return number
