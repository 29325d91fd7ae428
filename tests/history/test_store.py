from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.history.database import check, connect, is_about_the_document, migrate, migrations
from slurm_triage.history.detail import detail_of
from slurm_triage.history.store import Detail, History, HistoryError, StepDetail, TaskDetail
from slurm_triage.model import Cite, JobRecord, ShownExit, Stamp, StepRecord, TaskExit
from tests.history.examples import document, whole


@pytest.fixture
def history(tmp_path: Path) -> Any:
    with History.open(tmp_path / "h.sqlite") as opened:
        yield opened


def rows(history: History, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in history.db.execute(f"SELECT {', '.join(columns) or '*'} FROM {table} ORDER BY 1, 2")]


def dump(history: History) -> list[str]:
    return list(history.db.iterdump())


def test_record_fills_every_table(history: History) -> None:
    detail = Detail(
        uid=1001,
        work_dir="/home/user1",
        req_mem=80 * 2**20,
        time_limit=float("inf"),
        steps=(StepDetail("0", "OUT_OF_MEMORY", None, 125, max_rss=70312 * 1024),),
        tasks=(TaskDetail(2, "0", "c1", 0, 9, False, 1796051500.0),),
        diagnosed_at=1796051600.0,
    )
    assert history.record(document(), detail) == 1
    job = dict(history.db.execute("SELECT * FROM job").fetchone())
    assert (job["cluster"], job["job_id"], job["user_name"], job["uid"]) == ("mini", "1107", "user1", 1001)
    assert (job["submit_time"], job["time_limit"], job["req_mem"]) == (1796051469.0, -1.0, 80 * 2**20)
    attempt = dict(history.db.execute("SELECT * FROM attempt").fetchone())
    assert attempt["start_time"] == 1796051478.0
    assert attempt["end_time"] == attempt["at"] == 1796051501.0
    assert (attempt["elapsed"], attempt["n_nodes"], attempt["nodes"]) == (23.0, 2, "c[1-2]")
    assert (attempt["exit_code"], attempt["signal"], attempt["core_dumped"], attempt["raw_status"]) == (0, 9, 0, 9)
    assert (attempt["first_failure_rank"], attempt["first_failure_node"]) == (2, "c1")
    assert (attempt["revision"], attempt["diagnosed_at"]) == (1, 1796051600.0)
    assert rows(history, "attempt_node") == [(1, "c1", 1796051501.0), (1, "c2", 1796051501.0)]
    assert rows(history, "finding", "ordinal", "role", "cause", "strength", "owner") == [
        (0, "cause", "memcg_oom", "confirmed", "user"),
        (1, "also", "preempted_by_qos", "likely", None),
    ]
    assert rows(history, "citation", "ordinal", "finding", "source", "file", "line", "at") == [
        (0, 0, "kernel_log", "kmsg.txt", 12, 1796051500.0),
        (1, 0, "sacct", "sacct.psv", 3, None),
    ]
    assert rows(history, "missing") == [(1, 0, "memory of the node", "node_oom", "read /proc/meminfo")]
    assert rows(history, "step", "step", "state", "exit_code", "signal", "max_rss") == [
        ("0", "OUT_OF_MEMORY", None, 125, 70312 * 1024)
    ]
    assert rows(history, "task", "rank", "node", "signal", "core_dumped") == [(2, "c1", 9, 0)]


def test_recording_again_changes_nothing(history: History) -> None:
    history.record(document(), Detail(uid=1001, steps=(StepDetail("0"),)))
    before = dump(history)
    history.record(document(), None)
    assert dump(history) == before


def test_replacing_leaves_no_old_rows_and_counts_revisions(history: History) -> None:
    history.record(document(), Detail(diagnosed_at=10.0, steps=(StepDetail("0"),)))
    history.record(document(summary="Other words.", job_nodes=["c7"]), Detail(diagnosed_at=20.0))
    assert rows(history, "attempt", "id", "revision", "summary", "diagnosed_at") == [(1, 1, "Other words.", 20.0)]
    assert rows(history, "attempt_node", "node", "attempt") == [("c7", 1)]
    assert rows(history, "step") == []
    assert rows(history, "finding", "ordinal", "role") == [(0, "cause"), (1, "also")]


