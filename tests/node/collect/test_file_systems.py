"""Room on the node's own file systems; those of servers are never asked."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurm_triage.case import from_files
from slurm_triage.model import Reading
from slurm_triage.node.collect import Budget, _slurm_conf, file_systems
from slurm_triage.node.job import Job
from slurm_triage.sources import parse

JOB = Job("77", "c1", 1001, 1001)
TABLE = """22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 0:21 / /dev/shm rw shared:2 - tmpfs tmpfs rw
24 22 0:45 / /tmp rw shared:3 - nfs4 server:/tmp rw
25 22 8:3 / /var/spool rw - xfs /dev/sda3 rw
26 22 8:4 / /odd\\040name\\012 rw - xfs /dev/sda4 rw
broken line - x
27 22
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The mount points whose room was asked."""
    (tmp_path / "mountinfo").write_text(TABLE)
    monkeypatch.setattr(file_systems, "MOUNTS", str(tmp_path / "mountinfo"))
    monkeypatch.setattr(
        _slurm_conf, "settings", lambda budget: {"tmpfs": "/odd name\n/%n", "slurmdspooldir": "/tmp/%h"}
    )
    calls: list[str] = []

    def statvfs(path: str) -> SimpleNamespace:
        calls.append(path)
        if path == "/dev/shm":
            raise OSError(5, "Input/output error")
        return SimpleNamespace(f_blocks=1000, f_bavail=10, f_frsize=4096, f_files=100, f_favail=50, f_flag=os.ST_RDONLY)

    monkeypatch.setattr(os, "statvfs", statvfs)
    return calls


def test_only_local_ones_are_asked_and_each_once(asked: list[str]) -> None:
    found = file_systems.collect(JOB, Budget(state="/var/spool/slurm-triage"))
    assert asked == ["/", "/dev/shm", "/odd name\n", "/var/spool"]
    data = found.files["filesystems.c1.txt"]
    assert data.count(b"\n") == 4  # nothing in a path makes a line
    said = [e for e in parse(from_files({"filesystems.c1.txt": data}))[0] if isinstance(e, Reading)]
    assert [r.values["path"] for r in said] == ["/", "/odd name\n", "/var/spool"]
    assert (said[0].node, said[0].number("size"), said[0].number("free")) == ("c1", 4_096_000, 40_960)
    assert said[0].values["read_only"] == "yes" and said[0].taken is not None and said[0].at is None
    assert sum("is on nfs4: not asked" in text for text in found.not_seen) == 2
    assert "filesystems.c1.txt: /dev/shm: Input/output error" in found.not_seen


def test_without_the_table_nothing_is_asked(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_systems, "MOUNTS", "/none")
    found = file_systems.collect(JOB, Budget())
    assert (asked, found.files, len(found.not_seen)) == ([], {}, 1)


def test_this_machine() -> None:
    found = file_systems.collect(JOB, Budget())
    assert b'file_system path="/"' in found.files["filesystems.c1.txt"]
