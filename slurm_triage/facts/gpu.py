"""GPUs: what the driver reported (Xid, SXid, fabric), what the program felt of it.

Numbers alone decide little. Many Xids only follow another one, and the order of their lines is not guaranteed
(NVIDIA's Xid catalogue; open-gpu-kernel-modules): 43 and 109 after 13 or 31, 45 after anything that removes a process
(a plain kill too), 154 after its parent, 63 and 64 beside the memory error that caused them, 74 and 119 after 79.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from slurm_triage.attempts import Attempt
from slurm_triage.facts._kernel import Kernel, Witness
from slurm_triage.facts._logic import any_of, false, true, unknown
from slurm_triage.facts.exits import Exits
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
CHANNEL_RESET, CONTEXT_SWITCH = 43, 109

WORDS = {
    79: ("fallen off the bus",),
    48: ("double bit error", "dbe", "uncorrectable", "ecc"),
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

    def __init__(self, attempt: Attempt, log: Log, exits: Exits, telling: Telling, kernel: Kernel) -> None:
        self.attempt = attempt
        self.log = log
        self.exits = exits
        self.telling = telling
        self.kernel = kernel

    # ------------------------------------------------------------------------------------------ the driver's lines

    def xids(self, *numbers: int) -> tuple[Witness, ...]:
        """Kernel lines with one of these Xids; the text of 79 counts without its number too."""
        lasting = any(n in (*OFF_BUS, *ROW_REMAP) for n in numbers)
        found = self.kernel.of("nvidia_xid", where=lambda s: number(s) in numbers, lasting=lasting)
        if any(n in OFF_BUS for n in numbers):
            found += self.kernel.of("nvrm_off_bus", lasting=True)
        return found

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

    @cached_property
    def felt(self) -> Fact:
        """The program failed at the GPU, or the driver names one of the job's processes."""
        says = "the program failed at the GPU"
        pids = {str(t.pid) for t in self.exits.tasks if t.pid}
        named = [s for s in self.log.of("nvidia_xid") if s.fields.get("pid") in pids and number(s) != 45]
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

    def apart_from(self, says: str, *numbers: int) -> Fact:
        """The driver printed one of these Xids too: the one in question follows it."""
        found = self.xids(*numbers)
        if found:
            return true(says, [w.sign for w in found[:2]])
        return false(says, "no such Xid was seen")

    # ------------------------------------------------------------------------------------------ NVLink and fabric

    @cached_property
    def nvlink_lines(self) -> tuple[Witness, ...]:
        """Lines that report a fault of NVLink or of an NVSwitch; an SXid that the driver calls non-fatal is none."""
        fatal = self.kernel.of("nvidia_sxid", where=lambda s: s.fields.get("class") == "Fatal", lasting=True)
        switch = self.kernel.of("nvidia_fabric", where=lambda s: "failure" in s.fields, lasting=True)
        return (*switch, *fatal, *self.xids(*NVLINK))

    @cached_property
    def switch_failed(self) -> bool:
        """The fabric manager itself reports a failed NVSwitch."""
        return any(w.sign.fields.get("failure", "").lower().startswith("nvswitch") for w in self.nvlink_lines)

    @cached_property
    def fabric_lines(self) -> tuple[Witness, ...]:
        """Lines that say that the fabric is not up, without a fault of a link or switch."""
        return self.kernel.of("nvidia_fabric", where=lambda s: "gpu" in s.fields, lasting=True)

    @cached_property
    def no_switch_to_manage(self) -> tuple[Witness, ...]:
        """The fabric manager found nothing to do: the node has no NVSwitch."""
        return self.kernel.of("nvidia_fabric", where=lambda s: "nothing" in s.fields, lasting=True)


def number(sign: Sign) -> int:
    """The Xid of a line, 79 for the bare text, 0 if there is none."""
    if sign.id.endswith("nvrm_off_bus"):
        return OFF_BUS[0]
    text = sign.fields.get("xid", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
