"""A verdict that a person corrects: it counts everywhere, what the diagnosis says stays, and nothing is forgotten."""

from __future__ import annotations

import csv
import io
import json
import lzma
import os
import pwd
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_triage import extension
from slurm_triage.causes import all_causes
from slurm_triage.clock import Clock
from slurm_triage.history import corrections, queries
from slurm_triage.history.cli import main
from slurm_triage.history.corrections import AttemptKey, key_of, of, since
from slurm_triage.history.database import HistoryError, check, writing
from slurm_triage.history.store import Detail, History
from slurm_triage.model import JobIdentity
from tests.accuracy import expected
from tests.history.examples import Ask, document, whole
from tests.site.folder import fill

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
VERSION_1 = Path(__file__).with_name("version-1.sqlite.xz")
"""A history of two attempts, 1107 and 1108 (without a submit time), as the program made it before there were corrections."""
KEY = AttemptKey("mini", "1107", "2026-11-30T15:11:09Z", "2026-11-30T15:11:18Z")
EVIL = "a\x1b[31m\nb\x9b2J\u202e\u2028=x"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """1107 on mini and, earlier, on other; 1131 twice (requeued); tasks 1001_4 and 1001_5."""
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        history.record(document())
        history.record(
            document(
                job_cluster="other",
                job_submit="2026-11-01T00:00:00Z",
                job_start="2026-11-01T00:00:01Z",
                job_end="2026-11-01T00:01:00Z",
            )
        )
        about = {"job_job_id": "1131", "job_shown_id": "1131", "cause": "preempted", "owner": "scheduler"}
        again = {"job_attempt": 2, "job_submit": "2026-11-30T16:00:10Z", "job_start": "2026-11-30T16:02:00Z"}
        history.record(
            whole(
                document(**about, job_end="2026-11-30T16:00:09Z"),
                document(**about, **again, job_end="2026-11-30T16:03:00Z"),
            )
        )
        for raw, task in (("1005", "4"), ("1006", "5")):
            history.record(document(job_job_id=raw, job_shown_id=f"1001_{task}", job_array="1001", job_array_task=task))
    return path


def done(ask: Ask, *argv: str) -> str:
    code, out, err = ask(*argv)
    assert code == 0, err
    return out


def rows(ask: Ask, *argv: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done(ask, *argv, "--json"))
    return found


def names(found: list[dict[str, Any]]) -> list[str]:
    return [f"{row['cluster']} {row['shown_id']}/{row['attempt']}" for row in found]


def dump(path: Path) -> list[str]:
    with History.open(path, readonly=True) as history:
        return list(history.db.iterdump())


# ---------------------------------------------------------------------------------------- correcting


def test_what_changed_is_said_first(ask: Ask) -> None:
    code, out, err = ask("wrong", "1131", "--cause", "node_fail", "--owner", "hardware", "--why", "power was lost")
    assert code == 0
    assert out.splitlines() == [
        "job 1131 on mini, attempt 2, ended 2026-11-30T16:03:00Z:",
        "  cause: preempted (confirmed) -> node_fail (corrected)",
        "  who has to act: scheduler -> hardware",
        f"  by {corrections.caller()}: power was lost",
    ]
    assert "2 attempts with job id 1131, of which this is the newest" in err


def test_the_newest_is_corrected_unless_another_is_named(ask: Ask) -> None:
    command = ("--cause", "node_fail", "--why", "x")
    _, out, err = ask("wrong", "1107", *command)
    assert out.startswith("job 1107 on mini, attempt 1, ended 2026-11-30")
    assert "2 attempts" in err
    for selected in (("--cluster", "other"), ("--until", "2026-11-15")):
        _, out, err = ask("wrong", "1107", *selected, *command)
        assert out.startswith("job 1107 on other, attempt 1, ended 2026-11-01")
        assert err == ""
    assert done(ask, "wrong", "1131", "--attempt", "1", *command).startswith("job 1131 on mini, attempt 1")
    assert names(rows(ask, "list", "--cause", "node_fail")) == ["mini 1131/1", "mini 1107/1", "other 1107/1"]


