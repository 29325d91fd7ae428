"""`sdiag-history job` over histories whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_triage.history.cli import main
from tests.history.planted import NOW, Planted

NODES = [f"n{number:02d}" for number in range(16)]
WINDOW = ["--until", f"@{NOW + 1}"]


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path / "h.sqlite")


def scaling(planted: Planted) -> Path:
    """A program of alice that fails from 8 nodes on, one of bob of the same name, and another one of alice's."""
    for at, size in enumerate((1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 16)):
        cause = "nccl_timeout_desync" if size >= 8 else None
        planted.run(NODES[:size], cause, name=f"train-{at}", days_ago=20 - at)
    planted.run(NODES[:1], name="train-1", user="bob")
    planted.run(NODES[:1], "gpu_oom", name="post")
    return planted.write()


def asked(path: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert main(["job", *words, "--db", str(path), *WINDOW]) == code
    said = capsys.readouterr()
    return said.out, said.err


@pytest.mark.parametrize("word", ["train-7", "train-999", "8"])
def test_the_answer_is_the_first_line(planted: Planted, capsys: pytest.CaptureFixture[str], word: str) -> None:
    """By the name of any of its jobs, and by the id of one."""
    text, _ = asked(scaling(planted), capsys, word, "--why", "--user", "alice")
    lines = text.splitlines()
    assert lines[0].startswith("It works up to 4 nodes and fails from 8 nodes on: ")
    assert lines[1] == "train-# of alice: 4 of 11 runs failed: nccl_timeout_desync 4"
    assert "collective test" in text and "ended well" in text and "post" not in text


def test_a_name_of_two_users_has_to_be_chosen(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    text, note = asked(scaling(planted), capsys, "train-7", "--why", code=1)
    assert not text and "alice on mini, bob on mini" in note and "--user" in note
    assert "train-# of bob: 0 of 1 runs failed" in asked(planted.path, capsys, "train-7", "--user", "bob")[0]


def test_what_is_not_there(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    path = scaling(planted)
    for word in ("nothing", "99999", "tra*", "x' OR 1=1 --"):
        text, note = asked(path, capsys, word, code=1)
        assert not text and "no job of that id or name" in note


def test_json(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    path = scaling(planted)
    answers = json.loads(asked(path, capsys, "train-7", "--user", "alice", "--why", "--json")[0])
    assert answers[0]["about"] == "scale" and answers[0]["holds"] == "yes" and answers[0]["next"]
    runs = json.loads(asked(path, capsys, "train-7", "--user", "alice", "--json", "-n", "3")[0])
    assert [one["n_nodes"] for one in runs] == [16, 8, 8] and runs[0]["cause"] == "nccl_timeout_desync"


def test_only_failures_are_known(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    for at in range(4):
        planted.run(["n01"], "app_error", name="broken", days_ago=4 - at, elapsed=600.0 * (at + 1))
    text, note = asked(planted.write(), capsys, "broken", "--why")
    assert "No pattern stands out" in text and "stop, and change something first" in text
    assert "no run that ended well is recorded" in note


def test_names_are_text(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a*b[c]?'\"\x1b[31m"
    for at in range(3):
        planted.run(["n01"], "app_error", name=name, days_ago=3 - at)
    planted.run(["n01"], "app_error", name="aXXb", days_ago=1)
    text, _ = asked(planted.write(), capsys, name, "--why")
    assert "3 of 3 runs failed" in text and "\x1b" not in text
