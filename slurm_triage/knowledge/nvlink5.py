"""Reading the words of Xids 144 to 150, with which NVLink 5 (Blackwell) tells what happened to a link.

A line holds the unit, `Fatal` or `Nonfatal`, whether the error was injected for a test, the link, and words of
registers: the first says which unit and why (two layouts, of drivers before and from R575 on), the second which error.

Source: NVIDIA's Xid catalogue, sheet on 144 to 150 (`nvidia_nvlink5.csv`, as the vendor has it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_triage.knowledge import rows

NUMBERS = range(144, 151)
LINK_EVENT = 149
PEER = frozenset({21, *range(32, 38)})
"""Causes of a 149 that only say that the other end went away (bits 25 to 20 of the first word)."""

_WORDS = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_]{1,40}(?: [A-Z][a-z]{1,20})?) {1,4}(?P<severity>Fatal|Nonfatal) {1,4}XC[01L] {1,4}"
    r"i(?P<injected>\d) {1,4}Link {1,4}-?\d{1,3} {1,4}\((?P<why>0x[0-9a-f]{8}) (?P<error>0x[0-9a-f]{8})\b"
)


def decoded(xid: int, text: str) -> tuple[Mapping[str, str], ...]:
    """The rows of the vendor's sheet that fit a line's text; none for a shortened line or another number."""
    words = _WORDS.search(text) if xid in NUMBERS else None
    if words is None:
        return ()
    why, error = int(words["why"], 16), int(words["error"], 16)
    return tuple(
        row
        for row in rows("nvidia_nvlink5")
        if int(row["xid"]) == xid
        and any(why & int(row[f"{v}_mask"], 16) == int(row[f"{v}_value"], 16) for v in ("v1", "v2") if row[f"{v}_mask"])
        and _has(error, row["error_status"])
    )


def _has(error: int, said: str) -> bool:
    """Whether the second word has the bit of a row; some rows are of a word without any, some of any word."""
    values = [int(value, 16) for value in said.split("|")] if said != "any" else []
    return not values or any(error == value or error & value for value in values)


def harmless(xid: int, text: str) -> bool:
    """Whether the line says of itself that it ends nothing: injected for a test, or not fatal and to be ignored."""
    words = _WORDS.search(text) if xid in NUMBERS else None
    if words is None:
        return False
    if words["injected"] != "0":
        return True
    found = decoded(xid, text)
    return words["severity"] == "Nonfatal" and bool(found) and all(row["immediate"] == "IGNORE" for row in found)


def of_peer(xid: int, text: str) -> bool:
    """Whether the line only tells that the other end of the link went away: the fault is to be looked for there."""
    words = _WORDS.search(text) if xid == LINK_EVENT else None
    return words is not None and (int(words["why"], 16) >> 20) & 0x3F in PEER
