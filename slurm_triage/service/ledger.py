"""What the service has done, kept over restarts: up to when it swept, which jobs wait, what was said of which job."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "slurm-triage/ledger/1"
FILE = "ledger.json"
"""Its name in the folder of the service's state."""


class LedgerError(Exception):
    """The ledger cannot be read or written; the message says why and what to do."""


@dataclass
class Said:
    """What was said of a job: `digest` of the evidence, the verdict, when (epoch), and how often it has changed."""

    digest: str
    cause: str
    strength: str | None
    at: float
    revision: int = 0


@dataclass
class Waiting:
    """A job whose accounting is not final: the id that Slurm takes, and since when it waits (epoch)."""

    shown: str
    since: float


@dataclass(kw_only=True)
class Ledger:
    """The state of the service. Times are epochs.

    `swept`: every job that ended before is judged, or in `waiting` (first seen) or in `bad` (the reason); `begun`: how
    far back the first sweep went; `late`: when late arrivals were last looked for.
    `corrected` is the id of the last correction of a person that was handed on. `told` is how many jobs nodes have
    spoken of that no round is done with, `texts` how many diagnoses for users are written, waiting, kept, failed or not
    to be written; both as of the last round. `knowledge` says what of the site's the service read when it started:
    `folder`, `signatures`, `causes`, `rules` (how many) and `problems`. `counts` are since the ledger began: `sweeps`,
    `failures`, `amended`, `bad`, `dropped`, and `cause:<id>`.
    """

    swept: float | None = None
    begun: float | None = None
    late: float = 0.0
    waiting: dict[str, Waiting] = field(default_factory=dict)
    said: dict[str, Said] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    corrected: int = 0
    told: int = 0
    texts: dict[str, int] = field(default_factory=dict)
    knowledge: dict[str, Any] = field(default_factory=dict)

    def forget(self, before: float, most_bad: int = 1000) -> None:
        """Drops what was said before an epoch, and the oldest of what could not be judged."""
        self.said = {job: said for job, said in self.said.items() if said.at >= before}
        for job in list(self.bad)[: max(0, len(self.bad) - most_bad)]:
            del self.bad[job]

    def text(self) -> str:
        """The ledger as JSON."""
        # It is written after each part of a storm: this way 10,000 jobs take 20 ms, copied and indented 110.
        said = {job: vars(entry) for job, entry in self.said.items()}
        times = {"swept": self.swept, "begun": self.begun, "late": self.late}
        waiting = {job: vars(entry) for job, entry in self.waiting.items()}
        jobs = {"waiting": waiting, "said": said, "bad": self.bad}
        agents = {"corrected": self.corrected, "told": self.told, "texts": self.texts, "knowledge": self.knowledge}
        return json.dumps({"schema": SCHEMA, **times, **jobs, **agents, "counts": self.counts})

    @classmethod
    def read(cls, text: str) -> Ledger:
        """A ledger from its JSON. Raises `ValueError` for anything else."""
        table: Any = json.loads(text)
        if not isinstance(table, dict) or table.pop("schema", None) != SCHEMA:
            raise ValueError(f"not a ledger of the form {SCHEMA}")
        try:
            said = {str(job): Said(**entry) for job, entry in table.pop("said").items()}
            waiting = {str(job): Waiting(**entry) for job, entry in table.pop("waiting").items()}
            counts = Counter({str(name): int(n) for name, n in table.pop("counts").items()})
            ledger = cls(said=said, waiting=waiting, counts=counts, **table)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"damaged: {error}") from error
        times = [ledger.swept, ledger.begun, ledger.late, *(w.since for w in waiting.values())]
        times += [entry.at for entry in said.values()]
        if not all(at is None or isinstance(at, (int, float)) for at in times) or not isinstance(ledger.bad, dict):
            raise ValueError("damaged: a time is no number")
        if not isinstance(ledger.knowledge, dict):
            raise ValueError("damaged: knowledge is no table")
        return ledger


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder of the state. Raises `LedgerError` if another service has it, or if it cannot be used."""
    with _explained(folder):
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LedgerError(f"{folder}: another service is at work here") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerError(f"{path}: {error.strerror or error}; the service needs a folder of its own there") from error


def load(path: Path) -> Ledger:
    """The ledger of a file; an empty one if there is no file. Raises `LedgerError`."""
    with _explained(path):
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return Ledger()
        except UnicodeDecodeError:
            text = ""
    try:
        return Ledger.read(text)
    except ValueError as error:
        anew = "Move it away: the service then begins anew, `lookback` seconds back, and records nothing twice"
        raise LedgerError(f"{path}: {error}. {anew}") from error


def save(path: Path, text: str, mode: int = 0o640) -> None:
    """Writes a file whole or not at all, and for good. Raises `LedgerError`."""
    with _explained(path):
        partial = path.with_name(f"{path.name}.{os.getpid()}.new")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