def test_lists_show_the_corrected_cause_with_a_mark_and_a_footnote(ask: Ask) -> None:
    assert "*" not in done(ask, "list")
    done(ask, "wrong", "1107", "--cause", "node_fail", "--owner", "hardware", "--why", "x")
    lines = done(ask, "list").splitlines()
    (line,) = [line for line in lines if "node_fail*" in line]
    assert line.split()[:2] == ["1107", "1"]
    assert "  node_fail*  corrected  hardware  " in line
    assert "memcg_oom" not in line
    assert lines[-1].startswith("* corrected by a person")
    assert [line.count("*") for line in lines[:-1]] == [line.count("node_fail*") for line in lines[:-1]]
    bare = done(ask, "list", "--no-header").splitlines()
    assert [line.split() for line in bare] == [line.split() for line in lines[1:-1]]


def test_filters_find_what_it_was_and_what_was_said(ask: Ask) -> None:
    before = names(rows(ask, "list", "--cause", "memcg_oom"))
    assert "mini 1107/1" in before
    done(ask, "wrong", "1107", "--cause", "node_fail", "--owner", "hardware", "--why", "x")
    assert names(rows(ask, "list", "--cause", "memcg_oom")) == [name for name in before if name != "mini 1107/1"]
    assert names(rows(ask, "list", "--cause", "node_fail")) == ["mini 1107/1"]
    assert names(rows(ask, "list", "--said-cause", "memcg_oom")) == before
    assert rows(ask, "list", "--said-cause", "node_fail") == []
    assert names(rows(ask, "list", "--owner", "hardware")) == ["mini 1107/1"]
    assert "mini 1107/1" not in names(rows(ask, "list", "--owner", "user"))
    assert names(rows(ask, "list", "--said-cause", "memcg_oom", "--cause", "node_fail")) == ["mini 1107/1"]
    assert names(rows(ask, "list", "--cause", "node_fail,preempted")) == ["mini 1131/2", "mini 1131/1", "mini 1107/1"]
    assert names(rows(ask, "list", "--cluster", "other")) == ["other 1107/1"]


def test_counts_of_unknown_time_look_at_the_corrected_cause(ask: Ask, db: Path) -> None:
    times = {"job_submit": "2026-11-30T15:11:09", "job_start": "2026-11-30T15:11:18", "job_end": None}
    with History.open(db) as history:
        history.record(document(job_job_id="1200", job_shown_id="1200", **times))
    since_when = ("--since", "2026-01-01")
    assert "1 more of unknown time" in ask("list", "--cause", "memcg_oom", *since_when)[2]
    done(ask, "wrong", "1200", "--cause", "node_fail", "--why", "x")
    assert "unknown time" not in ask("list", "--cause", "memcg_oom", *since_when)[2]
    assert "1 more of unknown time" in ask("list", "--cause", "node_fail", *since_when)[2]


def test_json_has_the_correction_beside_the_verdict(ask: Ask) -> None:
    untouched = {row["shown_id"]: row for row in rows(ask, "list")}
    assert all(row["correction"] is None for row in untouched.values())
    done(ask, "wrong", "1001_4", "--cause", "node_fail", "--owner", "hardware", "--why", "power")
    after = {row["shown_id"]: row for row in rows(ask, "list")}
    correction = after["1001_4"].pop("correction")
    assert correction.pop("at").endswith("Z")
    assert correction == {
        "cause": "node_fail",
        "owner": "hardware",
        "why": "power",
        "by": corrections.caller(),
        "said_cause": "memcg_oom",
        "said_owner": "user",
        "said_strength": "confirmed",
        "agrees_now": False,
    }
    for name, row in after.items():
        row.pop("correction", None)
        untouched[name].pop("correction")
        assert row == untouched[name]


def test_csv_has_columns_of_its_own(ask: Ask) -> None:
    done(ask, "wrong", "1107", "--cause", "node_fail", "--why", "=cmd|' /C calc'!A0")
    text = done(ask, "list", "--csv")
    table = {(r["cluster"], r["shown_id"], r["attempt"]): r for r in csv.DictReader(io.StringIO(text, newline=""))}
    row = table["mini", "1107", "1"]
    assert (row["cause"], row["owner"], row["strength"]) == ("memcg_oom", "user", "confirmed")
    assert (row["corrected_cause"], row["corrected_owner"]) == ("node_fail", "unknown")
    assert row["corrected_why"].startswith("'=")
    assert table["other", "1107", "1"]["corrected_cause"] == ""


