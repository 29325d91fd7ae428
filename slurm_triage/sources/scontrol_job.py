"""`scontrol show job`: slurmctld's memory of a job. Also lines of a jobcomp/filetxt completion log.

Three layouts are read: the multi-line form (with and without `-d`), the one-line form (`-o`), and completion logs
(`JobId=1 UserId=u(1) GroupId=g(1) Name=x JobState=FAILED Partition=...`). The key names are those that Slurm 22.05 to
26.05 were seen to print, and the older ones of public reports.

A job's name, comment, command and paths are free text, printed unquoted, newlines included. So a key counts only in
its usual place:

* in the multi-line form a line is indented as the `UserId=` line is and starts with its first key; a key inside a line
  counts only on the line where Slurm prints it;
* everything from `JobName=` to the `UserId=` line is the name. When the name imitates a `UserId=` line, the one that is
  followed by the whole rest of a record is the true one; if there are several such, nobody can tell them apart, and
  the keys that differ are left out and named in an `Unreadable`;
* after the `OverSubscribe=` line or the first free text (`Command=`, `WorkDir=`, `Comment=`) no key of the upper part
  is believed; a free-text key that comes twice with different values is left out and named in an `Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Cite, ControllerJob, Event, Stamp, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources._names import is_output_name

KIND = "scontrol_job"

_UPPER: dict[str, tuple[str, ...]] = {
    "SLUID": (),
    "HetJobIdSet": (),
    "PackJobIdSet": (),
    "UserId": ("GroupId", "MCS_label"),
    "Priority": ("Nice", "Account", "QOS", "WCKey"),
    "JobState": ("Reason", "FailedNode", "Dependency"),
    "Requeue": ("Restarts", "BatchFlag", "Reboot", "ExitCode"),
    "DerivedExitCode": (),
    "RunTime": ("TimeLimit", "TimeMin"),
    "SubmitTime": ("EligibleTime",),
    "AccrueTime": (),
    "ResizeTime": (),
    "StartTime": ("EndTime", "Deadline"),
    "PreemptEligibleTime": ("PreemptTime",),
    "PreemptTime": ("SuspendTime", "SecsPreSuspend"),  # before 19.05
    "SuspendTime": ("SecsPreSuspend", "LastSchedEval", "Scheduler"),
    "LastSchedEval": ("Scheduler",),
    "Partition": ("AllocNode:Sid",),
    "ReqNodeList": ("ExcNodeList",),
    "NodeList": ("SchedNodeList",),
    "SchedNodeList": (),
    "BatchHost": (),
    "FedOrigin": ("FedViableSiblings", "FedActiveSiblings"),
    "NumNodes": ("NumCPUs", "NumTasks", "CPUs/Task", "ReqB:S:C:T"),
    "TRES": (),
    "ReqTRES": (),
    "AllocTRES": (),
    "Socks/Node": ("NtasksPerN:B:S:C", "CoreSpec"),
    "JOB_GRES": (),
    "MinCPUsNode": ("MinMemoryNode", "MinMemoryCPU", "MinTmpDiskNode"),
    "Features": ("Gres", "DelayBoot", "Reservation"),
    "Reservation": (),
    "OverSubscribe": ("Exclusive", "Contiguous", "Licenses", "LicensesAlloc", "Network"),
    "Shared": ("Contiguous", "Licenses", "Network"),
}
"""First key of each line above the free text, and the further keys of that line."""

_LAST_UPPER = frozenset({"OverSubscribe", "Shared"})
_TEXT = frozenset(
    {"Command", "Container", "SubmitLine", "WorkDir", "AdminComment", "SystemComment", "Comment", "Extra"}
)
_LOWER = _TEXT | {
    "StdErr",
    "StdIn",
    "StdOut",
    "Power",
    "BurstBuffer",
    "CpusPerTres",
    "MemPerTres",
    "TresPerJob",
    "TresPerNode",
    "TresPerSocket",
    "TresPerTask",
    "NtasksPerTRES",
    "MailUser",
    "MailType",
    "Switches",
    "KillOnInvalidDependent",
    "KillOInInvalidDependent",  # so spelled up to 24.11
}
"""Keys of the lower part that are known; needed to cut the one-line form."""

_ALL_UPPER = frozenset(_UPPER) | {key for keys in _UPPER.values() for key in keys}
_WHOLE = ("JobState", "RunTime", "SubmitTime", "StartTime", "Partition", "NodeList", "NumNodes")
"""Keys that stand in every complete record, all of them first on their line."""

_MOST = 8
"""Places that may be the start of the true record; above that nothing is compared, only the job id is taken."""

_DETAIL = re.compile(r"^\s+Nodes=(\S*) CPU_IDs=(\S*) Mem=(\S*) GRES=(.*)$")
_LEADER = re.compile(r"^(\s*)([A-Z][\w/:]*)=(.*)$", re.DOTALL)
_HEAD = re.compile(r"^JobId=(\S+) (?=[A-Z])")
_NAME = re.compile(r"(?:Job)?Name=")
_HEAD_KEY = re.compile(r"(\w+)=(\S*) ")
_INLINE = re.compile(r" (" + "|".join(sorted(map(re.escape, _ALL_UPPER | _LOWER), key=len, reverse=True)) + r")=")
_LOG_CHAIN = re.compile(r" JobState=\S* Partition=\S* TimeLimit=\S* StartTime=\S* EndTime=\S* NodeList=")
_LOG_KEY = re.compile(
    r" (JobState|Partition|TimeLimit|StartTime|EndTime|NodeList|NodeCnt|ProcCnt|WorkDir|ReservationName|Tres|Gres|"
    r"Account|QOS|WcKey|Cluster|SubmitTime|EligibleTime|ArrayJobId|ArrayTaskId|HetJobId|HetJobOffset|"
    r"DerivedExitCode|ExitCode)="
)
_LOG_NAME = re.compile(r"^JobId=(\S+) UserId=(\S*) (?:GroupId=(\S*) )?Name=")
_ERROR = re.compile(r"^(?:scontrol: )?(?:error: )?slurm_load_jobs? error: (.*)$")
_STAMPS = ("StartTime", "EndTime", "SubmitTime", "PreemptTime", "SuspendTime")


def recognise(name: str, head: Sequence[str]) -> float:
    """1.0 when the first line with text is a job record; less for excerpts and for files named like job output."""
    first = next((line for line in head if line.strip()), "")
    score = 0.0
    if _ERROR.match(first) or first.strip() == "No jobs in the system":
        score = 0.9
    elif re.match(r"^JobId=\S+ (?:\w+=\S* )*?(?:JobName|UserId)=", first[:2000]):
        score = 1.0
    elif sum(bool((m := _LEADER.match(line)) and m[2] in _WHOLE and m[1]) for line in head) >= 2:
        score = 0.6
    # Jobs like to print their own record: at the top of a job's output it is the program that speaks.
    return min(score, 0.3) if is_output_name(name) else score


@dataclass
class _Record:
    """Physical lines of one job, (number, text)."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    begun: bool = False  # a line after the name was seen


