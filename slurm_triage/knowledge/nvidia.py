"""Which cause an Xid or SXid speaks for, and how much: this project's own columns of the NVIDIA tables.

`cause` is an id of `causes.toml`; `role` says what a line of that number is worth (`nvidia.toml`, table `role`).
"""

from __future__ import annotations

from functools import cache

from slurm_triage.knowledge import rows

DECIDES = ("first", "follows", "state")
"""Roles of numbers that may name a cause; one that follows does so only where what it follows is not seen."""
OPEN = ("open",)
"""The role of numbers that speak for a cause and leave it open: at most a possibility."""
RENUMBERED = frozenset({*range(28001, 28007), *range(29001, 29007)})
"""SXids whose meaning changed between drivers 545 and 550: only the words of the line count."""


@cache
def xids(*causes: str, roles: tuple[str, ...] = DECIDES) -> frozenset[int]:
    """The Xids that speak for one of these causes in one of these roles."""
    return frozenset(int(r["xid"]) for r in rows("nvidia_xid") if r["cause"] in causes and r["role"] in roles)


@cache
def sxids(*causes: str, roles: tuple[str, ...] = DECIDES) -> frozenset[int]:
    """As `xids`, for the errors of NVSwitches; without the renumbered ones."""
    found = frozenset(int(r["sxid"]) for r in rows("nvidia_sxid") if r["cause"] in causes and r["role"] in roles)
    return found - RENUMBERED
