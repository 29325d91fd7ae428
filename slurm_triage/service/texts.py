"""What users are to read, until a node has written it: by attempt of a job, with a revision when the verdict changes.

The batch host of a job gets the text at once; another node of the job after a while, if nobody has written it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_triage.nodeset import expand
from slurm_triage.service.store import Store

FILE = "texts.sqlite"
TEXT, NONE = "text", "none"
OTHERS_AFTER = 120.0
"""Seconds after which a node that is not the batch host may write a text that nobody has written."""
CONTROLLER_AFTER = 300.0
"""The same for the controller's host."""
AGAIN_AFTER = 60.0
"""Seconds for which a text that was handed out is taken to be on its way."""
KEPT_AFTER = 3600.0
"""Seconds after which a text that nobody has written is taken to stay where it is."""
ANSWER_SIZE = 4 * 1024 * 1024
"""Characters of texts from which on no further one is put into an answer."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS text (
    job TEXT NOT NULL,
    start REAL NOT NULL,
    array TEXT NOT NULL,
    nodes TEXT NOT NULL,
    state TEXT NOT NULL,
    why TEXT NOT NULL,
    verdict TEXT NOT NULL,
    name TEXT NOT NULL,
    section TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at REAL NOT NULL,
    handed_at REAL NOT NULL DEFAULT 0,
    handed_to TEXT NOT NULL DEFAULT '',
    done INTEGER NOT NULL DEFAULT 0,
    path TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job, start)
);
CREATE INDEX IF NOT EXISTS text_by_array ON text (array, state);
CREATE INDEX IF NOT EXISTS text_by_time ON text (at);
"""


class TextsError(Exception):
    """Texts cannot be kept or read; the message says why."""


@dataclass(frozen=True)
class Text:
    """What is said of one attempt: a text, or that there is none and why. `start` is an epoch, 0 if it never started.

    `verdict` is what makes it another revision when it changes; `name` the file's; `section` its members by name.
    `array` is the array's id, empty for other jobs. `nodes` is the folded list of those that may write it.
    """

    job: str
    start: float
    nodes: str
    verdict: str
    name: str = ""
    section: Mapping[str, str] = field(default_factory=dict)
    array: str = ""
    state: str = TEXT
    why: str = ""


@dataclass(frozen=True)
class Asked:
    """A target of an agent: `ended` is the epoch of its last record; `node` is empty on the controller's host."""

    job: str
    start: float | None
    ended: float
    node: str
    batch_host: bool
    revision: int


@dataclass(frozen=True)
class Outcome:
    """What a node says that came of a text: `asked.revision` is that of the text, `last` that it is not tried again."""

    asked: Asked
    written: bool
    last: bool
    path: str
    why: str


