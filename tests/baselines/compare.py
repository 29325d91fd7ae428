"""The product and the baselines side by side, on the same cases in the same run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests import accuracy
from tests.accuracy import Answer, Expected, Scored
from tests.baselines import (
    Baseline,
    BaselineError,
    NotInstalled,
    Said,
    exit_codes,
    gpualert_adapter,
    grep_list,
    slurmpast_adapter,
    version,
)
from tests.corpus.load import LoadedCase

ALL: tuple[tuple[Baseline, str], ...] = (
    (exit_codes.BASELINE, ""),
    (grep_list.BASELINE, ""),
    (gpualert_adapter.BASELINE, gpualert_adapter.PACKAGE),
    (slurmpast_adapter.BASELINE, slurmpast_adapter.PACKAGE),
)
"""Each with the package that it needs, or "" for one of our own."""
OURS = "slurm-triage"


@dataclass(frozen=True)
class Side:
    """One row. Shares are 0 to 1; `problem` says why there are no figures, "" if there are."""

    name: str
    what: str
    problem: str = ""
    n: int = 0
    macro_f1: float | None = None
    accuracy: float | None = None
    unknown: float | None = None
    wrong: int = 0
    wrong_confirmed: int = 0
    confirmed_recall: float | None = None


def side(name: str, what: str, scored: Sequence[Scored]) -> Side:
    """The row of one baseline, over the cases whose lines hold the cause."""
    row = accuracy.figures(name, scored)
    counted = [s for s in scored if s.expected.derivable]
    return Side(
        name=name,
        what=what,
        n=len(counted),
        macro_f1=row.macro_f1,
        accuracy=row.accuracy,
        unknown=row.unknown,
        wrong=sum(not s.right and s.answer.cause != "unknown" for s in counted),
        wrong_confirmed=row.wrong_confirmed,
        confirmed_recall=row.confirmed_recall,
    )


def as_scored(id: str, expected: Expected, said: Said) -> Scored:
    """The answer of a baseline, to its advantage: of several causes the one that is right, if any is."""
    cause = next((c for c in said.causes if c in expected.causes), said.causes[0] if said.causes else "unknown")
    return Scored(id, expected, Answer(cause, "unknown", said.strength if said.causes else "unknown"))


def texts(files: dict[str, bytes]) -> dict[str, str]:
    """The files of a case as text."""
    return {name: data.decode("utf-8", "replace") for name, data in files.items()}


def compare(loaded: Sequence[LoadedCase], ours: Sequence[Scored]) -> list[Side]:
    """A row for the product and one for each baseline; one that is not there says so."""
    rows = [side(OURS, "this program", ours)]
    for baseline, package in ALL:
        try:
            name = f"{baseline.name} {version(package)}" if package else baseline.name
            said = baseline.ask([texts(files) for _, files, _ in loaded])
        except (NotInstalled, BaselineError) as error:
            rows.append(Side(baseline.name, baseline.what, problem=str(error)))
            continue
        scored = [as_scored(id, accuracy.expected(label), s) for (id, _, label), s in zip(loaded, said, strict=True)]
        rows.append(side(name, baseline.what, scored))
    return rows


HEAD = ("side by side", "n", "F1", "acc", "unknown", "wrong", "wrong-conf", "conf-recall")


def cells(row: Side) -> list[str]:
    """One row as text, without the name of a problem."""
    shares = ["-" if v is None else f"{v:.3f}" for v in (row.macro_f1, row.accuracy, row.unknown, row.confirmed_recall)]
    return [row.name, str(row.n), *shares[:3], str(row.wrong), str(row.wrong_confirmed), shares[3]]


def table(rows: Sequence[Side]) -> str:
    """For people."""
    lines = [list(HEAD), *(cells(row) if not row.problem else [row.name, row.problem] for row in rows)]
    widths = [max(len(line[i]) for line in lines if len(line) == len(HEAD)) for i in range(len(HEAD))]
    widths[0] = max(len(line[0]) for line in lines)
    return "\n".join(
        re.sub(
            r" +$",
            "",
            "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=False))),
        )
        for line in lines
    )
