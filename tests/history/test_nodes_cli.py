"""`sdiag-history nodes` over histories whose truth is known: who is blamed, who is not, and what is said of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.history.cli import main
from tests.history.planted import NOW, Planted

NODES = [f"n{number:02d}" for number in range(12)]
WINDOW = ["--until", f"@{NOW}"]


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path / "h.sqlite")


def asked(planted: Planted, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["nodes", "--db", str(planted.write()), *WINDOW, *words]) == 0
    return capsys.readouterr().out


def rates(planted: Planted, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    return {one["node"]: one for one in json.loads(asked(planted, capsys, "--json", "-n", "0", *words))}


def test_a_bad_node_is_the_first_line(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES:
        planted.some(node, 40, 0.6 if node == "n07" else 0.1)
        planted.some(node, 20, 0.5 if node == "n07" else 0.1, name="post", user="bob", cause="gpu_fallen_off_bus",
                     owner="hardware")  # fmt: skip
    text = asked(planted, capsys)
    lines = text.splitlines()
    assert lines[0].startswith("n07 fails more often than its peers: ") and "would have had" in lines[0]
    assert sum("fails more often" in line for line in lines) == 1
    assert "gpu_fallen_off_bus" in text and "hardware's or the administrator's" in text
    assert "scontrol update nodename=n07 state=drain reason='slurm-triage: " in text
    assert "#SBATCH --exclude=n07" in text and "until 20" in text
    found = rates(planted, capsys)
    assert found["n07"]["says"] == "stands out" and found["n07"]["kinds"] == 2
    assert found["n07"]["low"] > found["n07"]["expected"] / found["n07"]["jobs"]
    assert {one["says"] for node, one in found.items() if node != "n07"} == {"as its peers"}


def test_nodes_that_are_alike_are_not_blamed(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES:
        planted.some(node, 40, 0.2)
    text = asked(planted, capsys)
    assert text.startswith("No node fails more often than its peers: 12 compared.\n")
    assert "drain" not in text and "--exclude" not in text


def test_a_user_whose_program_is_broken_blames_no_node(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    """Most of it ran on one node: by its bare share of failures that node would be the worst by far."""
    for node in NODES:
        planted.some(node, 40, 0.1)
        planted.some(node, 50 if node == "n03" else 2, 1.0, user="carol", name="broken")
    assert rates(planted, capsys)["n03"]["says"] == "as its peers"


def test_a_user_who_runs_more_blames_no_node(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES:
        planted.some(node, 30, 0.1)
        planted.some(node, 200 if node == "n03" else 10, 0.4, user="dave", name="sweep")
    assert {one["says"] for one in rates(planted, capsys).values()} == {"as its peers"}


def test_what_people_and_the_scheduler_did_is_no_failure_of_a_node(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in NODES:
        planted.some(node, 40, 0.1)
        planted.some(node, 40, 0.9 if node == "n03" else 0.1, cause="preempted", owner="scheduler")
    found = rates(planted, capsys)
    assert found["n03"]["says"] == "as its peers"
    assert "preempted" not in json.dumps(found)


def test_a_wide_job_counts_against_the_node_where_it_began(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(60):
        planted.run(NODES[:4])
    for _ in range(20):
        planted.run(NODES[:4], "app_error", first="n02")
    found = rates(planted, capsys)
    assert found["n02"]["says"] == "stands out" and found["n02"]["failed"] == 20
    assert [found[node]["failed"] for node in ("n00", "n01", "n03")] == [0, 0, 0]


def test_too_few_jobs_is_said(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES[:3]:
        planted.run([node])
    planted.run(["n00"], "app_error")
    text = asked(planted, capsys)
    assert text.startswith("3 nodes have too few comparable jobs to tell.\n")
    assert "fails more often" not in text


def test_without_good_runs_nothing_can_be_compared(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(30):
        planted.run(["n00"], "app_error")
        planted.run(["n01"], "app_error")
    assert main(["nodes", "--db", str(planted.write()), *WINDOW]) == 0
    said = capsys.readouterr()
    assert "nothing to compare with" in said.err and "stands out" not in said.out


def test_the_window_and_the_filters(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES:
        planted.some(node, 40, 0.9 if node == "n07" else 0.1)
    assert rates(planted, capsys)["n07"]["says"] == "stands out"
    assert rates(planted, capsys, "--since", f"@{NOW - 7 * 86400}", "--user", "alice")["n07"]["jobs"] == 40
    assert rates(planted, capsys, "--user", "bob") == {}
    assert rates(planted, capsys, "--cluster", "other") == {}
    assert main(["nodes", "--db", str(planted.path), "--until", f"@{NOW - 30 * 86400}"]) == 0
    assert capsys.readouterr().out == "No job ran on any node in this time.\n"


def test_csv_and_headings(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES:
        planted.some(node, 10, 0.2)
    rows = list(csv.DictReader(io.StringIO(asked(planted, capsys, "--csv", "-n", "3"))))
    assert len(rows) == 3 and int(rows[0]["jobs"]) == 10 and rows[0]["causes"].startswith("app_error ")
    assert "NODE" in asked(planted, capsys) and "NODE" not in asked(planted, capsys, "--no-header")


def test_a_correction_changes_who_is_blamed(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for node in NODES:
        planted.some(node, 30, 0.1)
    for _ in range(12):
        planted.run(["n07"], "app_error", days_ago=3.0)
    before = rates(planted, capsys)["n07"]
    assert before["says"] == "stands out"
    listed = ["list", "--db", str(planted.path), "--node", "n07", "-n", "0", "--json"]
    assert main(listed) == 0
    for job in [one["job_id"] for one in json.loads(capsys.readouterr().out)]:
        words = ["--cause", "cancelled_by_user", "--why", "it was me"]
        assert main(["wrong", job, *words, "--db", str(planted.path)]) == 0
    capsys.readouterr()
    assert main(["nodes", "--db", str(planted.path), *WINDOW, "--json", "-n", "0"]) == 0
    after = {one["node"]: one for one in json.loads(capsys.readouterr().out)}["n07"]
    assert after["says"] == "as its peers" and after["failed"] == 0
