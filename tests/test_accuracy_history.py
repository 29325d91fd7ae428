"""What was said at a site is scored against what people corrected there; the shipped label becomes a case."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from slurm_triage import cli
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.history.cli import main as history
from slurm_triage.history.store import History
from slurm_triage.report.document import document as paper
from tests import accuracy
from tests.corpus.load import cases, write
from tests.history.examples import document

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def db(tmp_path: Path, capsys: Capture) -> Path:
    path = tmp_path / "it's a history.sqlite"
    with History.open(path) as opened:
        for id, cause, strength in (
            ("1", "memcg_oom", "confirmed"),
            ("2", "memcg_oom", "confirmed"),
            ("3", "memcg_oom", "likely"),
            ("4", "app_error", "confirmed"),
            ("5", "app_error", "likely"),
            ("6", "time_limit", "confirmed"),
        ):
            opened.record(document(job_job_id=id, job_shown_id=id, cause=cause, strength=strength))
    for id, *options in (
        ("1", "--cause", "node_fail", "--owner", "hardware"),
        ("3", "--cause", "time_limit"),
        ("4", "--cause", "malloc_failure"),  # refines app_error
        ("5", "--cause", "app_error", "--owner", "admin"),
        ("6", "--cause", "node_fail"),
    ):
        assert history(["wrong", id, *options, "--why", "x\x1b[2J", "--db", str(path)]) == 0
    assert history(["wrong", "6", "--undo", "--db", str(path)]) == 0
    with History.open(path) as opened:  # the program has learned; what it said then is still scored
        opened.record(document(job_job_id="3", job_shown_id="3", cause="time_limit"))
    capsys.readouterr()
    return path


def test_what_was_said_is_scored_by_cause(db: Path, capsys: Capture) -> None:
    assert accuracy.main(["--history", str(db), "--json", "--list"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["history"] == str(db)
    assert [tuple(row.values()) for row in found["said"]] == [
        # cause, recorded, corrected, wrong, wrong confirmed, wider, owner wrong, right now
        ("memcg_oom", 3, 2, 2, 1, 0, 1, 1),
        ("app_error", 2, 2, 0, 0, 1, 1, 0),
        ("all", 6, 4, 2, 1, 1, 2, 1),
    ]
    assert [(m["job"], m["said"], m["cause"], m["wrong"]) for m in found["misses"]] == [
        ("1", "memcg_oom", "node_fail", True),
        ("3", "memcg_oom", "time_limit", True),
        ("4", "app_error", "malloc_failure", False),
        ("5", "app_error", "app_error", False),
    ]


def test_people_read_a_table_and_what_was_wrongly_confirmed(db: Path, capsys: Capture) -> None:
    assert accuracy.main(["--history", str(db), "--list"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0].split() == [
        *("said", "recorded", "corrected", "wrong", "wrong-conf", "wider", "owner-wrong", "right-now")
    ]
    assert lines[3].split() == ["all", "6", "4", "2", "1", "1", "2", "1"]
    assert text.count("[WRONG CONFIRMED]") == 1
    assert "1/1 mini: memcg_oom (confirmed) -> node_fail, owner user -> hardware  [WRONG CONFIRMED]" in lines
    assert "3/1 mini: memcg_oom (likely) -> time_limit  [right now]" in lines
    assert "\x1b" not in text
    assert accuracy.main(["--history", str(db)]) == 0
    assert capsys.readouterr().out.splitlines() == lines[:4]


def test_a_history_without_corrections_and_none_at_all(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "h.sqlite"
    assert accuracy.main(["--history", str(path)]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "there is no history at" in seen.err
    assert not path.exists()
    History.open(path).close()
    assert accuracy.main(["--history", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "all          0          0      0           0      0            0          0"
    ]


def test_corpora_are_scored_beside_it_only_when_named(db: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "cases" / "1"
    folder.mkdir(parents=True)
    (folder / "case.toml").write_text('cause_class = "app_error"\nowner = "user"\n')
    (folder / "job.out").write_text("hello\n")
    arguments = ["--history", str(db), "--corpus", str(tmp_path / "cases"), "--processes", "1", "--json"]
    assert accuracy.main(arguments) == 0
    corpus, site = json.loads(capsys.readouterr().out)
    assert corpus["n"] == 1
    assert site["said"][-1]["recorded"] == 6


def test_a_corrected_job_becomes_a_case(tmp_path: Path, capsys: Capture) -> None:
    """The steps of docs/howto/report-a-wrong-diagnosis.md, with a recorded job whose verdict is called wrong."""
    id, files, _ = next(case for case in cases("recorded-24.11") if case[0].startswith("1002-"))
    evidence, db = tmp_path / "found" / id, tmp_path / "h.sqlite"
    write(files, evidence)
    with History.open(db) as opened:
        opened.record(paper(diagnose(from_files(files))))
    assert history(["wrong", "1002", "--cause", "node_fail", "--owner", "hardware", "--why", "x", "--db", str(db)]) == 0
    bundle = tmp_path / "slurm-triage-1002.tar.gz"
    assert cli.main(["bundle", "--evidence", str(evidence), "--redact", "-o", str(bundle)]) == 0
    with tarfile.open(fileobj=io.BytesIO(bundle.read_bytes())) as tar:
        for member in tar.getmembers():
            stream = tar.extractfile(member)
            target = tmp_path / "unpacked" / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if stream is not None:
                target.write_bytes(stream.read())
    (top,) = (tmp_path / "unpacked").iterdir()
    corpus = tmp_path / "cases"
    corpus.mkdir()
    (top / "evidence").rename(corpus / "1002-power-lost")
    for folder in [path for path in top.iterdir() if path.is_dir()]:
        folder.rename(corpus / folder.name)
    capsys.readouterr()
    assert history(["corrections", "1002", "--expect", "--db", str(db)]) == 0
    (corpus / "1002-power-lost" / "expect.toml").write_text(capsys.readouterr().out)
    assert accuracy.main(["--corpus", str(corpus), "--list", "--processes", "1"]) == 0
    text = capsys.readouterr().out
    assert "1002-power-lost  [WRONG CONFIRMED]" in text
    assert "cause  node_fail  got cancelled_by_user (confirmed)" in text
    assert "owner  hardware  got user" in text
