"""Histories whose truth is known: runs of made-up jobs, written as the service writes them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_triage.history.good_runs import DAY, GoodRun
from slurm_triage.history.queries import show_time
from slurm_triage.history.store import Detail, History
from slurm_triage.nodeset import fold
from tests.history.examples import document

NOW = 1796083200.0
"""2026-12-01, noon UTC: when the last of the runs ended."""


class Planted:
    """A history that grows. Jobs get ids from 1 on."""

    def __init__(self, path: Path, seed: int = 1) -> None:
        self.path = path
        self.rng = random.Random(seed)
        self._ids = itertools.count(1)
        self._good: list[GoodRun] = []
        self._bad: list[dict[str, Any]] = []

    def run(
        self,
        nodes: Sequence[str],
        cause: str | None = None,
        owner: str = "user",
        *,
        user: str = "alice",
        name: str = "train",
        days_ago: float = 1.0,
        first: str | None = None,
        elapsed: float = 600.0,
    ) -> None:
        """A run that ended well, or of a cause."""
        end = NOW - days_ago * DAY
        number = str(next(self._ids))
        if cause is None:
            self._good.append(GoodRun("mini", number, user, name, "main", end - elapsed, end, fold(nodes)))
            return
        made = document(cause=cause, owner=owner)
        made["job"] = {
            **made["job"], "job_id": number, "shown_id": number, "user": user, "name": name, "nodes": list(nodes),
            "submit": show_time(end - elapsed - 300), "start": show_time(end - elapsed), "end": show_time(end),
        }  # fmt: skip
        made["first_failure"] = {"rank": 0, "node": first, "time": None, "what": "x"} if first else None
        self._bad.append(made)

    def some(self, node: str, runs: int, failing: float, **more: Any) -> None:
        """Runs of one node each, of which that share fails, on the days of the last week."""
        for _ in range(runs):
            cause = more.get("cause", "app_error") if self.rng.random() < failing else None
            rest = {key: value for key, value in more.items() if key != "cause"}
            self.run([node], cause, days_ago=self.rng.uniform(0.0, 7.0), **rest)

    def write(self) -> Path:
        """Writes what there is; returns the file."""
        with History.open(self.path) as history:
            history.record_good(self._good)
            with history.batch():
                for made in self._bad:
                    history.record(made, Detail())
        return self.path
