"""The host's hardware: memory errors (EDAC, MCE, GHES, rasdaemon) and PCIe errors (AER, DPC)."""

from __future__ import annotations

from dataclasses import replace

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._kernel import CLOSE, Kernel, Witness
from slurm_triage.facts._logic import any_of, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import short
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.log import Log
from slurm_triage.facts.node import NodeFacts
from slurm_triage.model import Fact, Sign
from slurm_triage.sources.scontrol_config import seconds

VALID, UNCORRECTED = 1 << 63, 1 << 61
"""Bits of MCi_STATUS (Intel SDM vol. 3, chapter 17; AMD APM vol. 2, chapter 9)."""

STORM = 10
"""Corrected errors of one module from which on it is taken to be failing (mcelog.conf: 10 in 24 hours)."""

SLURMD_TIMEOUT = 300.0
"""Seconds after which slurmctld gives up a silent node, where the evidence does not tell (slurm.conf(5))."""

LOST_DEVICE = ("Surprise Down Error", "SDES")
TIMEOUTS = ("CmpltTO", "Completion Timeout")
"""Bits of the AER status of uncorrectable errors (PCI Express Base Specification, 7.8.4.2)."""


class HostHardware:
    """What the kernel reports of memory and PCIe."""

    def __init__(self, attempt: Attempt, log: Log, exits: Exits, node: NodeFacts, kernel: Kernel) -> None:
        self.attempt = attempt
        self.log = log
        self.exits = exits
        self.node = node
        self.kernel = kernel

    # ------------------------------------------------------------------------------------------ memory

    @once
    def uncorrected(self) -> tuple[Witness, ...]:
        """Lines that report lost data in the host's memory (or an uncorrected machine check).

        Where the kernel names the processes that it sent SIGBUS, and the tasks that died of SIGBUS are all known to be
        others, the error on that node was not the job's.
        """
        found = self.kernel.of("edac", where=lambda s: s.fields.get("type") == "UE")
        found += self.kernel.of(
            "memory_failure", where=lambda s: "comm" in s.fields or s.fields.get("page") is not None
        )
        found += self.kernel.of("mce", where=lambda s: "addr" in s.fields or _uncorrected(s))
        found += self.kernel.of("rasdaemon", where=lambda s: s.fields.get("type") in ("Uncorrected", "Fatal"))
        found += self._ghes("memory error")
        return tuple(replace(w, ours=self._is_ours(w.sign)) for w in found)

    @once
    def _hit(self) -> dict[tuple[str, str | None], set[str]]:
        """Processes that the kernel sent SIGBUS for lost memory, by log and node."""
        found: dict[tuple[str, str | None], set[str]] = {}
        for sign in self.log.of("memory_failure"):
            if sign.fields.get("pid"):
                found.setdefault((sign.cite.file, sign.node), set()).add(sign.fields["pid"])
        return found

    @once
    def _others(self) -> frozenset[tuple[str, str | None]]:
        """Logs and nodes where the kernel names only processes that are none of the tasks that died of SIGBUS there.

        A task that a child's SIGBUS ended shows an exit code, not the signal: then nothing is known of the process.
        """
        found = set()
        for (file, node), hit in self._hit.items():
            own = self._own_victims[node]
            if own and not hit & own:
                found.add((file, node))
        return frozenset(found)

    def _died_of_bus_error(self, node: str | None) -> set[str]:
        """Processes of the tasks that died of SIGBUS on the node, empty where they are not all known."""
        died = [t for t in self.exits.tasks if t.signal == signals.SIGBUS]
        here = [t for t in died if node is None or t.node is None or short(t.node) == short(node)]
        return set() if any(t.pid is None for t in here) else {str(t.pid) for t in here}

    @once
    def _own_victims(self) -> dict[str | None, set[str]]:
        return {node: self._died_of_bus_error(node) for _, node in self._hit}

    def _is_ours(self, sign: Sign) -> bool:
        """Whether an uncorrected error may be the job's: of the processes hit on that node, one may be a task of it."""
        if (sign.cite.file, sign.node) in self._others:
            return False
        own, pid = self._own_victims.get(sign.node), sign.fields.get("pid")
        return not own or pid is None or pid in own

    @once
    def corrected(self) -> tuple[Witness, ...]:
        """Lines that report corrected errors of the host's memory."""
        found = self.kernel.of("edac", where=lambda s: s.fields.get("type") == "CE")
        found += self.kernel.of("rasdaemon", where=lambda s: s.fields.get("type") == "Corrected")
        found += self._ghes("memory error", ("corrected",)) + self.kernel.of("mcelog_threshold")
        return found + self.kernel.of("mce", where=lambda s: "logged" in s.cite.text or _corrected(s))

    @once
    def worn_module(self) -> tuple[str, int] | None:
        """The memory module with most corrected errors and their number, where they are so many that it is failing.

        Where firmware and memory controller both report them (ghes_edac), only the controller's lines are counted.
        """
        counts: dict[str, int] = {}
        for witness in self.kernel.of("edac", "rasdaemon", where=_is_corrected):
            label, count = witness.sign.fields.get("label", "").strip(), witness.sign.fields.get("count", "1")
            if label and not label.startswith(("any memory", "unknown memory")):
                counts[label] = counts.get(label, 0) + (int(count) if len(count) < 10 else STORM)
        if not counts and (told := self.kernel.of("mcelog_threshold")):
            return "A memory module", int(told[0].sign.fields["count"])
        most = max(counts.items(), key=lambda item: item[1], default=None)
        return most if most is not None and most[1] >= STORM else None

    def _ghes(self, section: str, severities: tuple[str, ...] = ("fatal", "recoverable")) -> tuple[Witness, ...]:
        """Firmware's reports of these severities that have a section of this type."""
        bad = {
            (w.sign.cite.file, w.sign.fields.get("n"))
            for w in self.kernel.of("ghes", where=lambda s: s.fields.get("sev") in severities)
        }
        return self.kernel.of(
            "ghes",
            where=lambda s: (
                s.fields.get("key") == "section_type"
                and s.fields.get("val", "").strip().lower().startswith(section)
                and (s.cite.file, s.fields.get("n")) in bad
            ),
        )

    @once
    def memory_felt(self) -> Fact:
        """A process died of SIGBUS, or the node went away."""
        says = "a process died of a bus error, or the node was lost"
        return any_of(says, self.exits.killed_by(signals.SIGBUS), self.node.lost)

    @property
    def memory_within(self) -> float:
        """Seconds in which such an error ends a job: at once by SIGBUS, by SlurmdTimeout when the node dies of it."""
        if not self.node.lost.holds:
            return CLOSE
        values = [seconds(s.value) for s in self.attempt.settings if s.scope == "cluster" and s.key == "SlurmdTimeout"]
        return CLOSE + next((v for v in values if v is not None), SLURMD_TIMEOUT)

    @once
    def nothing_else(self) -> Fact:
        """The evidence holds nothing but the kernel log, and that nothing but corrected errors: the question is then
        what those lines mean, not why a job died."""
        says = "the evidence holds nothing else that could explain a failure"
        own = {w.sign.id for w in self.corrected} | {
            "mce", "edac", "ghes", "rasdaemon", "thermal_throttle", "kernel_boot",
        }  # fmt: skip
        others = [s for s in self.log.signs if s.id not in own and not s.id.startswith("log_")]
        if not self.corrected or others or self.kernel.accounting.records or self.log.ends:
            return unknown(says, "there is other evidence of how the job ended", self.log.how)
        return true(says, [w.sign for w in self.corrected[:1]])

    # ------------------------------------------------------------------------------------------ PCIe

    @once
    def pcie_lost(self) -> tuple[Witness, ...]:
        """AER lines that mean the end of a device: fatal, surprise down, cut off, not recovered."""
        return self.kernel.of("aer", where=_lost_device, lasting=True)

    @once
    def pcie_uncorrected(self) -> tuple[Witness, ...]:
        """All uncorrected PCIe errors, non-fatal ones and firmware's reports too."""
        return self.pcie_lost + self.kernel.of("aer", where=_uncorrected_report) + self._ghes("pcie error")

    @once
    def bus_erred(self) -> Fact:
        """A PCIe device reported uncorrected errors: GPU faults beside them are their consequence."""
        return self.kernel.seen("a PCIe device reported uncorrected errors", self.pcie_uncorrected)

    # ------------------------------------------------------------------------------------------ one bad node

    @once
    def unlike_faults(self) -> Fact:
        """Tasks on one node died of two different faults, and no task of another node did."""
        says = "tasks of one node died of different faults, and none elsewhere"
        faults = (signals.SIGSEGV, signals.SIGILL, signals.SIGBUS, signals.SIGFPE)
        by_node: dict[str, set[int]] = {}
        cites = []
        for death in self.exits.deaths:
            if death.signal in faults and death.node and death.witness in ("status", "slurm"):
                by_node.setdefault(death.node, set()).add(death.signal)
                cites.append(death.cite)
        if len(by_node) == 1 and len(next(iter(by_node.values()))) > 1:
            return true(says, cites)
        return unknown(says, "no such pattern was seen", "sacct -N NODE -s F,NF: do other programs fail there too?")


