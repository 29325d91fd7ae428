"""What stands before the text of a kernel message: time, node and speaker, in every layout that tools print.

Layouts: `dmesg` (`[ 1234.567890]`), `dmesg -T` (`[Fri Aug 30 11:11:22 2024]`), `dmesg --time-format iso`, `dmesg -H`
(`[May19 19:57]` and `[  +0.000127]`), `dmesg -r` (`<4>` in front), raw records of /dev/kmsg, `journalctl -k` (short,
short-iso, short-monotonic), syslog files with and without the kernel's own stamp behind the tag, and no prefix at all.

Sources: util-linux dmesg(1), systemd journalctl(1), the kernel's Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from slurm_triage.clock import Clock
from slurm_triage.model import Stamp, quick

DMESG_WALL = 5.0
"""Seconds by which a wall time of `dmesg -T` may be off: boot time plus stamp, without slews and steps since."""
RECEIPT_LAG = 5.0
"""Seconds by which a log daemon may have received a kernel line after it was printed (bursts, early boot)."""
BEFORE_BOOT = timedelta(days=60)
"""A date without a year is looked for from so long before the boot to a year later: logs outlive a boot."""


class Layout(Enum):
    """How the prefix was printed."""

    MONOTONIC = "dmesg"
    WALL = "dmesg -T"
    ISO = "dmesg --time-format iso"
    DELTA = "dmesg -H"
    RAW = "/dev/kmsg"
    LOG = "syslog or journal"
    TAG = "kernel:"
    CLOCK = "time of day"
    NONE = "no prefix"


@quick
@dataclass(frozen=True, slots=True)
class Line:
    """A line taken apart. `seconds` is the kernel's own stamp (since boot) if printed.

    `speaker` is the tag of a log daemon's line without its pid (`kernel`, `systemd`), None where the layout has none.
    `caller` is the thread or CPU that printed it (`T12`, `C3`; CONFIG_PRINTK_CALLER). `user_space` is True for a raw
    record that a program wrote into the kernel's log.
    """

    text: str
    layout: Layout
    at: Stamp | None = None
    node: str | None = None
    seconds: float | None = None
    speaker: str | None = None
    caller: str | None = None
    user_space: bool = False

    @property
    def of_kernel(self) -> bool:
        """Whether the kernel is the speaker, as far as the layout tells."""
        return not self.user_space and self.speaker in (None, "kernel")


_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MONTHS = {month: number for number, month in enumerate(_MONTH.split("|"), 1)}
_DAY = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_MONOTONIC = re.compile(r"(?:<\d{1,3}>)?\[ {0,8}(\d{1,10}\.\d{3,9})\](?: ?\[ {0,8}([TC]\d{1,10})\])? ?(.*)", re.DOTALL)
_WALL = re.compile(
    rf"(?:<\d{{1,3}}>)?\[(?:(?:{_DAY}) )?({_MONTH}) {{1,2}}(\d{{1,2}}) (\d\d:\d\d:\d\d) (\d{{4}})\] ?(.*)", re.DOTALL
)
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{1,9}(?:[+-]\d\d:?\d\d|Z)?) (.*)", re.DOTALL)
_MINUTE = re.compile(rf"\[({_MONTH}) {{0,2}}(\d{{1,2}}) (\d\d:\d\d)\] ?(.*)", re.DOTALL)
_DELTA = re.compile(r"\[ {0,8}\+(\d{1,10}\.\d{1,9})\] ?(.*)", re.DOTALL)
_RAW = re.compile(r"(\d{1,4}),(\d{1,20}),(\d{1,20}),([^,;]{0,8})((?:,[^,;]{0,80}){0,8});(.*)", re.DOTALL)
_CALLER = re.compile(r"caller=([TC]\d{1,10})")
_TAG = r"([A-Za-z][\w.@/-]{0,60})(?:\[\d{1,10}\])?: ?"
_HOST = r"([A-Za-z0-9](?:[\w.:-]{0,253}[\w.-])?)"
_TIME = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?"
_ZONE = r"(?:[+-]\d\d:?\d\d|Z| UTC)?"
_LOG_ISO = re.compile(
    rf"(?:<\d{{1,3}}>)?(?:(?:{_DAY}) )?(\d{{4}}-\d\d-\d\d[T ]{_TIME}{_ZONE})(?: [A-Z]{{3,5}})? {_HOST} {_TAG}(.*)",
    re.DOTALL,
)
_LOG = re.compile(
    rf"(?:<\d{{1,3}}>)?([^\W\d_]{{3,5}}\.?|\d{{1,2}}月) {{1,2}}(\d{{1,2}}) ({_TIME}) +(?:{_HOST} +)?{_TAG}(.*)",
    re.DOTALL,
)
_KERNEL_TAG = re.compile(rf"(?:{_HOST} )?kernel: ?(.*)", re.DOTALL)
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})? +(.*)", re.DOTALL)
_FILE_NODE = re.compile(r"(?:kmsg|dmesg|kern|kernel|journal)[._-]([A-Za-z0-9][\w.-]*?)(?:\.(?:txt|log|out))?")


def node_of_file(name: str) -> str | None:
    """The node in a file name like `kmsg.<node>.txt`; None if the name has none."""
    base = name.rsplit("/", 1)[-1]
    match = _FILE_NODE.fullmatch(base)
    return match[1] if match and match[1] not in ("txt", "log", "out") else None


class LineReader:
    """Takes the lines of one file apart, in their order (`dmesg -H` prints differences)."""

    def __init__(self, clock: Clock, node: str | None = None) -> None:
        """`node` is the node of the whole file, used where a line names none."""
        self._clock = clock
        self._node = node
        self._minute: tuple[int, int, str] | None = None
        self._passed = 0.0
        self._last: Line | None = None

    def read(self, line: str) -> Line:
        """One line taken apart.

        A line without a prefix has the speaker of the line before; if it begins with a blank, it is a part of that
        record and has its time too.
        """
        found = (
            self._monotonic(line)
            or self._wall(line)
            or self._delta(line)
            or self._raw(line)
            or self._log(line)
            or self._tag(line)
        )
        if found is None:
            before = self._last
            if before is not None and before.layout is Layout.RAW and line.startswith(" "):
                return Line("", Layout.RAW, before.at, before.node)  # ` KEY=value` of the record, not text
            text = line.lstrip()
            if before is None:
                return Line(text, Layout.NONE, None, self._node)
            at, seconds = (before.at, before.seconds) if line[:1].isspace() else (None, None)
            return Line(text, Layout.NONE, at, before.node, seconds, before.speaker, None, before.user_space)
        self._last = found
        return found

    def _monotonic(self, line: str) -> Line | None:
        match = _MONOTONIC.match(line)
        if not match:
            return None
        seconds, node, text = float(match[1]), self._node, match[3]
        speaker = None
        tagged = _KERNEL_TAG.match(text)
        if tagged:  # journalctl -o short-monotonic
            node, speaker, text = tagged[1] or node, "kernel", tagged[2]
        return Line(text, Layout.MONOTONIC, self._clock.kernel(seconds, node), node, seconds, speaker, match[2])

    def _wall(self, line: str) -> Line | None:
        match = _WALL.match(line)
        if match:
            at = self._clock.local(f"{match[4]}-{_MONTHS[match[1]]:02d}-{int(match[2]):02d}T{match[3]}")
            return Line(match[5], Layout.WALL, _widened(at, DMESG_WALL, DMESG_WALL), self._node)
        match = _ISO.match(line)
        if match:
            at = self._clock.local(match[1])
            return Line(match[2], Layout.ISO, _widened(at, DMESG_WALL, DMESG_WALL), self._node)
        return None

    def _delta(self, line: str) -> Line | None:
        match = _MINUTE.match(line)
        if match:
            self._minute, self._passed = (_MONTHS[match[1]], int(match[2]), match[3]), 0.0
            return Line(match[4], Layout.DELTA, self._in_minute(), self._node)
        match = _DELTA.match(line)
        if match:
            self._passed += float(match[1])
            return Line(match[2], Layout.DELTA, self._in_minute(), self._node)
        return None

    def _in_minute(self) -> Stamp | None:
        if self._minute is None:
            return None
        month, day, time = self._minute
        start = self._dated(month, day, f"{time}:00", self._node)
        if start is None:
            return None
        first = start.lo + self._passed
        return Stamp(first - DMESG_WALL, first + 60 + DMESG_WALL, start.zoned)

    def _raw(self, line: str) -> Line | None:
        match = _RAW.match(line)
        if not match:
            return None
        seconds = int(match[3]) / 1e6
        caller = _CALLER.search(match[5])
        return Line(
            match[6],
            Layout.RAW,
            self._clock.kernel(seconds, self._node),
            self._node,
            seconds,
            None,
            caller[1] if caller else None,
            int(match[1]) >> 3 != 0,
        )

    def _log(self, line: str) -> Line | None:
        match = _LOG_ISO.match(line)
        if match:
            node, speaker, text = match[2], match[3], match[4]
            wall = self._clock.local(match[1].replace(" UTC", "Z"))
        else:
            match = _LOG.match(line)
            if not match:
                return None
            node, speaker, text = match[4] or self._node, match[5], match[6]
            named = match[1].rstrip(".")
            month = _MONTHS.get(named) or (int(named[:-1]) if named.endswith("月") else 0)
            wall = self._dated(month, int(match[2]), match[3], node)
        at = _widened(wall, RECEIPT_LAG, 0.0)
        inner = _MONOTONIC.match(text) if speaker == "kernel" else None
        if not inner:
            return Line(text, Layout.LOG, at, node, None, speaker)
        seconds = float(inner[1])
        own = self._clock.kernel(seconds, node)
        # The kernel's stamp is the better one, unless it is of another boot than the one whose time is known.
        if own is not None and (at is None or not at.zoned or abs(own.lo - at.lo) < 600):
            at = own
        return Line(inner[3], Layout.LOG, at, node, seconds, speaker, inner[2])

    def _tag(self, line: str) -> Line | None:
        match = _KERNEL_TAG.match(line)
        if match:
            return Line(match[2], Layout.TAG, None, match[1] or self._node, None, "kernel")
        match = _CLOCK.match(line)
        return Line(match[1], Layout.CLOCK, None, self._node) if match else None

    def _dated(self, month: int, day: int, time: str, node: str | None) -> Stamp | None:
        """A date without a year: the one of the year around the boot, None if the boot time is not known."""
        boot = self._clock.boot_epoch.get(node or "", self._clock.boot_epoch.get(""))
        if boot is None or not 1 <= month <= 12:
            return None
        try:
            earliest = datetime.fromtimestamp(boot, timezone.utc) - BEFORE_BOOT
        except (ValueError, OverflowError, OSError):
            return None
        for year in (earliest.year, earliest.year + 1):
            stamp = self._clock.local(f"{year:04d}-{month:02d}-{day:02d}T{time}")
            if stamp is not None and stamp.lo >= earliest.timestamp():
                return stamp
        return None


def _widened(stamp: Stamp | None, before: float, after: float) -> Stamp | None:
    return None if stamp is None else Stamp(stamp.lo - before, stamp.hi + after, stamp.zoned)
