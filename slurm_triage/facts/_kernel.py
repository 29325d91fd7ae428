"""Kernel lines and the job: did it happen while the job ran, on a node of it, and did the program feel it?

A line of the kernel log is about the node. It is about the job when it falls into the job's time on one of its nodes;
it proves the job's end only when the program (or a task's status) shows that it felt the same thing, when it stands
shortly before that, and when it is not about a device or process that is known to be another's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import all_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place, short
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.log import Log
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact, Sign, Stamp, Voice

SLACK = 5.0
"""Seconds around the attempt in which a line still belongs to it (rounding of accounting, clocks of nodes)."""
CLOSE = 120.0
"""Seconds before the end, or before what the program felt, in which a line may be proven to be its cause."""
OFF_CLOCK = 2.0
"""Seconds of rounding by which ElapsedRaw may differ from End minus Start; more means that a clock was set."""

TROUBLE = (
    "aer", "block_io", "edac", "ext4", "ghes", "gpfs", "lustre", "mce", "memory_failure", "mlx5", "nfs",
    "nvidia_fabric", "nvidia_gsp_limited", "nvidia_mmu_fault", "nvidia_sxid", "nvidia_xid", "nvme", "nvrm_off_bus",
    "xfs",
)  # fmt: skip
"""Families about what a program depends on."""

KERNEL_LOG = "kernel_log"
"""Source of the lines themselves: what the program felt needs another witness."""
HOW = "read the node's kernel log of the job's time (dmesg -T, journalctl -k)"
DATES = "read the kernel log with wall-clock times and their zone (dmesg --time-format iso, journalctl -k -o short-iso)"
RING = ";slurm-triage: lost before"
"""Of the lines that tell where the ring begins: all before it is lost, however late it stands."""
LOST = "kernel messages of that time were overwritten before they were read"
ELSEWHERE = "read what the node's log daemon kept of that time (journalctl -k, /var/log/kern.log)"


@dataclass(frozen=True, slots=True)
class Witness:
    """A kernel line.

    `place` is `inside` (the job's time and nodes), `alone` (an excerpt: the evidence has no times of a job at all) or
    `open` (could not be placed, or a lasting state from before the job). `lasting`: the state stays until a repair, so
    that distance in time says nothing against it. `ours` is False for a line about a device or process that is not the
    job's, None where that is in doubt, True where nothing speaks against it.
    """

    sign: Sign
    place: str
    lasting: bool = False
    ours: bool | None = True


class Kernel:
    """Kernel lines of the attempt, placed."""

    def __init__(self, attempt: Attempt, accounting: Accounting, log: Log, telling: Telling) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.log = log
        self.telling = telling
        self._nodes = Place(attempt, accounting).nodes
        self._dated = attempt.start is not None or attempt.end is not None

    def of(
        self, *ids: str, where: Callable[[Sign], bool] = lambda sign: True, lasting: bool = False
    ) -> tuple[Witness, ...]:
        """Kernel lines of these families that are not surely outside the job. `lasting`: a state that stays until a
        reboot (a lost GPU), so that it may have struck before the job started."""
        found = []
        for sign in self.log.of(*ids):
            if sign.voice is not Voice.KERNEL or not where(sign) or self._of_another_boot(sign):
                continue
            place = self._place(sign, lasting)
            if place is not None:
                found.append(Witness(sign, place, lasting))
        return tuple(found)

    # ------------------------------------------------------------------------------------------ time

    @once
    def clock_off(self) -> float:
        """Seconds by which the printed start and end disagree with the elapsed time, 0 if they agree.

        Slurm prints local times: across the end of daylight saving time a job of 90 minutes seems to last 30.
        """
        for record in self.accounting.records:
            if record.elapsed is None or record.start is None or record.end is None:
                continue
            off = record.elapsed + (record.suspended or 0.0) - (record.end.lo - record.start.lo)
            if off < 0 and record.suspended is None:
                return 0.0  # ElapsedRaw leaves out the time that a job was suspended
            return off if abs(off) > OFF_CLOCK else 0.0
        return 0.0

    def _window(self) -> tuple[Stamp, Stamp] | None:
        """Start and end as intervals that surely hold them: as wide as the printed times are off."""
        start, end = self.attempt.start, self.attempt.end
        if start is None or end is None:
            return None
        off = self.clock_off
        if off >= 0:  # the time was set back: the start is earlier, or the end later, than it looks
            return replace(start, lo=start.lo - off), replace(end, hi=end.hi + off)
        return replace(start, hi=start.hi - off), replace(end, lo=end.lo + off)

    @once
    def _boots(self) -> dict[tuple[str, str | None], list[tuple[int, bool]]]:
        """Of each log and node: lines with which a boot begins that is surely after the job's start (True) or before.

        A boot without a time is a later one than the first of its log: after all that the first one's stamps say.
        """
        start = self.attempt.start
        found: dict[tuple[str, str | None], list[tuple[int, bool]]] = {}
        boots = [s for s in self.log.of("kernel_boot") if s.voice is Voice.KERNEL]
        if start is None or not boots:
            return found
        first: dict[str, int] = {}  # the first line of each log that is surely later than the job's start
        for sign in self.log.signs:
            if sign.at is not None and start.before(sign.at):
                first[sign.cite.file] = min(sign.cite.line, first.get(sign.cite.file, sign.cite.line))
        for boot in boots:
            line = boot.cite.line
            after = start.before(boot.at) if boot.at is not None else first.get(boot.cite.file, line) < line
            if after or (boot.at is not None and boot.at.before(start)):
                found.setdefault((boot.cite.file, boot.node), []).append((line, bool(after)))
        return found

    def _of_another_boot(self, sign: Sign) -> bool:
        """Whether the node surely booted between job and line: what the line says is of another life of the node.

        Firmware's report about the crash before (BERT) is printed after the boot and is about the time before it.
        """
        if not self._boots or (sign.id == "ghes" and sign.fields.get("n") is None):
            return False
        line = sign.cite.line
        for boot, after in self._boots.get((sign.cite.file, sign.node), ()):
            if (after and boot <= line) or (not after and boot > line):
                return True
        return False

    def _place(self, sign: Sign, lasting: bool) -> str | None:
        if self._nodes and sign.node and short(sign.node) not in self._nodes:
            return None
        if not self._dated:
            return "alone"
        at, window = sign.at, self._window()
        if at is None or window is None or at.zoned != window[0].zoned or at.zoned != window[1].zoned:
            return "open"
        start, end = window
        if at.lo > end.hi + SLACK:
            return None
        if at.hi < start.lo - SLACK:
            return "open" if lasting else None
        if self.clock_off and (at.lo < start.hi or at.hi > end.lo):
            return "open"
        return "inside"

    @once
    def _ends(self) -> tuple[Stamp, ...]:
        """When the program ended: the job, and the failed tasks and steps after which no other step was started."""
        exits = self.telling.program.exits
        steps = self.accounting.app_steps()
        last = max((s.start.lo for s in steps if s.start is not None), default=float("-inf"))
        found = [t.at for t in exits.tasks if t.status and t.at is not None and (t.step == "batch" or t.at.hi >= last)]
        if not self.clock_off:
            found += [s.end for s in steps if s.end is not None and s.end.hi >= last and s.state != "COMPLETED"]
            found += [self.attempt.end] if self.attempt.end is not None else []
        return tuple(found)

    def near(self, witnesses: Iterable[Witness], felt: Fact, within: float = CLOSE) -> tuple[Witness, ...]:
        """The lines that may be the job's and stand at most `within` seconds before what the program felt, or before
        its end where that has no time; excerpts without times are taken as close."""
        found = [w for w in witnesses if w.ours and w.place in ("alone", "inside")]
        if not found:
            return ()
        felt_at = [c.at for c in felt.cites if c.at is not None and c.source != KERNEL_LOG]
        moments = sorted(felt_at or self._ends, key=lambda s: s.hi)

        def close(at: Stamp | None) -> bool:
            if at is None:
                return False
            index = bisect_left(moments, at.lo - SLACK, key=lambda s: s.hi)
            return index < len(moments) and moments[index].lo <= at.hi + within and moments[index].zoned == at.zoned

        return tuple(w for w in found if w.place == "alone" or close(w.sign.at))

    # ------------------------------------------------------------------------------------------ facts

    @once
    def trouble_inside(self) -> Fact:
        """A line about a GPU, memory, bus, disk or network file system fell into the job's time on its nodes.

        Such a line need not be the job's end, but while it stands there an error of the program is not proven to be
        its own; unknown where such a line cannot be dated, and where lines of the time shortly before the end are known
        to be lost. No line is False, also when no kernel log was read: nothing then speaks against the program's word.
        """
        says = "the kernel reports trouble of a device or file system inside the job's time"
        lines = self.of(*TROUBLE)
        found = [w.sign for w in lines if w.place == "inside"]
        if found:
            return true(says, found[:3])
        if lines:
            return unknown(says, "such lines were seen, but not whether they fall into the job's time", DATES)
        if self.lost(CLOSE):
            return unknown(says, f"no such line is left; {LOST}", ELSEWHERE)
        return false(says, "no such line was seen")

    def lost(self, before_end: float = float("inf")) -> tuple[Sign, ...]:
        """Lines that say that kernel messages of the job's time on its nodes were lost; at most so many seconds before
        its end, where its end is known."""
        window = self._window()

        def reaches(sign: Sign) -> bool:
            at = sign.at
            if at is None or window is None or at.zoned != window[0].zoned or at.zoned != window[1].zoned:
                return True
            start, end = window
            if at.hi < max(start.lo, end.lo - before_end) - SLACK:
                return False
            return at.lo <= end.hi + SLACK or RING in sign.cite.text

        lines = self.log.of("kernel_lines_lost")
        mine = (s for s in lines if not (self._nodes and s.node and short(s.node) not in self._nodes))
        return tuple(s for s in mine if s.voice is Voice.KERNEL and reaches(s))

    def seen(self, says: str, witnesses: Iterable[Witness], how: str = HOW) -> Fact:
        """Whether there is any such line."""
        found = [w.sign for w in witnesses]
        if found:
            return true(says, [*found[:3], found[-1]])
        return unknown(says, "no such line was seen in a kernel log", how)

    def tells(self, says: str, witnesses: Iterable[Witness], felt: Fact, *kin: str, within: float = CLOSE) -> Fact:
        """The line likely is about the job's end: it stands close to it or alone, and the program did not end by itself
        without a word of it, nor names an error that has nothing to do with it (`kin`: families that have).

        Where the program felt it, a lasting state counts from any time, and so does a line that cannot be dated.
        """
        found = list(witnesses)
        if not found:
            return unknown(says, "no such line was seen in a kernel log", HOW)
        silent = self.log.read and self.telling.program.failed_by_itself.holds
        fitting = list(self.near(found, felt, within))
        if felt.holds:
            fitting += [w for w in found if w.ours and (w.lasting or w.place == "open")]
        elif silent or self.telling.other_error(*kin) is not None:
            fitting = []
        if fitting:
            return true(says, [w.sign for w in fitting[:3]])
        return unknown(says, "nothing ties these lines to the job's end", felt.how or self.log.how)

    def proves(self, says: str, witnesses: Iterable[Witness], felt: Fact, *, within: float = CLOSE) -> Fact:
        """The line falls into the job's time on its node, shortly before the program felt it or ended."""
        found = list(witnesses)
        inside = [w for w in found if w.place == "inside"]
        near = [w.sign for w in self.near(inside, felt, within)]
        if near:
            return all_of(says, true(says, near[:3]), felt)
        if any(w.ours for w in inside):
            return unknown(says, "the kernel's lines do not stand shortly before the program's end", HOW)
        if inside:
            return unknown(says, "the kernel's lines are not known to be about the job's own device or process", HOW)
        return unknown(says, "no such kernel line falls surely into the job's time", HOW)
