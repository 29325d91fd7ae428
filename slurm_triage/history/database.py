"""The history's file: opening it, its schema and the migrations of the schema, checking it.

The file must lie on a local disk (SQLite's locks are not reliable on network file systems) and is kept in rollback
mode (`journal_mode=DELETE`): a file in WAL mode cannot be read by a user who may not write once its writer closed it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEMA = Path(__file__).with_name("schema")
"""Folder of the migrations: `NNNN_name.sql`, applied in the order of their numbers, which have no gaps."""

WRITE_WAIT = 15.0
"""Seconds a writer waits for another writer or for readers."""

READ_WAIT = 5.0
"""Seconds a reader waits for a writer."""

CACHE = 16 * 1024
"""KiB of pages that a writer keeps in memory: more than a batch changes, so that readers wait for its end only."""

MODE = 0o640
"""Mode of a new history: the owner writes, the group reads."""


class HistoryError(Exception):
    """The history could not be used. The message says what is wrong, where, and what to do."""


def is_about_the_document(error: HistoryError) -> bool:
    """Whether what was to be recorded is at fault, not the history: another document could be recorded all the same."""
    cause = error.__cause__
    rows = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
    theirs = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
    return cause is None or isinstance(cause, (*rows, *theirs))


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns errors of SQLite on the history `path` into `HistoryError`."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            why = "is busy: another process has been writing to it for too long. Try again"
        elif "not a database" in text:
            why = "is not a history: it is no SQLite file. Name another file, or move this one away"
        elif "malformed" in text or "decode to UTF-8" in text or "unsupported file format" in text:
            why = f"is damaged ({text}). Run `sdiag-history check` on it and restore it from a backup"
        elif "readonly" in text:
            why = (
                "cannot be written, or a writer died in the middle and left its journal: then run "
                "`sdiag-history migrate` once as the file's owner"
            )
        elif "unable to open" in text:
            why = "cannot be opened. Check that you may read it and its folder"
        elif "full" in text:
            why = "cannot grow: the file system is full. Free some space; nothing was recorded"
        else:
            why = f"could not be used: {text}"
        raise HistoryError(f"history {path} {why}.") from error


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """One transaction that holds the write lock from its first statement on."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # some errors (disk full) have rolled it back already
            db.execute("ROLLBACK")
        raise


def migrations(folder: Path = SCHEMA) -> list[tuple[int, str, Path]]:
    """(version, name, file) of every migration, in order."""
    found = []
    for path in folder.iterdir():
        number, _, name = path.stem.partition("_")
        if path.suffix == ".sql" and number.isdecimal():
            found.append((int(number), name, path))
    return sorted(found)


def _place(path: Path, readonly: bool) -> Path:
    """The absolute path of the file, which exists afterwards; raises `HistoryError`."""
    path = path.absolute()
    try:
        try:
            kind = path.stat().st_mode
        except FileNotFoundError:
            if readonly:
                raise HistoryError(
                    f"there is no history at {path}. Name the right file with --db or SDIAG_HISTORY; nothing may have "
                    f"been recorded yet."
                ) from None
            if not path.parent.is_dir():
                raise HistoryError(
                    f"history {path}: the folder {path.parent} does not exist. Create it for the user who records."
                ) from None
            _create(path)
        else:
            if not stat.S_ISREG(kind):
                raise HistoryError(f"history {path} is not a regular file. Name another file.")
    except OSError as error:
        todo = "Ask its owner for read permission" if readonly else "Check the permissions of the folder"
        raise HistoryError(f"history {path} cannot be opened: {error.strerror or error}. {todo}.") from error
    if not os.access(path, os.R_OK if readonly else os.R_OK | os.W_OK):
        verb = "read" if readonly else "write"
        raise HistoryError(f"history {path}: you may not {verb} it. Use an account that may, or name another file.")
    return path


