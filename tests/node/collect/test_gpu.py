"""Which GPU sits where, after it is gone too; and NVML, which may hang, lie or be missing."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from slurm_triage.case import from_files
from slurm_triage.model import Reading
from slurm_triage.node.collect import Budget, Collected, _files, gpu
from slurm_triage.node.job import Job
from slurm_triage.sources import parse

JOB = Job("77", "c1", 1001, 1001)
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
INFORMATION = f"""Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 321
GPU UUID: \t {UUID}
Video BIOS: \t 96.00.74.00.01
Bus Type: \t PCIe
DMA Size: \t 52 bits
Bus Location: \t 0000:3b:00.0
Device Minor: \t 3
GPU Firmware: \t 535.129.03
GPU Excluded:\t No
"""


class Node:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver, self.state, self.now = root / "nvidia", root / "state", 0.0
        self.state.mkdir()
        monkeypatch.setattr(gpu, "DRIVER", str(self.driver))
        monkeypatch.setattr(_files, "boot_id", lambda: "boot-1")
        monkeypatch.setitem(sys.modules, "pynvml", None)

    def put(self, address: str, text: str) -> Path:
        path = self.driver / "gpus" / address / "information"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return path

    def look(self, seconds: float = 5.0) -> Collected:
        self.now += 1
        return gpu.collect(JOB, Budget(now=self.now, seconds=seconds, state=str(self.state)))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def readings(found: Collected) -> list[Reading]:
    return [e for e in parse(from_files(found.files))[0] if isinstance(e, Reading)]


def test_without_the_driver_there_is_nothing_to_say(node: Node) -> None:
    found = node.look()
    assert (found.files, found.not_seen) == ({}, [])


def test_address_uuid_minor_and_model(node: Node) -> None:
    node.put("0000:3b:00.0", INFORMATION)
    found = node.look()
    (said,) = readings(found)
    assert (said.what, said.node) == ("gpu", "c1")
    assert dict(said.values) == {
        "pci": "0000:3b:00.0", "uuid": UUID, "minor": "3", "model": "NVIDIA H100 80GB HBM3", "vbios": "96.00.74.00.01",
    }  # fmt: skip
    assert found.not_seen == [
        "gpu.c1.txt: counts of memory errors: nvidia-ml-py is not installed for the agent's Python"
    ]


def test_a_gpu_that_is_gone_is_still_known_by_its_address(node: Node) -> None:
    path = node.put("0000:3b:00.0", INFORMATION)
    node.look()
    path.unlink()
    path.parent.rmdir()
    (said,) = readings(node.look())
    assert (said.values["uuid"], said.values["state"]) == (UUID, "gone")


def test_a_uuid_that_the_driver_does_not_know_is_left_out(node: Node) -> None:
    node.put("0000:3b:00.0", "Model: \t NVIDIA H100\nGPU UUID: \t GPU-????????-????-????-????-????????????\n")
    assert "uuid" not in readings(node.look())[0].values


def test_odd_files_make_no_lines(node: Node) -> None:
    node.put("not an address", INFORMATION)
    node.put("0000:3c:00.0", "Model: a\x1b[31m\x00 b\nmodel=evil uuid=x\n" * 3)
    data = node.look().files["gpu.c1.txt"]
    assert data.count(b"\n") == 2 and b"\x1b" not in data


def nvml(monkeypatch: pytest.MonkeyPatch, count: object) -> None:
    made = ModuleType("pynvml")

    def unknown(*_: object) -> None:
        raise RuntimeError("not supported")

    values = {
        "nvmlInit": lambda: None, "nvmlDeviceGetCount": count, "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda h: UUID.encode(), "nvmlDeviceGetPciInfo": lambda h: SimpleNamespace(busId=b"00000000:3B:00.0"),
        "nvmlDeviceGetTotalEccErrors": lambda h, kind, counter: 10 * kind + counter, "nvmlDeviceGetRemappedRows": lambda h: (0, 2, 1, 0),
        "nvmlDeviceGetRetiredPagesPendingStatus": unknown, "NVML_MEMORY_ERROR_TYPE_CORRECTED": 0,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1, "NVML_VOLATILE_ECC": 0, "NVML_AGGREGATE_ECC": 1,
    }  # fmt: skip
    for name, value in values.items():
        setattr(made, name, value)
    monkeypatch.setitem(sys.modules, "pynvml", made)


def test_counts_of_nvml(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml(monkeypatch, lambda: 1)
    node.put("0000:3b:00.0", INFORMATION)
    found = node.look()
    said = readings(found)[-1]
    assert (said.what, said.number("uncorrected_aggregate"), said.number("remapping_pending")) == ("gpu_memory", 11, 1)
    assert "retirement_pending" not in said.values and found.not_seen == []


def test_nvml_that_hangs_costs_a_child(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml(monkeypatch, lambda: time.sleep(60))
    node.put("0000:3b:00.0", INFORMATION)
    began = time.monotonic()
    found = node.look(seconds=0.3)
    assert time.monotonic() - began < 3.0
    assert found.not_seen == ["gpu.c1.txt: counts of memory errors: NVML gave no answer within 0.3 seconds"]
    assert len(readings(found)) == 1


def test_nvml_that_fails_is_said(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml(monkeypatch, lambda: 1 // 0)
    node.put("0000:3b:00.0", INFORMATION)
    assert "NVML gave no answer" in node.look().not_seen[0]
