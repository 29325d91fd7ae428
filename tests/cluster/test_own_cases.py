"""The tables of our own cases are usable, and their labels are."""

from __future__ import annotations

import re
from pathlib import Path

from slurm_triage import causes
from tests.cluster.own_cases.record import FILES, phases, recorded
from tests.cluster.scenarios import load

PROGRAMS = Path(__file__).resolve().parents[2] / "docker" / "own_cases" / "programs"


def test_every_case_has_a_label_that_can_be_scored() -> None:
    known = set(causes.all_causes())
    every = load(*FILES)
    assert len(every) >= 60
    for scenario in every:
        assert {scenario.expect.cause, *scenario.expect.accept} <= known, scenario.name
        assert scenario.expect.cause not in scenario.expect.accept, scenario.name


def test_every_program_of_a_case_is_built() -> None:
    built = (PROGRAMS / "build.sh").read_text("utf-8") + (PROGRAMS.parent / "prepare.sh").read_text("utf-8")
    wrong = {"ring-intel"}  # there is none
    for scenario in load(*FILES):
        for name in re.findall(r"/shared/apps/([\w.-]+)", scenario.script):
            assert name in wrong or name in built, f"{scenario.name}: {name}"


def test_kernel_lines_are_recorded_apart() -> None:
    every = load(*FILES)
    (kernel, _), (rest, at_once) = phases(every, 7)
    assert at_once == 7
    assert sorted(s.name for s in [*kernel, *rest]) == sorted(s.name for s in every)
    assert all("CONSTRAINT_MEMCG" not in s.expect.cite for s in rest)


def test_what_is_recorded_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "1001-leak_c").mkdir()
    (tmp_path / "1001-leak_c" / "expect.toml").touch()
    (tmp_path / "1002-stack_overflow").mkdir()  # interrupted
    assert recorded(tmp_path) == {"leak_c"}
