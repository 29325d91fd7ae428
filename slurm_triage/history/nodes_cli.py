"""`sdiag-history nodes`: which nodes fail more often than their peers for the same kind of work."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from slurm_triage.history.command import (
    OK,
    count,
    history_file,
    json_array,
    moment,
    names,
    note,
    out,
    terminal_width,
    window,
)
from slurm_triage.history.database import reading
from slurm_triage.report.table import Column, printable, table

if TYPE_CHECKING:
    from slurm_triage.history.patterns.nodes import NodeRate

EXPIRY = 14 * 86400.0
"""Seconds after which a node that is avoided is to be looked at again."""
CAUSES = 3
"""Most causes that are named of a node."""

COLUMNS = (
    Column("NODE", least=8),
    Column("JOBS", right=True),
    Column("FAILED", right=True),
    Column("EXPECTED", right=True),
    Column("RATE", right=True),
    Column("95%", right=True),
    Column("P", right=True),
    Column("KINDS", right=True, spare=True),
    Column("SAYS"),
)
SAYS = {True: "stands out", False: "as its peers", None: "too few jobs"}


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser], where: argparse.ArgumentParser) -> None:
    """Adds the verb; `where` has the options that say which file."""
    nodes = verbs.add_parser(
        "nodes", parents=[where], help="which nodes fail more often than their peers for the same kind of work"
    )
    nodes.add_argument(
        "--since", type=moment, metavar="TIME", help="ended on this day (UTC) or later (default: 90 days)"
    )
    nodes.add_argument("--until", type=moment, metavar="TIME", help="ended on this day or before (default: now)")
    nodes.add_argument("--cluster", type=names, metavar="NAME[,...]", help="jobs of these clusters")
    nodes.add_argument("--user", type=names, metavar="NAME[,...]", help="jobs of these users")
    nodes.add_argument("-n", "--limit", type=count, default=20, metavar="N", help="most rows, 0 = all (default: 20)")
    form = nodes.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON array of objects")
    form.add_argument("--csv", action="store_true", help="comma-separated values (RFC 4180), safe for spreadsheets")
    nodes.add_argument("--no-header", action="store_true", help="no line of headings in the table or the CSV")


def run(options: argparse.Namespace) -> int:
    """Answers the question; returns the exit status."""
    from slurm_triage.history import node_runs
    from slurm_triage.history.patterns.nodes import compare

    path = history_file(options)
    now = time.time()
    since, until = window(options, now)
    with reading(path) as db:
        runs = node_runs.read(db, since, until, options.cluster or (), options.user or ())
    rates = compare(runs.placements)
    shown = rates[: options.limit or None]
    if options.json:
        out(json_array([_object(rate, runs.causes[rate.node]) for rate in shown]))
    elif options.csv:
        from slurm_triage.history.spreadsheet import csv_text

        objects = [_object(rate, runs.causes[rate.node]) for rate in shown]
        out(csv_text(FIELDS, [[_cell(one[name]) for name in FIELDS] for one in objects], not options.no_header))
    else:
        out("".join(f"{line}\n" for line in _text(rates, shown, runs.causes, now, options.no_header)))
    if not runs.good:
        note(
            "no run that ended well is recorded in this time: there is nothing to compare with. The service counts "
            "them (setting good_runs) from its first sweep on"
        )
    if len(shown) < len(rates):
        note(f"{len(rates)} nodes, the rest is not shown; -n 0 shows all")
    return OK


FIELDS = ("node", "says", "jobs", "failed", "expected", "rate", "low", "high", "p", "kinds", "causes")
"""Members of a row in --json and columns of --csv."""


def _object(rate: NodeRate, causes: Mapping[tuple[str, str], int]) -> dict[str, object]:
    return {
        "node": rate.node,
        "says": SAYS[rate.stands_out],
        "jobs": rate.runs,
        "failed": rate.failed,
        "expected": round(rate.expected, 3),
        "rate": None if rate.rate is None else round(rate.rate, 4),
        "low": None if rate.low is None else round(rate.low, 4),
        "high": None if rate.high is None else round(rate.high, 4),
        "p": rate.p,
        "kinds": rate.works,
        "causes": [{"cause": cause, "owner": owner, "count": n} for (cause, owner), n in Counter(causes).most_common()],
    }


def _cell(value: object) -> object:
    if isinstance(value, list):
        return "; ".join(f"{one['cause']} {one['count']}" for one in value)
    return value


# ---------------------------------------------------------------------------------------- for people


def _text(
    rates: Sequence[NodeRate],
    shown: Sequence[NodeRate],
    causes: Mapping[str, Counter[tuple[str, str]]],
    now: float,
    no_header: bool,
) -> Iterator[str]:
    yield from _verdict(rates)
    if shown:
        yield ""
        yield from table(COLUMNS, map(_line, shown), width=terminal_width(), header=not no_header)
    for rate in shown:
        if rate.stands_out:
            yield ""
            yield from _advice(rate, causes[rate.node], now)


def _verdict(rates: Sequence[NodeRate]) -> Iterator[str]:
    """The answer, before any figure."""
    few = sum(rate.stands_out is None for rate in rates)
    worst = [rate for rate in rates if rate.stands_out]
    for rate in worst:
        what = f"{rate.failed} of {rate.runs} jobs failed, its peers would have had {rate.expected:.1f}"
        yield f"{printable(rate.node)} fails more often than its peers: {what} (p {_p(rate.p)})"
    if not worst and len(rates) > few:
        yield f"No node fails more often than its peers: {len(rates) - few} compared."
    if few:
        yield f"{few} {'nodes have' if few > 1 else 'node has'} too few comparable jobs to tell."
    if not rates:
        yield "No job ran on any node in this time."


def _line(rate: NodeRate) -> list[object]:
    known = rate.rate is not None and rate.low is not None and rate.high is not None
    return [
        rate.node,
        rate.runs,
        rate.failed,
        f"{rate.expected:.1f}",
        f"{100 * rate.rate:.0f}%" if known else None,  # type: ignore[operator]
        f"{100 * rate.low:.0f}-{100 * rate.high:.0f}%" if known else None,  # type: ignore[operator]
        _p(rate.p),
        rate.works,
        SAYS[rate.stands_out],
    ]


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def _advice(rate: NodeRate, causes: Counter[tuple[str, str]], now: float) -> Iterator[str]:
    """What it failed of, and what to do: for an administrator, and for a user until one has looked."""
    node = printable(rate.node)
    some = ", ".join(f"{printable(cause)} {n}" for (cause, _), n in causes.most_common(CAUSES))
    more = len(causes) - CAUSES
    yield f"{node}: {some}{f' and {more} more causes' if more > 0 else ''}; {rate.works} kinds of work"
    hard = sum(n for (_, owner), n in causes.items() if owner in ("hardware", "admin"))
    if rate.works < 2:
        yield "  All of it is one kind of work: look whether that differs on this node (data, image, mounts) as well."
    if hard:
        yield f"  {hard} of these are hardware's or the administrator's by their own evidence:"
        yield f"    sdiag-history list --node {node} --owner hardware,admin"
    yield "  admin, unless a check of the node explains it:"
    reason = f"slurm-triage: {rate.failed} of {rate.runs} jobs failed, peers {rate.expected:.1f}"
    yield f"    scontrol update nodename={node} state=drain reason='{reason}'"
    until = time.strftime("%Y-%m-%d", time.gmtime(now + EXPIRY))
    yield f"  user, until {until} (then ask again):"
    yield f"    #SBATCH --exclude={node}"
