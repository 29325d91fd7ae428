"""`slurm-triage diagnose JOBID`: exit status, messages, output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_triage import cli
from tests.live.fake import Cluster
from tests.live.test_gather import TABLE, small


def test_a_job_is_diagnosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small(tmp_path, monkeypatch)
    assert cli.main(["diagnose", "1016", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["job"]["job_id"] == "1016"
    assert any(c["file"] == "kernel log" and c["kind"] is None for c in answer["coverage"])


def test_evidence_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small(tmp_path, monkeypatch)
    kept = tmp_path / "kept"
    assert cli.main(["diagnose", "1016", "--save", str(kept), "--format", "brief"]) == 0
    assert (kept / "sacct.psv").read_bytes() == TABLE
    first = capsys.readouterr().out
    assert cli.main(["diagnose", "--evidence", str(kept), "--format", "brief"]) == 0
    assert capsys.readouterr().out == first
    assert cli.main(["diagnose", "1016", "--save", str(kept), "--format", "brief"]) == 2
    told = capsys.readouterr()
    assert told.out == first  # the diagnosis is given all the same
    assert "the folder is not empty" in told.err or "File exists" in told.err


def test_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = small(tmp_path, monkeypatch)
    assert cli.main(["diagnose"]) == 2
    assert cli.main(["diagnose", "1016", "1017", "--save", str(tmp_path / "kept")]) == 2
    assert "--save" in capsys.readouterr().err
    assert cluster.calls == []
    assert not (tmp_path / "kept").exists()


def test_an_unknown_job_is_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path)
    cluster.sacct("24.11.5", TABLE.split(b"\n", 1)[0] + b"\n")
    cluster.scontrol(None)
    cluster.use(monkeypatch)
    assert cli.main(["diagnose", "7"]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("slurm-triage: job 7: Slurm shows no such job: ")


def test_no_slurm_is_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(tmp_path)
    for name in ("sacct", "scontrol", "sacctmgr"):
        cluster.remove(name)
    cluster.use(monkeypatch)
    assert cli.main(["diagnose", "7"]) == 2
    told = capsys.readouterr().err
    assert (
        told
        == "slurm-triage: job 7: Slurm could not be asked: sacct: command not found; scontrol: command not found.\n"
    )
