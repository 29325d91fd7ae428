"""GPUs: what the driver reported (Xid, SXid, fabric), what the program felt of it.

Numbers alone decide little. Many Xids only follow another one, and the order of their lines is not guaranteed
(NVIDIA's Xid catalogue; open-gpu-kernel-modules): 43 and 109 after 13 or 31, 45 after anything that removes a process
(a plain kill too), 154 after its parent, 63 and 64 beside the memory error that caused them, 74 and 119 after 79.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slurm_triage.facts._kernel import ELSEWHERE, HOW, LOST, Kernel, Witness
from slurm_triage.facts._logic import any_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import short
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.limits import Limits
from slurm_triage.facts.log import Log
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact, Sign

OFF_BUS = (79,)
MEMORY_UNCORRECTABLE = (48, 95, 140, 171, 172)
CONTAINED = (94,)
ROW_REMAP = (63, 64, 156, 160, 161)
FIRMWARE = (61, 62, 119, 120)
PROGRAM = (13, 31, 69)
NVLINK = (74, 136, 144, 145, 146, 147, 148, 149, 150, 155)
CHANNEL_RESET = 43

WORDS = {
    79: ("fallen off the bus",),
    48: ("double bit error", "dbe", "uncorrectable", "ecc"),
    94: ("contained",),
    95: ("uncontained",),
    140: ("ecc", "uncorrectable", "unrecover"),
    171: ("uncorrectable",),
    172: ("uncorrectable",),
}
"""What the driver prints with a number that blames hardware: a number without its words blames nothing."""

KIN = (
    "cuda_ecc", "cuda_error_other", "cuda_illegal_access", "cuda_launch_failed", "cuda_no_device",
    "cuda_not_initialized_802", "cuda_nvlink_error", "gpu_lost_text", "nvidia_smi_failed", "nccl_system_error",
    "nccl_timeout", "nccl_remote_exit", "nccl_nvls", "nccl_net_error",
)  # fmt: skip
"""Families with which a program shows that a GPU failed under it."""


class Gpu:
    """Xids and GPU errors of the attempt."""

    def __init__(self, log: Log, exits: Exits, telling: Telling, kernel: Kernel, limits: Limits) -> None:
        self.log = log
        self.exits = exits
        self.telling = telling
        self.kernel = kernel
        self.limits = limits

    # ------------------------------------------------------------------------------------------ the driver's lines

    def xids(self, *numbers: int) -> tuple[Witness, ...]:
        """Kernel lines with one of these Xids; the text of 79 counts without its number too."""
        if not self.log.of("nvidia_xid", "nvrm_off_bus"):
            return ()
        stay = {n for n in numbers if n in (*OFF_BUS, *ROW_REMAP)}
        found = self.kernel.of("nvidia_xid", where=lambda s: number(s) in stay, lasting=True)
        found += self.kernel.of("nvidia_xid", where=lambda s: number(s) in numbers and number(s) not in stay)
        if any(n in OFF_BUS for n in numbers):
            found += self.kernel.of("nvrm_off_bus", lasting=True)
        found = tuple(replace(w, ours=self._is_ours(w.sign)) for w in found)
        return tuple(sorted(found, key=lambda w: (w.sign.cite.file, w.sign.cite.line)))

    @once
    def _had_none(self) -> bool:
        """Whether Slurm counts GPUs here (AccountingStorageTRES, slurm.conf(5)) and gave this job none."""
        counted = self.limits.setting("cluster", "AccountingStorageTRES")
        given = [record.tres.lower() for record in self.limits.accounting.records if record.tres]
        counts = counted is not None and "gres/gpu" in counted.value.lower()
        return counts and bool(given) and not any("gres/gpu" in tres for tres in given)

    @once
    def _named(self) -> tuple[Witness, ...]:
        """Xids in which the driver names a task of the job, on the task's node. A kill leads to 45 as well."""
        nodes: dict[str, set[str | None]] = {}
        for task in self.exits.tasks:
            if task.pid:
                nodes.setdefault(str(task.pid), set()).add(short(task.node) if task.node else None)

        def of_task(sign: Sign) -> bool:
            where, node = nodes.get(sign.fields.get("pid") or "", set()), _node(sign)
            return node in where or (bool(where) and (node is None or None in where))

        return self.kernel.of("nvidia_xid", where=lambda s: number(s) != 45 and of_task(s))

    @once
    def _own(self) -> frozenset[tuple[str | None, str]]:
        """GPUs that the driver saw a task of the job use, as (node, PCI address)."""
        return frozenset((_node(w.sign), pci) for w in self._named if (pci := address(w.sign)))

    def _is_ours(self, sign: Sign) -> bool | None:
        """Whether a line may be about a GPU of the job: False for another one than that which the job's only task is
        known to use, None if the job has more tasks there, each of which may use more; False, too, for a job that had
        no GPU, unless its program tells of one."""
        if self._had_none and not self._named:
            return None if self.felt.holds else False
        pci, node = address(sign), _node(sign)
        own = {p for n, p in self._own if None in (n, node) or n == node}
        if not own or pci is None or pci in own:
            return True
        return None if self.exits.records.several else False

    def has(self, *numbers: int) -> bool:
        """Whether the kernel printed one of these Xids."""
        return bool(self.xids(*numbers))

    def quoted(self, *numbers: int) -> tuple[Sign, ...]:
        """The same lines where somebody printed them into the job's output: the program's word, not the kernel's."""
        found = [s for s in self.log.of("quoted_nvidia_xid") if number(s) in numbers]
        if any(n in OFF_BUS for n in numbers):
            found += self.log.of("quoted_nvrm_off_bus")
        return tuple(found)

    def spelled_out(self, witnesses: Iterable[Witness]) -> bool:
        """Whether a line has the words that go with its number, so that it may blame hardware."""
        for witness in witnesses:
            sign = witness.sign
            if sign.id == "nvrm_off_bus":
                return True
            text = sign.fields.get("rest", "").lower()
            if any(word in text for word in WORDS.get(number(sign), ())):
                return True
        return False

    @once
    def felt(self) -> Fact:
        """The program failed at the GPU, or the driver names one of the job's processes."""
        says = "the program failed at the GPU"
        named = [w.sign for w in self._named]
        by_pid = true(says, named) if named else unknown(says, "no Xid names a task of the job", self.log.how)
        return any_of(says, by_pid, self.telling.last_word(says, *KIN))

    def seen(self, says: str, witnesses: Iterable[Witness]) -> Fact:
        """Whether the driver printed it."""
        return self.kernel.seen(says, witnesses)

    def tells(self, says: str, witnesses: Iterable[Witness]) -> Fact:
        """It likely ended the job."""
        return self.kernel.tells(says, witnesses, self.felt, *KIN)

    def proves(self, says: str, witnesses: Iterable[Witness]) -> Fact:
        """It surely ended the job: in its time, on its node, and felt by it."""
        return self.kernel.proves(says, witnesses, self.felt)

    def blames(self, says: str, witnesses: Iterable[Witness]) -> bool:
        """Whether lines close to the job's end, or alone in the evidence, blame the hardware in words."""
        near = self.kernel.near(witnesses, self.felt)
        return bool(self.tells(says, near).holds) and self.spelled_out(near)

    def apart_from(self, says: str, *numbers: int) -> Fact:
        """The driver printed one of these Xids too, of a GPU of the job: the one in question follows it.

        Unknown where that line may be another GPU's, or does not surely stand close to the job's end, or may be lost.
        """
        found = self.xids(*numbers)
        counted = self.kernel.near(found, self.felt)
        if counted:
            return true(says, [w.sign for w in counted[:2]])
        if any(w.ours is not False for w in found):
            return unknown(says, "it is not known to be about this job's GPU and end", HOW)
        if self.kernel.lost():
            return unknown(says, f"no such Xid is left; {LOST}", ELSEWHERE)
        return false(says, "no such Xid of the job's GPU was seen")

    # ------------------------------------------------------------------------------------------ NVLink and fabric

    @once
    def nvlink_lines(self) -> tuple[Witness, ...]:
        """Lines that report a fault of NVLink or of an NVSwitch; an SXid that the driver calls non-fatal is none."""
        fatal = self.kernel.of("nvidia_sxid", where=lambda s: s.fields.get("class") == "Fatal", lasting=True)
        switch = self.kernel.of("nvidia_fabric", where=lambda s: "failure" in s.fields, lasting=True)
        links = tuple(replace(w, ours=True) for w in self.xids(*NVLINK))  # either end of a link may report it
        return (*switch, *fatal, *links)

    @once
    def switch_failed(self) -> bool:
        """The fabric manager itself reports a failed NVSwitch."""
        return any(w.sign.fields.get("failure", "").lower().startswith("nvswitch") for w in self.nvlink_lines)

    @once
    def fabric_lines(self) -> tuple[Witness, ...]:
        """Lines that say that the fabric is not up, without a fault of a link or switch."""
        return self.kernel.of("nvidia_fabric", where=lambda s: "gpu" in s.fields, lasting=True)

    @once
    def no_switch_to_manage(self) -> tuple[Witness, ...]:
        """The fabric manager found nothing to do: the node has no NVSwitch."""
        return self.kernel.of("nvidia_fabric", where=lambda s: "nothing" in s.fields, lasting=True)


def address(sign: Sign) -> str | None:
    """The PCI address of the GPU, `0000:3b:00` (drivers print it with and without the function), None if none."""
    pci = sign.fields.get("pci")
    return pci.lower().partition(".")[0] if pci else None


def _node(sign: Sign) -> str | None:
    return short(sign.node) if sign.node else None


def number(sign: Sign) -> int:
    """The Xid of a line, 79 for the bare text, 0 if there is none."""
    if sign.id.endswith("nvrm_off_bus"):
        return OFF_BUS[0]
    text = sign.fields.get("xid", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
