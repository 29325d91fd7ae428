"""Settings in force: `scontrol show config` as text (22.05 to 26.05) or JSON (26.05), and `slurm.conf`.

Only settings that can explain how a job ended are kept (`KEYS`). Values are as printed; see `seconds` for durations.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Setting, Stamp, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources._names import is_output_name
from slurm_triage.sources.scontrol_partition import KEYS as PARTITION_KEYS

KIND = "scontrol_config"

KEYS = (
    "BatchStartTimeout",
    "CgroupPlugin",
    "ClusterName",
    "ConstrainRAMSpace",
    "ConstrainSwapSpace",
    "Epilog",
    "EpilogSlurmctld",
    "EpilogTimeout",
    "JobAcctGatherParams",
    "JobAcctGatherType",
    "JobFileAppend",
    "JobRequeue",
    "KillOnBadExit",
    "KillWait",
    "MaxBatchRequeue",
    "MessageTimeout",
    "MinJobAge",
    "OverTimeLimit",
    "PreemptExemptTime",
    "PreemptMode",
    "PreemptParameters",
    "PreemptType",
    "ProctrackType",
    "Prolog",
    "PrologEpilogTimeout",
    "PrologFlags",
    "PrologSlurmctld",
    "PrologTimeout",
    "RequeueExit",
    "RequeueExitHold",
    "SLURM_VERSION",
    "SchedulerParameters",
    "SlurmctldParameters",
    "SlurmdTimeout",
    "TaskPlugin",
    "TaskPluginParam",
    "UnkillableStepTimeout",
)
"""Settings that are kept, as scontrol spells them. `Epilog` and `Prolog` may come several times (several scripts)."""

_CANONICAL = {key.lower(): key for key in KEYS}
_PARTITION = {key.lower(): key for key in PARTITION_KEYS}
_TEXT_LINE = re.compile(r"^(\w+)(?:\[\d+\])?\s*= ?(.*)$")
_AS_OF = re.compile(r"^Configuration data as of (\S+)")
_CONF_PAIR = re.compile(r"(?<!\w)(\w{1,64})\s*=\s*(?:\"([^\"]*)\"|(\S*))")
_CONF_KEYS = re.compile(
    r"^(?:ClusterName|SlurmctldHost|ControlMachine|SlurmUser|StateSaveLocation|SlurmdSpoolDir|SelectType|NodeName|"
    r"PartitionName|ProctrackType|AccountingStorageType|AuthType|SchedulerType)\s*=",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(\.\d{1,9})?")
_QUANTITY = re.compile(
    r"(\d{1,18}(?:\.\d{1,9})?)\s*(usec|us|msec|ms|sec|secs|second|seconds|s|min|mins|minutes|hours|days)"
)
_UNITS = {"u": 1e-6, "ms": 1e-3, "s": 1.0, "mi": 60.0, "h": 3600.0, "d": 86400.0}
_NO_VALUE = frozenset({"65534", "4294967294"})
_INFINITE = frozenset({"65535", "4294967295", "UNLIMITED", "INFINITE"})


def seconds(value: str, bare: float = 1.0) -> float | None:
    """A duration as Slurm prints or accepts it, in seconds; None when there is none or it cannot be read.

    `4 sec`, `2000 usec`, `30`, `00:00:08`, `1-00:00:00`, `10:00` (minutes and seconds), `1-12` (days and hours) are
    read; `UNLIMITED` and `INFINITE` are inf; `NONE`, `(null)` and an empty value are None, and so are 65534 and
    4294967294, Slurm's numbers for "not set" (NO_VAL16 and NO_VAL of slurm.h; one less than those for INFINITE).
    `bare` is the unit of a number without one, in seconds: 60 for OverTimeLimit, which slurm.conf(5) gives in minutes.
    """
    text = value.strip()
    if text.upper() in _INFINITE:
        return math.inf
    if text in _NO_VALUE:
        return None
    if re.fullmatch(r"\d{1,18}(?:\.\d{1,9})?", text):
        return float(text) * bare
    if match := _QUANTITY.fullmatch(text):
        unit = match[2]
        return float(match[1]) * next(size for begin, size in _UNITS.items() if unit.startswith(begin))
    match = _SPAN.fullmatch(text)
    if not match:
        return None
    days, first, second, third, fraction = match.groups()
    numbers = [int(part) for part in (first, second, third) if part is not None]
    if days is not None:
        numbers += [0] * (3 - len(numbers))  # D-H, D-H:M, D-H:M:S
    else:
        numbers = [0] * (3 - len(numbers)) + numbers  # M:S, H:M:S
    total = numbers[0] * 3600.0 + numbers[1] * 60.0 + numbers[2]
    return int(days or 0) * 86400.0 + total + float(fraction or 0)


def _is_json(head: Sequence[str]) -> bool:
    first = next((line for line in head if line.strip()), "")
    return first.lstrip().startswith("{") and any('"slurm_conf"' in line for line in head)


def recognise(name: str, head: Sequence[str]) -> float:
    """1.0 for scontrol's text or JSON, up to 0.9 for a slurm.conf."""
    score = 0.0
    if any(_AS_OF.match(line) for line in head[:5]) or _is_json(head):
        score = 1.0
    elif sum(bool(re.match(r"^\w+(?:\[\d+\])?\s* = ", line)) for line in head) >= 5:
        kept = sum((m := _TEXT_LINE.match(line)) is not None and m[1] in KEYS for line in head)
        score = 0.8 if kept >= 3 else 0.0
    else:
        found = {m[0].lower() for line in head if (m := _CONF_KEYS.match(line))}
        score = 0.9 if len(found) >= 2 or (found and name.endswith("slurm.conf")) else 0.0
    return min(score, 0.3) if is_output_name(name) else score


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """One `Setting` of scope `cluster` a kept key; from a slurm.conf also those of its partitions.

    In JSON a list is joined with commas, an empty list or text is `(null)` and true is `1`, as the text form prints
    them. A slurm.conf says what is configured at the time it was copied, not what slurmctld has in force; of the
    files it includes an `Unreadable` says that they are not here.
    """
    head = file.head()
    if _is_json(head):
        yield from _json(file, context)
    elif any(_AS_OF.match(line) for line in head[:5]) or any(re.match(r"^\w+(?:\[\d+\])?\s+= ", line) for line in head):
        yield from _text(file, context)
    else:
        yield from _conf(file, context)