def test_show_has_the_correction_above_the_verdict(ask: Ask) -> None:
    done(ask, "wrong", "1107", "--cause", "node_fail", "--why", "power was lost")
    lines = done(ask, "show", "1107", "--cluster", "mini").splitlines()
    assert lines[1] == "  CORRECTED cause: node_fail*; who has to act: unknown"
    assert lines[2].startswith(f"    by {corrections.caller()} on 20")
    assert lines[2].endswith("Z: power was lost")
    assert lines[3] == "    the diagnosis said then: memcg_oom (confirmed), owner user"
    assert lines[5] == "  cause: memcg_oom (confirmed); who has to act: user"
    assert "CORRECTED" not in done(ask, "show", "1107", "--cluster", "other")
    (row,) = rows(ask, "show", "1107", "--cluster", "mini")
    assert (row["cause"], row["diagnosis"]["cause"], row["correction"]["cause"]) == (
        *("memcg_oom", "memcg_oom"),
        "node_fail",
    )


def test_only_who_has_to_act_may_be_wrong(ask: Ask) -> None:
    code, out, err = ask("wrong", "1001_4", "--cause", "memcg_oom", "--why", "x")
    assert (code, out) == (1, "")
    assert "the diagnosis says memcg_oom (confirmed), owner user, itself" in err
    assert rows(ask, "corrections") == []
    done(ask, "wrong", "1001_4", "--cause", "memcg_oom", "--owner", "admin", "--why", "the default limit is too small")
    assert names(rows(ask, "list", "--owner", "admin")) == ["mini 1001_4/1"]
    assert "mini 1001_4/1" in names(rows(ask, "list", "--cause", "memcg_oom"))


def test_not_known_is_a_correction(ask: Ask) -> None:
    assert "memcg_oom (confirmed) -> unknown (corrected)" in done(
        ask, "wrong", "1107", "--cause", "unknown", "--why", "no process was killed"
    )
    assert names(rows(ask, "list", "--cause", "unknown")) == ["mini 1107/1"]


# ---------------------------------------------------------------------------------------- several, and taking back


def test_the_latest_counts_all_are_kept_and_undo_takes_one_back(ask: Ask) -> None:
    wrong = ("wrong", "1001_4")
    done(ask, *wrong, "--cause", "node_fail", "--why", "one")
    assert "node_fail (corrected) -> time_limit (corrected)" in done(
        ask, *wrong, "--cause", "time_limit", "--why", "two"
    )
    assert [r["standing"] for r in rows(ask, "corrections", "1001_4")] == ["counts", "replaced"]
    assert "time_limit (corrected) -> node_fail (corrected)" in done(ask, *wrong, "--undo", "--why", "no, it was one")
    assert names(rows(ask, "list", "--cause", "node_fail")) == ["mini 1001_4/1"]
    assert rows(ask, "list", "--cause", "time_limit") == []
    assert "node_fail (corrected) -> memcg_oom (confirmed)" in done(ask, *wrong, "--undo")
    assert rows(ask, "list", "--cause", "node_fail") == []
    assert "*" not in done(ask, "list")
    code, out, err = ask(*wrong, "--undo")
    assert (code, out) == (1, "")
    assert "nothing was changed: there is no correction to take back" in err
    kept = rows(ask, "corrections", "1001_4")
    assert [(r["id"], r["standing"], r["undoes"], r["cause"], r["why"]) for r in kept] == [
        (4, "undo", 1, None, ""),
        (3, "undo", 2, None, "no, it was one"),
        (2, "undone", None, "time_limit", "two"),
        (1, "undone", None, "node_fail", "one"),
    ]
    done(ask, *wrong, "--cause", "node_fail", "--why", "after all")
    assert names(rows(ask, "list", "--cause", "node_fail")) == ["mini 1001_4/1"]


def test_undo_touches_no_other_job(ask: Ask) -> None:
    done(ask, "wrong", "1107", "--cause", "node_fail", "--why", "x")
    code, _, err = ask("wrong", "1107", "--cluster", "other", "--undo")
    assert code == 1
    assert "no correction" in err
    assert names(rows(ask, "list", "--cause", "node_fail")) == ["mini 1107/1"]


