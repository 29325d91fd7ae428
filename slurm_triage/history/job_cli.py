"""`sdiag-history job`: the runs of one program, and what those that failed have in common."""

from __future__ import annotations

import argparse
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slurm_triage.history import queries
from slurm_triage.history.command import (
    OK,
    REFUSED,
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
    from slurm_triage.history.patterns.run import Pattern, Run
    from slurm_triage.history.program_runs import Program

_JOBID = re.compile(r"[0-9]{1,20}(?:[_+][0-9]{1,10})?")

COLUMNS = (
    Column("JOBID", right=True),
    Column("ENDED"),
    Column("NODES", least=8),
    Column("ELAPSED", right=True),
    Column("CAUSE", least=12),
    Column("OWNER"),
    Column("BEGAN ON", least=8),
    Column("RANK", right=True),
)


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser], where: argparse.ArgumentParser) -> None:
    """Adds the verb; `where` has the options that say which file."""
    job = verbs.add_parser(
        "job", parents=[where], help="the runs of one program, and what those that failed have in common"
    )
    job.add_argument(
        "program", metavar="NAME|JOBID", help="a job's name (numbers in it do not matter), or one of its jobs"
    )
    job.add_argument("--why", action="store_true", help="what the runs that failed have in common")
    job.add_argument("--since", type=moment, metavar="TIME", help="ended at TIME or later (default: 90 days ago)")
    job.add_argument("--until", type=moment, metavar="TIME", help="ended before TIME")
    job.add_argument("--user", type=names, metavar="NAME[,...]", help="of these users")
    job.add_argument("--cluster", type=names, metavar="NAME[,...]", help="of these clusters")
    job.add_argument("-n", "--limit", type=count, default=20, metavar="N", help="most runs, 0 = all (default: 20)")
    job.add_argument("--json", action="store_true", help="one JSON array of objects: the runs, with --why the answers")
    job.add_argument("--no-header", action="store_true", help="no line of headings in the table")


def run(options: argparse.Namespace) -> int:
    """Answers the question; returns the exit status."""
    from slurm_triage.history.patterns.program import patterns
    from slurm_triage.history.program_runs import runs_of

    path = history_file(options)
    since, until = window(options, time.time())
    with reading(path) as db:
        program = _chosen(db, options)
        if program is None:
            return REFUSED
        runs = runs_of(db, program, since, until)
    shown = runs[-options.limit :] if options.limit else runs
    found = patterns(runs) if options.why else []
    if options.json:
        out(json_array([_answer(one) for one in found] if options.why else [_object(one) for one in reversed(shown)]))
        return OK
    out("".join(f"{line}\n" for line in _text(program, runs, found, options.why)))
    if shown:
        lines = table(COLUMNS, map(_line, reversed(shown)), width=terminal_width(), header=not options.no_header)
        out("\n" + "".join(f"{line}\n" for line in lines))
    if len(shown) < len(runs):
        note(f"{len(runs)} runs, the older ones are not shown; -n 0 shows all")
    if runs and all(one.cause is not None for one in runs):
        note("no run that ended well is recorded: either there was none, or none was counted yet (setting good_runs)")
    return OK


def _chosen(db: sqlite3.Connection, options: argparse.Namespace) -> Program | None:
    """The program that is meant; None, with a remark, if there is none or several."""
    from slurm_triage.history.program_runs import of_job, of_name

    word, users, clusters = options.program, options.user or (), options.cluster or ()
    found: Sequence[Program] = ()
    if _JOBID.fullmatch(word):
        found = [
            one
            for one in of_job(db, word)
            if (not users or one.user in users) and (not clusters or one.cluster in clusters)
        ][:1]
    found = found or of_name(db, word, users, clusters)
    if len(found) == 1:
        return found[0]
    if not found:
        note(f"{word}: no job of that id or name is in the history")
        return None
    several = ", ".join(f"{one.user or 'unknown'} on {one.cluster or 'unknown'}" for one in found[:10])
    note(f"{word}: programs of several users have that name: {several}. Choose one with --user or --cluster")
    return None


# ------------------------------------------------------------------------------------------------ for programs


def _object(one: Run) -> dict[str, object]:
    from slurm_triage.nodeset import fold

    return {
        "job": one.job,
        "end": queries.show_time(one.end),
        "nodes": fold(one.nodes),
        "n_nodes": len(one.nodes),
        "elapsed": one.elapsed,
        "partition": one.partition,
        "cause": one.cause,
        "owner": one.owner or None,
        "first_failure_node": one.first_node,
        "first_failure_rank": one.rank,
    }


def _answer(one: Pattern) -> dict[str, object]:
    return {"about": one.about, "holds": one.holds.value, "says": one.says, "means": one.means, "next": one.next}


# ------------------------------------------------------------------------------------------------ for people


def _text(program: Program, runs: Sequence[Run], found: Sequence[Pattern], why: bool) -> Iterator[str]:
    bad = [one for one in runs if one.cause is not None]
    who = f"{printable(program.name)} of {printable(program.user or 'unknown')}"
    causes = Counter(one.cause for one in bad).most_common(3)
    of = f": {', '.join(f'{printable(str(cause))} {n}' for cause, n in causes)}" if causes else ""
    first = found[0] if found else None
    if first is not None and first.holds.value == "yes":
        yield f"{printable(first.says)[:1].upper()}{printable(first.says)[1:]}."
    elif why and bad:
        yield "No pattern stands out in the runs that failed."
    yield f"{who}: {len(bad)} of {len(runs)} runs failed{of}"
    for one in found:
        yield ""
        yield from _pattern(one)


def _pattern(one: Pattern) -> Iterator[str]:
    import textwrap

    mark = {"yes": "*", "no": "-", "too few": "?"}[one.holds.value]
    width = (terminal_width() or 100) - 1
    texts = [(f"{mark} ", one.says), ("    so: ", one.means), ("    next: ", one.next)]
    for lead, text in texts:
        if text:
            yield from textwrap.wrap(
                printable(text), max(width, 40), initial_indent=lead, subsequent_indent=" " * len(lead),
                break_long_words=False,
            )  # fmt: skip


def _line(one: Run) -> list[object]:
    return [
        one.job,
        queries.show_time(one.end),
        list(one.nodes),
        None if one.elapsed is None else f"{one.elapsed:.0f}",
        one.cause or "ended well",
        one.owner or None,
        one.first_node,
        one.rank,
    ]