def _text(file: EvidenceFile, context: Context) -> Iterator[Event]:
    at: Stamp | None = None
    for number, line in file.lines():
        if as_of := _AS_OF.match(line):
            at = context.clock.local(as_of[1])
        elif (match := _TEXT_LINE.match(line)) and match[1] in KEYS:
            yield Setting(
                context.cite(KIND, file, number, line, at=at), scope="cluster", key=match[1], value=match[2].strip()
            )


def _json(file: EvidenceFile, context: Context) -> Iterator[Event]:
    first = next(iter(file.lines()), (1, ""))
    try:
        data = json.loads(file.text())
    except (ValueError, RecursionError):
        yield Unreadable(context.cite(KIND, file, *first), why="not valid JSON (cut off?)")
        return
    part = data.get("slurm_conf") if isinstance(data, dict) else None
    if not isinstance(part, dict):
        yield Unreadable(context.cite(KIND, file, *first), why="JSON without the object slurm_conf")
        return
    meta = data.get("slurm_conf_meta")
    values = {**(meta if isinstance(meta, dict) else {}), **part}
    places: dict[str, tuple[int, str]] = {}
    for number, line in file.lines():
        for match in re.finditer(r'"(\w+)"\s*:', line):
            if match[1] in KEYS:
                places.setdefault(match[1], (number, line))
    update = values.get("LastUpdate")
    at = context.clock.epoch(float(update)) if isinstance(update, int) and 0 < update < 2**40 else None
    for key in KEYS:
        if key in values and (value := _plain(values[key])) is not None:
            number, line = places.get(key, first)
            yield Setting(context.cite(KIND, file, number, line, at=at), scope="cluster", key=key, value=value)


def _plain(value: Any) -> str | None:
    """A JSON value as the text form would print it; None for shapes not known."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return value or "(null)"
    if isinstance(value, list):
        return ",".join(str(item) for item in value if isinstance(item, (str, int, float))) or "(null)"
    if isinstance(value, Mapping) and "number" in value:
        if value.get("infinite"):
            return "INFINITE"
        return str(value["number"]) if value.get("set", True) else "(null)"
    return None


def _conf(file: EvidenceFile, context: Context) -> Iterator[Event]:
    defaults: dict[str, str] = {}  # of PartitionName=DEFAULT lines, in force for the partitions below
    for number, line in _joined(file):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        cite = context.cite(KIND, file, number, line)
        if re.match(r"include\s", text, re.IGNORECASE):
            why = f"the settings of the included file {text.split(None, 1)[1][:200]} are not here"
            yield Unreadable(cite, why=why)
            continue
        pairs = [(m[1].lower(), m[2] if m[2] is not None else m[3]) for m in _CONF_PAIR.finditer(text)]
        if not pairs or pairs[0][0] in ("nodename", "nodeset", "downnodes", "frontendname", "switchname"):
            continue
        if pairs[0][0] == "partitionname":
            here = {_PARTITION[key]: value for key, value in pairs[1:] if key in _PARTITION}
            owner = pairs[0][1]
            if owner.upper() == "DEFAULT":
                defaults.update(here)
                continue
            for key, value in {**defaults, **here}.items():
                yield Setting(cite, scope="partition", owner=owner, key=key, value=value)
            continue
        for key, value in pairs:
            if key in _CANONICAL:
                yield Setting(cite, scope="cluster", key=_CANONICAL[key], value=value)


def _joined(file: EvidenceFile) -> Iterator[tuple[int, str]]:
    """Lines of a slurm.conf with continuation lines (backslash at the end) joined; the number is that of the first."""
    begin, parts = 0, []
    for number, line in file.lines():
        begin = begin or number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        yield begin, "".join([*parts, line])
        begin, parts = 0, []
    if parts:
        yield begin, "".join(parts)
