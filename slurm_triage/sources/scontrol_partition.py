"""`scontrol show partition`: preemption and time settings of the partitions, multi-line or one-line form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Setting, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources._names import is_output_name

KIND = "scontrol_partition"

KEYS = ("GraceTime", "PreemptMode", "OverTimeLimit", "PriorityTier", "MaxTime", "OverSubscribe")
"""Settings that are kept. GraceTime is in seconds, OverTimeLimit in minutes (`NONE`: the cluster's is in force)."""

_NAME = re.compile(r"^PartitionName=(\S*)")
_PAIR = re.compile(r"(?:^|\s)(" + "|".join(KEYS) + r")=(\S*)")


def recognise(name: str, head: Sequence[str]) -> float:
    """1.0 when the text starts with a partition record that has a key which only scontrol prints."""
    first = next((line for line in head if line.strip()), "")
    if not _NAME.match(first):
        return 0.0
    # slurm.conf has PartitionName lines too, but never the counters that scontrol adds.
    score = 1.0 if any(re.search(r"(?:^|\s)Total(?:CPUs|Nodes)=", line) for line in head) else 0.4
    if score < 1.0 and any(re.match(r"^\s+AllowGroups=", line) for line in head):
        score = 0.9
    return min(score, 0.3) if is_output_name(name) else score


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """One `Setting` of scope `partition` a kept key and partition."""
    owner: str | None = None
    for number, line in file.lines():
        if match := _NAME.match(line):
            owner = match[1]
        for pair in _PAIR.finditer(line):
            cite = context.cite(KIND, file, number, line)
            if owner:
                yield Setting(cite, scope="partition", owner=owner, key=pair[1], value=pair[2])
            else:
                yield Unreadable(cite, why=f"{pair[1]} of a partition that is not named")
