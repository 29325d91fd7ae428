"""`sacctmgr show qos -P` (or `-p`): preemption and time settings of the QOS, one a line, `|` between the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Setting, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources._names import is_output_name

KIND = "sacctmgr_qos"

KEYS = ("GraceTime", "PreemptMode", "Preempt", "Priority", "MaxWall")
"""Settings that are kept. GraceTime and MaxWall are printed as `00:00:08`; an empty value means "not set"."""


def _header(line: str) -> list[str] | None:
    names = [name.strip() for name in line.split("|")]
    known = {"GraceTime", "PreemptMode", "Preempt", "UsageThres", "UsageFactor", "MaxWall", "PreemptExemptTime"}
    # `Priority`, `Flags` and the like occur in other tables of sacctmgr as well.
    return names if "Name" in names and len(known.intersection(names)) >= 2 else None


def recognise(name: str, head: Sequence[str]) -> float:
    """1.0 when the first line with text is the header of a table of QOS."""
    first = next((line for line in head if line.strip()), "")
    score = 1.0 if _header(first) else 0.0
    return min(score, 0.3) if is_output_name(name) else score


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """One `Setting` of scope `qos` a kept column and QOS; `Unreadable` for a line with another number of columns."""
    header: list[str] | None = None
    for number, line in file.lines():
        if not line.strip():
            continue
        if found := _header(line):
            header = found
            continue
        cite = context.cite(KIND, file, number, line)
        if header is None:
            yield Unreadable(cite, why="a line before the header of the table")
            continue
        cells = line.split("|")
        row = dict(zip(header, cells, strict=False))
        if len(cells) != len(header) or not row.get("Name"):
            yield Unreadable(cite, why="the columns do not fit the header of the table")
            continue
        for key in KEYS:
            if key in row:
                yield Setting(cite, scope="qos", owner=row["Name"], key=key, value=row[key])
