"""The command `sdiag-history`: what the history knows. Reference: docs/reference/sdiag-history.md."""

from __future__ import annotations

import argparse
import io
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from slurm_triage.history import corrections_cli, job_cli, nodes_cli, queries
from slurm_triage.history.command import (
    DEFAULT_DB,
    OK,
    UNUSABLE,
    count,
    history_file,
    json_array,
    moment,
    names,
    note,
    out,
    terminal_width,
)
from slurm_triage.history.database import HistoryError, check, connect, explained, reading, version
from slurm_triage.report.table import UNKNOWN, Column, printable, table

COLUMNS = (
    Column("JOBID", right=True),
    Column("TRY", right=True),
    Column("USER", least=6),
    Column("PARTITION", least=9, spare=True),
    Column("NAME", least=8, spare=True),
    Column("STATE", least=9),
    Column("EXIT", right=True, spare=True),
    Column("ENDED"),
    Column("CAUSE", least=12),
    Column("SURE", least=6),
    Column("OWNER"),
    Column("NODES", least=8),
)
"""The table of `list`."""

FIELDS = (
    *("cluster", "job_id", "shown_id", "attempt", "user", "account", "partition", "qos", "name", "state"),
    *("exit_code", "signal", "core_dumped", "shown_by_sacct", "submit", "start", "end", "elapsed", "nodes", "n_nodes"),
    *("cause", "owner", "strength", "summary", "first_failure_rank", "first_failure_node", "revision", "diagnosed_at"),
)
"""Members of a row in --json and columns of --csv. Cause, owner and strength are what the diagnosis says."""

CORRECTED = ("corrected_cause", "corrected_owner", "corrected_by", "corrected_at", "corrected_why")
"""Further columns of --csv; in --json they are the member `correction`."""

MARK = "*"
"""Stands behind a cause that somebody has corrected."""

FOOTNOTE = f"{MARK} corrected by a person; `sdiag-history show JOBID` has what the diagnosis says, and what was wrong"


# ---------------------------------------------------------------------------------------- arguments


def _node_names(text: str) -> list[str]:
    if "[" not in text and "," not in text and text.strip():
        return [text.strip()]
    from slurm_triage.nodeset import expand

    found = expand(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no node list; write c1, c1,c3 or c[1-3]")
    return list(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sdiag-history",
        description="What slurm-triage found out about jobs that ended badly.",
        epilog="Exit codes: 0 done (also when nothing was found), 1 nothing could be corrected or was, 2 wrong usage, "
        "3 the history cannot be read or written.",
    )
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--db",
        metavar="FILE",
        help=f"the history (default: the environment variable SDIAG_HISTORY, else {DEFAULT_DB})",
    )
    ask = argparse.ArgumentParser(add_help=False)
    for name, what in (
        ("cluster", "clusters"),
        ("user", "user names or uids"),
        ("account", "accounts"),
        ("cause", "causes, such as memcg_oom; of a corrected row the corrected one"),
        ("said-cause", "causes that the diagnosis names, whatever was corrected"),
        ("owner", "who has to act: user, admin, hardware, scheduler, nobody, unknown"),
        ("partition", "partitions"),
        ("state", "Slurm states, such as FAILED"),
    ):
        ask.add_argument(f"--{name}", type=names, metavar="NAME[,...]", help=what)
    ask.add_argument("--node", type=_node_names, metavar="NODES", help="attempts on any of these nodes: c1, c[1-3]")
    times = queries.TIME_FORMS
    ask.add_argument("--since", type=moment, metavar="TIME", help=f"ended at TIME or later: {times}")
    ask.add_argument("--until", type=moment, metavar="TIME", help="ended before TIME")
    ask.add_argument(
        "-n",
        "--limit",
        type=count,
        default=100,
        metavar="N",
        help="most rows, 0 = all (default: 100)",
    )
    form = ask.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON array of objects")
    form.add_argument("--csv", action="store_true", help="comma-separated values (RFC 4180), safe for spreadsheets")
    ask.add_argument("--no-header", action="store_true", help="no line of headings in the table or the CSV")
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="list|show|nodes|job|wrong|corrections|check|migrate"
    )
    verbs.add_parser("list", parents=[where, ask], help="one line for each attempt of a job, newest first")
    show = verbs.add_parser("show", parents=[where, ask], help="the whole diagnosis of every attempt of a job")
    show.add_argument("job", metavar="JOBID", help="123, 1001_4 (array task), 1111+1 (part of a heterogeneous job)")
    nodes_cli.add_verb(verbs, where)
    job_cli.add_verb(verbs, where)
    corrections_cli.add_verbs(verbs, where)
    verbs.add_parser("check", parents=[where], help="is the file intact, and of which schema version is it")
    verbs.add_parser("migrate", parents=[where], help="create the file or bring its schema up to date")
    return parser


