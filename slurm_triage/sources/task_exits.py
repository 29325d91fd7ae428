"""Lines of a SPANK plugin in slurmstepd: wait statuses of tasks and counters of their memory cgroups.

    1796051466.587 node=c1 stepd=43 step_info job=1004 step=0 uid=1001 ... restart=0 tasks=2 of=4 nodes=2 ...
    1796051466.587 node=c1 stepd=43 task_exit job=1004 step=0 rank=3 local=1 pid=7 status=0x008b mono=812.000512 clean=1
    1796051466.587 node=c1 stepd=43 task_exit job=1004 step=0 memcg job events=low 0,... local=... peak=7028736 max=...
    1796051457.182 node=c1 stepd=138 task_exit job=1087 step=0 memcg job failcnt=0 max_usage=... limit=... oom_...
    1796051457.182 node=c1 stepd=138 task_exit job=1087 step=0 memcg task unread=gone

Two plugins write them: the project's own (docs/reference/spool.md), which leaves out tasks that ended with 0 before
anything went wrong, and an older one that recorded every task, with further events (`task_post_fork`, `spank_exit`).

The time is the epoch with milliseconds. Counters of cgroup v1 are `failcnt`, `max_usage`, `limit`, `oom_control` and
`memsw_*`, those of v2 `events`, `local`, `peak` and `max` (files memory.* of the kernel's cgroup-v1/memory and
cgroup-v2 guides).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, MemoryCounters, Sign, StepInfo, TaskExit, Unreadable, Voice
from slurm_triage.sources import Context, _sluid
from slurm_triage.sources._names import is_output_name

KIND = "task_exits"

V1_NO_LIMIT = 1 << 62
"""Bytes. memory.limit_in_bytes of a v1 cgroup without limit is 2**63 - 1 cut to the page size (4 KiB pages print
9223372036854771712, 64 KiB pages 9223372036854710272); no limit that anybody set is near it."""
WHY_LIMIT = 80
"""Characters kept of the reason why counters were not read."""

_LINE = re.compile(
    r"([0-9]{1,11}(?:\.[0-9]{1,9})?) node=(\S+) stepd=([0-9]{1,10}) "
    r"(step_info|task_post_fork|task_exit|spank_exit) job=([0-9]\S*) step=(\S+)(?: (.*))?"
)
_BEGIN = re.compile(
    r"[0-9]{10}\.[0-9]{1,9} node=\S+ stepd=[0-9]{1,10} (?:step_info|task_post_fork|task_exit|spank_exit) job="
)
"""Where a record begins. A write that was cut leaves the beginning of one, and the next may follow in the same line."""
_PAIR = re.compile(r"(?:^| )(\w+)=")
_NUMBER = re.compile(r"[0-9]{1,20}")
_STATUS = re.compile(r"0x[0-9a-fA-F]{4}")
"""All plugins print four digits: fewer are a status that was cut."""
_MONO = re.compile(r"[0-9]{1,10}\.[0-9]{6}")

_Stepd = tuple[str, str, str, str]
"""node, process id, job and step: one slurmstepd, until the node boots again."""


def recognise(name: str, head: Sequence[str]) -> float:
    """1.0 when the first line with text is one of the plugin's."""
    first = next((line for line in head if line.strip()), "")
    score = 1.0 if _LINE.fullmatch(first) else 0.0
    # What the plugin writes is believed; a job that prints such lines must not be.
    return min(score, 0.3) if is_output_name(name) else score


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """`StepInfo`, `TaskExit` and `MemoryCounters`, and for coverage `Sign`s `task_start` (rank, pid) and `step_exit`.

    Lines `self_cgroup=` say where slurmstepd itself lives and give no event. A line that cannot be read, such as one
    that was being written, gives an `Unreadable`; a whole record behind it in the same line is read.
    """
    restarts: dict[_Stepd, int | None] = {}
    for number, line in file.lines():
        if not line.strip():
            continue
        begins = [match.start() for match in _BEGIN.finditer(line)]
        whole = line if not begins else line[begins[-1] :]
        if begins and (len(begins) > 1 or line[: begins[0]].strip()):
            yield Unreadable(context.cite(KIND, file, number, line), why="cut: another record follows in the same line")
        match = _LINE.fullmatch(whole)
        if not match:
            yield Unreadable(context.cite(KIND, file, number, line), why="not a line of the recording plugin")
            continue
        at = context.clock.epoch(float(match[1]), 0.001)
        base = Event(context.cite(KIND, file, number, line, node=match[2], at=at), match[5], match[6])
        key = (match[2], match[3], match[5], match[6])
        if match[4] == "step_info":
            info = _step_info(_pairs(match[7] or ""), int(match[3]), base)
            restarts[key] = info.restart
            yield info
            continue
        event = _event(match[4], match[7] or "", base, int(match[3]), restarts.get(key))
        if event is not None:
            yield event


