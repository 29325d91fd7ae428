"""The kernel's log in the time of the job: `kmsg.<node>.txt`, records as /dev/kmsg has them.

The ring is read once for all jobs of a round. What it has lost is said twice: for people in `not_seen`, and for the
engine as a line of its own in the place of what is lost (`kernel_lines_lost` of the catalog), because a line that is
missing there proves nothing.

Source: Documentation/ABI/testing/dev-kmsg of the kernel: a read gives one record, `prio,seq,usec,flags;text`; EAGAIN at
the end; EPIPE if the next record was overwritten, the read after it goes on with the oldest that is left.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from slurm_triage.node.collect import Budget, Collected, _files
from slurm_triage.node.collect._kernel_words import ALL, LASTING
from slurm_triage.node.collect._search import holding
from slurm_triage.node.job import Job

DEVICE = "/dev/kmsg"
RECORD = 16 * 1024
"""Bytes that a read offers; no record is longer (PRINTK_MESSAGE_MAX is 2,048)."""
HELD = 8 * 1024 * 1024
"""Most bytes of records that are held of a ring; the oldest go first."""
BEFORE, AFTER = 60.0, 120.0
"""Seconds around the job in which a line may be about it: clocks, rounding, late lines of a dying process."""
MOST_EARLIER = 200
"""Most lines of a lasting state that are taken from before that."""
TASK_ROWS = 400
"""Most rows of the task list that are taken of one OOM kill where room is short: the first and the last."""
BLOCK = 20_000
"""Most lines of one OOM kill."""

CLOCKS = ("/sys/kernel/debug/sched/debug", "/proc/sched_debug")
"""Where the kernel prints the clock of its log; the first line of them that exists is enough."""
DRIFT = 3600.0
"""Seconds by which that clock can be off CLOCK_MONOTONIC after a year: more is a misreading."""

_CPU_CLOCK = re.compile(r"^cpu_clk\s*:\s*(\d{1,12}\.\d{1,9})$", re.MULTILINE)
_ROW = re.compile(rb"\[ {0,7}\d{1,8}\] {1,6}\d{1,10} {1,6}\d{1,8} ")

Record = tuple[int, int, bytes]
"""Sequence number, microseconds on the kernel's clock, the first line of the record."""


@dataclass(frozen=True)
class Ring:
    """What was read. `boot` is the epoch of kernel time 0; `problem` why nothing, or not everything, was read."""

    records: list[Record]
    boot: float
    problem: str = ""

    @cached_property
    def lasting(self) -> list[Record]:
        """The records that tell of a state that stays."""
        found = holding([line for _, _, line in self.records], LASTING)
        return [self.records[index] for index in sorted(found)]


_read: tuple[float, str, Ring] | None = None
"""The ring of a round: (its `now`, the device, what was read)."""


def collect(job: Job, budget: Budget) -> Collected:
    """The lines around the job, and those before it that tell of a state that stays."""
    ring = of_round(budget)
    found = Collected(manifest={"boot_epoch": {job.node: round(ring.boot, 3)}})
    name = f"kmsg.{job.node}.txt"
    if ring.problem:
        found.not_seen.append(f"{name}: {ring.problem}")
    if not ring.records:
        return found
    first, last = _window(job, ring.boot)
    lost, sentence = _lost_before(job, ring)
    if sentence:
        found.not_seen.append(f"{name}: {sentence}")
    inside = [record for record in ring.records if first <= record[1] <= last]
    earlier = [record for record in ring.lasting if record[1] < first][-MOST_EARLIER:]
    room = max(0, budget.size - sum(len(record[2]) + 1 for record in earlier) - 4 * 1024)
    chosen, dropped, telling = _fitting(inside, room)
    if dropped:
        found.not_seen.append(f"{name}: {dropped} lines of the job's time left out for want of room")
    gaps = _overwritten(ring.records)
    if telling is not None:
        gaps[telling[0] + 1] = f"{dropped} kernel records"
    lines = [_lost(ring.records[0], lost)] if lost else []
    lines += _written([*earlier, *chosen], gaps, ring.records[-1])
    found.files[name] = b"\n".join(lines) + b"\n"
    return found


# ------------------------------------------------------------------------------------------------ reading


def of_round(budget: Budget) -> Ring:
    """The ring, read once for each `budget.now`."""
    global _read
    if _read is None or not budget.now or _read[:2] != (budget.now, DEVICE):
        _read = (budget.now, DEVICE, read(DEVICE, budget.seconds))
    return _read[2]


def read(device: str, seconds: float) -> Ring:
    """All records that the kernel still has, the newest `HELD` bytes of them; not longer than `seconds`."""
    try:
        handle = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Ring([], _boot(), f"the kernel log could not be opened: {error.strerror}")
    try:
        return read_from(handle, seconds)
    finally:
        os.close(handle)


