"""How often `sdiag-history nodes` blames an innocent node, and how often it finds a bad one: seeded simulations."""

from __future__ import annotations

import random
from collections.abc import Iterator

from slurm_triage.history.patterns.nodes import NodeRate, Placements, compare, work

USUAL, BAD = 0.20, 0.55
"""Shares of jobs that fail on a node like the others, and on a bad one."""
KINDS = 3
"""Kinds of work that the nodes have, with the same share of failures."""
SIZES = (10, 20, 40)
"""Nodes of a table."""
RUNS = (20, 30, 50)
"""Jobs of each node."""
WANTED_POWER = (0.55, 0.82, 0.98)
"""Share of tables in which the bad node is to be found, for each of `RUNS`."""
MOST_BLAMED = 0.05
"""Share of tables of identical nodes in which an innocent one may be blamed."""


def compared(rng: random.Random, nodes: int, runs: int, bad: float = USUAL) -> list[NodeRate]:
    """A table of nodes with so many jobs each; node `n0` fails with the share `bad`."""
    placements = Placements()
    for node in range(nodes):
        for _ in range(runs):
            failed = rng.random() < (bad if node == 0 else USUAL)
            placements.add(f"n{node}", work(rng.randrange(KINDS), 0), 1, int(failed))
    return compare(placements)


def blamed(nodes: int, runs: int, tables: int, seed: int = 1) -> float:
    """Share of tables of identical nodes in which any of them is blamed."""
    rng = random.Random(seed)
    return sum(any(rate.stands_out for rate in compared(rng, nodes, runs)) for _ in range(tables)) / tables


def found(nodes: int, runs: int, tables: int, seed: int = 2) -> float:
    """Share of tables in which the one bad node is blamed."""
    rng = random.Random(seed)
    return sum(
        any(rate.stands_out and rate.node == "n0" for rate in compared(rng, nodes, runs, BAD)) for _ in range(tables)
    ) / tables  # fmt: skip


def lines(tables: int = 400) -> Iterator[str]:
    """The figures as text."""
    yield f"sdiag-history nodes, {tables} simulated tables each"
    for nodes in SIZES:
        power = ", ".join(f"{found(nodes, runs, tables):.1%} of {runs} jobs" for runs in RUNS)
        yield f"  {nodes} nodes: innocent blamed in {blamed(nodes, 30, tables):.1%} of tables; bad one found with {power}"
