"""The page is what the generator writes; baselines and their absence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import robustness
from tests.accuracy import Answer, Scored, by_cause, expected
from tests.accuracy_page import FIGURES, PAGE, render
from tests.baselines import Said, exit_codes, gpualert_adapter, grep_list, slurmpast_adapter
from tests.baselines import compare as comparing
from tests.corpus.load import PUBLIC, cases


def test_the_page_is_what_the_generator_makes_of_the_figures() -> None:
    data = json.loads(FIGURES.read_text("utf-8"))
    assert PAGE.read_text("utf-8") == render(data), "run `make accuracy-page`"


def test_the_page_names_every_weakness_that_was_measured() -> None:
    data = json.loads(FIGURES.read_text("utf-8"))
    page = render(data)
    for row in data["unsettled"]:
        assert row["id"] in page
    assert len(data["wrong_confirmed"]) == sum(row["wrong_confirmed"] for row in data["corpora"])
    for case in data["wrong_confirmed"]:
        assert case in page
    for row in data["robustness"]:
        for case in (*row["wrong_confirmed"], *row["false_hardware"]):
            assert case in page
    for false in data["healthy"]["false"]:
        assert false["log"] in page
    assert data["healthy"]["megabytes"] >= 400  # 200 MB alone, 200 MB with accounting


def test_a_wrong_answer_would_stand_on_the_page() -> None:
    data = json.loads(FIGURES.read_text("utf-8"))
    data["robustness"][0]["wrong_confirmed"] = ["777-made-up: global_oom"]
    data["healthy"]["false"] = [{"log": "output/x.log", "cause": "gpu_oom", "strength": "likely", "line": "a|b"}]
    page = render(data)
    assert "777-made-up: global_oom" in page and "a\\|b" in page and "`gpu_oom` (likely)" in page


def test_the_page_was_measured_over_all_cases() -> None:
    data = json.loads(FIGURES.read_text("utf-8"))
    public = next(row for row in data["corpora"] if row["corpus"] == PUBLIC)
    assert public["n"] == len(list(cases(PUBLIC)))
    assert [row["change"] for row in data["robustness"]] == list(robustness.CHANGES)
    assert {row["cause"] for row in data["causes"]["public"]} == {
        expected(label).cause for _, _, label in cases(PUBLIC) if expected(label).derivable
    }


def test_f1_of_a_cause() -> None:
    label = expected({"cause": "a", "also": ["b"], "owner": "user"})
    said = [Scored(str(i), label, Answer(cause, "user", "likely")) for i, cause in enumerate(("a", "b", "c"))]
    found = by_cause(said)
    assert list(found) == ["a"]
    assert (found["a"].said, found["a"].meant) == (2, 3)
    assert found["a"].f1 == pytest.approx(0.8)


# ------------------------------------------------------------------------------------------------ baselines


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("State: OUT_OF_MEMORY (exit code 0)", "memcg_oom"),
        ("1|FAILED|127:0", "command_not_found"),
        ("1|FAILED|0:11", "app_segfault"),
        ("task 1: Exited with exit code 139", "app_segfault"),
        ("task 1: Exited with exit code 3", "app_error"),
    ],
)
def test_exit_code_table(text: str, first: str) -> None:
    assert exit_codes.answer({"sacct.txt": text}).causes[0] == first


def test_a_baseline_that_sees_nothing_names_nothing() -> None:
    assert exit_codes.answer({"job.out": "hello"}) == Said(words="")
    assert grep_list.answer({"job.out": "hello"}) == Said()


def test_every_cause_that_a_baseline_may_mean_exists() -> None:
    from slurm_triage.causes import all_causes

    tables = [
        *exit_codes.STATE.values(),
        *exit_codes.SIGNAL.values(),
        *exit_codes.CODE.values(),
        *(causes for _, causes in grep_list.LIST),
        *gpualert_adapter.LABELS.values(),
        *slurmpast_adapter.FINDINGS.values(),
    ]
    assert {cause for causes in tables for cause in causes} <= set(all_causes())


def test_the_right_one_of_several_causes_counts() -> None:
    label = expected({"cause": "global_oom", "owner": "user"})
    assert comparing.as_scored("1", label, Said(("memcg_oom", "global_oom"))).right
    wrong = comparing.as_scored("1", label, Said(("gpu_oom", "app_error"), "confirmed"))
    assert (wrong.right, wrong.answer.cause, wrong.confirmed) == (False, "gpu_oom", True)
    assert comparing.as_scored("1", label, Said()).answer.cause == "unknown"


def test_a_tool_that_is_not_installed_is_a_row_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tests.baselines

    monkeypatch.setattr(tests.baselines, "PYTHON", tmp_path / "none")
    loaded = [("1", {"job.out": b"Segmentation fault\n"}, {"cause": "app_segfault", "owner": "user"})]
    ours = [Scored("1", expected(loaded[0][2]), Answer("app_segfault", "user", "confirmed"))]
    rows = {row.name: row for row in comparing.compare(loaded, ours)}
    assert rows["gpualert"].problem == rows["slurmpast"].problem == "not installed (make baselines)"
    assert (rows["plain grep list"].accuracy, rows["slurm-triage"].accuracy) == (1.0, 1.0)
    assert "not installed (make baselines)" in comparing.table(list(rows.values()))
