"""Runs that ended well, written into the history: what the runs that failed are compared with."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_triage.history.workload import Workload, workload
from slurm_triage.nodeset import expand

DAY = 86400
MOST_NODES = 100_000
"""Nodes of one run that are counted; a longer list is a mistake."""


@dataclass(frozen=True, slots=True)
class GoodRun:
    """An attempt of a job that ended well. Times are epochs, `nodes` is the folded list."""

    cluster: str
    job: str
    user: str
    name: str
    partition: str
    start: float
    end: float
    nodes: str


def record(db: sqlite3.Connection, runs: Iterable[GoodRun]) -> int:
    """Writes those that are not there yet, in the transaction of the caller; returns how many.

    A run whose nodes cannot be told is left out.
    """
    kinds: dict[Workload, int] = {}
    new = 0
    for run in runs:
        nodes = expand(run.nodes)
        if not nodes or len(nodes) > MOST_NODES:
            continue
        kind = workload(run.cluster, run.user, run.name, len(nodes))
        if kind not in kinds:
            kinds[kind] = _id_of(db, kind)
        values = (
            run.cluster, run.job, run.start, run.end, kinds[kind], len(nodes), run.nodes, run.partition or None
        )  # fmt: skip
        if db.execute(_RUN, values).rowcount < 1:
            continue
        new += 1
        day = int(run.end // DAY)
        db.executemany(_COUNT, [(day, kinds[kind], node) for node in nodes])
    return new


_RUN = """
INSERT INTO good_run (cluster, job_id, start_time, end_time, workload, n_nodes, nodes, partition)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_COUNT = """
INSERT INTO good_day (day, workload, node, runs) VALUES (?, ?, ?, 1)
ON CONFLICT (day, workload, node) DO UPDATE SET runs = runs + 1
"""


def _id_of(db: sqlite3.Connection, kind: Workload) -> int:
    values = (kind.cluster, kind.user, kind.program, kind.size)
    db.execute(
        "INSERT INTO workload (cluster, user_name, program, size) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", values
    )
    found = db.execute(
        "SELECT id FROM workload WHERE cluster = ? AND user_name = ? AND program = ? AND size = ?", values
    ).fetchone()
    return int(found[0])
