"""The machines that the job ran on, as the agent read them there after its end."""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place, short
from slurm_triage.model import Cite, Fact, Reading

PAGE = 4096
"""Bytes of a page that every build of every program expects at least."""
ARM = ("aarch64", "arm64", "armv8l")
FULL = 0.98
"""Share of a file system from which on a program finds no room any more."""
HOW = "uname -m; getconf PAGESIZE on the node"


class Machine:
    """Readings of the job's nodes. Those of other nodes in the folder are not looked at."""

    def __init__(self, attempt: Attempt, place: Place) -> None:
        found = (e for e in attempt.events if isinstance(e, Reading))
        self.readings = tuple(r for r in found if not (place.nodes and r.node and short(r.node) not in place.nodes))
        self._nodes = place.nodes

    def of(self, what: str) -> tuple[Reading, ...]:
        """The readings of this kind."""
        return tuple(reading for reading in self.readings if reading.what == what)

    # ------------------------------------------------------------------------------------------ what machine

    def _each(self, key: str) -> list[tuple[str, Cite]]:
        return [(reading.values[key], reading.cites[key]) for reading in self.of("node") if key in reading.cites]

    def _whole(self, key: str) -> bool:
        """Whether this is known of every node of the job."""
        known = {short(reading.node) for reading in self.of("node") if key in reading.cites and reading.node}
        return bool(self._nodes) and self._nodes <= known

    @once
    def large_pages(self) -> Fact:
        """The kernel of a node of the job has memory pages of more than 4 KiB."""
        says = "a node of the job has memory pages larger than 4 KiB"
        told = [(int(size), cite) for size, cite in self._each("page_size") if size.isascii() and size.isdigit()]
        large = [cite for size, cite in told if size > PAGE]
        if large:
            return true(says, large)
        if told and self._whole("page_size"):
            return false(says, "the pages of all its nodes have 4 KiB", [cite for _, cite in told[:2]])
        return unknown(says, "the page size of its nodes was not seen", HOW)

    @once
    def arm(self) -> Fact:
        """A node of the job is an Arm machine."""
        says = "a node of the job is an Arm machine"
        told = self._each("machine")
        arm = [cite for name, cite in told if name in ARM]
        if arm:
            return true(says, arm)
        if told and self._whole("machine"):
            return false(says, f"its nodes are {told[0][0]}", [cite for _, cite in told[:2]])
        return unknown(says, "what machines its nodes are was not seen", HOW)

    @once
    def architecture(self) -> str:
        """`aarch64` where all nodes that were looked at are alike, else empty."""
        names = {name for name, _ in self._each("machine")}
        return names.pop() if len(names) == 1 else ""

    # ------------------------------------------------------------------------------------------ what was measured

    def full(self, *paths: str) -> tuple[Reading, ...]:
        """The file systems mounted there (all, without `paths`) that had no room or no inodes left after the end."""
        return tuple(r for r in self.of("file_system") if (not paths or r.values.get("path") in paths) and _is_full(r))

    def grew(self, says: str, group: str, kind: str) -> Fact:
        """Whether counters of this group (`edac`) and kind (`ce`, `ue`) grew since the agent's last look.

        When exactly is not known: it may have been before the job, or after its end. No growth is unknown as well:
        firmware that handles errors itself counts nothing.
        """
        found = [
            r for r in self.of("counter")
            if r.values.get("name", "").startswith(f"{group}/") and r.values.get("name", "").endswith(f"/{kind}")
        ]  # fmt: skip
        if found:
            return true(says, found[:4])
        return unknown(says, "no such counter was seen to grow", "ras-mc-ctl --error-count on the node")

    def gpu_uuid(self, pci: str | None, node: str | None) -> str | None:
        """The UUID of the GPU at this PCI address (`0000:3b:00`, with or without function) of this node."""
        wanted = _address(pci)
        for reading in self.of("gpu"):
            same = node is None or reading.node is None or short(node) == short(reading.node)
            if wanted and same and _address(reading.values.get("pci")) == wanted:
                return reading.values.get("uuid")
        return None


def _is_full(reading: Reading) -> bool:
    pairs = ((reading.number("size"), reading.number("free")), (reading.number("files"), reading.number("files_free")))
    return any(size and free is not None and free <= (1 - FULL) * size for size, free in pairs)


def _address(pci: str | None) -> str:
    """Domain, bus and device, without leading zeros of the domain: `0:3b:00`."""
    parts = (pci or "").lower().partition(".")[0].split(":")
    return ":".join((parts[0].lstrip("0") or "0", *parts[1:])) if len(parts) == 3 else ""
