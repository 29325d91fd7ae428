"""Printed times to `Stamp`s: one clock for all sources of a case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from slurm_triage.model import Stamp

_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?\s*(Z|[+-]\d{2}:?\d{2})?",
)
KERNEL_DRIFT = 1.0
"""Seconds by which a kernel stamp plus boot time may miss the wall clock (boot times are rounded, clocks slewed)."""


def offset_of(text: str) -> timedelta | None:
    """`+02:00`, `-0500` or `Z` as a timedelta; None if it is not one."""
    if text in ("Z", "z"):
        return timedelta(0)
    match = re.fullmatch(r"([+-])(\d{2}):?(\d{2})", text.strip())
    if not match or int(match[2]) > 14 or int(match[3]) > 59:
        return None
    span = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return -span if match[1] == "-" else span


@dataclass(frozen=True)
class Clock:
    """How to read times of a case.

    `utc_offset` applies to times printed without a zone (None: not known, the stamps are then not `zoned`).
    `boot_epoch` is the epoch of kernel time 0, by node; the key "" is the default for nodes not named.
    """

    utc_offset: timedelta | None = None
    boot_epoch: Mapping[str, float] = field(default_factory=dict)

    def local(self, text: str) -> Stamp | None:
        """A time as Slurm prints it (`2026-11-30T15:11:18`, with or without fraction and zone); None if it is none."""
        match = _ISO.match(text.strip())
        return self._stamp(match) if match else None

    def _stamp(self, match: re.Match[str]) -> Stamp | None:
        zone = offset_of(match[8]) if match[8] else self.utc_offset
        try:
            year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
            zone_or_utc = timezone(zone or timedelta(0))
            lo = datetime(year, month, day, hour, minute, second, tzinfo=zone_or_utc).timestamp()
        except (ValueError, OverflowError):
            return None
        fraction = match[7]
        if fraction:
            lo += float(f"0.{fraction}")
        width = 10.0 ** -len(fraction) if fraction else 1.0
        return Stamp(lo, lo + width, zoned=zone is not None)

    def epoch(self, seconds: float, plus_minus: float = 0.0) -> Stamp:
        """Seconds since the epoch."""
        return Stamp(seconds - plus_minus, seconds + plus_minus)

    def kernel(self, seconds: float, node: str | None = None) -> Stamp | None:
        """A kernel stamp (seconds since boot); None when the boot time of that node is not known."""
        boot = self.boot_epoch.get(node or "", self.boot_epoch.get(""))
        if boot is None:
            return None
        return Stamp(boot + seconds - KERNEL_DRIFT, boot + seconds + KERNEL_DRIFT)


def show(stamp: Stamp | None, *, seconds_only: bool = True) -> str:
    """A stamp for people: ISO 8601, UTC marked with Z, `n/a` for None."""
    if stamp is None:
        return "n/a"
    return _shown(stamp.lo, stamp.zoned, seconds_only)


@lru_cache(maxsize=1024)  # a document and a text say the same few times over and over
def _shown(seconds: float, zoned: bool, seconds_only: bool) -> str:
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return "n/a"
    text = moment.strftime("%Y-%m-%dT%H:%M:%S") if seconds_only else moment.isoformat(timespec="milliseconds")[:23]
    return text + ("Z" if zoned else "")
