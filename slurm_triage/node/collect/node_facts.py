"""What machine the node is: `node.<node>.json`, a JSON object with one member a line, so that each can be cited.

Read from /proc and /sys alone: no process, no wait. A member that could not be read is null.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import time
from typing import Any

from slurm_triage.node.collect import Budget, Collected, _files
from slurm_triage.node.job import Job

FORMAT = "slurm-triage node 1"
NVIDIA = "/proc/driver/nvidia/version"
_DRIVER = re.compile(r"Kernel Module\s.*?(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\s")
_MEMINFO = re.compile(r"^(MemTotal|SwapTotal):\s+(\d{1,15}) kB$", re.MULTILINE)
_CPUS = re.compile(r"^btime (\d{1,12})$", re.MULTILINE)
_UNSYNCHRONISED = 5
"""What adjtimex(2) returns for a clock that no server and no device keeps right (TIME_ERROR)."""

_kept: dict[str, Any] = {}


def collect(job: Job, budget: Budget) -> Collected:
    """One file, the same for all jobs of a round; and the size of a page for the manifest."""
    if not _kept or not budget.now or _kept["now"] != budget.now:
        _kept.update(now=budget.now, facts=facts())
    values = {"format": FORMAT, "node": job.node, **_kept["facts"]}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
    return Collected(
        files={f"node.{job.node}.json": f"{{\n{lines}\n}}\n".encode("ascii")},
        manifest={"page_size": values["page_size"]},
    )


def facts() -> dict[str, Any]:
    """The members of the file. Bytes, epochs; `clock_synchronised` is whether something keeps the clock right."""
    system = os.uname()
    memory = {key: int(kib) * 1024 for key, kib in _MEMINFO.findall(_files.text("/proc/meminfo") or "")}
    booted = _CPUS.search(_files.text("/proc/stat", 4 * 1024 * 1024) or "")
    driver = _DRIVER.search(_files.text(NVIDIA) or "")
    return {
        "taken_at": round(time.time(), 3),
        "machine": system.machine,
        "kernel": system.release,
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "boot_time": int(booted[1]) if booted else None,
        "boot_id": _files.boot_id() or None,
        "memory": memory.get("MemTotal"),
        "swap": memory.get("SwapTotal"),
        "cpus": os.cpu_count(),
        "numa_nodes": _numa_nodes(),
        "nvidia_driver": driver[1] if driver else None,
        "clock_source": _files.text("/sys/devices/system/clocksource/clocksource0/current_clocksource", 64),
        "clock_synchronised": _synchronised(),
    }


def _numa_nodes() -> int | None:
    nodes = [name for name in _files.names("/sys/devices/system/node") if re.fullmatch(r"node\d{1,5}", name)]
    return len(nodes) or None


def _synchronised() -> bool | None:
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))  # modes = 0: only asked; larger than timex
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONISED
