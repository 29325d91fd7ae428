"""What slurmd and its slurmstepd wrote about the job on this node: `slurmd.<node>.log`.

The end of SlurmdLogFile is read, in a child of root: the file may lie on a server. Kept are lines that name the job, by
its number or as the slurmstepd of one of its steps, and in its time the lines of a launch, a prolog, an epilog or an
error that name no job. Where the log goes to syslog there is no file; that is said.
"""

from __future__ import annotations

import os
import re
import stat
import time

from slurm_triage.node.collect import Budget, Collected, _child, _slurm_conf
from slurm_triage.node.collect._search import holding
from slurm_triage.node.job import Job
from slurm_triage.report import mask

TAIL = 8 * 1024 * 1024
"""Bytes of the log's end that are looked at."""
SECONDS = 3.0
LINE = 4 * 1024
SLACK = 120.0
"""Seconds around the job in which a line that names no job may be about it."""

_TIME = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)")
_WORDS = ("error", "fatal", "prolog", "epilog", "launch", "unkillable", "drain")
"""Of lines that may be about a job without naming it."""
_NAMED = re.compile(r"(?:JobId=|job |StepId=|job_id |jobid |\[)(\d{1,12})", re.IGNORECASE)


def collect(job: Job, budget: Budget) -> Collected:
    """The lines, the last ones where there is no room for all."""
    name = f"slurmd.{job.node}.log"
    told = _slurm_conf.settings(budget).get("slurmdlogfile", "")
    path = _slurm_conf.path(told, job.node)
    if not path.startswith("/"):
        why = "slurm.conf names no SlurmdLogFile" if not told else f"SlurmdLogFile is {told}"
        return Collected(not_seen=[f"{name}: {why}"])
    answer = _child.ask(lambda: _looked_at(path, job, budget.size), min(SECONDS, budget.seconds), 2 * budget.size + 512)
    if answer is None:
        return Collected(not_seen=[f"{name}: {path} could not be read in time"])
    note, _, data = answer.partition(b"\n")
    found = Collected(files={name: data} if data else {})
    if note:
        found.not_seen.append(f"{name}: {note.decode('utf-8', 'replace')}")
    return found


def _looked_at(path: str, job: Job, size: int) -> bytes:
    """A line with what is to be said, then the lines of the log. In the child."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return f"{path} is not a regular file\n".encode()
            skipped = max(0, status.st_size - TAIL)
            data = os.pread(handle, TAIL, skipped)
        finally:
            os.close(handle)
    except OSError as error:
        return f"{path} could not be read: {error.strerror}\n".encode()
    if skipped:
        data = data[data.find(b"\n") + 1 :]
    return _note(data, skipped, job).encode() + b"\n" + chosen(data, job, size)


def _note(data: bytes, skipped: int, job: Job) -> str:
    """What is said where the log does not reach back to the job's start."""
    first = _epoch(data[:200].decode("utf-8", "replace"))
    if first is None or job.start is None or first <= job.start:
        return ""
    what = f"only the last {TAIL >> 20} MiB were looked at; they" if skipped else "the log"
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(first))
    return (
        f"{what} begin{'' if skipped else 's'} at {shown}, after the job's start: older lines may be in a rotated file"
    )


def chosen(data: bytes, job: Job, size: int) -> bytes:
    """The lines about the job, secrets masked, at most `size` bytes: the last ones."""
    ours = _ours(job)
    lines = data[_begin(data, job) :].split(b"\n")
    names = [name.lower().encode("utf-8", "replace") for name in (job.job, _array_name(job), job.cgroup) if name]
    kept: list[bytes] = []
    for index in sorted(holding(lines, [*names, *(word.encode() for word in _WORDS)])):
        text = lines[index][:LINE].decode("utf-8", "replace").rstrip("\r")
        if ours.search(text) or _of_its_time(text, job):
            kept.append(mask.secrets(text).encode("utf-8", "replace"))
    room = size
    for index in range(len(kept) - 1, -1, -1):
        room -= len(kept[index]) + 1
        if room < 0:
            kept = kept[index + 1 :]
            break
    return b"".join(line + b"\n" for line in kept)


def _begin(data: bytes, job: Job) -> int:
    """Where the lines of the job's time begin, at the earliest; found by halves, as the log is in order of time."""
    if job.start is None:
        return 0
    low, high = 0, len(data)
    while high - low > 64 * 1024:
        middle = data.find(b"\n", (low + high) // 2, high) + 1
        at = _epoch(data[middle : middle + 64].decode("utf-8", "replace")) if middle else None
        if at is None or at >= job.start - SLACK:
            high = (low + high) // 2
        else:
            low = middle
    return low


def _array_name(job: Job) -> str:
    return f"{job.array[0]}_{job.array[1]}" if job.array else ""


def _ours(job: Job) -> re.Pattern[str]:
    """Lines that name the job: `JobId=77`, `StepId=77.0`, `[77.batch]`, `job 77`, its array's name, its cgroup's."""
    either = "|".join(re.escape(name) for name in (job.job, _array_name(job)) if name)
    forms = [rf"(?:JobId=|StepId=|[Jj]ob |job_id |jobid |job)0{{0,9}}(?:{either})(?![0-9_+])", rf"\[(?:{either})[.\]]"]
    if job.cgroup:
        forms.append(re.escape(job.cgroup))
    return re.compile("|".join(forms))


def _of_its_time(text: str, job: Job) -> bool:
    """Whether the line names no job at all and stands in the job's time."""
    if not any(word in text.lower() for word in _WORDS) or _NAMED.search(text.partition("] ")[2] or text):
        return False
    at = _epoch(text)
    if at is None or job.start is None:
        return False
    return job.start - SLACK <= at and (job.end is None or at <= job.end + SLACK)


def _epoch(text: str) -> float | None:
    """The time at the start of a line, which slurmd writes in the node's local time."""
    match = _TIME.match(text)
    if not match:
        return None
    try:
        return time.mktime((*map(int, match.groups()), 0, 0, -1))  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
