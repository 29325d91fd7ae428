"""slurmd's and slurmstepd's log on one node: launches, ends, signals, what could not be opened or started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Voice
from slurm_triage.sources import Context, _sluid
from slurm_triage.sources._finder import finder
from slurm_triage.sources._messages import Keeper, known, matches, node_name, sign
from slurm_triage.sources._names import is_output_name

KIND = "slurmd_log"

KEEP = 20000
"""Lines kept of each family from either end: the log speaks of many jobs."""

_PREFIX = re.compile(r"\[(?P<id>\d{1,12}(?:[_+]\d{1,9})?\.(?:\d{1,9}|batch|extern|interactive))\] ")
_SYSLOG = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<node>[\w.-]{1,255}) slurm(?:d|stepd)\S{0,60}: ")
_FILE = re.compile(r"slurmd[.-](?P<node>[A-Za-z0-9][\w.-]{0,254}?)(?:\.log)?(?:\.\d{1,3})?")
_STAMPED = re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?\]? ")


def recognise(name: str, head: Sequence[str]) -> float:
    """By the prefix `[<job>.<step>] ` or slurmd in syslog, and lines that only slurmd writes."""
    base = name.rsplit("/", 1)[-1].lower()
    if is_output_name(name):
        return 0.0
    hint = 0.1 if base.startswith("slurmd") and not base.startswith("slurmdbd") else 0.0
    sure = False
    stamped = False
    for line in head:
        mine = bool(_SYSLOG.match(line)) or bool(_PREFIX.search(line[:80]))
        stamped = stamped or bool(_STAMPED.match(line))
        launch = {"slurmd_launch", "slurmd_started", "slurmd_prolog_failed"}
        sure = sure or mine or bool(launch.intersection(known("slurmd", line)))
    if sure:
        return 0.85 + hint
    return 0.6 if hint and (stamped or not head) else 0.0


def file_node(name: str) -> str | None:
    """The node in `slurmd.<node>.log`."""
    match = _FILE.fullmatch(name.rsplit("/", 1)[-1])
    return match["node"] if match and match["node"] != "log" else None


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """A Sign for every line that the catalog knows; job and step from `[1065.0]` where the message names none."""
    keeper = Keeper(KEEP)
    node = file_node(file.name)
    for chunk in finder(("slurmd",)).chunks(file, context.scan):
        for index, families in chunk.marked.items():
            text = chunk.text(index)
            prefix = _PREFIX.search(text[:80])
            for signature, fields in matches(families, text):
                if prefix and ("id" not in fields or fields.get("kind") == "JOB"):
                    fields["id"] = prefix["id"]
                if "node" not in fields and (host := _SYSLOG.match(text)) and (named := node_name(host["node"])):
                    fields["node"] = named
                fields.update(_sluid.of_line(text, fields))
                keeper.add(chunk.first + index, text, signature.id, Voice.SLURM, fields)
    context.note(keeper.left_out())
    for hit in keeper.hits():
        yield sign(KIND, file, context, hit, node)