def _filters(options: argparse.Namespace) -> queries.Filters:
    """The conditions of the command line. Raises `ValueError` with a sentence for the user."""
    filters = queries.Filters()
    for name, method in queries.FILTERS.items():
        values = getattr(options, name)
        if values:
            method(filters, values)
    if options.since is not None:
        filters.since(options.since)
    if options.until is not None:
        filters.until(options.until)
    if options.verb == "show":
        filters.job(options.job)
    return filters


# ---------------------------------------------------------------------------------------- rows


def _shown_id(row: sqlite3.Row) -> str:
    return str(row["shown_id"] or row["job_id"])


def _flat(row: sqlite3.Row) -> dict[str, object]:
    """A row with the names of the JSON contract; times as ISO 8601 text, without Z where the zone is not known."""
    return {
        "cluster": row["cluster"] or None,
        "job_id": row["job_id"],
        "shown_id": row["shown_id"],
        "attempt": row["attempt_no"],
        "user": row["user_name"],
        "submit": queries.show_time(row["submit_time"], row["submit_key"]),
        "start": queries.show_time(row["start_time"], row["start_key"]),
        "end": queries.show_time(row["end_time"]),
        "diagnosed_at": queries.show_time(row["diagnosed_at"]),
        "core_dumped": None if row["core_dumped"] is None else bool(row["core_dumped"]),
        **{
            name: row[name]
            for name in FIELDS
            if name not in ("cluster", "attempt", "user", "submit", "start", "end", "diagnosed_at", "core_dumped")
        },
    }


def _correction(row: sqlite3.Row) -> dict[str, object] | None:
    """The correction that counts; the verdict it was made of may have changed since."""
    if row["correction"] is None:
        return None
    return {
        "cause": row["corrected_cause"],
        "owner": row["corrected_owner"],
        "why": row["corrected_why"],
        "by": row["corrected_by"],
        "at": queries.show_time(row["corrected_at"]),
        "said_cause": row["verdict_cause"],
        "said_owner": row["verdict_owner"],
        "said_strength": row["verdict_strength"],
        "agrees_now": _agrees(row),
    }


def _agrees(row: sqlite3.Row) -> bool:
    """Whether the diagnosis has come to say what the correction says."""
    return bool(row["corrected_cause"] == row["cause"] and row["corrected_owner"] in ("unknown", row["owner"]))


def _exit(row: sqlite3.Row) -> str:
    """`code:signal`, as best known."""
    if row["exit_code"] is None and row["signal"] is None:
        return UNKNOWN
    return ":".join(UNKNOWN if v is None else str(v) for v in (row["exit_code"], row["signal"]))


def _line(row: sqlite3.Row) -> list[object]:
    right = row["correction"] is None
    when = queries.show_time(row["end_time"]) or queries.show_time(row["start_time"], row["start_key"])
    return [
        _shown_id(row),
        row["attempt_no"],
        row["user_name"],
        row["partition"],
        row["name"],
        row["state"],
        _exit(row),
        when if row["end_time"] is not None or when is None else f"({when})",
        row["cause"] if right else f"{row['corrected_cause']}{MARK}",
        row["strength"] if right else "corrected",
        row["owner"] if right else row["corrected_owner"],
        row["nodes"],
    ]


def _csv(rows: Sequence[sqlite3.Row], header: bool) -> str:
    from slurm_triage.history.spreadsheet import csv_text

    def cells(row: sqlite3.Row) -> list[object]:
        flat = _flat(row)
        correction = _correction(row) or {}
        more = [correction.get(name.removeprefix("corrected_")) for name in CORRECTED]
        return [*map(flat.__getitem__, FIELDS), *more]

    return csv_text(FIELDS + CORRECTED, map(cells, rows), header)


# ---------------------------------------------------------------------------------------- one diagnosis as text