# ---------------------------------------------------------------------------------------- recording again


def test_recording_again_keeps_the_correction(ask: Ask, db: Path) -> None:
    done(ask, "wrong", "1107", "--cause", "node_fail", "--owner", "hardware", "--why", "power")
    with History.open(db) as history:
        history.record(document(summary="Other words."))
        history.record(document(cause="time_limit", strength="likely"))
    (row,) = rows(ask, "list", "--cause", "node_fail")
    assert (row["cause"], row["revision"], row["correction"]["said_cause"]) == ("time_limit", 2, "memcg_oom")
    assert row["correction"]["agrees_now"] is False
    assert "node_fail*" in done(ask, "list")
    assert "it agrees now" not in done(ask, "show", "1107", "--cluster", "mini")


def test_a_diagnosis_that_comes_to_agree_is_said_to_and_stays_marked(ask: Ask, db: Path) -> None:
    done(ask, "wrong", "1107", "--cause", "node_fail", "--owner", "hardware", "--why", "power")
    with History.open(db) as history:
        history.record(document(cause="node_fail", owner="admin"))
    assert "it agrees now" not in done(ask, "show", "1107", "--cluster", "mini")  # not on who has to act
    with History.open(db) as history:
        history.record(document(cause="node_fail", owner="hardware"))
    assert "  What the diagnosis says (it agrees now):" in done(ask, "show", "1107", "--cluster", "mini").splitlines()
    assert "node_fail*" in done(ask, "list")
    assert rows(ask, "list", "--cause", "node_fail")[0]["correction"]["agrees_now"] is True
    assert "agrees now" in done(ask, "corrections")
    assert rows(ask, "corrections")[0]["agrees_now"] is True


