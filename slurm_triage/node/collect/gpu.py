"""The node's NVIDIA GPUs: `gpu.<node>.txt`. Which GPU sits at which PCI address, and its counts of memory errors.

The kernel's log names a GPU by its address; people, NVML and repair tickets by its UUID. The driver's files tell both
without waking a GPU. A GPU that fell off the bus leaves these files, so what was seen earlier in this boot is kept in a
file of root. Counts come from NVML, in a child: its calls hang when a GPU does.

Source: /proc/driver/nvidia of the driver (README, "The /proc/driver/nvidia interface"); NVML API reference.
"""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurm_triage.node.collect import Budget, Collected, _child, _files, _readings
from slurm_triage.node.job import Job

DRIVER = "/proc/driver/nvidia"
KEPT = "gpus.json"
NVML_SECONDS = 3.0
MOST = 64
"""Most GPUs of a node."""
KEYS = {"Model": "model", "GPU UUID": "uuid", "Device Minor": "minor", "Video BIOS": "vbios"}
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_round: dict[str, Any] = {}


def collect(job: Job, budget: Budget) -> Collected:
    """One file, the same for all jobs of a round; nothing on a node without the driver."""
    if not _round or not budget.now or _round["now"] != budget.now:
        _round.update(now=budget.now, found=_look(Path(budget.state) / KEPT, min(NVML_SECONDS, budget.seconds)))
    lines, problems = _round["found"]
    name = f"gpu.{job.node}.txt"
    found = Collected(not_seen=[f"{name}: {problem}" for problem in problems])
    if lines:
        found.files[name] = _readings.written(job.node, time.time(), lines)
    return found


def _look(path: Path, seconds: float) -> tuple[list[_readings.Line], list[str]]:
    if not Path(DRIVER).exists():
        return [], []  # no NVIDIA driver on this node: there is nothing to see
    seen, problems = identities(), []
    before = _files.recall(path)
    boot = _files.boot_id()
    old = before.get("gpus") if boot and before.get("boot_id") == boot else None
    known = (
        {str(pci): values for pci, values in old.items() if isinstance(values, dict)} if isinstance(old, dict) else {}
    )
    lines: list[_readings.Line] = []
    for pci, values in sorted({**known, **seen}.items())[:MOST]:
        lines.append(("gpu", {"pci": pci, **values, "state": None if pci in seen else "gone"}))
    merged = {**known, **seen}
    if merged != known:
        problem = _files.keep(path, {"boot_id": boot, "gpus": merged})
        if problem:
            problems.append(f"which GPUs there are could not be kept: {problem}")
    if seen:
        counts, problem = _counts(seconds)
        lines += [("gpu_memory", values) for values in counts]
        if problem:
            problems.append(f"counts of memory errors: {problem}")
    return lines, problems


def identities() -> dict[str, dict[str, str]]:
    """PCI address to model, UUID, minor number, as the driver's files tell it."""
    found = {}
    for address in _files.names(f"{DRIVER}/gpus", MOST):
        said = _files.text(f"{DRIVER}/gpus/{address}/information", 4096)
        if not said or not _ADDRESS.fullmatch(address.lower()):
            continue
        pairs = (line.partition(":") for line in said.splitlines())
        values = {KEYS[key.strip()]: value.strip() for key, _, value in pairs if key.strip() in KEYS}
        found[address.lower()] = {key: value for key, value in values.items() if value and "?" not in value}
    return found


def _counts(seconds: float) -> tuple[list[dict[str, Any]], str]:
    try:
        importlib.import_module("pynvml")
    except ImportError:
        return [], "nvidia-ml-py is not installed for the agent's Python"
    answer = _child.ask(_nvml, seconds)
    if answer is None:
        return [], f"NVML gave no answer within {seconds:g} seconds"
    try:
        found = json.loads(answer)
        return [{str(k): v for k, v in gpu.items() if isinstance(v, (str, int))} for gpu in found][:MOST], ""
    except (ValueError, AttributeError, TypeError):
        return [], "NVML's answer cannot be read"


def _nvml() -> bytes:
    """Counts of each GPU as JSON; what a GPU does not have is left out. In the child."""
    nvml: Any = importlib.import_module("pynvml")
    nvml.nvmlInit()
    found = []
    for index in range(min(MOST, nvml.nvmlDeviceGetCount())):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        found.append({key: value for key, ask in _questions(nvml).items() if (value := _told(ask, gpu)) is not None})
    return json.dumps(found).encode("ascii")


def _questions(nvml: Any) -> dict[str, Callable[[Any], Any]]:
    """What is asked of a GPU. `volatile` counts since the driver was loaded, `aggregate` over its life."""
    corrected, uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    volatile, aggregate = nvml.NVML_VOLATILE_ECC, nvml.NVML_AGGREGATE_ECC
    return {
        "uuid": lambda gpu: _text(nvml.nvmlDeviceGetUUID(gpu)),
        "pci": lambda gpu: _text(nvml.nvmlDeviceGetPciInfo(gpu).busId).lower(),
        "corrected_volatile": lambda gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, corrected, volatile),
        "uncorrected_volatile": lambda gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, uncorrected, volatile),
        "corrected_aggregate": lambda gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, corrected, aggregate),
        "uncorrected_aggregate": lambda gpu: nvml.nvmlDeviceGetTotalEccErrors(gpu, uncorrected, aggregate),
        "retirement_pending": lambda gpu: nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu),
        "rows_remapped_uncorrected": lambda gpu: nvml.nvmlDeviceGetRemappedRows(gpu)[1],
        "remapping_pending": lambda gpu: int(nvml.nvmlDeviceGetRemappedRows(gpu)[2]),
        "remapping_failed": lambda gpu: int(nvml.nvmlDeviceGetRemappedRows(gpu)[3]),
    }


def _told(ask: Callable[[Any], Any], gpu: Any) -> Any:
    try:
        return ask(gpu)
    except Exception:  # NVML raises errors of its own for what a GPU does not have
        return None


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