def _document(row: sqlite3.Row) -> Mapping[str, object]:
    """The stored document; empty if someone has damaged it."""
    import json

    try:
        document = json.loads(row["diagnosis"])
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _items(document: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    value = document.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _word(item: Mapping[str, object], key: str) -> str:
    value = item.get(key)
    return "" if value is None else printable(str(value))


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    import textwrap

    room = max(width, len(indent) + 20)
    return [
        line
        for part in text.splitlines() or [""]
        for line in textwrap.wrap(
            printable(part), room, initial_indent=indent, subsequent_indent=indent, break_long_words=False
        )
    ]


def _where(item: Mapping[str, object]) -> str:
    place = _word(item, "file")
    return f"{place}:{_word(item, 'line')}" if place and item.get("line") is not None else place


def _quoted(item: Mapping[str, object], indent: str) -> list[str]:
    """A cited line: where it stands, then what it says."""
    about = ", ".join(part for part in (_word(item, "source"), _word(item, "node"), _word(item, "time")) if part)
    place = _where(item) or "no file"
    return [f"{indent}{place} ({about})" if about else f"{indent}{place}", f"{indent}  | {_word(item, 'text')}"]


def _attempt_text(row: sqlite3.Row, width: int) -> Iterator[str]:
    """The whole diagnosis of one attempt, verdict first."""
    document = _document(row)

    def known(value: object) -> str:
        return UNKNOWN if value is None or value == "" else printable(str(value))

    who = f"user {known(row['user_name'])}, account {known(row['account'])}, partition {known(row['partition'])}"
    cluster = f" on {printable(row['cluster'])}" if row["cluster"] else ""
    raw = f" (raw id {printable(row['job_id'])})" if _shown_id(row) != row["job_id"] else ""
    yield f"Job {printable(_shown_id(row))}{raw}{cluster}, attempt {row['attempt_no']}: {known(row['state'])}"
    sure = "" if row["strength"] == "unknown" else f" ({printable(row['strength'])})"
    yield from _correction_text(row, width)
    yield f"  cause: {printable(row['cause'])}{sure}; who has to act: {printable(row['owner'])}"
    yield from _wrapped(row["summary"], "  ", width)
    yield f"  name {known(row['name'])}, {who}, nodes {known(row['nodes'])}"
    times = [
        f"submitted {known(queries.show_time(row['submit_time'], row['submit_key']))}",
        f"started {known(queries.show_time(row['start_time'], row['start_key']))}",
        f"ended {known(queries.show_time(row['end_time']))}",
    ]
    yield "  " + ", ".join(times)
    shown = f", shown by sacct as {printable(row['shown_by_sacct'])}" if row["shown_by_sacct"] else ""
    yield f"  exit {_exit(row)} (code:signal){shown}; revision {row['revision']}, diagnosed " + known(
        queries.show_time(row["diagnosed_at"])
    )
    if not document:
        yield "  The stored diagnosis cannot be read; run `sdiag-history check`."
        return
    for title, lines in _sections(document, width):
        if lines:
            yield f"  {title}:"
            yield from lines


def _correction_text(row: sqlite3.Row, width: int) -> Iterator[str]:
    """What was corrected, above what the diagnosis says."""
    if row["correction"] is None:
        return
    who, when = printable(row["corrected_by"]), queries.show_time(row["corrected_at"])
    cause, owner = printable(row["corrected_cause"]), printable(row["corrected_owner"])
    yield f"  CORRECTED cause: {cause}{MARK}; who has to act: {owner}"
    said = f"{row['verdict_cause']} ({row['verdict_strength']}), owner {row['verdict_owner']}"
    yield from _wrapped(f"by {who} on {when}: {row['corrected_why']}", "    ", width)
    yield from _wrapped(f"the diagnosis said then: {said}", "    ", width)
    yield f"  What the diagnosis says{' (it agrees now)' if _agrees(row) else ''}:"


def _sections(document: Mapping[str, object], width: int) -> Iterator[tuple[str, list[str]]]:
    lines: list[str] = []
    for item in _items(document, "actions"):
        lines += _wrapped(_word(item, "text"), "    ", width)
        if item.get("command"):
            lines.append(f"      $ {_word(item, 'command')}")
    yield "What to do", lines
    first = document.get("first_failure")
    if isinstance(first, dict):
        rank = UNKNOWN if first.get("rank") is None else _word(first, "rank")
        node, when = _word(first, "node") or UNKNOWN, _word(first, "time") or UNKNOWN
        yield "First failure", [f"    rank {rank} on {node} at {when}: {_word(first, 'what')}"]
    lines = []
    for item in _items(document, "timeline"):
        node = f" [{_word(item, 'node')}]" if item.get("node") else ""
        lines.append(f"    {_word(item, 'time') or UNKNOWN}{node} {_word(item, 'what')} ({_where(item)})")
    yield "Timeline", lines
    yield "Evidence", [line for item in _items(document, "evidence") for line in _quoted(item, "    ")]
    yield "Also", [f"    {_word(i, 'cause')} ({_word(i, 'strength')})" for i in _items(document, "also")]
    lines = []
    for item in _items(document, "not"):
        lines += _wrapped(f"{_word(item, 'cause')}: {_word(item, 'because')}", "    ", width)
        lines += [line for cite in _items(item, "evidence") for line in _quoted(cite, "      ")]
    yield "Not", lines
    lines = []
    for item in _items(document, "missing"):
        lines += _wrapped(f"{_word(item, 'fact')}; would settle {_word(item, 'would_settle')}", "    ", width)
        lines += _wrapped(f"find out: {_word(item, 'how')}", "      ", width)
    yield "Missing", lines


# ---------------------------------------------------------------------------------------- verbs


def _ask(options: argparse.Namespace) -> int:
    path = history_file(options)
    filters: queries.Filters = options.filters
    limit = options.limit or None
    find = queries.by_job if options.verb == "show" else queries.newest
    extras: list[dict[str, object]] = []
    # Everything is read before anything is printed: a reader who waits in a pager must not hold up a writer.
    with reading(path) as db:
        rows = find(db, filters, None if limit is None else limit + 1)
        timeless = queries.unknown_time(db, filters) if filters.has_window else 0
        more = limit is not None and len(rows) > limit
        rows = rows[:limit]
        if options.verb == "show" and options.json:
            extras = [_extra(db, row) for row in rows]
    width = terminal_width()
    if options.json:
        flat = [{**_flat(row), "correction": _correction(row)} for row in rows]
        out(json_array([{**a, **b} for a, b in zip(flat, extras, strict=True)] if extras else flat))
    elif options.csv:
        out(_csv(rows, not options.no_header))
    elif options.verb == "list":
        if rows:
            lines = table(COLUMNS, map(_line, rows), width=width, header=not options.no_header)
            if not options.no_header and any(row["correction"] is not None for row in rows):
                lines.append(FOOTNOTE)
            out("".join(f"{line}\n" for line in lines))
    else:
        out("\n".join("".join(f"{line}\n" for line in _attempt_text(row, width or 120)) for row in rows))
    if not rows:
        what = f" of job {printable(options.job)}" if options.verb == "show" else ""
        note(f"no diagnosis{what} was found in {path}")
    if more:
        note(f"more than {limit} found, the rest is not shown; -n 0 shows all")
    if timeless:
        note(f"{timeless} more of unknown time, which --since and --until cannot place")
    return OK


def _extra(db: sqlite3.Connection, row: sqlite3.Row) -> dict[str, object]:
    """What `show --json` has beside the columns of a row."""

    def plain(rows: list[sqlite3.Row]) -> list[dict[str, object]]:
        found = []
        for one in rows:
            item = {key: one[key] for key in one.keys() if key not in ("attempt", "ordinal")}  # noqa: SIM118
            for key in ("start_time", "end_time", "at"):
                if key in item:
                    item[key.removesuffix("_time")] = queries.show_time(item.pop(key))
            found.append(item)
        return found

    return {
        "steps": plain(queries.steps(db, row["id"])),
        "tasks": plain(queries.tasks(db, row["id"])),
        "diagnosis": _document(row) or None,
    }


def _check(options: argparse.Namespace) -> int:
    path = history_file(options)
    found, problems = check(path)
    for problem in problems:
        out(f"{printable(problem)}\n")
    if problems:
        note(f"history {path} is damaged. Restore it from a backup")
        return UNUSABLE
    what = f"intact, schema version {found}" if found else "empty, no history yet"
    out(f"{printable(str(path))}: {what}\n")
    return OK


def _migrate(options: argparse.Namespace) -> int:
    path = history_file(options)
    db = connect(path)
    try:
        with explained(path):
            found = version(db, path)
    finally:
        db.close()
    out(f"{printable(str(path))}: schema version {found}\n")
    return OK


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _ask,
    "show": _ask,
    "nodes": nodes_cli.run,
    "job": job_cli.run,
    "wrong": corrections_cli.wrong,
    "corrections": corrections_cli.corrections,
    "check": _check,
    "migrate": _migrate,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code. A usage error raises `SystemExit(2)`, as argparse does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    parser = _parser()
    options = parser.parse_args(argv)
    check_options = {"list": _filters, "show": _filters, **corrections_cli.FILTERS}.get(options.verb)
    if check_options is not None:
        try:
            options.filters = check_options(options)
        except ValueError as error:
            parser.error(printable(str(error)))
    try:
        code = VERBS[options.verb](options)
        sys.stdout.flush()
        return code
    except HistoryError as error:
        note(str(error))
        return UNUSABLE
    except BrokenPipeError:
        # `| head` has seen enough. What is still buffered must not be tried again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


if __name__ == "__main__":
    sys.exit(main())
