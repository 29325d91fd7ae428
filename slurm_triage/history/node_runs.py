"""From the history to runs on nodes: what ended well is counted already, what failed lies in the attempts."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurm_triage.history import queries
from slurm_triage.history.good_runs import DAY
from slurm_triage.history.patterns.nodes import Placements, work
from slurm_triage.history.workload import Workload, workload
from slurm_triage.nodeset import expand

NOT_BY_NODES = frozenset({
    "cancelled_by_user", "preempted", "preempt_suspend", "deadline", "admin_requeue", "dependency_never_satisfied",
})  # fmt: skip
"""Causes that are people's and the scheduler's doing: such a run neither failed nor ended well on its nodes."""
GOOD = "no_failure"
"""The cause of an attempt that ended well after all."""


@dataclass
class NodeRuns:
    """`placements` to compare, `causes` (and owners) of the failures that count against each node, and how many runs on
    nodes ended well.
    """

    placements: Placements = field(default_factory=Placements)
    causes: defaultdict[str, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    good: int = 0


def read(
    db: sqlite3.Connection, since: float, until: float, clusters: Sequence[str] = (), users: Sequence[str] = ()
) -> NodeRuns:
    """Runs that ended in whole days (UTC) from the one of `since` to the one of `until` (epochs)."""
    first, last = int(since // DAY), int(until // DAY)
    kinds = {
        Workload(row["cluster"], row["user_name"], row["program"], row["size"]): int(row["id"])
        for row in db.execute("SELECT id, cluster, user_name, program, size FROM workload")
        if (not clusters or row["cluster"] in clusters) and (not users or row["user_name"] in users)
    }
    found = NodeRuns()
    _bad(db, found, first, last, clusters, users, kinds)
    _good(db, found, first, last, frozenset(kinds.values()))
    return found


def _good(db: sqlite3.Connection, found: NodeRuns, first: int, last: int, kinds: frozenset[int]) -> None:
    """Good runs, of the work of which others failed: all else tells nothing of nodes, and is most of it."""
    runs = found.placements.runs
    failing = {one for of_node in found.placements.failed.values() for one in of_node}
    rows = _plain(db).execute("SELECT day, workload, node, runs FROM good_day WHERE day BETWEEN ? AND ?", (first, last))
    for day, kind, node, count in rows:  # there may be millions
        if kind not in kinds:
            continue
        found.good += count
        of_node = runs[node]  # a node is named even if all of its runs ended well
        one = work(kind, day)
        if one in failing:
            of_node[one] = of_node.get(one, 0) + count


def _plain(db: sqlite3.Connection) -> sqlite3.Cursor:
    """A cursor that gives bare tuples, which take half the time."""
    cursor = db.cursor()
    cursor.row_factory = None
    return cursor


def _bad(
    db: sqlite3.Connection,
    found: NodeRuns,
    first: int,
    last: int,
    clusters: Sequence[str],
    users: Sequence[str],
    kinds: dict[Workload, int],
) -> None:
    filters = queries.Filters()
    filters.since(first * DAY)
    filters.until((last + 1) * DAY)
    for names, add in ((clusters, filters.cluster), (users, filters.user)):
        if names:
            add(list(names))
    where, values = filters.sql()
    rows = db.execute(
        f"{queries.WITH_LATEST} SELECT a.at, a.nodes, a.first_failure_node, j.cluster, j.user_name, j.name, "
        f"{queries.CAUSE} AS cause, {queries.OWNER} AS owner {queries.FROM} {where} AND a.nodes IS NOT NULL",
        values,
    )
    for row in rows:
        nodes = expand(row["nodes"])
        if not nodes or row["cause"] in NOT_BY_NODES:
            continue
        kind = workload(row["cluster"], row["user_name"], row["name"], len(nodes))
        # One that never ended well gets a number of its own: it tells nothing of nodes, and is counted.
        one = work(kinds.setdefault(kind, -1 - len(kinds)), int(row["at"] // DAY))
        if row["cause"] == GOOD:
            found.good += len(nodes)
            for node in nodes:
                found.placements.add(node, one, 1)
            continue
        first_node = row["first_failure_node"]
        found.placements.attempt(nodes, one, first_node)
        for node in (first_node,) if first_node in nodes else nodes:
            found.causes[node][row["cause"], row["owner"]] += 1
