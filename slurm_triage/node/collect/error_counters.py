"""Counters of hardware errors: `counters.<node>.txt`, as differences from a baseline of the same boot.

A counter alone says nothing: most nodes have corrected errors of years ago. So what is there is kept in a file of root,
and what has grown since is told with the time of that baseline. It moves on with each round; without one of this boot a
line says so. Whether the growth fell into the job is not known: it is support for what the kernel's log says.

Sources: Documentation/ABI/testing/sysfs-devices-edac, sysfs-bus-pci-devices-aer_stats, sysfs-class-net of the kernel.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slurm_triage.node.collect import Budget, Collected, _files, _readings
from slurm_triage.node.job import Job

EDAC = "/sys/devices/system/edac/mc"
PCI = "/sys/bus/pci/devices"
NET = "/sys/class/net"
KEPT = "counters.json"
MOST = 4000
"""Most counters."""
GPU_OR_NIC = ("0x02", "0x03", "0x12")
"""PCI classes whose errors end jobs: network and InfiniBand, display (GPUs are 0x0302), accelerators."""

_TOTAL = re.compile(r"^TOTAL_ERR_\w+ (\d{1,20})$", re.MULTILINE)

_round: dict[str, Any] = {}


def collect(job: Job, budget: Budget) -> Collected:
    """What grew since the baseline; one difference for all jobs of a round."""
    if not _round or not budget.now or _round["now"] != budget.now:
        _round.update(now=budget.now, found=_difference(Path(budget.state) / KEPT))
    lines, problems = _round["found"]
    name = f"counters.{job.node}.txt"
    found = Collected(not_seen=[f"{name}: {problem}" for problem in problems])
    if lines:
        found.files[name] = _readings.written(job.node, time.time(), lines)
    return found


def _difference(path: Path) -> tuple[list[_readings.Line], list[str]]:
    """Lines of the counters that grew, or one that says since when none did; then the baseline moves on."""
    now = {name: value for (name, value), _ in zip(counters(), range(MOST))}
    if not now:
        return [], []
    boot, before = _files.boot_id(), _files.recall(path)
    old, since = before.get("counters"), before.get("at")
    problems = []
    if not boot or before.get("boot_id") != boot or not isinstance(old, dict) or not isinstance(since, (int, float)):
        lines: list[_readings.Line] = [("baseline", {"counters": len(now), "since": "unknown"})]
        problems.append("not known what grew: no baseline of this boot yet")
    else:
        lines = [("baseline", {"counters": len(now), "since": f"{since:.3f}"})]
        for name, value in now.items():
            was = old.get(name)
            if isinstance(was, int) and value > was:
                lines.append(("counter", {"name": name, "now": value, "grew": value - was, "since": f"{since:.3f}"}))
    problem = _files.keep(path, {"boot_id": boot, "at": time.time(), "counters": now})
    if problem:
        problems.append(f"the baseline could not be kept: {problem}")
    return lines, problems


def counters() -> Iterator[tuple[str, int]]:
    """(name, value): `edac/mc0/dimm3/ce`, `aer/0000:3b:00.0/fatal`, `net/ib0/carrier_down`."""
    yield from _edac()
    yield from _aer()
    for name in _files.names(NET):
        value = _files.number(f"{NET}/{name}/carrier_down_count")
        if value is not None and (Path(NET) / name / "device").exists():
            yield f"net/{name}/carrier_down", value


def _edac() -> Iterator[tuple[str, int]]:
    for mc in (name for name in _files.names(EDAC) if re.fullmatch(r"mc\d{1,4}", name)):
        for kind in ("ce", "ue"):
            value = _files.number(f"{EDAC}/{mc}/{kind}_count")
            if value is not None:
                yield f"edac/{mc}/{kind}", value
        for dimm in (name for name in _files.names(f"{EDAC}/{mc}") if re.fullmatch(r"(?:dimm|rank)\d{1,4}", name)):
            label = re.sub(r"[^\w#.-]+", "_", _files.text(f"{EDAC}/{mc}/{dimm}/dimm_label", 64) or "")
            for kind in ("ce", "ue"):
                value = _files.number(f"{EDAC}/{mc}/{dimm}/dimm_{kind}_count")
                if value is not None:
                    yield f"edac/{mc}/{dimm}{f'({label})' if label else ''}/{kind}", value


def _aer() -> Iterator[tuple[str, int]]:
    for address in _files.names(PCI):
        if not (_files.text(f"{PCI}/{address}/class", 16) or "").startswith(GPU_OR_NIC):
            continue
        for kind in ("fatal", "nonfatal", "correctable"):
            total = _TOTAL.search(_files.text(f"{PCI}/{address}/aer_dev_{kind}", 4096) or "")
            if total:
                yield f"aer/{address}/{kind}", int(total[1])