def _create(path: Path) -> None:
    """An empty file of mode 0640, whatever the umask; no harm if another process was quicker."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, MODE)
    except FileExistsError:
        return
    try:
        os.fchmod(handle, MODE)
    finally:
        os.close(handle)


def connect(path: Path, *, readonly: bool = False, current: bool = True) -> sqlite3.Connection:
    """An open history. A writer creates the file if needed and brings its schema up to date.

    A reader gets a connection that cannot write. With `current` its schema must be the one this program knows; without,
    any schema will do (for checking). Raises `HistoryError`.
    """
    path = _place(path, readonly)
    with explained(path):
        db = sqlite3.connect(
            f"{path.as_uri()}?mode={'ro' if readonly else 'rw'}",
            uri=True,
            timeout=READ_WAIT if readonly else WRITE_WAIT,
            isolation_level=None,
        )
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA foreign_keys = ON")
            if not readonly:
                version(db, path)  # before anything is changed: refuses files that are not ours or newer than we are
                db.execute("PRAGMA journal_mode = DELETE").fetchall()
                db.execute(f"PRAGMA cache_size = -{CACHE}")
                db.execute("PRAGMA temp_store = MEMORY")  # what a document at fault changed, while it may have to go
                migrate(db, path)
            elif current:
                _demand_current(version(db, path), path)
        except BaseException:
            db.close()
            raise
    return db


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A history that is only read, and closed afterwards. Raises `HistoryError`, also for what goes wrong meanwhile."""
    db = connect(path, readonly=True)
    try:
        with explained(path):
            yield db
    finally:
        db.close()


def version(db: sqlite3.Connection, path: Path, *, known: int | None = None) -> int:
    """The schema's version, 0 for an empty file.

    Raises `HistoryError` for a database that is not a history and for one newer than `known` (default: this program's).
    """
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    if "schema_version" not in tables:
        raise HistoryError(f"history {path} is not a history: it belongs to another program. Name another file.")
    found = db.execute("SELECT MAX(version) FROM schema_version").fetchone()[0]
    if not isinstance(found, int):
        raise HistoryError(f"history {path} is damaged: its schema has no version. Restore it from a backup.")
    latest = migrations()[-1][0] if known is None else known
    if found > latest:
        raise HistoryError(
            f"history {path} has schema version {found}, this program knows versions up to {latest}: it was written by "
            f"a newer slurm-triage. Update slurm-triage here; nothing was changed."
        )
    return found


def _demand_current(found: int, path: Path) -> None:
    latest = migrations()[-1][0]
    if found < latest:
        raise HistoryError(
            f"history {path} has schema version {found}, this program needs {latest}. Run `sdiag-history migrate` as "
            f"the file's owner."
        )


def migrate(db: sqlite3.Connection, path: Path, folder: Path = SCHEMA) -> int:
    """Applies the migrations that the history lacks, each in one transaction with its record; returns the version."""
    known = migrations(folder)
    latest = known[-1][0]
    found = version(db, path, known=latest)
    while found < latest:
        with writing(db):
            found = version(db, path, known=latest)  # again: another process may have been quicker
            for number, name, file in known:
                if number == found + 1:
                    for statement in _statements(file.read_text("utf-8")):
                        db.execute(statement)
                    db.execute("INSERT INTO schema_version VALUES (?, ?, ?)", (number, time.time(), name))
                    found = number
                    break
            else:
                if found < latest:
                    raise HistoryError(f"{folder} lacks the migration {found + 1:04d}. Install slurm-triage again.")
    return found


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one (`executescript` would commit the open transaction)."""
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""


def check(path: Path) -> tuple[int, list[str]]:
    """The schema's version and what is wrong with the file (empty: nothing). Raises `HistoryError`."""
    db = connect(path, readonly=True, current=False)
    try:
        with explained(path):
            found = version(db, path)
            problems = [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
            for row in db.execute("PRAGMA foreign_key_check"):
                problems.append(f"row {row[1]} of table {row[0]} points to a row of {row[2]} that is not there")
    finally:
        db.close()
    return found, problems
