"""Bundles: complete, bounded, the same bytes for the same evidence, honest about what is missing."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from slurm_triage import bundle, case, cli, live
from slurm_triage.engine import diagnose
from slurm_triage.model import Coverage
from tests.corpus.load import cases, write
from tests.test_redact import PLANTED, SECRETS, verdict


def unpacked(data: bytes) -> dict[str, bytes]:
    """Member name, without the top folder, to bytes."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None and member.isreg()
            assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
            top, _, name = member.name.partition("/")
            assert top.startswith("slurm-triage-") and ".." not in name.split("/")
            found[name] = stream.read()
    return found


def contents(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(unpacked(data)["bundle.json"])
    return found


def recorded() -> dict[str, bytes]:
    return next(files for id, files, _ in cases("recorded-24.11") if id.endswith("1088-oom_one_of_four_kbe"))


# ------------------------------------------------------------------------------------------------ contents


def test_the_same_evidence_gives_the_same_bytes() -> None:
    for redacted in (False, True):
        first = bundle.make(PLANTED, redacted=redacted)
        assert bundle.make(dict(reversed(PLANTED.items())), redacted=redacted).data == first.data
    assert bundle.make(PLANTED).data != bundle.make(PLANTED, redacted=True).data


def test_everything_is_in_it_and_listed() -> None:
    made = bundle.make(PLANTED)
    members = unpacked(made.data)
    assert made.name == "slurm-triage-17.tar.gz"
    assert {n for n in members if n.startswith("evidence/")} == {f"evidence/{name}" for name in PLANTED}
    assert members["evidence/sacct.psv"] == PLANTED["sacct.psv"]
    listed = json.loads(members["bundle.json"])
    assert {f["name"] for f in listed["files"]} == {f"evidence/{name}" for name in PLANTED}
    assert {f["name"]: f["kind"] for f in listed["files"]}["evidence/sacct.psv"] == "sacct"
    assert listed["same_diagnosis"] is True and listed["redacted"] is False
    assert json.loads(members["diagnosis.json"])["cause"] == "memcg_oom"


def test_unpacked_it_is_an_evidence_folder_with_the_same_diagnosis(tmp_path: Path) -> None:
    files = recorded()
    for redacted in (False, True):
        made = bundle.make(files, redacted=redacted)
        assert made.same
        folder = tmp_path / str(redacted)
        write(unpacked(made.data), folder)
        again = diagnose(case.read(folder / "evidence"))
        assert verdict(again) == verdict(diagnose(case.from_files(files)))
        assert {c.kind for c in again.coverage} >= {"scontrol_config", "sacct", "kernel_log"}


@pytest.mark.parametrize("kind", SECRETS)
def test_nothing_planted_survives_in_a_redacted_bundle(kind: str) -> None:
    made = bundle.make(
        PLANTED,
        redacted=True,
        missing=[("avogadro.core", "permission denied on quark07")],
        notes=[Coverage("fit-17.out", None, note="/gpfs-astro/avogadro/darkmatter cannot be read")],
    )
    everything = b"\n".join(n.encode() + b"\n" + data for n, data in unpacked(made.data).items()).lower()
    for secret in SECRETS[kind]:
        assert secret.encode() not in everything
        assert not any(secret in problem.lower() for problem in made.problems)


def test_redaction_is_counted_and_warned_of() -> None:
    listed = contents(bundle.make(PLANTED, redacted=True).data)
    assert listed["replaced"]["user"]["distinct"] == 1 and listed["replaced"]["user"]["times"] >= 5
    assert listed["replaced"]["secret"]["times"] >= 3
    assert "may still hold" in listed["warning"]
    assert any("not recognised as evidence" in entry["why"] for entry in listed["left_out"])
    assert "Nothing was redacted" in contents(bundle.make(PLANTED).data)["warning"]


def test_what_could_not_be_looked_at_is_said() -> None:
    made = bundle.make(
        {"sacct.psv": PLANTED["sacct.psv"]},
        missing=[("kmsg.txt", "Permission denied")],
        notes=[Coverage("scontrol_show_job.txt", None, note="the job is no longer in memory")],
    )
    assert {(e["file"], e["why"]) for e in contents(made.data)["left_out"]} == {
        ("kmsg.txt", "Permission denied"),
        ("scontrol_show_job.txt", "the job is no longer in memory"),
    }


# ------------------------------------------------------------------------------------------------ limits


def test_long_text_loses_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FILE_LIMIT", 2000)
    lines = b"".join(b"line %d\n" % n for n in range(2000))
    made = bundle.make({"job.out": b"first\n" + lines + b"Segmentation fault\n"})
    kept = unpacked(made.data)["evidence/job.out"]
    assert len(kept) <= 2000 + 100
    assert kept.startswith(b"first\n") and kept.endswith(b"Segmentation fault\n")
    assert b"lines were left out" in kept
    assert [f["cut"] for f in contents(made.data)["files"]] == [True]
    assert any("job.out" in problem for problem in made.problems)


def test_what_cannot_be_cut_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FILE_LIMIT", 2000)
    made = bundle.make({"sacct.json": b'{"jobs": [' + b" " * 3000 + b"]}", "job.out": b"hello\n"})
    assert "evidence/sacct.json" not in unpacked(made.data)
    assert [e["file"] for e in contents(made.data)["left_out"]] == ["sacct.json"]


def test_a_full_bundle_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "TOTAL_LIMIT", 2000)
    files = {f"out/{n}.out": b"x" * 900 + b"\n" for n in range(4)}
    made = bundle.make(files)
    assert len(contents(made.data)["files"]) == 2
    assert len(contents(made.data)["left_out"]) == 2