@pytest.mark.parametrize("change", [{"cause": "unknown"}, {"owner": "admin"}, {"strength": "likely"}])
def test_revision_grows_when_the_verdict_changes(history: History, change: dict[str, str]) -> None:
    history.record(document())
    history.record(document(**change))
    history.record(document(**change))
    assert rows(history, "attempt", "id", "revision") == [(1, 2)]


def test_what_a_later_diagnosis_does_not_know_of_the_job_stays(history: History) -> None:
    history.record(document(), Detail(uid=1001, work_dir="/home/user1"))
    history.record(document(job_account=None, job_qos="high"), Detail())
    assert rows(history, "job", "account", "qos", "uid", "work_dir") == [("acc", "high", 1001, "/home/user1")]


def test_attempts_of_a_requeued_job(history: History) -> None:
    first = document(job_state="PREEMPTED", job_attempts=2)
    second = document(
        job_attempt=2,
        job_attempts=2,
        job_submit="2026-11-30T15:11:45Z",
        job_start="2026-11-30T15:13:20Z",
        job_end="2026-11-30T15:14:00Z",
    )
    assert history.record(whole(first, second)) == 2
    assert history.record(whole(first, second)) == 2
    assert rows(history, "attempt", "attempt_no", "start_key") == [
        (1, "2026-11-30T15:11:18Z"),
        (2, "2026-11-30T15:13:20Z"),
    ]
    assert {r[0] for r in rows(history, "job", "job_id", "id")} == {"1107"}


def test_attempts_that_share_their_submit_time_share_the_job(history: History) -> None:
    history.record(document())
    history.record(document(job_attempt=2, job_start="2026-11-30T15:20:00Z", job_end=None))
    assert len(rows(history, "job", "id", "job_id")) == 1
    assert len(rows(history, "attempt", "id", "job")) == 2


def test_never_started_is_one_row(history: History) -> None:
    never = document(job_start=None, job_end="2026-11-30T15:11:30Z", job_nodes=[], cause="cancelled_by_user")
    history.record(never)
    history.record(never)
    assert rows(history, "attempt", "start_key", "start_time", "n_nodes", "nodes", "elapsed") == [
        ("", None, None, None, None)
    ]


def test_array_and_het_parts(history: History) -> None:
    task = document(job_job_id="1005", job_shown_id="1001_4", job_array="1001", job_array_task="4")
    part = document(job_job_id="1112", job_shown_id="1111+1", job_het="1111", job_het_offset="1")
    nested = {**whole(task), "schema": None}
    assert history.record(whole(nested, part)) == 2
    assert rows(history, "job", "job_id", "array_id", "array_task", "het_id", "het_offset", "shown_id") == [
        ("1005", "1001", "4", None, None, "1001_4"),
        ("1112", None, None, "1111", "1", "1111+1"),
    ]


def test_details_of_parts_are_matched_by_order(history: History) -> None:
    one, two = document(job_job_id="1"), document(job_job_id="2")
    history.record(whole(one, two), Detail(parts=(None, Detail(uid=77))))
    assert rows(history, "job", "job_id", "uid") == [("1", None), ("2", 77)]


def test_submit_time_learned_later_or_lost_is_the_same_attempt(history: History) -> None:
    history.record(document(job_submit=None))
    history.record(document())
    history.record(document(job_submit=None, owner="admin"))
    assert rows(history, "job", "submit_key", "id") == [("2026-11-30T15:11:09Z", 2)]
    assert rows(history, "attempt", "id", "job", "owner") == [(1, 2, "admin")]


def test_same_id_on_another_cluster_or_day_is_another_job(history: History) -> None:
    history.record(document())
    history.record(document(job_cluster="other"))
    history.record(document(job_submit="2027-01-01T00:00:00Z", job_start="2027-01-01T00:00:01Z"))
    assert len(rows(history, "attempt", "id", "job")) == 3


def test_time_without_zone_is_no_epoch(history: History) -> None:
    history.record(document(job_submit="2026-11-30T15:11:09", job_start="2026-11-30T15:11:18", job_end=None))
    assert rows(history, "attempt", "start_key", "start_time", "at") == [("2026-11-30T15:11:18", None, None)]


