"""Lines of evidence: the same whether the file lies on a disk or in memory, and counted as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage import case
from slurm_triage.case import EvidenceFile, from_files

PIECES = (b"a", b"\n", b"\r\n", b"\r", b"\xff", b"\xef\xbb\xbf", "é".encode(), b"0123456789", b" ")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_on_disk_and_in_memory(folder: Path, pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    (folder / "x").write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case, "LINE_LIMIT", 7)
        disk, memory = EvidenceFile("x", folder / "x"), EvidenceFile("x", data=data)
        assert list(disk.lines()) == list(memory.lines())
        assert disk.count() == memory.count() == len(list(memory.lines()))


def test_lines_are_cut_and_decoded() -> None:
    long = b"x" * (case.LINE_LIMIT + 9)
    file = EvidenceFile("x", data=b"\xef\xbb\xbfone\r\n\n" + long + b"\n\xfftwo")
    assert list(file.lines()) == [(1, "one"), (2, ""), (3, "x" * case.LINE_LIMIT), (4, "�two")]
    assert file.count() == 4 and EvidenceFile("x", data=b"").count() == 0


def test_a_manifest_of_values_is_one_of_toml() -> None:
    toml = b'slurm = "24.11.5"\nutc_offset = "+00:00"\nnot_seen = ["a: b"]\n[boot_epoch]\nc1 = 7.5\n'
    values = {"slurm": "24.11.5", "utc_offset": "+00:00", "not_seen": ["a: b"], "boot_epoch": {"c1": 7.5}}
    assert from_files({"x.txt": b"1"}, values) == from_files({"x.txt": b"1", "manifest.toml": toml})
    odd: dict[str, Any] = {"slurm": None, "cluster": [], "not_seen": "x", "boot_epoch": {"c1": "x"}, "utc_offset": 7}
    assert from_files({}, odd).manifest.version is None and from_files({}, odd).problems == ()
