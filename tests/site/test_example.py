"""The example of docs/howto/add-site-knowledge.md, as a reader would type it in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_triage import case, cli, extension
from slurm_triage.engine import diagnose
from slurm_triage.report.document import document
from slurm_triage.site import use

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "add-site-knowledge.md"
BLOCK = re.compile(
    r"`((?:signatures|rules|cases)/[\w/.]+|causes\.toml)`[^`\n]*(?:(?:\[[^\]]*\]\([^)]*\)|[^`\n])*\n)*?```\w+\n(.*?)```",
    re.DOTALL,
)


@pytest.fixture
def knowledge(tmp_path: Path) -> Path:
    """The folder that the page describes."""
    folder = tmp_path / "knowledge.d"
    found = BLOCK.findall(PAGE.read_text("utf-8"))
    for name, text in found:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert {name for name, _ in found} == {
        "signatures/solver_licence.toml",
        "causes.toml",
        "rules/solver_licence_gone.py",
        "cases/licence_gone/job.out",
        "cases/licence_gone/case.toml",
        "cases/licence_came_back/job.out",
        "cases/licence_came_back/case.toml",
    }
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def test_check_rules_says_what_the_page_says(knowledge: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check-rules", str(knowledge)]) == 1
    said = capsys.readouterr().out.replace(str(knowledge), "/etc/slurm-triage/knowledge.d").splitlines()
    shown = re.search(
        r"^    /etc/slurm-triage/knowledge\.d/cases.*\n    1 to put right.*", PAGE.read_text("utf-8"), re.M
    )
    assert shown and said == [line.strip() for line in shown[0].splitlines()]


def test_the_example_is_well_without_the_line_that_the_page_takes_out(
    knowledge: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = knowledge / "cases/licence_came_back/case.toml"
    label.write_text(label.read_text("utf-8").replace('never = ["solver_licence_gone"]\n', ""), "utf-8")
    assert cli.main(["check-rules", str(knowledge)]) == 0
    assert capsys.readouterr().out == "all is well: 1 signatures, 1 causes, 1 rules, 2 cases\n"


def test_the_rule_speaks_only_where_the_folder_is_in_force(knowledge: Path) -> None:
    evidence = case.read(knowledge / "cases/licence_gone")
    use(str(knowledge))
    try:
        paper = document(diagnose(evidence))
    finally:
        extension.use(extension.Extension())
    assert (paper["cause"], paper["strength"], paper["owner"]) == ("solver_licence_gone", "confirmed", "admin")
    assert paper["site_rules"] == [{"cause": "solver_licence_gone", "file": "rules/solver_licence_gone.py"}]
    assert [cite["line"] for cite in paper["evidence"]] == [2]
    without = document(diagnose(evidence))
    assert without["cause"] != "solver_licence_gone" and without["site_rules"] == []


def test_the_line_that_decides_taken_away(knowledge: Path) -> None:
    use(str(knowledge))
    try:
        said = diagnose(case.from_files({"job.out": b"step 118 residual 3.1e-05\n"}))
        lived = diagnose(
            case.from_files({"job.out": b"SOLVER-E-LIC: no seat of hydro-mp at lic1.example.org\nstep 119 done\n"})
        )
    finally:
        extension.use(extension.Extension())
    assert said.cause != "solver_licence_gone"
    assert lived.strength is None or lived.strength.value != "confirmed", "the program went on"
