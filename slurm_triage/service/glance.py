"""One look at a job's accounting: its attempts, whose it is, and whether Slurm has said its last word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_SKIPPED = ("REQUEUED", "PENDING")
_SHOWN = re.compile(r"[0-9_+]{1,40}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")


@dataclass(frozen=True)
class Attempt:
    """One attempt. Times are epochs, None where there is none. `nodes` is the folded list."""

    start: float | None
    end: float | None
    nodes: str
    uid: int | None


@dataclass(frozen=True)
class Glance:
    """A job: its attempts by start, the id that Slurm shows, whether a line has no end yet, and the last end."""

    attempts: tuple[Attempt, ...]
    shown: str
    running: bool
    end: float | None

    def attempt_of(self, start: float | None, ended: float) -> int | None:
        """Index of the attempt that started then, or, if that is not known, of the last that had when `ended` was.

        Start times of one attempt may differ by a second (docs/adr/0006).
        """
        if start is not None:
            for index, attempt in enumerate(self.attempts):
                if attempt.start is not None and abs(attempt.start - start) <= 1.0:
                    return index
            return None
        before = [i for i, a in enumerate(self.attempts) if a.start is not None and a.start <= ended + 1.0]
        return before[-1] if before else None


def glance(table: bytes) -> Glance:
    """What a table of `ask.split_table` tells: `|` between fields, which hold none, times in UTC, attempts in order."""
    lines = table.decode("utf-8", "replace").splitlines()
    names = {name: index for index, name in enumerate(lines[0].split("|"))} if lines else {}
    if not {"JobIDRaw", "State"} <= names.keys():
        return Glance((), "", False, None)
    attempts: list[Attempt] = []
    shown, running = "", False
    ends: list[float] = []
    for line in lines[1:]:
        row = line.split("|")
        if len(row) != len(names):
            continue
        state = row[names["State"]].split(" ")[0]
        end = epoch(row[names["End"]]) if "End" in names else None
        if end is not None:
            ends.append(end)
        elif state not in _SKIPPED:
            running = True
        if "." in row[names["JobIDRaw"]]:
            continue
        uid = row[names["UID"]] if "UID" in names else ""
        nodes = row[names["NodeList"]] if "NodeList" in names else ""
        start = epoch(row[names["Start"]]) if "Start" in names else None
        attempts.append(
            Attempt(start, end, "" if nodes == "None assigned" else nodes, int(uid) if uid.isdigit() else None)
        )
        if "JobID" in names and _SHOWN.fullmatch(row[names["JobID"]]):
            shown = row[names["JobID"]]
    attempts.sort(key=lambda attempt: (attempt.start is None, attempt.start or 0.0))
    return Glance(tuple(attempts), shown, running, max(ends, default=None))


def epoch(text: str) -> float | None:
    """`2026-11-30T15:10:55` in UTC; None for anything else (`Unknown`, `None`)."""
    if not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError:
        return None
