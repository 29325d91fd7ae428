"""Counters of errors: only what grew in this boot is told, and that nothing can be said without a baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_triage.case import from_files
from slurm_triage.model import Reading
from slurm_triage.node.collect import Budget, Collected, _files, error_counters
from slurm_triage.node.job import Job
from slurm_triage.sources import parse

JOB = Job("77", "c1", 1001, 1001)


class Node:
    """A node's /sys, and a folder for the baseline."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.state, self.boot = root / "sys", root / "state", "boot-1"
        self.state.mkdir()
        for name in ("EDAC", "PCI", "NET"):
            monkeypatch.setattr(error_counters, name, str(self.root / name))
        monkeypatch.setattr(_files, "boot_id", lambda: self.boot)
        self.now = 0.0

    def put(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def look(self) -> Collected:
        self.now += 1
        return error_counters.collect(JOB, Budget(now=self.now, state=str(self.state)))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path, monkeypatch)
    made.put("EDAC/mc0/ce_count", "4\n")
    made.put("EDAC/mc0/ue_count", "0\n")
    made.put("EDAC/mc0/dimm1/dimm_ce_count", "4\n")
    made.put("EDAC/mc0/dimm1/dimm_label", "CPU_SrcID#0 Chan#1\n")
    made.put("PCI/0000:3b:00.0/class", "0x030200\n")
    made.put("PCI/0000:3b:00.0/aer_dev_fatal", "Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 0\n")
    made.put("PCI/0000:00:1f.0/class", "0x060100\n")
    made.put("PCI/0000:00:1f.0/aer_dev_fatal", "TOTAL_ERR_FATAL 9\n")
    made.put("NET/ib0/carrier_down_count", "2\n")
    made.put("NET/ib0/device/x", "")
    made.put("NET/lo/carrier_down_count", "7\n")
    return made


def grown(found: Collected) -> dict[str, tuple[str, str]]:
    events = parse(from_files(found.files))[0]
    return {r.values["name"]: (r.values["now"], r.values["grew"]) for r in events if isinstance(r, Reading) and r.what == "counter"}  # fmt: skip


def test_the_first_look_of_a_boot_knows_nothing(node: Node) -> None:
    found = node.look()
    assert found.not_seen == ["counters.c1.txt: not known what grew: no baseline of this boot yet"]
    assert b"since=unknown" in found.files["counters.c1.txt"]
    assert grown(found) == {}


def test_only_what_grew_is_told_with_the_time_of_the_baseline(node: Node) -> None:
    node.look()
    before = json.loads((node.state / error_counters.KEPT).read_text())["at"]
    node.put("EDAC/mc0/ce_count", "11\n")
    node.put("EDAC/mc0/dimm1/dimm_ce_count", "11\n")
    node.put("PCI/0000:3b:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 1\n")
    found = node.look()
    assert grown(found) == {
        "edac/mc0/ce": ("11", "7"),
        "edac/mc0/dimm1(CPU_SrcID#0_Chan#1)/ce": ("11", "7"),
        "aer/0000:3b:00.0/fatal": ("1", "1"),
    }
    assert f"since={before:.3f}".encode() in found.files["counters.c1.txt"]
    assert found.not_seen == []
    assert grown(node.look()) == {}  # told once


def test_all_jobs_of_a_round_are_told_the_same(node: Node) -> None:
    node.look()
    node.put("EDAC/mc0/ue_count", "1\n")
    first = node.look()
    again = error_counters.collect(JOB, Budget(now=node.now, state=str(node.state)))
    assert grown(first) == grown(again) == {"edac/mc0/ue": ("1", "1")}


def test_a_baseline_of_another_boot_is_none(node: Node) -> None:
    node.look()
    node.boot = "boot-2"
    node.put("EDAC/mc0/ce_count", "99\n")
    assert grown(node.look()) == {}
    assert grown(node.look()) == {}


@pytest.mark.parametrize("kept", ["", "{", "[]", '{"boot_id": "boot-1", "counters": 5, "at": 1}', '{"boot_id": "boot-1", "counters": {"edac/mc0/ce": "x"}, "at": 1}'])  # fmt: skip
def test_a_baseline_that_cannot_be_read_is_none(kept: str, node: Node) -> None:
    (node.state / error_counters.KEPT).write_text(kept)
    assert grown(node.look()) == {}


def test_a_baseline_that_others_can_write_or_that_is_a_link_is_not_believed(node: Node) -> None:
    node.look()
    path = node.state / error_counters.KEPT
    path.chmod(0o666)
    node.put("EDAC/mc0/ce_count", "11\n")
    assert grown(node.look()) == {}
    path.rename(node.state / "other")
    path.symlink_to(node.state / "other")
    node.put("EDAC/mc0/ce_count", "12\n")
    assert grown(node.look()) == {}
    assert not path.is_symlink()


def test_a_folder_that_is_not_there_is_said(node: Node) -> None:
    found = error_counters.collect(JOB, Budget(now=9.0, state="/none"))
    assert any("could not be kept" in said for said in found.not_seen)


def test_a_node_without_counters_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Node(tmp_path, monkeypatch).look()
    assert (found.files, found.not_seen) == ({}, [])


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 40, "1 2", "\xff"])
def test_odd_counters_are_none(text: str, node: Node) -> None:
    node.put("EDAC/mc0/ce_count", text)
    assert "edac/mc0/ce" not in dict(error_counters.counters()) or text == "9" * 40
