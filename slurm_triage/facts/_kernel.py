"""Kernel lines and the job: did it happen while the job ran, on a node of it, and did the program feel it?

A line of the kernel log is about the node. It is about the job when it falls into the job's time on one of its nodes;
it proves the job's end only when the program (or a task's status) shows that it felt the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import all_of, false, true, unknown
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.log import Log
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact, Sign, Voice
from slurm_triage.nodeset import expand

SLACK = 5.0
"""Seconds around the attempt in which a line still belongs to it (rounding of accounting, clocks of nodes)."""

TROUBLE = (
    "aer", "block_io", "edac", "ext4", "ghes", "gpfs", "lustre", "mce", "memory_failure", "mlx5", "nfs",
    "nvidia_fabric", "nvidia_mmu_fault", "nvidia_sxid", "nvidia_xid", "nvme", "nvrm_off_bus", "xfs",
)  # fmt: skip
"""Families about what a program depends on."""

HOW = "read the node's kernel log of the job's time (dmesg -T, journalctl -k)"


@dataclass(frozen=True, slots=True)
class Witness:
    """A kernel line. `place` is `inside` (the job's time and nodes), `alone` (an excerpt: the evidence has no times of
    a job at all) or `open` (could not be placed, or a lasting state from before the job)."""

    sign: Sign
    place: str


class Kernel:
    """Kernel lines of the attempt, placed."""

    def __init__(self, attempt: Attempt, accounting: Accounting, log: Log, telling: Telling) -> None:
        self.attempt = attempt
        self.log = log
        self.telling = telling
        folded = accounting.first(lambda r: r.nodes)
        self._nodes = {_short(n) for n in (expand(folded) or [])} if folded else set()
        self._dated = attempt.start is not None or attempt.end is not None

    def of(
        self, *ids: str, where: Callable[[Sign], bool] = lambda sign: True, lasting: bool = False
    ) -> tuple[Witness, ...]:
        """Kernel lines of these families that are not surely outside the job. `lasting`: a state that stays until a
        reboot (a lost GPU), so that it may have struck before the job started."""
        found = []
        for sign in self.log.of(*ids):
            if sign.voice is not Voice.KERNEL or not where(sign):
                continue
            place = self._place(sign, lasting)
            if place is not None:
                found.append(Witness(sign, place))
        return tuple(found)

    def _place(self, sign: Sign, lasting: bool) -> str | None:
        if self._nodes and sign.node and _short(sign.node) not in self._nodes:
            return None
        if not self._dated:
            return "alone"
        at, start, end = sign.at, self.attempt.start, self.attempt.end
        if at is None or start is None or end is None or at.zoned != start.zoned or at.zoned != end.zoned:
            return "open"
        if at.lo > end.hi + SLACK:
            return None
        if at.hi < start.lo - SLACK:
            return "open" if lasting else None
        return "inside"

    @property
    def trouble_inside(self) -> Fact:
        """A line about a GPU, memory, bus, disk or network file system fell into the job's time on its nodes.

        Such a line need not be the job's end, but while it stands there an error of the program is not proven to be
        its own. No line is False, also when no kernel log was read: nothing then speaks against the program's word.
        """
        says = "the kernel reports trouble of a device or file system inside the job's time"
        found = [w.sign for w in self.of(*TROUBLE) if w.place == "inside"]
        return true(says, found[:3]) if found else false(says, "no such line was seen")

    def seen(self, says: str, witnesses: Iterable[Witness], how: str = HOW) -> Fact:
        """Whether there is any such line."""
        found = [w.sign for w in witnesses]
        if found:
            return true(says, [*found[:3], found[-1]])
        return unknown(says, "no such line was seen in a kernel log", how)

    def tells(self, says: str, witnesses: Iterable[Witness], felt: Fact, *kin: str) -> Fact:
        """The line likely is about the job's end: it happened inside the job or stands alone, and the program did not
        end by itself without a word of it, nor names an error that has nothing to do with it (`kin`: families that
        have)."""
        found = list(witnesses)
        silent = self.log.read and self.telling.program.failed_by_itself.holds
        if felt.holds:
            near = found
        elif silent or self.telling.other_error(*kin) is not None:
            near = []
        else:
            near = [w for w in found if w.place != "open"]
        if near:
            return true(says, [w.sign for w in near[:3]])
        if found:
            return unknown(says, "nothing ties these lines to the job's end", felt.how or self.log.how)
        return unknown(says, "no such line was seen in a kernel log", HOW)

    def proves(self, says: str, witnesses: Iterable[Witness], felt: Fact) -> Fact:
        """The line falls into the job's time on its node, and the program felt it."""
        inside = [w.sign for w in witnesses if w.place == "inside"]
        if not inside:
            return unknown(says, "no such kernel line falls surely into the job's time", HOW)
        return all_of(says, true(says, inside[:3]), felt)


def _short(node: str) -> str:
    """The host name without its domain."""
    return node.split(".", 1)[0].lower()