def test_part_without_a_job_id_is_not_recorded(history: History) -> None:
    assert history.record(document(job_job_id=None, job_shown_id=None)) == 0
    assert rows(history, "attempt", "id", "job") == []


@pytest.mark.parametrize(
    "odd",
    [
        {"evidence": "no list", "also": [None, 3, {"cause": 7}], "not": {}, "missing": None},
        {"job_nodes": "c1", "job_exit": None, "first_failure": [], "job_attempt": 10**30},
        {"job_name": "a\x00b\ud800\n\x1b[31m", "summary": "\udfff"},
        {"job_exit": {"code": 2**70, "signal": "nine", "raw": True}},
        {"job_start": "yesterday", "job_end": "9999-99-99T00:00:00Z", "job_submit": 17},
    ],
)
def test_odd_members_are_passed_over(history: History, odd: dict[str, Any]) -> None:
    assert history.record(document(**odd)) == 1
    assert history.db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    name = history.db.execute("SELECT name FROM job").fetchone()[0]
    assert "\x00" not in name
    assert "\ud800" not in name


def test_document_of_another_schema_is_refused(history: History) -> None:
    with pytest.raises(HistoryError, match="diagnosis/2"):
        history.record({**document(), "schema": "slurm-triage/diagnosis/2"})


def test_a_failed_part_leaves_nothing_of_the_case(history: History) -> None:
    with pytest.raises(HistoryError, match="JSON"):
        history.record(whole(document(job_job_id="1"), document(job_job_id="2", coverage=[object()])))
    assert rows(history, "job", "id", "job_id") == []
    assert history.record(document()) == 1


# ---------------------------------------------------------------------------------------- the file


def test_new_file_is_for_owner_and_group(tmp_path: Path) -> None:
    path = tmp_path / "odd name?#%.sqlite"
    History.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    with History.open(path, readonly=True) as history:
        assert history.db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        with pytest.raises(HistoryError):
            history.record(document())


def test_missing_folder_missing_file_folder_as_file(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="does not exist"):
        History.open(tmp_path / "no" / "h.sqlite")
    with pytest.raises(HistoryError, match="there is no history"):
        History.open(tmp_path / "h.sqlite", readonly=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(HistoryError, match="regular file"):
        History.open(tmp_path)


@pytest.mark.parametrize("readonly", [True, False])
def test_file_that_is_no_history(tmp_path: Path, readonly: bool) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"this is not a database, only some text\n" * 100)
    with pytest.raises(HistoryError, match="not a history"):
        History.open(text, readonly)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = other.read_bytes()
    with pytest.raises(HistoryError, match="another program"):
        History.open(other, readonly)
    assert other.read_bytes() == before


def test_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        for number in range(200):
            history.record(document(job_job_id=str(number)))
    data = bytearray(path.read_bytes())
    page = 4096
    for start in range(20 * page, len(data) - page, page):
        data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)
    try:
        _, problems = check(path)
    except HistoryError as error:
        problems = [str(error)]
    assert problems
    with pytest.raises(HistoryError, match="damaged"), History.open(path) as history:
        for number in range(200):
            history.record(document(job_job_id=str(number), owner="admin"))


def test_migrations_are_numbered_without_gaps_and_recorded(tmp_path: Path) -> None:
    known = migrations()
    assert [number for number, _, _ in known] == list(range(1, len(known) + 1))
    path = tmp_path / "h.sqlite"
    path.touch()
    with pytest.raises(HistoryError, match="sdiag-history migrate"):
        History.open(path, readonly=True)
    with History.open(path) as history:
        assert rows(history, "schema_version", "version", "name") == [(n, name) for n, name, _ in known]
    assert check(path) == (len(known), [])


