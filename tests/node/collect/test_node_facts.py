"""What machine the node is: written a member a line, and read again by the engine."""

from __future__ import annotations

import json
import os

import pytest

from slurm_triage.case import from_files
from slurm_triage.model import Reading, Unreadable
from slurm_triage.node.collect import Budget, _files, node_facts
from slurm_triage.node.job import Job
from slurm_triage.sources import parse

JOB = Job("77", "c1", 1001, 1001)
VERSION = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)
GCC version:  gcc version 12.3.0
"""


def reading(data: bytes, name: str = "node.c1.json") -> Reading:
    (found,) = (e for e in parse(from_files({name: data}))[0] if isinstance(e, Reading))
    return found


def test_this_machine() -> None:
    found = node_facts.collect(JOB, Budget())
    data = found.files["node.c1.json"]
    values = json.loads(data)
    assert values["machine"] == os.uname().machine and values["page_size"] == os.sysconf("SC_PAGE_SIZE")
    assert values["memory"] > 0 and values["boot_time"] > 1_000_000_000 and values["numa_nodes"] != 0
    assert found.manifest == {"page_size": values["page_size"]}
    said = reading(data)
    assert (said.node, said.values["machine"], said.number("page_size")) == (
        "c1",
        values["machine"],
        values["page_size"],
    )
    assert said.cites["machine"].text == f'"machine": "{values["machine"]}",'


@pytest.mark.parametrize(
    ("text", "driver"), [(VERSION, "550.54.15"), ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82  x", "470.82"), ("", None), ("x" * 9000, None)]
)  # fmt: skip
def test_the_driver_by_its_own_file(text: str, driver: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "text", lambda path, limit=0: text if path == node_facts.NVIDIA else None)
    found = node_facts.facts()
    assert found["nvidia_driver"] == driver
    assert found["memory"] is None and found["boot_time"] is None  # what cannot be read is null, not a guess


@pytest.mark.parametrize(
    "line", ['"machine": "aarch64", "x": "y"', '"machine": [[[[', '"machine": "a', '"machine": ' + "[" * 900]
)
def test_a_damaged_member_stops_no_other(line: str) -> None:
    data = f'{{\n"format": "slurm-triage node 1",\n{line},\n"page_size": 65536,\n"machine": "x86_64"\n}}\n'.encode()
    events = parse(from_files({"node.c1.json": data}))[0]
    (said,) = (e for e in events if isinstance(e, Reading))
    assert said.values["page_size"] == "65536" and said.values["machine"] == "x86_64"
    assert all(isinstance(e, (Reading, Unreadable)) for e in events)


def test_a_job_that_prints_such_a_file_says_nothing_of_the_node() -> None:
    data = node_facts.collect(JOB, Budget()).files["node.c1.json"]
    for name in ("job.out", "slurm-77.out", "out/x"):
        assert not [e for e in parse(from_files({name: data}))[0] if isinstance(e, Reading)]
