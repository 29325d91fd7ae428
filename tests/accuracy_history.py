"""How often the diagnosis was wrong at a site: what it said, against what people corrected in a history.

Only a corrected attempt is known to be wrong or right; what nobody corrected is not known to be right, so the shares
here are the least there can be. For each cause that was said:

* recorded: attempts of which the diagnosis says it (of a corrected one: said it when it was corrected);
* wrong: corrected to another cause, and that one does not refine it; wrong confirmed: of these, given as confirmed;
* wider: corrected to a cause that refines it, so what was said is right, too;
* owner wrong: corrected as to who has to act, where the correction says that;
* right now: of the corrected ones, those of which the diagnosis says by now what the correction says.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.causes import refines
from slurm_triage.history.corrections import COUNTS, Correction, since
from slurm_triage.history.database import connect, explained
from slurm_triage.history.queries import FROM, WITH_LATEST
from slurm_triage.report.table import printable

ALL = "all"
_SAID = f"{WITH_LATEST} SELECT COALESCE(c.verdict_cause, a.cause) AS said, COUNT(*) AS n {FROM} GROUP BY 1"


@dataclass(frozen=True)
class Said:
    """The figures of the module's docstring for one cause, or for `ALL` of them."""

    cause: str
    recorded: int
    corrected: int
    wrong: int
    wrong_confirmed: int
    wider: int
    owner_wrong: int
    right_now: int


def read(path: Path) -> tuple[dict[str, int], list[Correction]]:
    """How many attempts say which cause, and the corrections that count. Raises `HistoryError`."""
    with closing(connect(path, readonly=True)) as db, explained(path):
        db.row_factory = sqlite3.Row
        recorded = {row["said"]: int(row["n"]) for row in db.execute(_SAID)}
        return recorded, [c for c in since(db) if c.standing == COUNTS]


def is_wider(correction: Correction) -> bool:
    """Whether what was said is still right, only less exact than what is known."""
    cause, said = correction.cause or "", correction.verdict_cause
    return cause != said and refines(cause, said)


def is_wrong(correction: Correction) -> bool:
    """Whether another cause was said."""
    return correction.cause != correction.verdict_cause and not is_wider(correction)


def figures(recorded: dict[str, int], corrections: Sequence[Correction]) -> list[Said]:
    """One row for each cause that was corrected, most often wrong first, then one for all attempts of the history."""
    by_cause: dict[str, list[Correction]] = defaultdict(list)
    for correction in corrections:
        by_cause[correction.verdict_cause].append(correction)
    rows = [_row(cause, recorded.get(cause, 0), some) for cause, some in by_cause.items()]
    rows.sort(key=lambda row: (-row.wrong, -row.wrong_confirmed, row.cause))
    return [*rows, _row(ALL, sum(recorded.values()), corrections)]


def _row(cause: str, recorded: int, some: Sequence[Correction]) -> Said:
    return Said(
        cause=cause,
        recorded=recorded,
        corrected=len(some),
        wrong=sum(map(is_wrong, some)),
        wrong_confirmed=sum(is_wrong(c) and c.verdict_strength == "confirmed" for c in some),
        wider=sum(map(is_wider, some)),
        owner_wrong=sum(c.owner not in (None, c.verdict_owner) for c in some),
        right_now=sum(c.agrees_now for c in some),
    )


def misses(corrections: Sequence[Correction]) -> list[dict[str, object]]:
    """Every correction, the wrong confirmed ones first."""
    ordered = sorted(corrections, key=lambda c: (not is_wrong(c), c.verdict_strength != "confirmed", c.id))
    return [
        {
            "job": c.shown_id,
            "cluster": c.key.cluster,
            "attempt": c.attempt_no,
            "said": c.verdict_cause,
            "strength": c.verdict_strength,
            "owner_said": c.verdict_owner,
            "cause": c.cause,
            "owner": c.owner,
            "wrong": is_wrong(c),
            "right_now": c.agrees_now,
            "why": c.why,
        }
        for c in ordered
    ]


def table(rows: Sequence[Said]) -> str:
    """The figures for people."""
    titles = ("said", "recorded", "corrected", "wrong", "wrong-conf", "wider", "owner-wrong", "right-now")
    lines = [titles, *((printable(r.cause), *map(str, _numbers(r))) for r in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    return "\n".join(
        line[0].ljust(widths[0]) + "".join("  " + c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))
        for line in lines
    )


def _numbers(row: Said) -> tuple[int, ...]:
    return (
        *(row.recorded, row.corrected, row.wrong, row.wrong_confirmed),
        *(row.wider, row.owner_wrong, row.right_now),
    )


def miss_text(miss: dict[str, object]) -> str:
    """One correction for people."""
    marks = "  [WRONG CONFIRMED]" if miss["wrong"] and miss["strength"] == "confirmed" else ""
    marks += "  [right now]" if miss["right_now"] else ""
    where = f"{miss['job']}/{miss['attempt']} {miss['cluster']}".rstrip()
    owner = f", owner {miss['owner_said']} -> {miss['owner']}" if miss["owner"] else ""
    text = f"{where}: {miss['said']} ({miss['strength']}) -> {miss['cause']}{owner}{marks}"
    return f"{printable(text)}\n    {printable(str(miss['why']))}"