@dataclass
class _Found:
    """Keys of a record: value and index of the line of the record it stands on."""

    values: dict[str, tuple[str, int]] = field(default_factory=dict)
    doubtful: dict[str, int] = field(default_factory=dict)

    def add_first(self, key: str, value: str, at: int) -> None:
        """Keep the first value."""
        self.values.setdefault(key, (value, at))

    def add_sole(self, key: str, value: str, at: int) -> None:
        """Keep the value unless another one was there: then neither is believed."""
        if self.values.setdefault(key, (value, at))[0] != value:
            self.doubtful[key] = at


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """One `ControllerJob` a job; `Unreadable` for scontrol's error messages and for keys that were imitated.

    With `-d` the lines `Nodes=... CPU_IDs=... Mem=... GRES=...` give the keys `Nodes`, `CPU_IDs`, `Mem` and `GRES`, and
    for further groups of nodes the same with `[1]`, `[2]`, ... behind.
    """
    multi = any(re.match(r"^\s+UserId=", line) for _, line in file.lines())
    record: _Record | None = None
    for number, line in file.lines():
        if (error := _ERROR.match(line)) or line.strip() == "No jobs in the system":
            yield Unreadable(context.cite(KIND, file, number, line), why=_why(error[1] if error else ""))
            continue
        if _HEAD.match(line) and (record is None or record.begun or not record.lines[0][1].startswith("JobId=")):
            if record is not None:
                yield from _job(record, file, context)
            record = _Record()
        if record is None:
            if not line.strip():
                continue
            record = _Record()
        record.lines.append((number, line))
        if not record.begun:
            leader = _LEADER.match(line)
            record.begun = (leader is not None and leader[2] in ("UserId", "JobState")) or (
                not multi and " JobState=" in line and " UserId=" in line
            )
    if record is not None:
        yield from _job(record, file, context)


