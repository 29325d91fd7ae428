"""The kernel's log of a node: OOM kills joined from their lines, and every line that the catalog knows.

Reads what dmesg, journalctl, syslog and /dev/kmsg print (see `_kernel_time`). Kills and signs of the kernel come only
from lines that the layout gives to the kernel: a line of another daemon in the same file counts only for the families
that name that daemon as a speaker, and a record that a program wrote into /dev/kmsg for none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slurm_triage.case import EvidenceFile
from slurm_triage.clock import Clock
from slurm_triage.model import Event, Sign
from slurm_triage.sources import Context, _catalog, _oom, _sluid
from slurm_triage.sources._kernel_time import Layout, Line, LineReader, node_of_file

KIND = "kernel_log"

_NAME = re.compile(r"(?:kmsg|dmesg|kern(?:el)?[._-]?(?:log|ring)?)(?:[._-].*)?", re.IGNORECASE)
_OUTPUT = re.compile(r"(?:.*/)?out/[^/]*|(?:.*/)?(?:job|client|slurm-)[^/]*|.*\.(?:out|err|stdout|stderr|o\d+|e\d+)")
_OF_KERNEL = frozenset({Layout.MONOTONIC, Layout.WALL, Layout.ISO, Layout.DELTA, Layout.RAW})
_USUAL = re.compile(
    r"Linux version \d|Command line: |BIOS-(?:provided|e820)|ACPI: |"
    r"(?:pci|pcieport|usb|nvme|mlx5_core|ata|scsi|sd)\b.{0,24}: |"
    r"audit: type=\d|(?:EXT4|BTRFS|F2FS)-fs[ :]|XFS \(|systemd(?:-\w{1,20})?\[\d{1,7}\]: |IPv6: |NET: |clocksource: |"
    r"smpboot: |Memory: \d{1,12}K|random: |microcode: |x86/\w|tsc: |cgroup: |docker0: |device \w{1,16} |"
    r"(?:CPU: \d{1,5} |Hardware name: |Call Trace:|RIP: |Modules linked in: |Mem-Info:|Kernel panic)"
)
"""How messages begin that any kernel log holds; with them a file of a neutral name is one."""
_SEPARATOR = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --")
"""What journalctl prints between boots."""
_PATHS = ("oom_memcg", "task_memcg", "memcg", "victim")
"""Fields of signs that are cgroup paths; the innermost that names a job decides whose line it is."""


def recognise(name: str, head: Sequence[str]) -> float:
    """0.95 where most lines have a kernel log's prefix, less for bare kernel messages; by name at least 0.6.

    At most 0.4 by the prefix alone (programs print `[12.345678] text`, too): a message of the kernel, the tag
    `kernel:` or the file's name must say so. Never more than 0.3 for a file whose name says that it is a job's output:
    jobs quote kernel lines.
    """
    base = name.rsplit("/", 1)[-1]
    named = _NAME.fullmatch(base) is not None
    lines = [line for line in head if line.strip()]
    if not lines:
        return 0.5 if named else 0.0
    reader, catalog = LineReader(Clock()), _catalog.load("kernel")
    prefixed = known = usual = 0
    for line in lines:
        read = reader.read(line)
        if read.layout in _OF_KERNEL or read.speaker == "kernel":
            prefixed += read.layout is not Layout.NONE
        if read.of_kernel and catalog.match(read.text):
            known += 1
        if read.of_kernel and (read.speaker == "kernel" or read.layout is Layout.RAW or _USUAL.match(read.text)):
            usual += 1
    sure = 0.0
    if prefixed >= 0.6 * len(lines):
        sure = 0.95
    elif prefixed or known:
        sure = min(0.8, 0.2 + max(prefixed, known) / len(lines))
    if not known and not usual:
        sure = min(sure, 0.4)
    if named:
        sure = max(0.6, min(1.0, sure + 0.1))
    elif _OUTPUT.fullmatch(name):
        sure = min(sure, 0.3)
    return sure


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """OOM kills and signs, by line. Bytes of a page come from `page_size` of the manifest, else 4096.

    The boot time of the manifest is that of the first boot in the file: stamps of a later one have no time.
    """
    page = context.manifest.values.get("page_size")
    if isinstance(page, bool) or not isinstance(page, int) or page <= 0:
        page = _oom.PAGE
    catalog = _catalog.load("kernel")
    joiner = _oom.Joiner(page)
    reader = LineReader(context.clock, node_of_file(file.name))
    boots = _Boots()
    found: list[Event] = []
    for number, raw in file.lines():
        line = boots.dated(reader.read(raw))
        if not line.text:
            continue
        cite = context.cite(KIND, file, number, raw, node=line.node, at=line.at)
        if line.of_kernel:
            found.extend(joiner.feed(line, cite))
        for signature, fields in catalog.match(line.text):
            if line.of_kernel or line.speaker in signature.speakers:
                job, step = _whose(signature.id, line.text, fields)
                if sluid := _sluid.read(job):
                    fields["sluid"] = sluid
                found.append(Sign(cite, job, step, id=signature.id, voice=signature.voice, fields=fields))
    found.extend(joiner.finish())
    # A kill is complete only after its last line; its place is that of the line that tells most.
    found.sort(key=lambda event: event.cite.line)
    yield from found


class _Boots:
    """Tells where a later boot begins: there the kernel's own stamps start again from zero."""

    def __init__(self) -> None:
        self._seen = False
        self._later = False
        self._own = False

    def dated(self, line: Line) -> Line:
        """The line, without a time that only the first boot's could have given it."""
        if line.layout is not Layout.NONE:  # a continuation is dated as the line before
            self._own = line.layout in (Layout.MONOTONIC, Layout.RAW)
        if _SEPARATOR.fullmatch(line.text) or (line.of_kernel and line.text.startswith("Linux version ")):
            self._later = self._later or self._seen
        elif line.seconds is not None:
            self._seen = True
        return replace(line, at=None) if self._later and self._own else line


def _whose(id: str, text: str, fields: dict[str, str]) -> tuple[str | None, str | None]:
    """Job and step of the cgroup path that the line names, if it names one of a job."""
    paths = [fields[key] for key in _PATHS if key in fields]
    if id == "oom_summary":
        said = _oom.summary(text)
        paths = [path for path in (said.task_memcg, said.oom_memcg) if path] if said else []
    for path in paths:
        where = _oom.cgroup_job(path)
        if where.job is not None:
            return where.job, where.step
    return None, None
