"""GPUs: what the driver reported (Xid, SXid, fabric), what the program felt of it.

Numbers alone decide little. Many Xids only follow another one, and the order of their lines is not guaranteed
(NVIDIA's Xid catalogue; open-gpu-kernel-modules): 43 and 109 after 13 or 31, 45 after anything that removes a process
(a plain kill too), 154 after its parent, 63 and 64 beside the memory error that caused them, 74 and 119 after 79.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from slurm_triage.facts._kernel import ELSEWHERE, HOW, LOST, Kernel, Witness
from slurm_triage.facts._logic import all_of, any_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import short
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.limits import Limits
from slurm_triage.facts.log import Log
from slurm_triage.facts.telling import Telling
from slurm_triage.knowledge import nvlink5
from slurm_triage.knowledge.nvidia import DECIDES, OPEN, sxids, xids
from slurm_triage.model import Fact, Sign

OFF_BUS = "gpu_fallen_off_bus"
MEMORY = "gpu_ecc_uncorrectable"
CONTAINED = "gpu_ecc_contained"
ROW_REMAP = "gpu_row_remap_pending"
NVLINK = "nvlink_error"
"""Causes whose numbers are asked for here; which numbers those are, `knowledge/nvidia_xid.csv` says."""

LASTING = (OFF_BUS, ROW_REMAP)
"""Causes whose Xids tell of a state that stays until a reset or a reboot."""
PREVIOUS = re.compile(r"caused by previous Xid (\d{1,5})\b")
"""In an Xid 45: what the channels were removed for (open modules from 570.123.01 on, kernel_rc.c)."""
SAME_EVENT = 1.0
"""Seconds within which the GPUs of a node tell of one event of their fabric."""
MANY = 3
"""Processes on one GPU whose faults are no longer taken for one user's bad luck."""
OUTLIVES = 60.0
"""Seconds after the job's end from which on a process that the driver names was none of the job's."""

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

NAME_PIDS = ("shell_signal", "torchrun_child_failed", "torchrun_failure_detail", "torchrun_closing_signal")
"""Families in which the job's shell and launcher name its processes."""