class Texts:
    """The store in a folder. Each thread has a connection of its own. Raises `TextsError`."""

    def __init__(self, folder: Path) -> None:
        self._store = Store(folder / FILE, _SCHEMA, TextsError)

    # -------------------------------------------------------------------------------------------- publishing

    def publish(self, texts: Iterable[Text], now: float) -> int:
        """Keeps what is said of these attempts; says how many are new or changed their verdict."""
        news = 0
        with self._store.changing() as db:
            for text in texts:
                row = db.execute(
                    "SELECT state, verdict FROM text WHERE job = ? AND start = ?", (text.job, text.start)
                ).fetchone()
                if row is not None and (row["state"], row["verdict"]) == (text.state, text.verdict):
                    continue
                news += 1
                values = (
                    text.array, text.nodes, text.state, text.why, text.verdict, text.name,
                    json.dumps(dict(text.section)), now,
                )  # fmt: skip
                if row is None:
                    db.execute(
                        "INSERT INTO text (array, nodes, state, why, verdict, name, section, at, revision, job, start) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
                        (*values, text.job, text.start),
                    )
                else:
                    db.execute(
                        "UPDATE text SET array = ?, nodes = ?, state = ?, why = ?, verdict = ?, name = ?, section = ?, "
                        "at = ?, revision = revision + 1, handed_at = 0, handed_to = '' WHERE job = ? AND start = ?",
                        (*values, text.job, text.start),
                    )
        return news

    def correct(self, job: str, start: float, change: Callable[[str], str], tag: str, now: float) -> bool:
        """Changes the text of an attempt; `tag` says by what, empty for nothing. Whether there is a text to change."""
        with self._store.changing() as db:
            row = db.execute(
                "SELECT * FROM text WHERE job = ? AND abs(start - ?) <= 1 AND state = 'text'", (job, start)
            ).fetchone()
            if row is None:
                return False
            section = json.loads(row["section"])
            section["text"] = change(section["text"])
            db.execute(
                "UPDATE text SET section = ?, verdict = ?, at = ?, revision = revision + 1, handed_at = 0, "
                "handed_to = '' WHERE job = ? AND start = ?",
                (json.dumps(section), tagged(row["verdict"], tag), now, row["job"], row["start"]),
            )
        return True

    def of_array(self, array: str) -> dict[tuple[str, float], str]:
        """By (job, start) the state of each attempt of an array's tasks that something is said of."""
        with self._store.reading() as db:
            rows = db.execute("SELECT job, start, state FROM text WHERE array = ? AND job <> ?", (array, _group(array)))
            return {(str(row["job"]), float(row["start"])): str(row["state"]) for row in rows}

    # -------------------------------------------------------------------------------------------- handing out

    def answer(self, asked: Sequence[Asked], now: float) -> list[dict[str, Any]]:
        """What to say of these targets, by `index`: `text` with all that it takes, `none`, or `forget`.

        Of a target of which nothing can be said yet there is no item.
        """
        said = []
        room = ANSWER_SIZE
        with self._store.changing() as db:
            for index, one in enumerate(asked):
                item = self._item(db, one, now)
                if item is not None:
                    said.append({"index": index, **item})
                    room -= len(item.get("section", {}).get("text", ""))
                if room <= 0:  # the next question gets the others
                    break
        return said

    def _item(self, db: sqlite3.Connection, asked: Asked, now: float) -> dict[str, Any] | None:
        row = _row_of(db, asked)
        if row is None or not _may(row["nodes"], asked.node):
            return None
        if row["state"] == NONE:
            return self._of_group(db, row, asked, now) or {"state": "none", "why": row["why"]}
        if asked.revision >= row["revision"]:
            return None
        if row["done"] >= row["revision"] and not asked.batch_host:
            return {"state": "forget"}
        return self._handed(db, row, asked, now)

    def _of_group(self, db: sqlite3.Connection, row: sqlite3.Row, asked: Asked, now: float) -> dict[str, Any] | None:
        """The one text of an array, if this is a task of it that has none, and nobody has written the newest."""
        if not row["array"]:
            return None
        group = db.execute("SELECT * FROM text WHERE job = ? AND start = 0", (_group(row["array"]),)).fetchone()
        if group is None or group["done"] >= group["revision"] or now - group["handed_at"] < AGAIN_AFTER:
            return None
        return self._give(db, group, asked, now)

    def _handed(self, db: sqlite3.Connection, row: sqlite3.Row, asked: Asked, now: float) -> dict[str, Any] | None:
        if not asked.batch_host:
            patience = OTHERS_AFTER if asked.node else CONTROLLER_AFTER
            if now - row["at"] < patience or now - row["handed_at"] < AGAIN_AFTER:
                return None
        return self._give(db, row, asked, now)

    def _give(self, db: sqlite3.Connection, row: sqlite3.Row, asked: Asked, now: float) -> dict[str, Any]:
        db.execute(
            "UPDATE text SET handed_at = ?, handed_to = ? WHERE job = ? AND start = ?",
            (now, asked.node, row["job"], row["start"]),
        )
        section = json.loads(row["section"])
        return {"state": "text", "revision": row["revision"], "name": row["name"], "section": section}

    def done(self, news: Iterable[Outcome]) -> list[tuple[str, bool, str]]:
        """What nodes say that came of texts; returns (job, written, path or reason) of those that were known."""
        told = []
        with self._store.changing() as db:
            for one in news:
                row = _row_of(db, one.asked)
                if row is None or not _may(row["nodes"], one.asked.node):
                    continue
                if row["state"] == NONE and row["array"]:
                    row = db.execute(
                        "SELECT * FROM text WHERE job = ? AND start = 0", (_group(row["array"]),)
                    ).fetchone()
                    if row is None:
                        continue
                if one.written or one.last:
                    # A revision that nobody was given is none that was written: the next one has to be handed out.
                    revision = min(one.asked.revision, row["revision"]) if one.written else 0
                    db.execute(
                        "UPDATE text SET done = max(done, ?), path = ?, outcome = ? WHERE job = ? AND start = ?",
                        (revision, one.path, one.why, row["job"], row["start"]),
                    )
                told.append((one.asked.job, one.written, one.path if one.written else one.why))
        return told

    def forget(self, before: float) -> None:
        """Takes away what was said before an epoch."""
        with self._store.changing() as db:
            db.execute("DELETE FROM text WHERE at < ?", (before,))

    def counts(self, now: float) -> dict[str, int]:
        """How many texts there are: `written`, `waiting`, `failed`, `none`, and `kept` for whoever asks for them.

        A text is kept if no node asked for it for an hour: its nodes are gone, or their witnesses saw nothing wrong.
        """
        with self._store.reading() as db:
            row = db.execute(
                "SELECT sum(state = 'text' AND done >= revision), "
                "sum(state = 'text' AND done < revision AND outcome = '' AND at >= ?), "
                "sum(state = 'text' AND done < revision AND outcome = '' AND at < ?), "
                "sum(state = 'text' AND done < revision AND outcome <> ''), sum(state = 'none') FROM text",
                (now - KEPT_AFTER, now - KEPT_AFTER),
            ).fetchone()
        return {name: int(row[i] or 0) for i, name in enumerate(("written", "waiting", "kept", "failed", "none"))}


def tagged(verdict: str, tag: str) -> str:
    """A verdict that somebody has corrected: another one than without."""
    bare = verdict.partition(" | ")[0]
    return f"{bare} | {tag}" if tag else bare


def group_key(array: str) -> str:
    """The `job` under which the one text of an array is kept: no raw id looks like it."""
    return _group(array)


def _group(array: str) -> str:
    return f"array:{array}"


def _may(nodes: str, node: str) -> bool:
    """Whether this node may write: one of the job's, or the controller's host."""
    return not node or node in (expand(nodes) or ())


def _row_of(db: sqlite3.Connection, asked: Asked) -> sqlite3.Row | None:
    """The attempt that a target means."""
    rows = db.execute("SELECT * FROM text WHERE job = ? ORDER BY start", (asked.job,)).fetchall()
    if asked.start is not None:
        return next((row for row in rows if abs(row["start"] - asked.start) <= 1.0), None)
    before = [row for row in rows if row["start"] <= asked.ended + 1.0]
    return before[-1] if before else None
