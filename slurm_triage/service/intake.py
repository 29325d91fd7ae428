"""What nodes have sent, on disk until its jobs are forgotten: idempotent, bounded, and shared by two threads.

The listener puts evidence in, the rounds take it out. A case that is sent again is the same case.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_triage.service.store import Store
from slurm_triage.transport.message import Malformed, Message, pack, unpack

FILE = "intake.sqlite"
MOST_CASES = 200_000
MOST_BYTES = 4 * 1024**3
MOST_OF_HOST = 32
"""Cases that one host may send of a job: a few for each attempt, whatever runs there."""
MOST_OF_JOB = 64 * 1024 * 1024
"""Bytes of files that are taken out of one job: thousands of nodes may have sent some."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS told (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    digest TEXT NOT NULL,
    received REAL NOT NULL,
    size INTEGER NOT NULL,
    packed BLOB NOT NULL,
    UNIQUE (job, digest)
);
CREATE INDEX IF NOT EXISTS told_by_time ON told (received);
CREATE TABLE IF NOT EXISTS job (
    job TEXT PRIMARY KEY,
    array TEXT,
    first REAL NOT NULL,
    last REAL NOT NULL,
    news INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS job_by_news ON job (news, last);
CREATE TABLE IF NOT EXISTS host (
    job TEXT NOT NULL,
    node TEXT NOT NULL,
    cases INTEGER NOT NULL,
    PRIMARY KEY (job, node)
) WITHOUT ROWID;
"""


class IntakeError(Exception):
    """Evidence cannot be kept or read; the message says why. What was sent was not taken."""


@dataclass(frozen=True)
class Told:
    """What one host said of one attempt of a job.

    `start` is the attempt's as its hooks had it, None if they had none; `ended` the epoch of the last record, by the
    service's clock; `offset` the seconds by which the sender's clock was behind it.
    """

    job: str
    start: int | None
    node: str
    role: str
    uid: int
    array: tuple[str, str] | None
    ended: float
    offset: float
    received: float
    manifest: Mapping[str, Any]
    not_seen: tuple[str, ...]
    files: Mapping[str, bytes]


class Intake:
    """The store in a folder. Each thread has a connection of its own. Raises `IntakeError`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._store = Store(self.path, _SCHEMA, IntakeError)
        self.dropped = 0

    # -------------------------------------------------------------------------------------------- putting in

    def put(self, cases: Sequence[Told], now: float) -> None:
        """Keeps these cases, all in one transaction, which is on disk afterwards. Raises `IntakeError`."""
        rows = []
        for told in cases:
            packed = pack(Message("told", _head(told), told.files))
            rows.append((told.job, _digest(told), now, len(packed), packed))
        with self._store.changing() as db:
            for told, row in zip(cases, rows, strict=True):
                if self._enough(db, told):
                    self.dropped += 1
                    continue
                news = db.execute(
                    "INSERT INTO told (job, digest, received, size, packed) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    row,
                ).rowcount
                if news > 0:
                    array = "_".join(told.array) if told.array else None
                    db.execute(
                        "INSERT INTO job (job, array, first, last, news) VALUES (?, ?, ?, ?, 1) "
                        "ON CONFLICT (job) DO UPDATE SET last = excluded.last, news = news + 1, "
                        "array = coalesce(job.array, excluded.array)",
                        (told.job, array, now, now),
                    )
                    db.execute(
                        "INSERT INTO host (job, node, cases) VALUES (?, ?, 1) "
                        "ON CONFLICT (job, node) DO UPDATE SET cases = cases + 1",
                        (told.job, told.node),
                    )

    def _enough(self, db: sqlite3.Connection, told: Told) -> bool:
        """Whether this host has said enough of this job."""
        row = db.execute("SELECT cases FROM host WHERE job = ? AND node = ?", (told.job, told.node)).fetchone()
        return row is not None and row[0] >= MOST_OF_HOST

    # -------------------------------------------------------------------------------------------- taking out

    def news(self, until: float) -> list[tuple[str, str, float]]:
        """(raw id, id that Slurm shows, epoch of the last case) of jobs with evidence that no round has used.

        Of those only whose last evidence came before `until`; the ones that wait longest first.
        """
        with self._store.reading() as db:
            rows = db.execute("SELECT job, array, last FROM job WHERE news > 0 AND last <= ? ORDER BY first", (until,))
            return [(str(job), str(array or job), float(last)) for job, array, last in rows]

    def of(self, jobs: Iterable[str]) -> dict[str, list[Told]]:
        """What was sent of these jobs, with at most `MOST_OF_JOB` bytes of each. A case that cannot be read is gone."""
        found: dict[str, list[Told]] = {}
        with self._store.reading() as db:
            for job in jobs:
                room, damaged = MOST_OF_JOB, []
                for row, received, packed in db.execute(
                    "SELECT id, received, packed FROM told WHERE job = ? ORDER BY id", (job,)
                ):
                    try:
                        told = _told(unpack(packed), received)
                    except (Malformed, ValueError):
                        damaged.append((row,))
                        continue
                    size = sum(map(len, told.files.values()))
                    room -= size
                    if room < 0 < size:
                        why = f"evidence of {told.node or 'the controller'}: left out, there is too much of this job"
                        told = replace(told, files={}, not_seen=(*told.not_seen, why))
                    found.setdefault(job, []).append(told)
                self.dropped += len(damaged)
                db.executemany("DELETE FROM told WHERE id = ?", damaged)  # else it would be news for ever
        return found

    def used(self, cases: Iterable[tuple[str, int]]) -> None:
        """So many cases (number that was seen) of each job were used by a round: no news any more, unless more came."""
        with self._store.changing() as db:
            for job, seen in cases:
                db.execute(
                    "UPDATE job SET news = 0 WHERE job = ? AND (SELECT count(*) FROM told WHERE job = ?) <= ?",
                    (job, job, seen),
                )

    def forget(self, before: float) -> int:
        """Takes away what came before an epoch, then the oldest of what is too much; says how many unused that lost."""
        with self._store.changing() as db:
            count, size = db.execute("SELECT count(*), coalesce(sum(size), 0) FROM told").fetchone()
            if count > MOST_CASES or size > MOST_BYTES:
                share = max(1 - MOST_CASES / max(count, 1), 1 - MOST_BYTES / max(size, 1)) + 0.05
                row = db.execute(
                    "SELECT received FROM told ORDER BY received LIMIT 1 OFFSET ?", (int(count * share),)
                ).fetchone()
                before = max(before, row[0] if row else before)
            lost = db.execute("SELECT count(*) FROM job WHERE news > 0 AND last < ?", (before,)).fetchone()[0]
            db.execute("DELETE FROM told WHERE received < ?", (before,))
            db.execute("DELETE FROM host WHERE job IN (SELECT job FROM job WHERE last < ?)", (before,))
            db.execute("DELETE FROM job WHERE last < ?", (before,))
        self.dropped += lost
        return int(lost)

    def waiting(self) -> int:
        """How many jobs have evidence that no round has used."""
        with self._store.reading() as db:
            return int(db.execute("SELECT count(*) FROM job WHERE news > 0").fetchone()[0])


def _head(told: Told) -> dict[str, Any]:
    return {
        "job": told.job,
        "start": told.start,
        "node": told.node,
        "role": told.role,
        "uid": told.uid,
        "array": told.array,
        "ended": told.ended,
        "offset": told.offset,
        "manifest": dict(told.manifest),
        "not_seen": list(told.not_seen),
    }


def _told(message: Message, received: float) -> Told:
    head = message.head
    try:
        array = tuple(head["array"]) if head["array"] else None
        return Told(
            job=head["job"], start=head["start"], node=head["node"], role=head["role"], uid=head["uid"],
            array=array, ended=head["ended"], offset=head["offset"], received=received,
            manifest=head["manifest"], not_seen=tuple(head["not_seen"]), files=message.files,
        )  # fmt: skip
    except (KeyError, TypeError) as error:
        raise ValueError("no case") from error


def _digest(told: Told) -> str:
    """Of what was said, without when: what is sent again is the same."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in told.files.items()}
    said = [told.job, told.start, told.node, told.role, sorted(sums.items())]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