class Gpu:
    """Xids and GPU errors of the attempt."""

    def __init__(self, log: Log, exits: Exits, telling: Telling, kernel: Kernel, limits: Limits) -> None:
        self.log = log
        self.exits = exits
        self.telling = telling
        self.kernel = kernel
        self.limits = limits

    # ------------------------------------------------------------------------------------------ the driver's lines

    def xids(self, *causes: str, roles: tuple[str, ...] = DECIDES) -> tuple[Witness, ...]:
        """Kernel lines with an Xid that speaks for one of these causes; the text of 79 counts without its number."""
        if not self.log.of("nvidia_xid", "nvrm_off_bus"):
            return ()
        numbers = xids(*causes, roles=roles)
        stay = numbers & xids(*LASTING)
        found = self.kernel.of("nvidia_xid", where=lambda s: number(s) in stay, lasting=True)
        found += self.kernel.of("nvidia_xid", where=lambda s: number(s) in numbers and number(s) not in stay)
        if OFF_BUS in causes and "first" in roles:
            found += self.kernel.of("nvrm_off_bus", lasting=True)
        found = tuple(replace(w, ours=self._is_ours(w.sign)) for w in found if not self._of_another_process(w.sign))
        return tuple(sorted(found, key=lambda w: (w.sign.cite.file, w.sign.cite.line)))

    def left_open(self, cause: str) -> tuple[Witness, ...]:
        """Kernel lines with an Xid of which not even the vendor says what is behind it; this cause may be."""
        return self.xids(cause, roles=OPEN)

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
        if self._named_another(sign):
            return None
        pci, node = address(sign), _node(sign)
        own = {p for n, p in self._own if None in (n, node) or n == node}
        if not own or pci is None or pci in own:
            return True
        return None if self.exits.records.several else False

    @once
    def mmu_faults(self) -> tuple[Witness, ...]:
        """Lines that tell of a memory fault without the number of an Xid beside it (a broken or shortened line)."""
        numbered = {(s.cite.file, s.cite.line) for s in self.log.of("nvidia_xid")}
        return self.kernel.of("nvidia_mmu_fault", where=lambda s: (s.cite.file, s.cite.line) not in numbered)

    def quoted(self, *causes: str) -> tuple[Sign, ...]:
        """The same lines where somebody printed them into the job's output: the program's word, not the kernel's."""
        lines = self.log.of("quoted_nvidia_xid")
        numbers = xids(*causes) if lines else frozenset()
        found = [s for s in lines if number(s) in numbers]
        if OFF_BUS in causes:
            found += self.log.of("quoted_nvrm_off_bus")
        return tuple(found)

    # ------------------------------------------------------------------------------------------ whose process

    @once
    def _task_pids(self) -> frozenset[str]:
        return frozenset(str(t.pid) for t in self.exits.tasks if t.pid)

    @once
    def _printed_pids(self) -> frozenset[str]:
        """Processes that the job's shell and launcher name. In a container their numbers are none of the kernel's."""
        return frozenset(s.fields["pid"] for s in self.log.of(*NAME_PIDS) if s.fields.get("pid"))

    def _of_another_process(self, sign: Sign) -> bool:
        """Whether the driver names a process that was there before the job, or still is well after it."""
        pid = sign.fields.get("pid")
        return pid is not None and (_node(sign), pid) in self._outliving

    @once
    def _outliving(self) -> frozenset[tuple[str | None, str]]:
        """Processes, by node, that a line of the driver surely names before the job's start or well after its end."""
        start, end = self.kernel.attempt.start, self.kernel.attempt.end
        found = set()
        for sign in self.log.of("nvidia_xid"):
            pid, at = sign.fields.get("pid"), sign.at
            if pid is None or pid == "0" or at is None or pid in self._task_pids:
                continue
            before = start is not None and start.zoned == at.zoned and at.hi < start.lo - OUTLIVES
            after = end is not None and end.zoned == at.zoned and at.lo > end.hi + OUTLIVES
            if before or after:
                found.add((_node(sign), pid))
        return frozenset(found)

    def _named_another(self, sign: Sign) -> bool:
        """Whether the driver names a process that is none of the tasks, whose numbers are known. A child of a task is
        none either: nothing but what the program felt then ties the line to the job."""
        pid = sign.fields.get("pid")
        if pid is None or pid == "0" or not self._task_pids:
            return False
        return pid not in self._task_pids and pid not in self._printed_pids

    def _felt_anyway(self, witnesses: Iterable[Witness]) -> tuple[Witness, ...]:
        """Lines that name an unknown process count, short of a proof, where the program itself failed at the GPU."""
        if not self.felt.holds:
            return tuple(witnesses)
        return tuple(replace(w, ours=True) if w.ours is None and self._named_another(w.sign) else w for w in witnesses)

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
        return self.kernel.tells(says, self._felt_anyway(witnesses), self.felt, *KIN)

    def proves(self, says: str, witnesses: Iterable[Witness]) -> Fact:
        """It surely ended the job: in its time, on its node, and felt by it."""
        return self.kernel.proves(says, witnesses, self.felt)

    def blames(self, says: str, witnesses: Iterable[Witness]) -> bool:
        """Whether lines close to the job's end, or alone in the evidence, blame the hardware in words."""
        near = self.kernel.near(witnesses, self.felt)
        return bool(self.tells(says, near).holds) and self.spelled_out(near)

    def apart_from(self, says: str, *causes: str) -> Fact:
        """The driver printed an Xid of one of these causes too, of a GPU of the job: the one in question follows it.

        Unknown where that line may be another GPU's, or does not surely stand close to the job's end, or may be lost.
        """
        found = self.xids(*causes)
        counted = self.kernel.near(found, self.felt)
        if counted:
            return true(says, [w.sign for w in counted[:2]])
        if any(w.ours is not False for w in found):
            return unknown(says, "it is not known to be about this job's GPU and end", HOW)
        if self.kernel.lost():
            return unknown(says, f"no such Xid is left; {LOST}", ELSEWHERE)
        return false(says, "no such Xid of the job's GPU was seen")

    @once
    def across_programs(self) -> Fact:
        """A GPU on which the job's code faulted, faulted under other programs too, before or after it.

        One program faults wherever it runs; one GPU that faults under programs that have nothing in common is suspect
        (NVIDIA's Xid catalogue, workflows of 13 and 31). The kernel names at most 15 characters of a program.
        """
        says = "the same GPU faulted under other programs too"
        mine = {(_node(w.sign), address(w.sign)) for w in self.xids("gpu_app_fault") if w.ours}
        for gpu in mine:
            numbers = xids("gpu_app_fault")
            lines = [s for s in self.log.of("nvidia_xid") if number(s) in numbers and (_node(s), address(s)) == gpu]
            lines = [s for s in lines if s.fields.get("pid") and s.fields.get("name")]
            if len({s.fields["name"] for s in lines}) > 1 and len({s.fields["pid"] for s in lines}) >= MANY:
                return true(says, [lines[0], lines[-1]])
        return unknown(says, "no such lines were seen", "journalctl -k on the node: Xids of that GPU in other jobs")

    # ------------------------------------------------------------------------------------------ NVLink and fabric

    @once
    def nvlink_lines(self) -> tuple[Witness, ...]:
        """Lines that report a fault of NVLink or of an NVSwitch; an SXid that ends no job is none."""
        fatal = self.kernel.of("nvidia_sxid", where=is_fatal, lasting=True)
        switch = self.kernel.of("nvidia_fabric", where=lambda s: "failure" in s.fields, lasting=True)
        found = (w for w in self.xids(NVLINK) if not nvlink5.harmless(number(w.sign), w.sign.fields.get("rest", "")))
        links = tuple(replace(w, ours=True) for w in found)  # either end of a link may report it
        return (*switch, *fatal, *links)

    @once
    def nvlink_left_open(self) -> tuple[Witness, ...]:
        """Lines of links and switches of which the sources disagree whether they end a job."""
        switch = self.kernel.of("nvidia_sxid", where=lambda s: _sxid(s) in sxids(NVLINK, roles=OPEN))
        return (*switch, *self.left_open(NVLINK))

    @once
    def gpus_at_once(self) -> int:
        """How many GPUs of a node report a fault of their links within the same second: their fabric failed, not one
        of them. 0 or 1 where they do not."""
        most = 0
        by_node: dict[str | None, list[tuple[float, str | None]]] = {}
        for witness in self.nvlink_lines:
            if witness.sign.id == "nvidia_xid" and witness.sign.at is not None:
                by_node.setdefault(_node(witness.sign), []).append((witness.sign.at.lo, address(witness.sign)))
        for lines in by_node.values():
            open_: dict[str | None, float] = {}  # when each GPU last reported
            for at, gpu in sorted(lines, key=lambda line: line[0]):
                open_ = {g: last for g, last in open_.items() if at - last <= SAME_EVENT} | {gpu: at}
                most = max(most, len(open_))
        return most

    @once
    def first_of_peers(self) -> str | None:
        """The one GPU whose link names a reason of its own, where those of all others only lost their peer."""
        lines = [w.sign for w in self.nvlink_lines if number(w.sign) == nvlink5.LINK_EVENT]
        own = {address(s) for s in lines if not nvlink5.of_peer(nvlink5.LINK_EVENT, s.fields.get("rest", ""))}
        return own.pop() if len(own) == 1 and len({address(s) for s in lines}) > 1 else None

    @once
    def switch_failed(self) -> bool:
        """The fabric manager itself reports a failed NVSwitch."""
        return any(w.sign.fields.get("failure", "").lower().startswith("nvswitch") for w in self.nvlink_lines)

    @once
    def fabric_lines(self) -> tuple[Witness, ...]:
        """Lines that say that the fabric is not up, without a fault of a link or switch."""
        return self.kernel.of("nvidia_fabric", where=lambda s: "gpu" in s.fields, lasting=True)

    def kept_from_starting(self, says: str, witnesses: Iterable[Witness]) -> Fact:
        """The node's fabric was down, before or while the job ran, and the program ended on CUDA's error 802.

        Only a fabric that is not up gives that error, and only to who starts: it is not the echo of another failure.
        """
        found = [w.sign for w in witnesses if w.ours and w.place in ("inside", "open")]
        if not found:
            return unknown(says, "no line about the fabric of the job's node was seen", HOW)
        refused = self.telling.last_word("CUDA found the fabric not initialized", "cuda_not_initialized_802")
        return all_of(says, true(says, found[:3]), refused, self.telling.program.failed_by_itself)

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
    """The Xid of a line, 79 for the bare text, 0 if there is none; of a 45 that names what it follows, that number."""
    if sign.id.endswith("nvrm_off_bus"):
        return 79
    if previous := PREVIOUS.search(sign.fields.get("rest", "")):
        return int(previous[1])
    return _digits(sign.fields.get("xid", ""))


def _sxid(sign: Sign) -> int:
    return _digits(sign.fields.get("sxid", ""))


def is_fatal(sign: Sign) -> bool:
    """The driver's own word where it prints one; else what is known of the number."""
    said = sign.fields.get("class")
    return said == "Fatal" if said else _sxid(sign) in sxids(NVLINK)


def _digits(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