def _why(message: str) -> str:
    if "Invalid job id" in message:
        return "the controller has forgotten the job (MinJobAge)"
    return f"scontrol could not ask slurmctld: {message}" if message else "slurmctld has no job in its memory"


def _job(record: _Record, file: EvidenceFile, context: Context) -> Iterator[Event]:
    while record.lines and not record.lines[-1][1].strip():
        record.lines.pop()
    first = record.lines[0][1]
    found = _completion(record) if _LOG_NAME.match(first) else _shown(record)
    if not found.values:
        number, line = record.lines[0]
        yield Unreadable(context.cite(KIND, file, number, line), why="not a record of scontrol show job")
        return
    values: dict[str, str] = {}
    cites: dict[str, Cite] = {}
    stamps: dict[str, Stamp | None] = {}
    for key, (value, at) in found.values.items():
        if key in found.doubtful:
            continue
        values[key] = value
        stamp = context.clock.local(value) if key in _STAMPS else None
        stamps[key] = stamp
        number, line = record.lines[at]
        cites[key] = context.cite(KIND, file, number, line, at=stamp)
    number, line = record.lines[0]
    job = values.get("JobId")
    yield ControllerJob(
        cites.get("JobState") or context.cite(KIND, file, number, line),
        job=job,
        values=values,
        cites=cites,
        start=stamps.get("StartTime"),
        end=stamps.get("EndTime"),
        submit=stamps.get("SubmitTime"),
        preempt_time=stamps.get("PreemptTime"),
        suspend_time=stamps.get("SuspendTime"),
        moment=_moment(file.base),
    )
    if found.doubtful:
        number, line = record.lines[min(found.doubtful.values())]
        names = ", ".join(sorted(found.doubtful))
        why = f"{names}: printed twice with different values; a name or comment imitates the record, neither is used"
        yield Unreadable(context.cite(KIND, file, number, line), job=job, why=why)


def _moment(base: str) -> str | None:
    for moment in ("held", "final"):
        if re.search(rf"(?:^|[._-]){moment}(?:[._-]|$)", base):
            return moment
    return "hook" if base.startswith("scontrol_show_job") else None


def _shown(record: _Record) -> _Found:
    """Keys of a record of `scontrol show job`, multi-line or one-line."""
    several = _several_lines(record)
    if several is not None and several[1]:
        return several[0]  # in the one-line form no line starts with `   UserId=` and has a whole record below
    single = _one_line(record)
    if single is not None and (single[1] or several is None):
        return single[0]
    return several[0] if several is not None else _head(record)[0]


def _head(record: _Record) -> tuple[_Found, int]:
    """Keys before the name, and the column where the name's key starts (0 if the record starts without a head)."""
    found = _Found()
    line = record.lines[0][1]
    column = 0
    if _HEAD.match(line):
        while (match := _HEAD_KEY.match(line, column)) and match[1] not in ("JobName", "Name", "UserId"):
            found.add_first(match[1], match[2], 0)
            column = match.end()
    return found, column


