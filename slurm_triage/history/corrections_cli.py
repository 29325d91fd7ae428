"""The verbs `wrong` and `corrections` of `sdiag-history`. Reference: docs/reference/sdiag-history.md.

`corrections` is imported only when a verb needs it: the other verbs have to be quick.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
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
)
from slurm_triage.history.database import HistoryError, connect, explained, reading, writing
from slurm_triage.report.table import Column, printable, table

if TYPE_CHECKING:
    from slurm_triage.history.corrections import Correction

OWNERS = ("user", "admin", "hardware", "scheduler", "nobody")
"""Who can have to act by a correction; that nobody knows is said by leaving the option out."""

COLUMNS = (
    Column("JOBID", right=True),
    Column("TRY", right=True),
    Column("AT"),
    Column("BY", least=6),
    Column("CAUSE", least=12),
    Column("OWNER"),
    Column("SAID", least=12),
    Column("SURE", least=6, spare=True),
    Column("NOW", least=12, spare=True),
    Column("STANDING"),
    Column("WHY", least=12),
)
"""The table of `corrections`."""


# ---------------------------------------------------------------------------------------- arguments


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser], where: argparse.ArgumentParser) -> None:
    """Adds the two verbs; `where` has the options that say which file."""
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument("--attempt", type=count, metavar="N", help="this attempt of the job (default: the newest)")
    which.add_argument("--cluster", type=names, metavar="NAME[,...]", help="of these clusters")
    which.add_argument("--until", type=moment, metavar="TIME", help="the newest that ended before TIME")
    wrong = verbs.add_parser("wrong", parents=[where, which], help="correct a verdict that is wrong, or take it back")
    wrong.add_argument("job", metavar="JOBID", help="123, 1001_4 (array task), 1111+1 (part of a heterogeneous job)")
    wrong.add_argument("--cause", metavar="CAUSE", help="what it was: an id such as memcg_oom, or unknown")
    wrong.add_argument("--owner", choices=OWNERS, help="who has to act")
    wrong.add_argument("--why", metavar="TEXT", help="how you know, in a sentence; the job's owner may read it")
    wrong.add_argument("--undo", action="store_true", help="take the latest correction back")
    listed = verbs.add_parser("corrections", parents=[where, which], help="what was corrected, newest first")
    listed.add_argument("job", nargs="?", metavar="JOBID", help="only of this job")
    listed.add_argument("-n", "--limit", type=count, default=100, metavar="N", help="most rows, 0 = all (default: 100)")
    form = listed.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON array of objects")
    form.add_argument("--expect", action="store_true", help="the expect.toml of a case made of the job")
    listed.add_argument("--no-header", action="store_true", help="no line of headings in the table")


def _which(options: argparse.Namespace) -> queries.Filters:
    """The attempts of the job. Raises `ValueError` with a sentence for the user."""
    filters = queries.Filters()
    if options.job is not None:
        filters.job(options.job)
    if options.attempt is not None:
        filters.attempt_no(options.attempt)
    if options.cluster:
        filters.cluster(options.cluster)
    if options.until is not None:
        filters.until(options.until)
    return filters


def _checked_wrong(options: argparse.Namespace) -> queries.Filters:
    from slurm_triage.history.corrections import reason

    if options.undo:
        if options.cause or options.owner:
            raise ValueError("--undo takes a correction back; it goes with no --cause and no --owner")
    elif not options.cause:
        raise ValueError("--cause is needed: what it was (unknown, if only that the diagnosis is wrong is known)")
    else:
        _check_cause(options.cause)
    options.why = reason(options.why or "")
    if not options.why and not options.undo:
        raise ValueError("--why is needed: how you know, in a sentence")
    return _which(options)


def _check_cause(cause: str) -> None:
    """Raises `ValueError` with the nearest ids for one that is none."""
    from slurm_triage import site
    from slurm_triage.causes import ARRAY_MIXED, all_causes

    site.use()  # a cause of the site is as good as any
    known = [id for id in all_causes() if id != ARRAY_MIXED]  # of a whole array, never of one attempt
    if cause in known:
        return
    import difflib

    near = difflib.get_close_matches(cause.strip().lower().replace("-", "_").replace(" ", "_"), known, 3, 0.5)
    hint = f"; did you mean {', '.join(near)}?" if near else "."
    raise ValueError(f"{cause!r} is no cause{hint} All are listed in docs/reference/causes.md")


def _checked_corrections(options: argparse.Namespace) -> queries.Filters:
    if options.expect and options.job is None:
        raise ValueError("--expect needs a JOBID")
    if options.job is None and (options.attempt is not None or options.cluster or options.until is not None):
        raise ValueError("--attempt, --cluster and --until choose among the attempts of a job: a JOBID is needed")
    return _which(options)


FILTERS: Mapping[str, Callable[[argparse.Namespace], queries.Filters]] = {
    "wrong": _checked_wrong,
    "corrections": _checked_corrections,
}
"""For each verb: checks its options and makes the conditions; raises `ValueError` with a sentence for the user."""


# ---------------------------------------------------------------------------------------- wrong


def wrong(options: argparse.Namespace) -> int:
    """Corrects the newest attempt that was asked for, or takes its correction back, and says what changed."""
    from slurm_triage.history import corrections

    path = history_file(options)
    connect(path, readonly=True, current=False).close()  # a history that is not there is not to be made by this
    by = corrections.caller()
    try:
        with closing(connect(path)) as db, explained(path), writing(db):
            rows = queries.newest(db, options.filters, None)
            row = _one(rows, options.job)
            if options.undo:
                corrections.undo(db, row, options.why, by)
            else:
                corrections.correct(db, row, options.cause, options.owner, options.why, by)
            after = next(r for r in queries.newest(db, options.filters, None) if r["id"] == row["id"])
    except corrections.Refused as refused:
        note(f"nothing was changed: {refused}")
        return REFUSED
    except HistoryError as error:
        raise _about_the_folder(error) from error
    out("".join(f"{line}\n" for line in _changed(row, after, options.why, by)))
    if len(rows) > 1:
        note(
            f"the history has {len(rows)} attempts with job id {options.job}, of which this is the newest; --attempt, "
            f"--cluster and --until choose another"
        )
    return OK


def _about_the_folder(error: HistoryError) -> HistoryError:
    """A history whose file may be written and whose folder may not be: SQLite only says that it cannot open."""
    if "cannot be opened" not in str(error) and "cannot be written" not in str(error):
        return error
    return HistoryError(f"{error} A correction needs write permission to the file and to its folder.")


def _one(rows: list[sqlite3.Row], job: str) -> sqlite3.Row:
    """The newest. Raises `Refused` if there is none or the id is that of several tasks or parts."""
    from slurm_triage.history.corrections import Refused

    if not rows:
        raise Refused(f"no diagnosis of job {job} is in the history")
    newest = rows[0]
    group = (newest["cluster"], newest["array_id"], newest["het_id"])
    parts = {_name(r) for r in rows if (r["cluster"], r["array_id"], r["het_id"]) == group}
    if any(group[1:]) and len(parts) > 1:
        some = ", ".join(sorted(parts, key=lambda name: (len(name), name))[:3])
        raise Refused(f"{job} is {len(parts)} tasks or parts in the history; name one of them: {some}, ...")
    return newest


def _name(row: sqlite3.Row) -> str:
    return printable(str(row["shown_id"] or row["job_id"]))


def _changed(before: sqlite3.Row, after: sqlite3.Row, why: str, by: str) -> list[str]:
    """What changed, first; then of which attempt and why."""
    ended = queries.show_time(before["end_time"]) or queries.show_time(before["start_time"], before["start_key"])
    cluster = f" on {printable(before['cluster'])}" if before["cluster"] else ""
    (cause, owner), (new_cause, new_owner) = _stands(before), _stands(after)
    lines = [
        f"job {_name(before)}{cluster}, attempt {before['attempt_no']}, ended {ended or 'n/a'}:",
        f"  cause: {cause} -> {new_cause}",
        f"  who has to act: {owner} -> {new_owner}",
        f"  by {by}: {why}" if why else f"  by {by}",
    ]
    if new_owner == "unknown" and after["correction"] is not None:
        lines.append("  --owner says who has to act")
    return lines


def _stands(row: sqlite3.Row) -> tuple[str, str]:
    """Cause and owner as far as is known, with how sure they are."""
    if row["correction"] is None:
        return f"{printable(row['cause'])} ({printable(row['strength'])})", printable(row["owner"])
    return f"{printable(row['corrected_cause'])} (corrected)", printable(row["corrected_owner"])


# ---------------------------------------------------------------------------------------- corrections


def corrections(options: argparse.Namespace) -> int:
    """Lists what was corrected, or prints the label of a case."""
    from slurm_triage.history.corrections import COUNTS, since

    path = history_file(options)
    with reading(path) as db:
        found = since(db)[::-1]
        rows = queries.newest(db, options.filters, None) if options.job is not None else []
    if options.job is not None:
        wanted = {row["id"] for row in rows}
        found = [c for c in found if c.attempt in wanted]
    if options.expect:
        return _expect([c for c in found if c.standing == COUNTS], rows, options.job)
    more = len(found) - options.limit if options.limit else 0
    found = found[: options.limit or None]
    if options.json:
        out(json_array([_flat(correction) for correction in found]))
    elif found:
        lines = table(COLUMNS, map(_line, found), width=terminal_width(), header=not options.no_header)
        out("".join(f"{line}\n" for line in lines))
    if not found:
        what = f" of job {options.job}" if options.job is not None else ""
        note(f"no correction{what} was found in {path}")
    if more > 0:
        note(f"{more} more found, the rest is not shown; -n 0 shows all")
    return OK


def _expect(found: list[Correction], rows: list[sqlite3.Row], job: str) -> int:
    """Prints the label for the newest corrected attempt."""
    from slurm_triage.history.expected import label

    order = {row["id"]: place for place, row in enumerate(rows)}
    if not found:
        note(f"nothing was corrected about job {job}")
        return REFUSED
    found.sort(key=lambda correction: order.get(correction.attempt, len(order)))
    out(label(found[0]))
    if len(found) > 1:
        note(
            f"{len(found)} attempts of job {job} were corrected, of which this is the newest; --attempt chooses another"
        )
    return OK


def _flat(correction: Correction) -> dict[str, object]:
    key = correction.key
    return {
        "id": correction.id,
        "cluster": key.cluster or None,
        "job_id": key.job_id,
        "shown_id": correction.shown_id,
        "attempt": correction.attempt_no,
        "submit": key.submit_key or None,
        "start": key.start_key or None,
        "standing": correction.standing,
        "undoes": correction.undoes,
        "cause": correction.cause,
        "owner": correction.owner,
        "why": correction.why,
        "by": correction.by_user,
        "at": queries.show_time(correction.at),
        "said_cause": correction.verdict_cause,
        "said_owner": correction.verdict_owner,
        "said_strength": correction.verdict_strength,
        "said_revision": correction.verdict_revision,
        "now_cause": correction.now_cause,
        "now_owner": correction.now_owner,
        "now_strength": correction.now_strength,
        "agrees_now": correction.agrees_now,
    }


def _line(correction: Correction) -> list[object]:
    return [
        correction.shown_id,
        correction.attempt_no,
        queries.show_time(correction.at),
        correction.by_user,
        correction.cause or "(as before)",
        correction.owner,
        correction.verdict_cause,
        correction.verdict_strength,
        f"{correction.now_cause} (agrees now)" if correction.agrees_now else correction.now_cause,
        correction.standing,
        correction.why,
    ]
