"""A SQLite file of the service's own that two threads use: a connection for each, and changes that are whole."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_triage.history.database import writing


class Store:
    """The file at `path`, made with `schema` if it is missing. What goes wrong is raised as `trouble`, a sentence."""

    def __init__(self, path: Path, schema: str, trouble: type[Exception]) -> None:
        self.path, self._trouble = path, trouble
        self._mine = threading.local()
        with self.reading() as db:
            db.executescript(schema)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection of this thread."""
        try:
            db: sqlite3.Connection | None = getattr(self._mine, "db", None)
            if db is None:
                db = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = FULL")
                self._mine.db = db
            yield db
        except (sqlite3.Error, OSError) as error:
            raise self._trouble(f"{self.path}: {error}") from error

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """The same within a transaction: all of it is on disk afterwards, or nothing."""
        with self.reading() as db, writing(db):
            yield db
