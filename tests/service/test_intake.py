"""What nodes sent: kept once, used once, and never lost by being sent again."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.service import intake as intakes
from slurm_triage.service.intake import Intake, IntakeError, Told


def told(job: str = "1001", **more: object) -> Told:
    """A case."""
    base = Told(
        job=job, start=100, node="c1", role="node", uid=1001, array=None, ended=200.0, offset=0.0, received=0.0,
        manifest={"page_size": 4096}, not_seen=("gpu: none",), files={"kmsg.c1.txt": b"line\n"},
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def test_what_is_put_in_comes_out(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    store.put([told(), told(node="c2", array=("1000", "4"))], 5.0)
    first, second = Intake(tmp_path).of(["1001", "7"])["1001"]
    assert replace(first, received=0.0) == told() and first.received == 5.0
    assert second.node == "c2" and second.array == ("1000", "4")
    assert store.news(5.0) == [("1001", "1000_4", 5.0)]


def test_the_same_case_again_is_no_news(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    store.put([told()], 5.0)
    store.used([("1001", 1)])
    store.put([told(offset=3.0, ended=900.0)], 6.0)
    assert store.waiting() == 0 and len(store.of(["1001"])["1001"]) == 1
    store.put([told(files={"kmsg.c1.txt": b"another line\n"})], 7.0)
    assert store.waiting() == 1


def test_what_comes_while_a_round_works_stays_news(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    store.put([told()], 5.0)
    seen = len(store.of(["1001"])["1001"])
    store.put([told(node="c2")], 6.0)
    store.used([("1001", seen)])
    assert store.waiting() == 1
    store.used([("1001", 2)])
    assert store.waiting() == 0


def test_fresh_news_is_left_alone_for_a_moment(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    store.put([told("1")], 5.0)
    store.put([told("2")], 9.0)
    assert [job for job, _, _ in store.news(8.0)] == ["1"]


def test_all_of_a_message_or_nothing(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    with sqlite3.connect(store.path) as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON told WHEN new.job = '2' BEGIN SELECT raise(ABORT, 'full'); END"
        )
    with pytest.raises(IntakeError, match="full"):
        store.put([told("1"), told("2")], 5.0)
    assert store.of(["1", "2"]) == {} and store.waiting() == 0
    store.put([told("1")], 6.0)
    assert store.waiting() == 1


def test_a_record_that_is_damaged_costs_itself_only(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    store.put([told("1"), told("2")], 5.0)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE told SET packed = x'00' WHERE job = '1'")
    assert list(store.of(["1", "2"])) == ["2"] and store.dropped == 1


def test_old_evidence_goes_and_what_was_never_used_is_counted(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    store.put([told("1"), told("2")], 5.0)
    store.put([told("3")], 50.0)
    store.used([("1", 1)])
    assert store.forget(40.0) == 1 and store.dropped == 1
    assert list(store.of(["1", "2", "3"])) == ["3"]


def test_too_much_evidence_loses_its_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "MOST_CASES", 50)
    store = Intake(tmp_path)
    for number in range(100):
        store.put([told(str(number))], float(number))
    lost = store.forget(0.0)
    left = store.of(map(str, range(100)))
    assert 40 <= len(left) <= 50 and lost == 100 - len(left) and "99" in left and "0" not in left


def test_a_folder_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(IntakeError, match=r"intake\.sqlite"):
        Intake(tmp_path / "none")


def test_a_host_that_says_something_new_of_a_job_for_ever_is_not_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intakes, "MOST_OF_HOST", 3)
    store = Intake(tmp_path)
    for number in range(10):
        store.put([told(files={"kmsg.c1.txt": b"%d" % number}), told("1002")], 5.0)
    store.put([told(node="c2")], 6.0)
    assert [one.node for one in store.of(["1001"])["1001"]] == ["c1"] * 3 + ["c2"] and store.dropped == 7
    store.forget(100.0)
    store.put([told()], 101.0)
    assert len(store.of(["1001"])["1001"]) == 1


def test_of_too_much_about_one_job_the_rest_is_said_to_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intakes, "MOST_OF_JOB", 25)
    store = Intake(tmp_path)
    store.put([told(node=f"c{n}", files={f"kmsg.c{n}.txt": b"x" * 10}) for n in range(4)], 5.0)
    cases = store.of(["1001"])["1001"]
    assert [len(case.files) for case in cases] == [1, 1, 0, 0] and len(cases) == 4
    assert cases[3].not_seen == ("gpu: none", "evidence of c3: left out, there is too much of this job")


def test_a_job_of_which_all_is_damaged_is_no_news_for_ever(tmp_path: Path) -> None:
    store = Intake(tmp_path)
    store.put([told("1")], 5.0)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE told SET packed = x'00'")
    seen = len(store.of(["1"]).get("1", ()))
    store.used([("1", seen)])
    assert store.waiting() == 0
