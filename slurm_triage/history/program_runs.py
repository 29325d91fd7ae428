"""From the history to the runs of one program, those that ended well among them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slurm_triage.history import queries
from slurm_triage.history.node_runs import GOOD, NOT_BY_NODES
from slurm_triage.history.patterns.run import Run
from slurm_triage.history.workload import program_of
from slurm_triage.nodeset import expand

MOST_RUNS = 2000
"""Newest runs that are looked at."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a user on a cluster: jobs with this name, but for its numbers."""

    cluster: str
    user: str
    name: str


def of_job(db: sqlite3.Connection, job: str) -> list[Program]:
    """The programs that a job id names, the newest job first. Raises `ValueError` for what is no job id."""
    filters = queries.Filters()
    filters.job(job)
    found = {_program(row): None for row in reversed(queries.by_job(db, filters, None))}
    if not found and job.isdigit():
        rows = db.execute(
            "SELECT w.cluster, w.user_name, w.program AS name FROM good_run g JOIN workload w ON w.id = g.workload "
            "WHERE g.job_id = ? ORDER BY g.end_time DESC",
            (job,),
        )
        found = {_program(row): None for row in rows}
    return list(found)


def of_name(db: sqlite3.Connection, name: str, users: Sequence[str], clusters: Sequence[str]) -> list[Program]:
    """The programs of that name, whose users and clusters are among those given (none: all)."""
    program = program_of(name)
    rows = db.execute(
        "SELECT DISTINCT cluster, user_name, program AS name FROM workload WHERE program = ? "
        "UNION SELECT DISTINCT cluster, user_name, name FROM job WHERE name GLOB ?",
        (program, _glob(program)),
    )
    found = {
        _program(row)
        for row in rows
        if program_of(row["name"]) == program
        and (not users or row["user_name"] in users)
        and (not clusters or row["cluster"] in clusters)
    }
    return sorted(found, key=lambda one: (one.cluster, one.user))


def runs_of(db: sqlite3.Connection, program: Program, since: float, until: float) -> list[Run]:
    """The runs that ended between two epochs, by their end.

    At most `MOST_RUNS` of those that failed, and as many of the others: the newest. What people and the scheduler ended
    is left out: it neither failed nor ended well.
    """
    found = [*_good(db, program, since, until), *_bad(db, program, since, until)]
    return sorted(found, key=lambda run: run.end)


def _program(row: sqlite3.Row) -> Program:
    return Program(row["cluster"] or "", row["user_name"] or "", program_of(row["name"]))


def _glob(program: str) -> str:
    """A pattern of SQL's GLOB that names of this program match, and hardly any others."""
    return "".join("*" if char == "#" else "?" if char in "*?[]" else char for char in program)


def _good(db: sqlite3.Connection, program: Program, since: float, until: float) -> Iterator[Run]:
    rows = db.execute(
        "SELECT g.job_id, g.start_time, g.end_time, g.nodes, g.partition FROM good_run g "
        "WHERE g.workload IN (SELECT id FROM workload WHERE cluster = ? AND user_name = ? AND program = ?) "
        "AND g.end_time >= ? AND g.end_time < ? ORDER BY g.end_time DESC LIMIT ?",
        (program.cluster, program.user, program.name, since, until, MOST_RUNS),
    )
    for row in rows:
        nodes = expand(row["nodes"])
        if nodes:
            elapsed = row["end_time"] - row["start_time"]
            yield Run(row["job_id"], row["end_time"], nodes, elapsed=elapsed, partition=row["partition"])


def _bad(db: sqlite3.Connection, program: Program, since: float, until: float) -> Iterator[Run]:
    filters = queries.Filters()
    filters.since(since)
    filters.until(until)
    filters.program(program.cluster, program.user, _glob(program.name))
    where, values = filters.sql()
    rows = db.execute(
        f"{queries.WITH_LATEST} SELECT a.id, a.at, a.nodes, a.elapsed, a.first_failure_node, a.first_failure_rank, "
        f"j.job_id, j.shown_id, j.name, j.partition, {queries.CAUSE} AS cause, {queries.OWNER} AS owner, "
        "(SELECT MAX(n_tasks) FROM step s WHERE s.attempt = a.id) AS tasks "
        f"{queries.FROM} {where} AND a.nodes IS NOT NULL ORDER BY a.at DESC LIMIT ?",
        [*values, MOST_RUNS],
    )
    for row in rows:
        nodes = expand(row["nodes"])
        if not nodes or row["cause"] in NOT_BY_NODES or program_of(row["name"]) != program.name:
            continue
        good = row["cause"] == GOOD
        yield Run(
            row["shown_id"] or row["job_id"],
            row["at"],
            nodes,
            None if good else row["cause"],
            row["owner"],
            row["first_failure_node"],
            row["first_failure_rank"],
            row["tasks"],
            row["elapsed"],
            row["partition"],
        )
