"""Which nodes fail more often than their peers for the same kind of work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_triage.history.patterns import stratified
from slurm_triage.history.patterns.stratified import Comparison, Stratum

Work = int
"""What is compared: a kind of work on one day (`work`). A program that is broken for a week is broken on every node
then, and tells nothing of any."""
_DAYS = 1_000_000
"""More days than there will be."""


def work(kind: int, day: int) -> Work:
    """A kind of work (any number for it) on a day (since the epoch)."""
    return kind * _DAYS + day


@dataclass
class Placements:
    """Runs on nodes, and how many of them failed, by node and work."""

    runs: defaultdict[str, dict[Work, int]] = field(default_factory=lambda: defaultdict(dict))
    failed: defaultdict[str, dict[Work, int]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, node: str, work: Work, runs: int, failed: int = 0) -> None:
        """Adds runs on a node, of which so many failed."""
        of_node = self.runs[node]
        of_node[work] = of_node.get(work, 0) + runs
        if failed:
            of_node = self.failed[node]
            of_node[work] = of_node.get(work, 0) + failed

    def attempt(self, nodes: Iterable[str], work: Work, first: str | None) -> None:
        """Adds an attempt that failed. It counts against the node where it failed first, if that is known, else against
        all of its nodes: whoever failed later did so because of the first.
        """
        listed = list(nodes)
        for node in listed:
            self.add(node, work, 1, int(first not in listed or node == first))


@dataclass(frozen=True)
class NodeRate:
    """A node and its peers. `stands_out` is None where there are too few runs to tell.

    `rate`, and `low` to `high` (95 %), are its share of failures among the runs that could be compared, `expected` the
    failures its peers would have had.
    """

    node: str
    runs: int
    failed: int
    expected: float
    p: float
    stands_out: bool | None
    rate: float | None
    low: float | None
    high: float | None
    works: int
    """Kinds of work among them."""


def compare(placements: Placements) -> list[NodeRate]:
    """Every node with its peers, the worst first."""
    failed = _totals(placements.failed)
    runs = _totals(placements.runs)
    names = sorted(placements.runs)
    tested = [_test(placements.runs[n], placements.failed.get(n, {}), runs, failed) for n in names]
    out = stratified.blamed([one for one, _ in tested])
    found = [_rate(name, *one, stands_out) for name, one, stands_out in zip(names, tested, out, strict=True)]
    return sorted(found, key=lambda r: (r.stands_out is not True, r.stands_out is None, r.p, -r.failed, r.node))


def _totals(by_node: Mapping[str, Mapping[Work, int]]) -> dict[Work, int]:
    found: dict[Work, int] = {}
    for of_node in by_node.values():
        for one, count in of_node.items():
            found[one] = found.get(one, 0) + count
    return found


def _test(
    own: Mapping[Work, int], own_failed: Mapping[Work, int], runs: Mapping[Work, int], failed: Mapping[Work, int]
) -> tuple[Comparison, int]:
    strata, kinds = [], set()
    for one, count in own.items():
        in_all = failed.get(one)
        if in_all and count < runs[one] and in_all < runs[one]:  # the others tell nothing
            strata.append(Stratum(runs[one], in_all, count, own_failed.get(one, 0)))
            kinds.add(one // _DAYS)
    return stratified.comparison(strata), len(kinds)


def _rate(name: str, tested: Comparison, works: int, stands_out: bool | None) -> NodeRate:
    share = low = high = None
    if tested.runs:
        share = tested.failed / tested.runs
        low, high = stratified.interval(tested.failed, tested.runs)
    return NodeRate(
        name, tested.runs, tested.failed, tested.expected, tested.p, stands_out, share, low, high, works
    )  # fmt: skip