def test_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        history.db.execute("INSERT INTO schema_version VALUES (999, 0, 'future')")
    before = path.read_bytes()
    for readonly in (True, False):
        with pytest.raises(HistoryError, match="written by a newer slurm-triage"):
            History.open(path, readonly)
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_the_version_before(tmp_path: Path) -> None:
    folder = tmp_path / "schema"
    folder.mkdir()
    for number, name, file in migrations():
        (folder / f"{number:04d}_{name}.sql").write_text(file.read_text())
    more = len(migrations()) + 1
    (folder / f"{more:04d}_more.sql").write_text("CREATE TABLE more (a TEXT);\nCREATE TABLE job (twice TEXT);\n")
    path = tmp_path / "h.sqlite"
    db = connect(path)
    with pytest.raises(sqlite3.Error):
        migrate(db, path, folder)
    assert not db.in_transaction
    assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'more'").fetchall()
    (folder / f"{more:04d}_more.sql").write_text(
        "CREATE TABLE more (a TEXT DEFAULT ';');\nCREATE INDEX m ON more (a);\n"
    )
    assert migrate(db, path, folder) == more
    assert [r[0] for r in db.execute("SELECT version FROM schema_version ORDER BY 1")] == list(range(1, more + 1))
    db.close()


def test_two_processes_create_and_record_at_once(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    code = (
        "import sys; from slurm_triage.history.store import History; from tests.history.examples import document\n"
        "for n in range(20):\n"
        "    with History.open(sys.argv[1]) as h: h.record(document(job_job_id=sys.argv[2] + str(n)))\n"
        "    with History.open(sys.argv[1]) as h: h.record(document(job_job_id='7', owner=sys.argv[2]))\n"
    )
    root = Path(__file__).parents[2]
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), name], cwd=root) for name in ("1", "2")]
    assert [process.wait(60) for process in running] == [0, 0]
    with History.open(path, readonly=True) as history:
        assert history.db.execute("SELECT COUNT(*) FROM attempt").fetchone()[0] == 41
        assert history.db.execute("SELECT COUNT(*) FROM job WHERE job_id = '7'").fetchone()[0] == 1
    assert check(path)[1] == []


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    other = History.open(path)
    other.db.execute("BEGIN IMMEDIATE")
    done: list[int] = []

    def write() -> None:
        with History.open(path) as history:
            done.append(history.record(document()))

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(0.3)
    assert done == []
    other.db.execute("COMMIT")
    other.close()
    thread.join(20)
    assert done == [1]