def _step_info(fields: dict[str, str], stepd: int, base: Event) -> StepInfo:
    restart = _number(fields.get("restart"))
    return StepInfo(
        base.cite,
        base.job,
        base.step,
        stepd=stepd,
        restart=restart if restart or base.step == "batch" else None,
        tasks=_number(fields.get("tasks")),
        # slurmd tells the batch script's slurmstepd the tasks of the job; the script itself is one.
        of=1 if base.step == "batch" else _number(fields.get("of")),
        uid=_number(fields.get("uid")),
        sluid=_sluid.read(fields.get("cgroup")),
    )


def _event(what: str, rest: str, base: Event, stepd: int, restart: int | None) -> Event | None:
    if rest.startswith("self_cgroup="):
        return None
    if rest.startswith("memcg "):
        return _counters(rest[len("memcg ") :], base, restart)
    fields = _pairs(rest)
    if what == "spank_exit":
        return Sign(base.cite, base.job, base.step, id="step_exit", voice=Voice.SLURM, fields={})
    rank = _number(fields.get("rank"))
    if rank is None:
        return Unreadable(base.cite, base.job, base.step, why="no rank")
    if what == "task_post_fork":
        kept = {key: fields[key] for key in ("rank", "pid") if fields.get(key)}
        return Sign(base.cite, base.job, base.step, id="task_start", voice=Voice.SLURM, fields=kept)
    status = fields.get("status", "")
    if not _STATUS.fullmatch(status):
        return Unreadable(base.cite, base.job, base.step, why="no wait status")
    mono = fields.get("mono", "")
    return TaskExit(
        base.cite,
        base.job,
        base.step,
        rank=rank,
        local_rank=_number(fields.get("local")),  # -1: none (external step)
        pid=_number(fields.get("pid")) or None,  # 0: no process
        status=int(status, 16),
        stepd=stepd,
        restart=restart,
        mono=float(mono) if _MONO.fullmatch(mono) else None,
        clean=_number(fields.get("clean")),
    )


def _pairs(text: str) -> dict[str, str]:
    """`a=1 b=low 0,high 0 c=2`: a value reaches to the next key."""
    matches = list(_PAIR.finditer(text))
    return {
        match[1]: text[match.end() : following.start() if following else len(text)]
        for match, following in zip(matches, [*matches[1:], None], strict=False)
    }


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.fullmatch(text) else None


def _counts(text: str | None) -> dict[str, int]:
    """`low 0,oom_kill 1` as numbers by name; what cannot be read is left out."""
    found: dict[str, int] = {}
    for item in (text or "").split(","):
        name, _, count = item.strip().partition(" ")
        number = _number(count)
        if name and number is not None:
            found[name] = number
    return found


def _limit(text: str | None) -> int | None:
    """A limit of cgroup v1 in bytes, None if there is none."""
    limit = _number(text)
    return limit if limit is not None and limit < V1_NO_LIMIT else None


def _counters(text: str, base: Event, restart: int | None) -> Event:
    level, _, rest = text.partition(" ")
    fields = _pairs(rest)
    if level not in ("job", "step", "task"):
        return Unreadable(base.cite, base.job, base.step, why="counters of a cgroup that is neither job, step nor task")
    if "unread" in fields:
        why = fields["unread"].strip()[:WHY_LIMIT] or "no reason given"
        return MemoryCounters(base.cite, base.job, base.step, level=level, unread=why, restart=restart)
    if "max_usage" in fields or "oom_control" in fields or "failcnt" in fields:
        # under_oom and oom_kill_disable are states, not counts
        kills = {key: n for key, n in _counts(fields.get("oom_control")).items() if key == "oom_kill"}
        counters = MemoryCounters(
            base.cite,
            base.job,
            base.step,
            level=level,
            version=1,
            events=kills,
            peak=_number(fields.get("max_usage")),
            limit=_limit(fields.get("limit")),
            failcnt=_number(fields.get("failcnt")),
            memsw_peak=_number(fields.get("memsw_max_usage")),
            memsw_limit=_limit(fields.get("memsw_limit")),
            restart=restart,
        )
    else:
        counters = MemoryCounters(
            base.cite,
            base.job,
            base.step,
            level=level,
            version=2,
            events=_counts(fields.get("events")),
            local=_counts(fields.get("local")),
            peak=_number(fields.get("peak")),
            limit=_number(fields.get("max")),  # "max": no limit
            restart=restart,
        )
    if not counters.events and not counters.local and counters.peak is None and counters.failcnt is None:
        return Unreadable(base.cite, base.job, base.step, why="memory counters without a number")
    return counters