def _true_one(starts: Sequence[int], keys: Sequence[tuple[int, str]], end: int) -> tuple[list[int], bool]:
    """Which of the places where `UserId` stands can be the true one, and whether a whole record follows.

    `keys` are (place, key) of all lines or keys. A true one is followed by the whole record before the next one.
    """
    whole: list[int] = []
    for index, start in enumerate(starts):
        stop = starts[index + 1] if index + 1 < len(starts) else end
        here = {key for place, key in keys if start <= place < stop}
        if here.issuperset(_WHOLE):
            whole.append(start)
    return (whole, True) if whole else (list(starts), False)


def _several_lines(record: _Record) -> tuple[_Found, bool] | None:
    """Multi-line form: (keys, whether the record is whole); None if no line has a usual key."""
    leaders: list[tuple[int, str, str, str]] = []  # index, indent, key, rest
    has_head = _HEAD.match(record.lines[0][1]) is not None
    for index, (_, line) in enumerate(record.lines):
        match = _LEADER.match(line)
        if match and not (index == 0 and has_head):
            leaders.append((index, match[1], match[2], match[3]))
    starts = [index for index, _, key, rest in leaders if key == "UserId" and " GroupId=" in rest]
    if not starts:
        starts = [index for index, _, key, _ in leaders if key in _UPPER][:1]
        if not starts:
            return None
    if len(starts) > _MOST:
        return _hopeless(record)
    places, sure = _true_one(starts, [(index, key) for index, _, key, _ in leaders], len(record.lines))
    readings = [_read_lines(record, leaders, place) for place in places]
    result = readings[0]
    for other in readings[1:]:
        _doubt_differences(result, other)
    return result, sure


def _hopeless(record: _Record) -> tuple[_Found, bool]:
    """The reading of a record with too many places that imitate its start."""
    found, _ = _head(record)
    for key in ("UserId", "JobState"):
        found.values[key] = ("", 0)
        found.doubtful[key] = 0
    return found, True


def _doubt_differences(result: _Found, other: _Found) -> None:
    for key, (value, at) in other.values.items():
        if result.values.setdefault(key, (value, at))[0] != value:
            result.doubtful[key] = at
    for key, (_, at) in result.values.items():
        if key not in other.values:
            result.doubtful[key] = at
    result.doubtful.update(other.doubtful)


def _read_lines(record: _Record, leaders: Sequence[tuple[int, str, str, str]], start: int) -> _Found:
    found, column = _head(record)
    by_index = {index: (indent, key, rest) for index, indent, key, rest in leaders}
    indent = by_index[start][0]
    body = start
    seen: set[str] = set()
    while body - 1 in by_index and by_index[body - 1][1] in ("SLUID", "HetJobIdSet", "PackJobIdSet"):
        if by_index[body - 1][1] in seen:
            break  # printed once; a second one belongs to the name
        body -= 1
        seen.add(by_index[body][1])
    if column and _NAME.match(record.lines[0][1], column):
        name = "\n".join([record.lines[0][1][column:], *(line for _, line in record.lines[1:body])])
        found.add_first("JobName", name.partition("=")[2], 0)
    upper = True
    group = 0
    text: tuple[str, int] | None = None  # the free-text key that goes on over the next lines
    for index in range(body, len(record.lines)):
        line = record.lines[index][1]
        here = by_index.get(index)
        usual = here is not None and here[0] == indent
        if upper and (detail := _DETAIL.match(line)):
            suffix = f"[{group}]" if group else ""
            for key, value in zip(("Nodes", "CPU_IDs", "Mem", "GRES"), detail.groups(), strict=True):
                found.add_first(key + suffix, value, index)
            group += 1
        elif here is not None and usual and upper and here[1] in _UPPER:
            for key, value in _cut(here[1], here[2]):
                found.add_first(key, value, index)
            upper = here[1] not in _LAST_UPPER
        elif here is not None and usual and here[1] not in _ALL_UPPER:
            _close(found, text, record, index)
            text = (here[1], index)
            upper = upper and here[1] not in _LOWER
    _close(found, text, record, len(record.lines))
    return found