def test_busy_for_too_long_is_said(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as one, History.open(path) as two:
        one.db.execute("BEGIN IMMEDIATE")
        two.db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(HistoryError, match="busy"):
            two.record(document())
        one.db.execute("ROLLBACK")
        assert two.record(document()) == 1


def test_writer_that_died_in_the_middle_leaves_the_state_before(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        history.record(document())
    code = (
        "import os, sys; from slurm_triage.history.store import History\n"
        "db = History.open(sys.argv[1]).db\n"
        "db.execute('PRAGMA cache_spill = 1'); db.execute('PRAGMA cache_size = 2'); db.execute('BEGIN IMMEDIATE')\n"
        "db.execute(\"UPDATE attempt SET summary = 'half', diagnosis = hex(zeroblob(500000))\")\n"
        "for n in range(3, 2000): db.execute(\"INSERT INTO missing VALUES (1, ?, 'half', '', '')\", (n,))\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    assert path.with_name("h.sqlite-journal").exists()
    with pytest.raises(HistoryError, match=r"left its journal.*sdiag-history migrate"):
        History.open(path, readonly=True)
    with History.open(path) as history:
        assert rows(history, "attempt", "summary", "id") == [(document()["summary"], 1)]
        assert len(rows(history, "missing", "attempt", "ordinal")) == 1
    History.open(path, readonly=True).close()


# ---------------------------------------------------------------------------------------- details from evidence

CITE = Cite("sacct", "sacct.psv", 2, "")


def test_detail_of_evidence() -> None:
    records = [
        JobRecord(CITE, "1107", uid=None, req_mem=80, req_mem_per="cpu", time_limit=60.0),
        JobRecord(CITE, "1107", uid=1001, req_mem=160, n_nodes=2, elapsed=23.0),
    ]
    cut = ShownExit(9, 0, minus_128=True)
    steps = [
        StepRecord(CITE, "1107", "batch", state="FAILED", exit=cut),
        StepRecord(CITE, "1107", "batch", state="COMPLETED", exit=ShownExit(0, 0, True)),
        StepRecord(CITE, "1107", "0", state="COMPLETED", exit=ShownExit(0, 0, None), start=Stamp(5, 6)),
        StepRecord(CITE, "1107", "1", state="FAILED", exit=ShownExit(9, 0, False), start=Stamp(5, 6, zoned=False)),
    ]
    tasks = [TaskExit(CITE, "1107", "0", rank=1, status=139), TaskExit(CITE, "1107", "0", rank=1, status=0)]
    found = detail_of(records, steps, tasks)
    assert (found.uid, found.req_mem, found.time_limit, found.elapsed, found.n_nodes) == (1001, 160, 60.0, 23.0, 2)
    assert [(s.step, s.code, s.start) for s in found.steps] == [("batch", None, None), ("0", 0, 5), ("1", 9, None)]
    assert [(t.rank, t.code, t.signal, t.core_dumped) for t in found.tasks] == [(1, 0, 11, True)]


def test_memory_per_node_is_multiplied() -> None:
    assert detail_of([JobRecord(CITE, req_mem=80, req_mem_per="node", n_nodes=3)], [], []).req_mem == 240
    assert detail_of([JobRecord(CITE, req_mem=80, req_mem_per="cpu", n_nodes=3)], [], []).req_mem is None


def many(count: int) -> list[dict[str, Any]]:
    """Documents of different jobs."""
    return [{**document(), "job": {**document()["job"], "job_id": str(5000 + n)}} for n in range(count)]


def test_a_batch_records_what_records_would(tmp_path: Path, history: History) -> None:
    detail = Detail(uid=1001, steps=(StepDetail("0"),), diagnosed_at=1.0)
    with History.open(tmp_path / "other.sqlite") as other:
        for one in many(7):
            other.record(one, detail)
        with history.batch(3):
            assert [history.record(one, detail) for one in many(7)] == [1] * 7
        assert not history.db.in_transaction
        tables = ("job", "attempt", "attempt_node", "finding", "citation", "missing", "step")
        assert all(rows(history, table) == rows(other, table) for table in tables)


class Odd(int):
    """A number that is none when it is looked at."""

    def __lt__(self, other: object) -> bool:
        raise AttributeError("odd")


def test_a_bad_document_costs_no_other_of_a_batch(history: History) -> None:
    bad = [{**document(), "schema": "x/9"}, {**document(), "numbers": [{"value": float("nan")}]}, *many(1)]
    bad[2]["parts"] = [{**many(1)[0]}, {**document(), "numbers": [object()]}]  # the second part only
    bad.append({**document(), "job": {**document()["job"], "attempt": Odd()}})
    with history.batch():
        for one in many(4)[1:]:
            assert history.record(one) == 1
            for wrong in bad:
                with pytest.raises(HistoryError) as caught:
                    history.record(wrong)
                assert is_about_the_document(caught.value)
    assert [job for _, job in rows(history, "job", "id", "job_id")] == ["5001", "5002", "5003"]
    assert rows(history, "attempt", "id", "job") == [(1, 1), (2, 2), (3, 3)]


def test_what_fails_in_a_batch_costs_the_open_transaction_at_most(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as history, pytest.raises(ZeroDivisionError), history.batch(2):
        for number, one in enumerate(many(5)):
            history.record(one)
            1 // (4 - number)
    with History.open(path) as history:
        assert [job for _, job in rows(history, "job", "id", "job_id")] == ["5000", "5001", "5002", "5003"]
        history.record(many(5)[4])  # as before, each for itself
        assert not history.db.in_transaction


def test_a_history_that_fails_ends_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as history:
        history.record(many(1)[0])
        history.db.execute("PRAGMA max_page_count = 60")
        with pytest.raises(HistoryError, match="file system is full") as caught, history.batch(1000):
            for one in many(500):
                history.record(one)
        assert not is_about_the_document(caught.value) and not history.db.in_transaction
        assert len(rows(history, "job")) == 1
    with History.open(path) as history, history.batch():
        assert history.record(many(2)[1]) == 1


def test_others_read_and_wait_for_no_whole_batch(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with History.open(path) as writer, History.open(path, readonly=True) as reader, writer.batch(100):
        for number, one in enumerate(many(250)):
            writer.record(one)
            assert len(rows(reader, "job")) == (number + 1) // 100 * 100
