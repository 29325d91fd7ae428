"""What machine a node is, as the agent read it there: `node.<node>.json`, one member a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Cite, Event, Reading, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources._names import is_output_name

KIND = "node_facts"

FORMAT = "slurm-triage node "
_MEMBER = re.compile(r'\s{0,8}"(\w{1,40})": ?(.{1,1000}?),?\s{0,8}')


def recognise(name: str, head: Sequence[str]) -> float:
    """By the member `format`, which comes first; a job's output is none."""
    if is_output_name(name):
        return 0.0
    return 1.0 if any(line.strip().startswith(f'"format": "{FORMAT}') for line in head[:3]) else 0.0


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """One `Reading`, each value with its line; what is null was not known."""
    values: dict[str, str] = {}
    lines: dict[str, tuple[int, str]] = {}
    for number, text in file.lines():
        match = _MEMBER.fullmatch(text)
        if not match or match[1] in values:
            continue
        try:
            value = json.loads(match[2])
        except (ValueError, RecursionError):
            yield Unreadable(context.cite(KIND, file, number, text), why="a member that is not JSON")
            continue
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if isinstance(value, (str, int, float)):
            values[match[1]] = str(value)
            lines[match[1]] = (number, text)
    if not values:
        return
    node = values.get("node")
    cites: dict[str, Cite] = {k: context.cite(KIND, file, n, text, node=node) for k, (n, text) in lines.items()}
    first = cites.get("node") or next(iter(cites.values()))
    taken = _epoch(values.get("taken_at", ""))
    stamp = context.clock.epoch(taken) if taken is not None else None
    yield Reading(first, what="node", values=values, cites=cites, taken=stamp)


def _epoch(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", text) else None