def test_a_changed_diagnosis_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FILE_LIMIT", 2000)
    filler = b"epoch\n" * 1000
    message = b"srun: error: c1: task 0: Out Of Memory\n"
    made = bundle.make({"job.out": filler + message + filler})
    assert not made.same
    assert contents(made.data)["same_diagnosis"] is False
    assert any("the whole evidence gives" in problem for problem in made.problems)


def test_a_cluster_folder_called_evidence_does_not_mix() -> None:
    made = bundle.make(
        {
            "manifest.toml": b'cluster_dir = "../evidence"\n',
            "../evidence/slurm.conf": b"KillWait=30\nClusterName=x\n",
            "job.out": b"hello\n",
        }
    )
    assert "evidence/slurm.conf" not in unpacked(made.data)
    assert any("../evidence" in problem for problem in made.problems)


# ------------------------------------------------------------------------------------------------ files and command


def test_folder_is_read_as_a_case(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("hello\n")
    (tmp_path / "expect.toml").write_text("cause = 1\n")
    (tmp_path / "manifest.toml").write_text('slurm = "24.11.5"\n')
    (tmp_path / "link.out").symlink_to("/etc/passwd")
    files, missing = bundle.files_of(tmp_path)
    assert set(files) == {"job.out", "manifest.toml"}
    assert {name for name, _ in missing} == {"expect.toml", "link.out"}


def test_a_huge_file_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FILE_LIMIT", 1000)
    (tmp_path / "job.out").write_bytes(b"first\n" + b"x\n" * 5000 + b"last\n")
    files, _ = bundle.files_of(tmp_path)
    assert len(files["job.out"]) < 2200
    assert files["job.out"].startswith(b"first\n") and files["job.out"].endswith(b"last\n")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "case", tmp_path / "report.tar.gz"
    write(PLANTED, folder)
    assert cli.main(["bundle", "--evidence", str(folder), "--redact", "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert "user: 1 replaced" in said.out and "may still hold" in said.err
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_bytes() == bundle.make(PLANTED, redacted=True).data
    before = out.read_bytes()
    assert cli.main(["bundle", "--evidence", str(folder), "-o", str(out)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_command_names_the_file_after_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(PLANTED, tmp_path / "case")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bundle", "--evidence", "case"]) == 0
    assert (tmp_path / "slurm-triage-17.tar.gz").is_file()


def test_command_takes_a_job_of_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = Coverage("kmsg.c1.txt", None, note="this host is none of the job's nodes")
    monkeypatch.setattr(live, "gather", lambda job: live.Gathered(job, PLANTED, (note,)))
    out = tmp_path / "x.tar.gz"
    assert cli.main(["bundle", "17", "-o", str(out)]) == 0
    assert ("kmsg.c1.txt", note.note) in {(e["file"], e["why"]) for e in contents(out.read_bytes())["left_out"]}

    def fail(job: str) -> live.Gathered:
        raise live.NotFound("no such job")

    monkeypatch.setattr(live, "gather", fail)
    assert cli.main(["bundle", "18", "-o", str(tmp_path / "y.tar.gz")]) == 3
    assert not (tmp_path / "y.tar.gz").exists()


def test_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bundle"]) == 2
    assert cli.main(["bundle", "17", "--evidence", str(tmp_path)]) == 2
    assert cli.main(["bundle", "--evidence", str(tmp_path / "missing")]) == 2
    assert cli.main(["bundle", "--evidence", str(tmp_path)]) == 3
    assert "no evidence" in capsys.readouterr().err
