"""What a refused allocation on the GPU says about the memory: none left, or left in pieces."""

from __future__ import annotations

import re

from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.log import Log
from slurm_triage.model import Fact

_ASKED = re.compile(r"Tried to allocate (?P<size>[\d.]{1,12}) (?P<unit>[KMG]i?B)")
_UNUSED = re.compile(r"(?P<size>[\d.]{1,12}) (?P<unit>[KMG]i?B) is reserved by PyTorch but unallocated")
_OLD = re.compile(
    r"(?P<used>[\d.]{1,12}) (?P<unit>[KMG]i?B) already allocated;.{0,80}?"
    r"(?P<size>[\d.]{1,12}) (?P<whole>[KMG]i?B) reserved in total by PyTorch"
)
_TOTAL = re.compile(
    r"total capacity of (?P<size>[\d.]{1,12}) (?P<unit>[KMG]i?B)"
    r"|(?P<old>[\d.]{1,12}) (?P<old_unit>[KMG]i?B) total capacity;"
)
_UNITS = {"K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}


class GpuMemory:
    """The figures of PyTorch's message (c10/cuda/CUDACachingAllocator.cpp, up to 1.13 and from 2.0 on)."""

    def __init__(self, log: Log) -> None:
        self.log = log

    @once
    def fragmented(self) -> Fact:
        """PyTorch had reserved more memory than it used, by more than was asked for: it was there, in pieces."""
        says = "the GPU's memory was there, but in pieces"
        for sign in reversed(self.log.of("gpu_oom")):
            asked, unused = _bytes(_ASKED.search(sign.cite.text)), _unused(sign.cite.text)
            if asked is not None and unused is not None:
                if unused > asked:
                    return true(says, [sign])
                return false(says, "less was reserved and unused than was asked for", [sign])
        return unknown(says, "no message tells what was reserved and unused", self.log.how)

    @once
    def oversized(self) -> Fact:
        """One request alone was larger than the whole GPU: no batch of other work stands in its way."""
        says = "one request was larger than the whole GPU"
        for sign in reversed(self.log.of("gpu_oom")):
            asked, total = _bytes(_ASKED.search(sign.cite.text)), _total(sign.cite.text)
            if asked is not None and total is not None:
                if asked > total:
                    return true(says, [sign])
                return false(says, "the GPU as a whole is larger than what was asked for", [sign])
        return unknown(says, "no message tells the size of the GPU", self.log.how)


def _total(text: str) -> float | None:
    match = _TOTAL.search(text)
    return _of(match["size"] or match["old"], match["unit"] or match["old_unit"]) if match else None


def _unused(text: str) -> float | None:
    new = _bytes(_UNUSED.search(text))
    old = _OLD.search(text)
    if new is not None or old is None:
        return new
    whole = _of(old["size"], old["whole"])
    used = _of(old["used"], old["unit"])
    return whole - used if whole is not None and used is not None else None


def _bytes(match: re.Match[str] | None) -> float | None:
    return _of(match["size"], match["unit"]) if match else None


def _of(number: str, unit: str) -> float | None:
    try:
        return float(number) * _UNITS[unit[0]]
    except ValueError:  # two points
        return None
