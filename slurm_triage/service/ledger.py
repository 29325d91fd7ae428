"""What the service has done, kept over restarts: up to when it swept, which jobs wait, what was said of which job."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "slurm-triage/ledger/1"


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
class Ledger:
    """The state of the service. Times are epochs.

    `swept`: every job that ended before is judged, or in `waiting` (first seen) or in `bad` (the reason).
    `counts` are since the ledger began: `sweeps`, `failures`, `amended`, `bad`, and `cause:<id>`.
    """

    swept: float | None = None
    waiting: dict[str, float] = field(default_factory=dict)
    said: dict[str, Said] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def forget(self, before: float, most_bad: int = 1000) -> None:
        """Drops what was said before an epoch, and the oldest of what could not be judged."""
        self.said = {job: said for job, said in self.said.items() if said.at >= before}
        for job in list(self.bad)[: max(0, len(self.bad) - most_bad)]:
            del self.bad[job]

    def text(self) -> str:
        """The ledger as JSON."""
        said = {job: asdict(entry) for job, entry in self.said.items()}
        state = {"swept": self.swept, "waiting": self.waiting, "said": said, "bad": self.bad, "counts": self.counts}
        return json.dumps({"schema": SCHEMA, **state}, indent=1)

    @classmethod
    def read(cls, text: str) -> Ledger:
        """A ledger from its JSON. Raises `ValueError` for anything else."""
        table: Any = json.loads(text)
        if not isinstance(table, dict) or table.pop("schema", None) != SCHEMA:
            raise ValueError(f"not a ledger of the form {SCHEMA}")
        try:
            said = {str(job): Said(**entry) for job, entry in table.pop("said").items()}
            return cls(said=said, counts=Counter(table.pop("counts")), **table)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"damaged: {error}") from error


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


def save(path: Path, text: str) -> None:
    """Writes a file whole or not at all, and for good. Raises `LedgerError`."""
    with _explained(path):
        partial = path.with_name(path.name + ".new")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