def _close(found: _Found, text: tuple[str, int] | None, record: _Record, stop: int) -> None:
    """Take the value of a free-text key: the rest of its line and the lines up to `stop` that have no key.

    A newline belongs to the value only below the upper part, where nothing else can stand between.
    """
    if text is None:
        return
    key, start = text
    lines = [record.lines[start][1].partition("=")[2]]
    if key in _LOWER:
        lines.extend(line for _, line in record.lines[start + 1 : stop])
    found.add_sole(key, "\n".join(lines).rstrip("\n"), start)


def _cut(first: str, rest: str) -> Iterator[tuple[str, str]]:
    """(key, value) of one line of the upper part."""
    key, begin = first, 0
    names = _UPPER[first]
    if names:
        for match in re.finditer(" (" + "|".join(map(re.escape, names)) + ")=", rest):
            yield key, rest[begin : match.start()].strip()
            key, begin = match[1], match.end()
    yield key, rest[begin:].strip()


def _one_line(record: _Record) -> tuple[_Found, bool] | None:
    """One-line form: (keys, whether the record is whole); None if it has no `UserId` key."""
    text = "\n".join(line for _, line in record.lines)
    matches = list(_INLINE.finditer(text))
    starts = [match.start() for match in matches if match[1] == "UserId"]
    if not starts:
        return None
    if len(starts) > _MOST:
        return _hopeless(record)
    places, sure = _true_one(starts, [(match.start(), match[1]) for match in matches], len(text))
    readings = [_read_inline(record, text, matches, place) for place in places]
    result = readings[0]
    for other in readings[1:]:
        _doubt_differences(result, other)
    return result, sure


def _read_inline(record: _Record, text: str, matches: Sequence[re.Match[str]], start: int) -> _Found:
    found, column = _head(record)
    if column and _NAME.match(text, column):
        before = text[column:start]
        for key in ("HetJobIdSet", "SLUID"):
            name, mark, value = before.rpartition(f" {key}=")
            if mark and " " not in value:
                before = name
                found.add_first(key, value, 0)
        found.add_first("JobName", before.partition("=")[2], 0)
    accepted: list[re.Match[str]] = []
    upper = True
    taken: set[str] = set()
    for match in matches:
        key = match[1]
        if match.start() < start or (key in _ALL_UPPER and (not upper or key in taken)):
            continue
        accepted.append(match)
        taken.add(key)
        upper = upper and key not in _LOWER and key != "Network"
    line, position = 0, 0
    for match, following in zip(accepted, [*accepted[1:], None], strict=False):
        line += text.count("\n", position, match.start())
        position = match.start()
        value = text[match.end() : following.start() if following else len(text)]
        if match[1] in _ALL_UPPER:
            found.add_first(match[1], value.strip(), line)
        else:
            # the one-line form ends with a blank
            found.add_sole(match[1], value if following else value.rstrip(), line)
    return found


def _completion(record: _Record) -> _Found:
    """Keys of a line of a completion log (plugin jobcomp/filetxt)."""
    found = _Found()
    text = "\n".join(line for _, line in record.lines)
    head = _LOG_NAME.match(text)
    if head is None:
        return found
    found.add_first("JobId", head[1], 0)
    found.add_first("UserId", head[2], 0)
    if head[3] is not None:
        found.add_first("GroupId", head[3], 0)
    chains = [match.start() for match in _LOG_CHAIN.finditer(text)]
    begin = chains[0] if chains else text.find(" JobState=", head.end())
    if begin < 0:
        begin = len(text)
    if len(chains) < 2:
        found.add_first("JobName", text[head.end() : begin], 0)
    matches = list(_LOG_KEY.finditer(text, begin))
    line, position = 0, 0
    for match, following in zip(matches, [*matches[1:], None], strict=False):
        line += text.count("\n", position, match.start())
        position = match.start()
        value = text[match.end() : following.start() if following else len(text)].strip()
        found.add_sole(match[1], value, line)
    return found
