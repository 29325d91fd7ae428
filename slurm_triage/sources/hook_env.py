"""The environment of Epilog (on a node) or EpilogSlurmctld (on the controller).

Two forms are read: NUL-separated (a copy of /proc/self/environ), in which nothing can be forged, and one `KEY=value` a
line (env(1)). In the second a value with a newline, such as the job's name, can fake a variable, before or after the
true one, because the order of env(1) is not fixed and collectors sort and filter it. So there a variable that comes
twice with different values is left out, and an `Unreadable` names it. A faked variable that the hook does not set at
all cannot be told from a true one: `HookEnv.forgeable` says so, and SLURMD_NODENAME, which only slurmd sets, is left
out of the environment of EpilogSlurmctld.

The tickets of the project's own hooks (docs/reference/spool.md) are of the first form. One that does not end in NUL was
cut: its last variable may be the beginning of one and is not read, the others are whole.

Variables by hook and version: src/plugins/prep/script/prep_script_slurmd.c and src/slurmctld/job_mgr.c of Slurm 22.05
to 26.05; recorded on 22.05.8, 24.11.5 and 26.05.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, HookEnv, Stamp, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources._names import is_output_name

KIND = "hook_env"

_KEPT = re.compile(
    r"(SLURM\w*|KUBERNETES\w*|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES)=(.*)", re.DOTALL
)
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_CONTEXT = "SLURM_SCRIPT_CONTEXT"
_HOOKS = ("epilog_slurmd", "epilog_slurmctld")
_WRITTEN = "SLURM_TRIAGE_TIME"
"""When the SPANK plugin wrote its ticket: an epoch with nanoseconds."""


def recognise(name: str, head: Sequence[str]) -> float:
    """1.0 for an environment with the context of a hook, 0.8 for one with the job's exit code but no context."""
    # In the lines form nearly every line is KEY=value; a log that quotes some of them is something else.
    variables: dict[str, str] = {}
    other = 0
    for line in head:
        for record in line.split("\0"):
            if match := _VARIABLE.match(record):
                variables.setdefault(match[1], match[2])
            elif record.strip():
                other += 1
    if other > len(variables) or not variables.keys() & {"SLURM_JOB_ID", "SLURM_JOBID"}:
        return 0.0
    if variables.get(_CONTEXT, "").startswith(("epilog_slurm", "prolog_slurm")):
        score = 1.0
    else:
        score = 0.8 if variables.keys() & {"SLURM_JOB_EXIT_CODE", "SLURM_JOB_EXIT_CODE2"} else 0.0
    # A job can print what it likes, the environment of a hook included.
    return min(score, 0.3) if is_output_name(name) else score


def _records(file: EvidenceFile, context: Context) -> tuple[list[tuple[int, str]], tuple[int, str] | None, bool]:
    """(number, record) of all whole records, the one that was cut, and whether the form can be forged."""
    text = file.text()
    if "\0" in text or (context.manifest.env_format or "").lower().startswith("nul"):
        *whole, last = enumerate(text.split("\0"), 1)
        return whole, last if last[1].strip() else None, False
    return list(file.lines()), None, True


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """One `HookEnv`, and `Unreadable` for every variable that is left out because it may be forged or was cut.

    Kept are SLURM*, KUBERNETES*, CUDA_VISIBLE_DEVICES, GPU_DEVICE_ORDINAL and ROCR_VISIBLE_DEVICES. `hook` comes from
    SLURM_SCRIPT_CONTEXT; without it from SLURMD_NODENAME (slurmd) or SLURM_JOB_NAME (slurmctld); it stays empty when
    neither or both are there. Its own time is that of the ticket, where it has one.
    """
    records, cut, forgeable = _records(file, context)
    if cut is not None:
        yield Unreadable(context.cite(KIND, file, *cut), why="cut: the last variable may be the beginning of one")
    values: dict[str, str] = {}
    places: dict[str, tuple[int, str]] = {}
    doubtful: dict[str, str] = {}
    for number, record in records:
        match = _KEPT.match(record)
        if not match:
            continue
        key, value = match[1], match[2]
        if key not in values:  # in a real environment getenv(3) takes the first one as well
            values[key] = value
            places[key] = (number, record)
        elif forgeable and values[key] != value:
            doubtful[key] = "set twice with different values: a value with a newline imitates it"
    hook = _hook(values, doubtful)
    if forgeable and hook == "epilog_slurmctld" and "SLURMD_NODENAME" in values:
        doubtful.setdefault("SLURMD_NODENAME", "not a variable of EpilogSlurmctld: a value with a newline imitates it")
    first = places.get(_CONTEXT) or places.get("SLURM_JOB_ID") or next(iter(places.values()), None)
    if first is None:
        number, record = next(iter(records), None) or cut or (1, "")
        yield Unreadable(context.cite(KIND, file, number, record), why="no variable of Slurm in it")
        return
    doubted = [(places[key], f"{key}: {why}; it is not used") for key, why in sorted(doubtful.items())]
    for key in doubtful:
        del values[key], places[key]
    node = values.get("SLURMD_NODENAME") or None
    stamps = {key: _epoch(values.get(key)) for key in ("SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME")}
    job = values.get("SLURM_JOB_ID") or values.get("SLURM_JOBID")
    written = None if forgeable else _instant(values.get(_WRITTEN))
    yield HookEnv(
        context.cite(KIND, file, *first, node=node, at=written),
        job=job,
        hook=hook,
        values=values,
        cites={key: context.cite(KIND, file, *place, node=node, at=stamps.get(key)) for key, place in places.items()},
        start=stamps["SLURM_JOB_START_TIME"],
        end=stamps["SLURM_JOB_END_TIME"],
        forgeable=forgeable,
    )
    for place, why in doubted:
        yield Unreadable(context.cite(KIND, file, *place, node=node), job=job, why=why)


def _hook(values: dict[str, str], doubtful: dict[str, str]) -> str:
    if _CONTEXT not in doubtful and values.get(_CONTEXT):
        return values[_CONTEXT]
    on_node = "SLURMD_NODENAME" in values
    if on_node == ("SLURM_JOB_NAME" in values):
        return ""
    return _HOOKS[0] if on_node else _HOOKS[1]


def _epoch(text: str | None) -> Stamp | None:
    """Whole seconds since the epoch, cut, not rounded; None for 0 (not set) and for what is not a time."""
    if text is None or not re.fullmatch(r"[0-9]{1,11}", text) or int(text) == 0:
        return None
    return Stamp(float(text), float(text) + 1.0)


def _instant(text: str | None) -> Stamp | None:
    """An epoch with nine digits after the point, to the millisecond."""
    if text is None or not re.fullmatch(r"[0-9]{1,11}\.[0-9]{9}", text):
        return None
    return Stamp(float(text) - 0.001, float(text) + 0.001)
