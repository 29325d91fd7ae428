from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.history.cli import CORRECTED, FIELDS, main
from slurm_triage.history.store import Detail, History, StepDetail, TaskDetail
from tests.history.examples import Ask, document, whole

ROOT = Path(__file__).parents[2]
EVIL = "a\x1b[31m\nb\x9b2J\u202e\u2028=x"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Six attempts of five jobs, by time: 1107, 1131 twice, 1005 (1001_4), 1112 (1111+1), 1200 (no known time)."""
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        history.record(document(), Detail(uid=1001, steps=(StepDetail("0", start=0.0),), tasks=(TaskDetail(0),)))
        about = {"job_job_id": "1131", "job_shown_id": "1131", "job_user": "user2", "job_name": "pre"}
        again = {"job_submit": "2026-11-30T16:00:10Z", "job_start": "2026-11-30T16:02:00Z"}
        preempted = document(
            cause="preempted_by_qos",
            owner="scheduler",
            job_state="PREEMPTED",
            job_submit="2026-11-30T16:00:00Z",
            job_start="2026-11-30T16:00:01Z",
            job_end="2026-11-30T16:00:09Z",
            job_nodes=["p1"],
            **about,
        )
        cancelled = document(
            cause="cancelled_by_user",
            job_state="CANCELLED by 1001",
            job_attempt=2,
            job_end="2026-11-30T16:03:00Z",
            job_nodes=[],
            **about,
            **again,
        )
        history.record(whole(preempted, cancelled))
        history.record(
            document(
                cause="node_fail",
                owner="hardware",
                strength="likely",
                job_job_id="1005",
                job_shown_id="1001_4",
                job_array="1001",
                job_array_task="4",
                job_account="phys",
                job_partition="gpu",
                job_nodes=["c9"],
                job_end="2026-12-01T00:00:00Z",
            )
        )
        history.record(
            document(
                job_job_id="1112",
                job_shown_id="1111+1",
                job_het="1111",
                job_het_offset="1",
                job_name=EVIL,
                summary=EVIL,
                actions=[{"text": EVIL, "command": EVIL}],
                evidence=[{"source": EVIL, "node": EVIL, "file": EVIL, "line": 1, "time": EVIL, "text": EVIL}],
                job_end="2026-12-02T00:00:00Z",
            )
        )
        unzoned = {"job_submit": "2026-11-30T15:11:09", "job_start": "2026-11-30T15:11:18", "job_end": None}
        history.record(document(job_job_id="1200", job_shown_id="1200", **unzoned))
    return path


def jobs(ask: Ask, *argv: str) -> list[str]:
    code, out, _ = ask("list", "--json", *argv)
    assert code == 0
    return [f"{row['shown_id']}/{row['attempt']}" for row in json.loads(out)]


ALL = ["1111+1/1", "1001_4/1", "1131/2", "1131/1", "1107/1", "1200/1"]


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        ((), ALL),
        (("--user", "user2"), ["1131/2", "1131/1"]),
        (("--user", "1001"), ["1107/1"]),
        (("--user", "nobody,user2"), ["1131/2", "1131/1"]),
        (("--account", "phys"), ["1001_4/1"]),
        (("--partition", "gpu"), ["1001_4/1"]),
        (("--cause", "preempted_by_qos,node_fail"), ["1001_4/1", "1131/1"]),
        (("--owner", "hardware"), ["1001_4/1"]),
        (("--node", "c9"), ["1001_4/1"]),
        (("--node", "p1,c[8-9]"), ["1001_4/1", "1131/1"]),
        (("--state", "cancelled"), ["1131/2"]),
        (("--state", "PREEMPTED,CANCELLED"), ["1131/2", "1131/1"]),
        (("--since", "2026-12-01T00:00:00Z"), ["1111+1/1", "1001_4/1"]),
        (("--until", "2026-11-30T16:00:09Z"), ["1107/1"]),
        (("--since", "2026-11-30T16:00Z", "--until", "2026-11-30T17:00Z"), ["1131/2", "1131/1"]),
        (("--user", "user1", "--cause", "node_fail", "--owner", "user"), []),
        (("--user", "' OR 1=1 --"), []),
        (("-n", "2"), ALL[:2]),
        (("-n", "0"), ALL),
    ],
)
def test_filters(ask: Ask, argv: tuple[str, ...], want: list[str]) -> None:
    assert jobs(ask, *argv) == want


def test_rows_of_unknown_time_are_counted_not_dropped_in_silence(ask: Ask) -> None:
    _, out, err = ask("list", "--since", "2026-11-30T00:00Z")
    assert "1200" not in out
    assert "1 more of unknown time" in err
    assert "unknown time" not in ask("list", "--since", "2026-11-30T00:00Z", "--user", "user2")[2]
    assert "unknown time" not in ask("list")[2]


def test_limit_is_said(ask: Ask) -> None:
    assert "more than 2 found" in ask("list", "-n", "2")[2]
    assert ask("list", "-n", "6")[2] == ""


@pytest.mark.parametrize(
    ("job", "want"),
    [
        ("1131", ["1131/1", "1131/2"]),
        ("1001_4", ["1001_4/1"]),
        ("1001", ["1001_4/1"]),
        ("1005", ["1001_4/1"]),
        ("1111+1", ["1111+1/1"]),
        ("1111", ["1111+1/1"]),
        ("1001_5", []),
        ("99", []),
    ],
)
def test_show_finds_the_attempts_in_order(ask: Ask, job: str, want: list[str]) -> None:
    code, out, err = ask("show", job, "--json")
    assert code == 0
    assert [f"{row['shown_id']}/{row['attempt']}" for row in json.loads(out)] == want
    assert (f"no diagnosis of job {job}" in err) == (not want)


def test_show_as_text_has_the_verdict_first_and_every_part(ask: Ask) -> None:
    _, out, _ = ask("show", "1107")
    lines = out.splitlines()
    assert lines[0] == "Job 1107 on mini, attempt 1: OUT_OF_MEMORY"
    assert lines[1] == "  cause: memcg_oom (confirmed); who has to act: user"
    for part in (
        "nodes c[1-2]",
        "exit 0:9 (code:signal), shown by sacct as 0:125; revision 1",
        "$ sbatch --mem=160M job.sh",
        "rank 2 on c1 at 2026-11-30T15:11:40Z: killed by signal 9",
        "2026-11-30T15:11:18Z job starts (sacct.psv:2)",
        "kmsg.txt:12 (kernel_log, c1, 2026-11-30T15:11:40Z)",
        "| Memory cgroup out of memory: Killed process 9931",
        "preempted_by_qos (likely)",
        "node_oom: the kernel names the job's own limit",
        "memory of the node; would settle node_oom",
        "find out: read /proc/meminfo",
    ):
        assert part in out, part
    assert out.index("What to do") < out.index("Timeline") < out.index("Evidence") < out.index("Not:")


def test_show_separates_attempts_and_says_what_is_unknown(ask: Ask) -> None:
    _, out, _ = ask("show", "1131")
    assert out.index("attempt 1: PREEMPTED") < out.index("\n\nJob 1131 on mini, attempt 2: CANCELLED by 1001")
    assert "nodes n/a" in out
    unzoned = ask("show", "1200")[1]
    assert "started 2026-11-30T15:11:18, ended n/a" in unzoned
    assert "2026-11-30T15:11:18Z," not in unzoned.split("What to do")[0]


def test_show_json_has_document_steps_and_tasks(ask: Ask) -> None:
    (row,) = json.loads(ask("show", "1107", "--json")[1])
    assert row["diagnosis"]["evidence"] == document()["evidence"]
    assert row["steps"][0]["step"] == "0"
    assert row["steps"][0]["start"] == "1970-01-01T00:00:00Z"
    assert row["tasks"][0]["rank"] == 0
    assert row["tasks"][0]["at"] is None
    assert row["core_dumped"] is False


def test_filters_hold_for_show(ask: Ask) -> None:
    rows = json.loads(ask("show", "1131", "--state", "PREEMPTED", "--json")[1])
    assert [row["attempt"] for row in rows] == [1]


def test_csv_round_trip(ask: Ask, db: Path) -> None:
    _, text, _ = ask("list", "--csv")
    assert text.count("\r\n") == len(ALL) + 1
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    exact = json.loads(ask("list", "--json")[1])
    assert list(read[0]) == [*FIELDS, *CORRECTED]
    for flat, row in zip(read, exact, strict=True):
        for name in FIELDS:
            if row["name"] == EVIL and name in ("name", "summary"):
                continue
            value = row[name]
            assert flat[name] == ("" if value is None else str(int(value)) if value in (True, False) else str(value))
    _, bare, _ = ask("list", "--csv", "--no-header")
    assert bare == text.split("\r\n", 1)[1]


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "＝1"])
def test_csv_cells_are_no_formulas(ask: Ask, db: Path, name: str) -> None:
    with History.open(db) as history:
        history.record(document(job_name=name))
    _, text, _ = ask("list", "--csv", "--user", "user1", "--state", "OUT_OF_MEMORY", "--until", "2026-11-30T15:30Z")
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["name"].startswith("'")


def test_json_keeps_the_exact_name(ask: Ask) -> None:
    assert json.loads(ask("show", "1111+1", "--json")[1])[0]["name"] == EVIL


@pytest.mark.parametrize(
    "argv",
    [("list",), ("list", "--json"), ("list", "--csv"), ("show", "1111"), ("show", "1111", "--json")],
)
def test_control_characters_never_come_out(ask: Ask, argv: tuple[str, ...]) -> None:
    _, out, err = ask(*argv)
    assert "1111+1" in out
    bad = [c for c in out + err if c not in "\r\n" and not c.isprintable()]
    assert bad == []


def test_a_newline_in_a_name_makes_no_line(ask: Ask) -> None:
    assert len(ask("list")[1].splitlines()) == len(ALL) + 1
    assert len(ask("list", "--no-header")[1].splitlines()) == len(ALL)


def test_table_has_numbers_on_the_right(ask: Ask) -> None:
    lines = ask("list", "--user", "user2")[1].splitlines()
    assert lines[0].split() == [
        *("JOBID", "TRY", "USER", "PARTITION", "NAME", "STATE", "EXIT", "ENDED", "CAUSE", "SURE", "OWNER", "NODES")
    ]
    assert lines[1].startswith(" 1131    2  user2")
    assert lines[1].endswith("n/a")
    assert "(2026-11-30T15:11:18)" in ask("list")[1]


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("list", "--since", "soon"),
        ("list", "--node", "c[3-1"),
        ("list", "--node", "c[1-9999]"),
        ("list", "-n", "-1"),
        ("list", "-n", "x"),
        ("list", "--json", "--csv"),
        ("list", "--user", ","),
        ("show",),
        ("show", "12.batch"),
        ("show", "1001_[1-4]"),
        ("show", "job"),
        ("show", "9\x1b[2J"),
    ],
)
def test_wrong_usage_is_2(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "usage: sdiag-history" in said
    assert "\x1b" not in said


def test_unusable_history_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.sqlite"
    assert main(["list", "--db", str(missing)]) == 3
    assert "there is no history at" in capsys.readouterr().err
    assert not missing.exists()
    text = tmp_path / "text"
    text.write_text("no database " * 100)
    for verb in ("list", "check", "migrate"):
        assert main([verb, "--db", str(text)]) == 3
        seen = capsys.readouterr()
        assert seen.out == ""
        assert "not a history" in seen.err


def test_environment_names_the_history(db: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("SDIAG_HISTORY", str(db))
    assert main(["list", "--user", "user2", "--no-header"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_migrate_creates_and_check_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.sqlite"
    assert main(["migrate", "--db", str(path)]) == 0
    assert main(["check", "--db", str(path)]) == 0
    assert "intact, schema version 4" in capsys.readouterr().out
    assert main(["list", "--db", str(path)]) == 0
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "no diagnosis was found" in seen.err


def test_check_finds_a_row_without_its_attempt(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with History.open(db) as history:
        history.db.execute("PRAGMA foreign_keys = OFF")
        history.db.execute("DELETE FROM attempt WHERE id = 1")
    assert main(["check", "--db", str(db)]) == 3
    seen = capsys.readouterr()
    assert "points to a row of attempt" in seen.out
    assert "damaged" in seen.err


def test_a_damaged_document_does_not_stop_the_others(ask: Ask, db: Path) -> None:
    with History.open(db) as history:
        history.db.execute("UPDATE attempt SET diagnosis = '{' WHERE attempt_no = 1")
    code, out, _ = ask("show", "1131")
    assert code == 0
    assert "The stored diagnosis cannot be read" in out
    assert "attempt 2: CANCELLED by 1001" in out
    assert [row["diagnosis"] is None for row in json.loads(ask("show", "1131", "--json")[1])] == [True, False]


def test_closed_pipe_is_silent(db: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "slurm_triage.history.cli", "list", "--json", "--db", str(db)]
    run = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, timeout=60)
    os.close(writing)
    assert (run.returncode, run.stderr) == (0, b"")


def test_ascii_locale_does_not_break_it(db: Path) -> None:
    with History.open(db) as history:
        history.record(document(job_name="größe-模型"))
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    argv = [sys.executable, "-m", "slurm_triage.history.cli", "list", "--db", str(db)]
    run = subprocess.run(argv, capture_output=True, cwd=ROOT, timeout=60, env=env)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"gr??e-??" in run.stdout