def read_from(handle: int, seconds: float) -> Ring:
    """As `read`, from a file that is open and does not block."""
    records: deque[Record] = deque()
    held, until, problem = 0, time.monotonic() + seconds, ""
    try:
        for count, record in enumerate(_records(handle), 1):
            records.append(record)
            held += len(record[2])
            while held > HELD:
                held -= len(records.popleft()[2])
            if not count % 1024 and time.monotonic() > until:
                problem = f"the kernel log was not read to its end in {seconds:g} seconds"
                break
    except OSError as error:
        problem = f"the kernel log was not read to its end: {error.strerror}"
    return Ring(list(records), _boot(), problem)


def _boot() -> float:
    return time.time() - kernel_clock()


def _records(handle: int) -> Iterator[Record]:
    """Record for record; of each its first line (those that follow hold its device, not its text)."""
    while True:
        try:
            raw = os.read(handle, RECORD)
        except BlockingIOError:
            return
        except BrokenPipeError:
            continue  # overwritten meanwhile: the gap in the numbers tells
        if not raw:
            return
        line = raw.split(b"\n", 1)[0]
        parts = line[:48].split(b",", 3)
        if len(parts) == 4 and parts[1].isdigit() and parts[2].isdigit():
            yield int(parts[1]), int(parts[2]), line


def kernel_clock() -> float:
    """Seconds on the clock of the kernel's log now.

    It is not corrected by NTP as CLOCK_MONOTONIC is: after months they are minutes apart. Where the kernel prints it
    (debugfs, or /proc before 5.13), that is taken.
    """
    monotonic = time.clock_gettime(time.CLOCK_MONOTONIC)
    for path in CLOCKS:
        match = _CPU_CLOCK.search(_files.text(path, 4096) or "")
        if match and abs(float(match[1]) / 1000 - monotonic) < DRIFT:
            return float(match[1]) / 1000
    return monotonic


# ------------------------------------------------------------------------------------------------ choosing


def _window(job: Job, boot: float) -> tuple[float, float]:
    first = (job.start - BEFORE - boot) * 1e6 if job.start else float("-inf")
    last = (job.end + AFTER - boot) * 1e6 if job.end else float("inf")
    return first, last


def _lost_before(job: Job, ring: Ring) -> tuple[str, str]:
    """What is lost before the first record, in the file's words and in a sentence; empty if that is not of the job."""
    number, stamp, _ = ring.records[0]
    begins = ring.boot + stamp / 1e6
    if job.start is not None and begins <= job.start:
        return "", ""
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begins))
    if number:
        lost = f"{number} kernel records"
        if job.start is None:
            return lost, ""
        if job.end is not None and begins > job.end:
            return lost, f"the kernel log begins at {shown}, after the job's end: no line of its time is left"
        return lost, f"the kernel log begins at {shown}, after the job's start: older lines are lost"
    if job.start is not None and ring.boot > job.start:
        return "the log of another boot", f"the node was booted at {shown}, after the job's start: older lines are lost"
    return "", ""


def _fitting(records: list[Record], room: int) -> tuple[list[Record], int, Record | None]:
    """The records that fit into `room` bytes, how many do not, and the newest of those that might have told something.

    Lines of OOM kills go first, then those with a known word, the newest first.
    """
    if sum(len(record[2]) + 1 for record in records) <= room:
        return records, 0, None
    weights = _weights(records)
    order = sorted(range(len(records)), key=lambda index: (weights[index], index), reverse=True)
    fit = 0
    for index in order:
        room -= len(records[index][2]) + 1
        if room < 0:
            break
        fit += 1
    left = [index for index in order[fit:] if weights[index]]
    return [records[i] for i in sorted(order[:fit])], len(order) - fit, records[max(left)] if left else None


def _weights(records: list[Record]) -> list[int]:
    """2 for lines of an OOM kill, 1 for lines with a known word, 0 for others."""
    weights = []
    known = holding([line for _, _, line in records], ALL)
    block = rows = 0
    for index, (_, _, line) in enumerate(records):
        if b" invoked oom-killer: " in line:
            block, rows = BLOCK, 0
        row = bool(block) and _ROW.search(line) is not None
        rows += row
        if row and rows > TASK_ROWS // 2:
            weights.append(0)
        else:
            weights.append(2 if block else int(index in known))
        block = max(0, block - 1)
        if b"Killed process " in line or b"Kill process " in line:
            block = 0
    return weights


# ------------------------------------------------------------------------------------------------ writing


def _overwritten(records: list[Record]) -> dict[int, str]:
    """What the kernel overwrote between two records that were read, by the number of the second."""
    gaps, before = {}, records[0][0]
    for number, _, _ in records[1:]:
        if number > before + 1:
            gaps[number] = f"{number - before - 1} kernel records"
        before = number
    return gaps


def _written(chosen: list[Record], gaps: dict[int, str], last: Record) -> Iterator[bytes]:
    """The lines, with a note before the first one that follows a gap."""
    open_ = sorted(gaps, reverse=True)
    for record in chosen:
        while open_ and open_[-1] <= record[0]:
            yield _lost(record, gaps[open_.pop()])
        yield record[2]
    while open_:
        yield _lost(last, gaps[open_.pop()])


def _lost(record: Record, what: str) -> bytes:
    """A note in the form of a record, with the number and the time of the one that follows it."""
    return f"4,{record[0]},{record[1]},-;slurm-triage: lost before this line: {what}".encode("ascii")