def _is_corrected(sign: Sign) -> bool:
    return sign.fields.get("type") in ("CE", "Corrected")


def _uncorrected(sign: Sign) -> bool:
    """Whether the bank's status has the bits VALID and UNCORRECTED."""
    status = _status(sign)
    return bool(status & VALID and status & UNCORRECTED)


def _corrected(sign: Sign) -> bool:
    """Whether the bank's status is that of a corrected error of the memory controller.

    Its code is 000F 0000 1MMM CCCC: memory controller errors (Intel SDM vol. 3, 17.9.2); other banks report caches.
    """
    status = _status(sign)
    return bool(status & VALID) and not status & UNCORRECTED and status & 0xEF80 == 0x80


def _status(sign: Sign) -> int:
    try:
        return int(sign.fields.get("status", ""), 16)
    except ValueError:
        return 0


def _lost_device(sign: Sign) -> bool:
    fields = sign.fields
    if "(Fatal)" in fields.get("sev", "") or fields.get("error", "") in LOST_DEVICE:
        return True
    return "DPC: containment" in sign.cite.text or "recovery failed" in fields.get("result", "")


def _uncorrected_report(sign: Sign) -> bool:
    fields = sign.fields
    kind = fields.get("sev", "").startswith("Uncorrect") or fields.get("error", "") in TIMEOUTS
    return kind or fields.get("result", "").startswith("can't recover")
