"""slurmctld's log: who asked for what, preemption and by whom, time limits, lost nodes; and node reasons (sinfo -R)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Voice
from slurm_triage.sources import Context, _sluid
from slurm_triage.sources._catalog import load
from slurm_triage.sources._finder import finder
from slurm_triage.sources._messages import Keeper, known, matches, sign
from slurm_triage.sources._names import is_output_name

KIND = "slurmctld_log"

KEEP = 20000
"""Lines kept of each family from either end: a controller's log speaks of many jobs."""

SEVERAL_WRITERS = frozenset({"node_reason", "ctld_recovered", "ctld_restarted"})
"""Families whose lines also stand in other files, or in every file of a restart."""

_STAMPED = re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?\]? ")
_REASONS = re.compile(
    r"\s*(?:NODELIST\W{1,40})?REASON\W{1,40}USER\W{1,40}TIMESTAMP\b.*|Reason: .*|REASON\b.*NODELIST\s*"
)
_NODE_RECORD = re.compile(r"NodeName=(?P<node>[A-Za-z0-9][\w.-]{0,254})\b")
_SHOWN = re.compile(r"(\d{1,12}[_+][\w\[\],%-]{1,60})\((\d{1,12})\)")


def recognise(name: str, head: Sequence[str]) -> float:
    """By lines that only slurmctld writes, or by a list of node reasons; the name alone is worth little."""
    base = name.rsplit("/", 1)[-1].lower()
    if is_output_name(name) or any("JobState=" in line for line in head):
        return 0.0
    found = {id for line in head for id in known("slurmctld", line)}
    stamped = sum(bool(_STAMPED.match(line)) for line in head)
    hint = 0.1 if base.startswith("slurmctld") else 0.0
    if any("NodeName=" in line for line in head):
        return 0.6 if "node_reason" in found else 0.0  # scontrol show node
    if found - SEVERAL_WRITERS:
        return 0.85 + hint
    if found or any(_REASONS.fullmatch(line) for line in head):
        return 0.75 + hint
    return 0.6 if hint and (stamped or not head) else 0.0


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """A Sign for every line that the catalog knows.

    The job of an array task or het component (`1001_4(1005)`) is its raw id; the shown id is the field `shown`.
    """
    reason = load("slurmctld").get("node_reason")
    keeper = Keeper(KEEP)
    listed = False
    node = ""
    for chunk in finder(("slurmctld",), ("NodeName=",)).chunks(file, context.scan):
        listed = listed or (b"REASON" in chunk.data and any(map(_REASONS.fullmatch, chunk.texts)))
        for index in range(chunk.count) if listed else chunk.marked:
            text = chunk.text(index)
            if named := _NODE_RECORD.match(text):
                node = named["node"]
            found = matches(chunk.marked.get(index, []), text)
            if listed and not found and (fields := reason.fields(text)) is not None:
                found = [(reason, fields)]  # below the header of sinfo -R any words are a reason
            for signature, fields in found:
                if shown := _SHOWN.fullmatch(fields.get("id", "")):
                    fields["shown"] = shown[1]
                if node and signature is reason and "nodes" not in fields:
                    fields["nodes"] = node  # scontrol show node names it lines above
                fields.update(_sluid.of_line(text, fields))
                keeper.add(chunk.first + index, text, signature.id, Voice.SLURM, fields)
    context.note(keeper.left_out())
    for hit in keeper.hits():
        yield sign(KIND, file, context, hit)
