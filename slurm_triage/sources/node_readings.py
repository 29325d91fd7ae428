"""What the agent measured on a node after the job's end: file systems, counters of errors, GPUs. A line for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Reading, Stamp, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources._names import is_output_name

KIND = "node_readings"

WHAT = frozenset({"file_system", "baseline", "counter", "gpu", "gpu_memory"})
_HEAD = re.compile(r"# slurm-triage readings \d{1,3} ")
_PAIR = re.compile(r'(?: |^)([a-z_]{1,40})=("(?:[^"\\]|\\.){0,2000}"|[^\s"]{0,300})(?= |$)')
_EPOCH = re.compile(r"\d{1,12}(?:\.\d{1,9})?")


def recognise(name: str, head: Sequence[str]) -> float:
    """By the first line; a job's output is none."""
    return 1.0 if head and _HEAD.match(head[0]) and not is_output_name(name) else 0.0


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """A `Reading` for each line."""
    node: str | None = None
    taken: Stamp | None = None
    for number, text in file.lines():
        what, _, rest = text.partition(" ")
        if _HEAD.match(text):
            said = _pairs(rest)
            node = said.get("node") or None
            epoch = said.get("at", "")
            taken = context.clock.epoch(float(epoch)) if _EPOCH.fullmatch(epoch) else None
        elif text.strip():
            cite = context.cite(KIND, file, number, text, node=node)
            values = _pairs(rest)
            if what in WHAT and values:
                yield Reading(cite, what=what, values=values, taken=taken)
            else:
                yield Unreadable(cite, why="not a reading")


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in _PAIR.findall(text):
        found.setdefault(key, _word(value))
    return found


def _word(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        return value