def test_a_submit_time_learned_later_or_lost_keeps_the_correction(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        history.record(document(job_submit=None))
        assert main(["wrong", "1107", "--cause", "node_fail", "--why", "x", "--db", str(path)]) == 0
        history.record(document())
        assert of(history.db, KEY) is not None
        assert of(history.db, AttemptKey("mini", "1107", "", KEY.start_key)) is not None
        rows_ = queries.newest(history.db, queries.Filters(), None)
        assert [(r["submit_key"], r["corrected_cause"]) for r in rows_] == [(KEY.submit_key, "node_fail")]


def test_attempts_that_never_started_are_told_apart_by_their_submission(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    never: dict[str, Any] = {"job_start": None, "job_end": "2026-11-30T15:11:30Z", "job_nodes": []}
    with History.open(path) as history:
        history.record(document(**never))
        history.record(document(**never, job_submit="2026-11-30T15:00:00Z"))
        history.record(document(**never, job_submit=None))
        filters = queries.Filters()
        filters.job("1107")
        (row,) = [r for r in queries.newest(history.db, filters, None) if r["submit_key"] == KEY.submit_key]
        with writing(history.db):
            corrections.correct(history.db, row, "node_fail", None, "x", "me")
        found = queries.newest(history.db, filters, None)
        assert sorted((r["submit_key"], r["corrected_cause"]) for r in found) == [
            ("", None),
            ("2026-11-30T15:00:00Z", None),
            (KEY.submit_key, "node_fail"),
        ]
        assert of(history.db, AttemptKey("mini", "1107", "", "")) is None


def test_the_same_id_and_times_on_another_cluster_is_another_job(ask: Ask, db: Path) -> None:
    with History.open(db) as history:
        history.record(document(job_cluster="third"))
    done(ask, "wrong", "1107", "--cluster", "mini", "--cause", "node_fail", "--why", "x")
    assert names(rows(ask, "list", "--cause", "node_fail")) == ["mini 1107/1"]
    assert names(rows(ask, "corrections")) == ["mini 1107/1"]
    with History.open(db, readonly=True) as history:
        assert of(history.db, replace(KEY, cluster="third")) is None


def test_an_attempt_that_is_gone_keeps_what_was_said(ask: Ask, db: Path) -> None:
    done(ask, "wrong", "1107", "--cause", "node_fail", "--why", "x")
    with History.open(db) as history:
        history.db.execute(
            "DELETE FROM attempt WHERE job = (SELECT id FROM job WHERE cluster = 'mini' AND job_id = '1107')"
        )
        assert of(history.db, KEY) is None
    (row,) = rows(ask, "corrections")
    assert (row["standing"], row["job_id"], row["now_cause"], row["attempt"]) == ("no attempt", "1107", None, None)
    with History.open(db) as history:
        history.record(document())
    assert rows(ask, "corrections")[0]["standing"] == "counts"


# ---------------------------------------------------------------------------------------- for the service


def test_since_and_of_tell_what_to_amend(ask: Ask, db: Path) -> None:
    with History.open(db, readonly=True) as history:
        assert since(history.db) == []
        assert of(history.db, KEY) is None
    done(ask, "wrong", "1107", "--cause", "node_fail", "--owner", "hardware", "--why", "one")
    done(ask, "wrong", "1001_4", "--cause", "time_limit", "--why", "two")
    done(ask, "wrong", "1107", "--undo")
    with History.open(db, readonly=True) as history:
        first, second, third = since(history.db)
        assert [c.id for c in since(history.db, first.id)] == [second.id, third.id]
        assert since(history.db, third.id) == []
        assert (first.key, first.cause, first.owner, first.start_time) == (KEY, "node_fail", "hardware", 1796051478.0)
        assert (third.key, third.cause, third.undoes) == (KEY, None, first.id)
        assert of(history.db, first.key) is None
        assert of(history.db, second.key) == second
        assert (second.key.job_id, second.shown_id, second.verdict_strength) == ("1005", "1001_4", "confirmed")


@pytest.mark.parametrize("submit", ["2026-11-30T15:11:09Z", "2026-11-30T15:11:09", None])
@pytest.mark.parametrize("start", ["2026-11-30T15:11:18Z", "2026-11-30T15:11:18", None])
def test_the_key_of_a_job_is_that_of_the_history(tmp_path: Path, submit: str | None, start: str | None) -> None:
    clock = Clock()
    job = JobIdentity(
        cluster="mini",
        job_id="1107",
        submit=None if submit is None else clock.local(submit),
        start=None if start is None else clock.local(start),
    )
    with History.open(tmp_path / "h.sqlite") as history:
        history.record(document(job_submit=submit, job_start=start))
        row = queries.newest(history.db, queries.Filters(), None)[0]
    assert key_of(job) == AttemptKey("mini", "1107", row["submit_key"], row["start_key"])


# ---------------------------------------------------------------------------------------- listing, and making a case


def test_corrections_are_listed_newest_first(ask: Ask) -> None:
    _, out, err = ask("corrections")
    assert out == ""
    assert "no correction was found" in err
    done(ask, "wrong", "1107", "--cause", "node_fail", "--why", "one")
    done(ask, "wrong", "1001_4", "--cause", "time_limit", "--why", "two")
    lines = done(ask, "corrections").splitlines()
    assert lines[0].split() == [
        *("JOBID", "TRY", "AT", "BY", "CAUSE", "OWNER", "SAID", "SURE", "NOW", "STANDING", "WHY")
    ]
    assert [line.split()[0] for line in lines[1:]] == ["1001_4", "1107"]
    bare = done(ask, "corrections", "--no-header").splitlines()
    assert [line.split() for line in bare] == [line.split() for line in lines[1:]]
    _, out, err = ask("corrections", "-n", "1", "--json")
    assert names(json.loads(out)) == ["mini 1001_4/1"]
    assert "1 more found" in err
    assert names(rows(ask, "corrections", "1107", "--cluster", "mini")) == ["mini 1107/1"]
    assert rows(ask, "corrections", "1107", "--cluster", "other") == []


def test_expect_prints_a_label_that_the_scoring_reads(ask: Ask) -> None:
    why = 'say "no" \\ é 😀 \x1b[31m'
    done(ask, "wrong", "1107", "--cause", "node_fail", "--owner", "hardware", "--why", why)
    label = tomllib.loads(done(ask, "corrections", "1107", "--expect"))
    found = expected(label)
    assert (found.cause, found.owner, found.owner_derivable, found.sure) == ("node_fail", "hardware", True, True)
    assert label["job_ids"] == [1107]
    assert label["notes"] == 'say "no" \\ é 😀 \\x1b[31m'
    assert corrections.caller() not in (label["notes"], *label)
    done(ask, "wrong", "1107", "--cause", "unknown", "--why", "password=hunter2")
    text = done(ask, "corrections", "1107", "--expect")
    assert "hunter2" not in text
    assert (expected(tomllib.loads(text)).cause, expected(tomllib.loads(text)).owner_derivable) == ("unknown", False)
    done(ask, "wrong", "1107", "--undo")
    assert expected(tomllib.loads(done(ask, "corrections", "1107", "--expect"))).cause == "node_fail"
    code, out, err = ask("corrections", "1001_4", "--expect")
    assert (code, out) == (1, "")
    assert "nothing was corrected about job 1001_4" in err


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("wrong", "1107", "--cause", "node_failed", "--why", "x"), "did you mean node_fail"),
        (("wrong", "1107", "--cause", "Memcg-OOM", "--why", "x"), "did you mean memcg_oom"),
        (("wrong", "1107", "--cause", "qqqq", "--why", "x"), "'qqqq' is no cause. All are listed"),
        (("wrong", "1107", "--cause", "array_mixed", "--why", "x"), "is no cause"),
        (("wrong", "1107", "--cause", "a\x1b[2J", "--why", "x"), "is no cause"),
        (("wrong", "1107", "--why", "x"), "--cause is needed"),
        (("wrong", "1107", "--cause", "node_fail"), "--why is needed"),
        (("wrong", "1107", "--cause", "node_fail", "--why", " \n\t"), "--why is needed"),
        (("wrong", "1107", "--cause", "node_fail", "--why", "x" * 501), "the most is 500"),
        (("wrong", "1107", "--cause", "node_fail", "--why", "x", "--owner", "me"), "invalid choice"),
        (("wrong", "1107", "--cause", "node_fail", "--undo"), "--undo"),
        (("wrong", "1107; rm", "--cause", "node_fail", "--why", "x"), "is no job id"),
        (("wrong", "1107", "--attempt", "-1", "--cause", "node_fail", "--why", "x"), "no count"),
        (("corrections", "--expect"), "needs a JOBID"),
        (("corrections", "--attempt", "1"), "a JOBID is needed"),
        (("corrections", "1107", "--expect", "--json"), "not allowed"),
    ],
)
def test_wrong_usage_is_2_and_changes_nothing(
    argv: tuple[str, ...], said: str, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = db.read_bytes()
    with pytest.raises(SystemExit) as stop:
        main([*argv, "--db", str(db)])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert "\x1b" not in error
    assert db.read_bytes() == before


def test_a_job_that_is_not_there_or_is_many_is_1(ask: Ask, db: Path) -> None:
    before = db.read_bytes()
    for argv, said in (
        (("99",), "no diagnosis of job 99"),
        (("1107", "--attempt", "7"), "no diagnosis of job 1107"),
        (("1107", "--cluster", "third"), "no diagnosis of job 1107"),
        (("1001",), "1001 is 2 tasks or parts in the history; name one of them: 1001_4, 1001_5"),
    ):
        code, out, err = ask("wrong", *argv, "--cause", "node_fail", "--why", "x")
        assert (code, out) == (1, "")
        assert "nothing was changed" in err
        assert said in err
    assert db.read_bytes() == before


def test_every_cause_is_known(ask: Ask) -> None:
    for cause in all_causes().keys() - {"array_mixed", "memcg_oom"}:
        done(ask, "wrong", "1001_4", "--cause", cause, "--why", "x")


def test_without_a_history_none_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.sqlite"
    for argv in (["wrong", "1", "--cause", "node_fail", "--why", "x"], ["corrections"]):
        assert main([*argv, "--db", str(path)]) == 3
        assert "there is no history at" in capsys.readouterr().err
    assert not path.exists()


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that everybody may look into, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("file_too", [False, True])
def test_who_may_not_write_is_told_so(db: Path, readable: Path, file_too: bool) -> None:
    """Readers get a clear sentence, and also where the file may be written but not its folder."""
    db = db.rename(readable / "h.sqlite")
    db.chmod(0o644 if file_too else 0o666)
    before = dump(db)
    code = (
        "import os, sys; from slurm_triage.history.cli import main\n"
        "main(['wrong', '99', *sys.argv[2:]])  # loads everything: that user may not be able to\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); sys.exit(main(['wrong', *sys.argv[1:]]))\n"
    )
    argv = ["1107", "--cause", "node_fail", "--why", "x", "--db", str(db)]
    run = subprocess.run([sys.executable, "-c", code, *argv], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 3, run.stderr
    assert run.stdout == ""
    assert (
        "you may not write it" if file_too else "needs write permission to the file and to its folder"
    ) in run.stderr
    assert "Traceback" not in run.stderr
    assert dump(db) == before


# ---------------------------------------------------------------------------------------- hostile text


def test_escapes_and_newlines_of_a_reason_never_come_out(ask: Ask, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", EVIL)
    said = done(ask, "wrong", "1107", "--cause", "node_fail", "--why", EVIL)
    with History.open(db) as history:
        stored = history.db.execute("SELECT why, by_user FROM correction").fetchone()
        assert all(text.isprintable() for text in stored)
        assert "\\x1b[31m b\\x9b2J" in stored["why"]
        # somebody wrote it with other means
        history.db.execute("UPDATE correction SET why = ?, by_user = ?, cause = ?", (EVIL, EVIL, EVIL))
    shown = [said]
    for argv in (
        *(("list",), ("list", "--json"), ("list", "--csv"), ("show", "1107"), ("show", "1107", "--json")),
        *(
            ("corrections",),
            ("corrections", "--json"),
            ("corrections", "1107", "--expect"),
            ("wrong", "1107", "--undo"),
        ),
    ):
        _, out, err = ask(*argv)
        shown.append(out + err)
    assert [c for text in shown for c in text if c not in "\r\n" and not c.isprintable()] == []
    assert all("\\x1b" in text or "\\u001b" in text for text in shown)


def test_a_name_is_no_sql(ask: Ask) -> None:
    why = "'); DROP TABLE correction; -- $(touch x) `id`"
    done(ask, "wrong", "1107", "--cause", "node_fail", "--why", why)
    assert rows(ask, "corrections")[0]["why"] == why
    assert rows(ask, "list", "--said-cause", "' OR 1=1 --") == []


def test_the_caller_is_whom_sudo_names_else_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    assert corrections.caller() == "alice"
    monkeypatch.delenv("SUDO_USER")
    assert corrections.caller() == pwd.getpwuid(os.getuid()).pw_name


# ---------------------------------------------------------------------------------------- the file


def test_a_version_1_file_is_brought_up_to_date_and_keeps_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(lzma.decompress(VERSION_1.read_bytes()))
    before = path.read_bytes()
    for argv in (["list"], ["show", "1107"], ["corrections"]):
        assert main([*argv, "--db", str(path)]) == 3
        seen = capsys.readouterr()
        assert seen.out == ""
        assert "has schema version 1, this program needs 4. Run `sdiag-history migrate` as the file's owner" in seen.err
    assert path.read_bytes() == before
    assert check(path) == (1, [])
    capsys.readouterr()
    assert main(["migrate", "--db", str(path)]) == 0
    assert "schema version 4" in capsys.readouterr().out
    assert check(path) == (4, [])
    fresh = tmp_path / "fresh.sqlite"
    with History.open(fresh) as history:
        history.record(document(), Detail(uid=1001, diagnosed_at=1796051600.0))
    # (steps were recorded in the old one, and another job)
    old, new = set(dump(path)), set(dump(fresh))
    lost = [line for line in new - old if not line.startswith('INSERT INTO "schema_version"')]
    assert lost == []
    assert main(["list", "--json", "--db", str(path)]) == 0
    assert sorted(row["shown_id"] for row in json.loads(capsys.readouterr().out)) == ["1107", "1108"]


def test_a_correction_brings_an_old_file_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(lzma.decompress(VERSION_1.read_bytes()))
    assert main(["wrong", "1108", "--cause", "node_fail", "--why", "x", "--db", str(path)]) == 0
    assert "time_limit (confirmed) -> node_fail" in capsys.readouterr().out
    assert check(path) == (4, [])


def test_the_table_takes_no_row_that_is_neither_correction_nor_undo(tmp_path: Path) -> None:
    with History.open(tmp_path / "h.sqlite") as history:
        row = "INSERT INTO correction VALUES ({}, 'c', '1', '', '', {}, {}, NULL, 'w', 'me', 0, 'a', 'b', 'c', 1)"
        history.db.execute(row.format(1, "NULL", "'node_fail'"))
        for id, undoes, cause in ((2, "NULL", "NULL"), (3, "1", "'node_fail'"), (4, "9", "NULL")):
            with pytest.raises(Exception, match="constraint failed"):
                history.db.execute(row.format(id, undoes, cause))
        history.db.execute(row.format(5, "1", "NULL"))
        with pytest.raises(Exception, match="UNIQUE"):
            history.db.execute(row.format(6, "1", "NULL"))


def test_many_writers_at_once_lose_nothing(db: Path) -> None:
    code = (
        "import sys; from slurm_triage.history.cli import main\n"
        "from slurm_triage.history.store import History; from tests.history.examples import document\n"
        "for n in range(10):\n"
        "    assert main(['wrong', '1001_4', '--cause', 'node_fail', '--why', sys.argv[2] + str(n), '--db', sys.argv[1]]) == 0\n"
        "    with History.open(sys.argv[1]) as h: h.record(document(summary=sys.argv[2] + str(n)))\n"
        "    if n % 2: assert main(['wrong', '1001_4', '--undo', '--db', sys.argv[1]]) == 0\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(db), name], cwd=ROOT, stdout=subprocess.DEVNULL)
        for name in ("a", "b")
    ]
    assert [process.wait(120) for process in running] == [0, 0]
    with History.open(db, readonly=True) as history:
        found = since(history.db)
    assert [c.id for c in found] == list(range(1, 31))
    assert sorted(c.why for c in found if c.cause) == sorted(f"{name}{n}" for name in "ab" for n in range(10))
    undone = [c.undoes for c in found if c.undoes]
    assert len(undone) == len(set(undone)) == 10
    assert [c.standing for c in found].count("counts") == 1
    assert check(db) == (4, [])


def test_a_correction_waits_for_a_writer_and_sees_its_verdict(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    with History.open(db) as other:
        other.db.execute("BEGIN IMMEDIATE")
        other.db.execute("UPDATE attempt SET cause = 'time_limit'")
        argv = ["wrong", "1001_4", "--cause", "node_fail", "--why", "x", "--db", str(db)]
        thread = threading.Thread(target=lambda: codes.append(main(argv)))
        thread.start()
        thread.join(0.3)
        assert codes == []
        other.db.execute("COMMIT")
    thread.join(20)
    assert codes == [0]
    assert "time_limit (confirmed) -> node_fail" in capsys.readouterr().out


def test_a_failed_write_leaves_nothing(db: Path) -> None:
    before = dump(db)
    with History.open(db) as history:
        row = queries.newest(history.db, queries.Filters(), 1)[0]
        with pytest.raises(HistoryError), history_explained(db), writing(history.db):
            corrections.correct(history.db, row, "node_fail", None, "x", "me")
            history.db.execute("INSERT INTO correction SELECT * FROM correction")
        assert not history.db.in_transaction
    assert dump(db) == before


def history_explained(path: Path) -> Any:
    from slurm_triage.history.database import explained

    return explained(path)


def test_other_verbs_do_not_load_what_only_corrections_need() -> None:
    code = "import sys, slurm_triage.history.cli; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60)
    loaded = set(run.stdout.split())
    assert "slurm_triage.history.corrections_cli" in loaded
    assert not {"slurm_triage.history.corrections", "slurm_triage.causes", "dataclasses", "difflib"} & loaded


def test_a_cause_of_the_site_is_known(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(tmp_path / "site")
    monkeypatch.setenv("SLURM_TRIAGE_KNOWLEDGE", "none")
    with pytest.raises(SystemExit):
        ask("wrong", "1107", "--cause", "object_store_gone", "--why", "x")
    monkeypatch.setenv("SLURM_TRIAGE_KNOWLEDGE", str(folder))
    try:
        done(ask, "wrong", "1107", "--cause", "object_store_gone", "--why", "x")
    finally:
        extension.use(extension.Extension())
