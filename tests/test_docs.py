"""The documents say what the program does: options, variables, kinds of files, the truth table, generated pages, links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from slurm_triage import case, cli
from slurm_triage.engine import diagnose
from slurm_triage.history import cli as history_cli
from slurm_triage.model import Condition, Fact, Role, Strength
from slurm_triage.report.text import render
from slurm_triage.rules import strength_of
from slurm_triage.sources import all_sources
from slurm_triage.sources._catalog import folders
from tests.corpus.load import cases
from tools import docs

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md")])
Main = Callable[[Sequence[str]], int]


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


# ------------------------------------------------------------------------------------------------ options


def helps(main: Main, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, str]]:
    """(verb, help text) of a command and of each of its verbs."""

    def ask(*words: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main([*words, "--help"])
        assert stop.value.code == 0
        return capsys.readouterr().out

    def verbs(shown: str) -> list[str]:
        return re.findall(r"^    ([a-z][a-z-]*)(?:  |$)", shown, re.MULTILINE)

    top = ask()
    yield "", top
    assert verbs(top), "no verb found: the layout of the help changed"
    for verb in verbs(top):
        shown = ask(verb)
        yield verb, shown
        for action in verbs(shown):
            yield action, ask(verb, action)


@pytest.mark.parametrize(
    ("main", "reference"), [(cli.main, "reference/cli.md"), (history_cli.main, "reference/sdiag-history.md")]
)
def test_every_option_is_documented(main: Main, reference: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = page(reference)
    seen: set[str] = set()
    for verb, shown in helps(main, capsys):
        assert re.search(rf"\b{verb}\b", text), f"{reference} does not name the verb {verb}"
        seen |= set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", shown))
    assert {"--help", "--db"} <= seen
    if reference != "reference/cli.md":
        seen -= {"--help", "-h"}  # said once, for the command that people meet first
    missing = {option for option in seen if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)}
    assert not missing, f"{reference} does not document {sorted(missing)}"


def test_no_option_is_invented(capsys: pytest.CaptureFixture[str]) -> None:
    real = {"--help", "-h"}
    for main in (cli.main, history_cli.main):
        for _, shown in helps(main, capsys):
            real |= set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", shown))
    documented = set(re.findall(r"^- `(--[a-z][a-z-]*)", page("reference/cli.md"), re.MULTILINE))
    assert documented
    assert documented <= real


# ------------------------------------------------------------------------------------------------ names


def test_every_environment_variable_is_documented() -> None:
    used: set[str] = set()
    for path in [*(ROOT / "slurm_triage").rglob("*.py"), *(ROOT / "tools").iterdir(), ROOT / "Makefile"]:
        if path.is_file():
            used |= set(re.findall(r"\b(?:SLURM_TRIAGE|SDIAG)_[A-Z_]+\b", path.read_text("utf-8")))
    assert "SDIAG_HISTORY" in used
    used -= set(re.findall(r"\b(?:SLURM_TRIAGE)_[A-Z_]+\b", page("reference/spool.md")))  # written, not read
    documented = set(re.findall(r"^- `([A-Z_]+)`", page("reference/configuration.md"), re.MULTILINE))
    assert documented == used


def test_evidence_folder_names_every_kind() -> None:
    text = page("reference/evidence-folder.md").split("## Kinds of files", 1)[1].split("\n## ", 1)[0]
    text = text.split("Some names say", 1)[0]
    documented = re.findall(r"^- `([a-z_]+)` \(", text, re.MULTILINE)
    assert sorted(documented) == sorted({source.KIND for source in all_sources()})


@pytest.mark.parametrize("name", sorted({*case.NOT_EVIDENCE, *case.CLUSTER_FILES}))
def test_evidence_folder_names_special_files(name: str) -> None:
    assert f"`{name}`" in page("reference/evidence-folder.md")


def test_evidence_folder_names_every_key_of_the_manifest() -> None:
    text = page("reference/evidence-folder.md")
    documented = set(re.findall(r"^- `([a-z_]+)`: ", text.split("## Kinds of files", 1)[0], re.MULTILINE))
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "slurm_triage").rglob("*.py"))
    read = set(re.findall(r"(?:\bword\(|\bmanifest\.values\.get\()\"([a-z_]+)\"", code))
    assert {"slurm", "utc_offset", "boot_epoch"} <= read
    assert documented == read


def test_every_catalog_folder_is_documented() -> None:
    text = page("howto/add-a-signature.md").split("## The file", 1)[0]
    documented = set(re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE))
    assert set(folders()) <= documented


# ------------------------------------------------------------------------------------------------ truth table

HOLDS = {"T": True, "F": False, "?": None}


def examples() -> list[tuple[str, ...]]:
    table = page("explanation/how-it-reasons.md").split("The same by example", 1)[1].split("\n\n")[1]
    rows = [tuple(cell.strip() for cell in line.strip("| ").split("|")) for line in table.splitlines()]
    return rows[2:]


def conditions(row: tuple[str, ...]) -> tuple[Condition, ...]:
    roles = (Role.REQUIRE, Role.CONFIRM, Role.SUPPORT, Role.REFUTE)
    return tuple(
        Condition(role, Fact("", HOLDS[value]))
        for role, cell in zip(roles, row, strict=False)
        for value in cell.split()
        if value != "-"
    )


def test_examples_of_the_truth_table_cover_every_strength() -> None:
    assert {row[4] for row in examples()} == {strength.value for strength in Strength}


@pytest.mark.parametrize("row", examples(), ids=" ".join)
def test_truth_table_in_the_documents_is_the_one_in_the_code(row: tuple[str, ...]) -> None:
    assert strength_of(conditions(row)).value == row[4]


# ------------------------------------------------------------------------------------------------ pages


def test_first_screen_is_up_to_date() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert docs.readme(text) == text, "run: python -m tools.docs"
    shown = text.split("    $ slurm-triage", 1)[1].split("\n## ", 1)[0]
    for word in ("VERDICT", "What happened", "kmsg.txt:74", "highest use measured"):
        assert word in shown
    assert text.count("VERDICT") == 1


def test_tutorial_shows_what_the_program_says() -> None:
    files = next(files for id, files, _ in cases(docs.EXAMPLE[0]) if id == docs.EXAMPLE[1])
    less = {name: data for name, data in files.items() if name not in ("kmsg.txt", "spank.txt")}
    said = [render(diagnose(case.from_files(some))).splitlines() for some in (files, less)]
    text = page("tutorial/first-diagnosis.md")
    verdicts = [line.strip() for line in text.splitlines() if line.startswith("    VERDICT ")]
    assert verdicts == [report[0] for report in said]
    missing = re.search(r"^    What we could not see.*\n(?:    .+\n)+", text, re.MULTILINE)
    assert missing
    assert [line[4:] for line in missing[0].splitlines() if line[4:] not in said[1]] == []


def test_list_of_causes_is_up_to_date() -> None:
    assert page("reference/causes.md") == docs.causes_page(), "run: python -m tools.docs"


def test_every_page_is_in_the_index() -> None:
    index = page("README.md")
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*") if path.suffix in (".md", ".json")}
    assert {name for name in pages - {"README.md"} if f"({name})" not in index} == set()


def anchors(text: str) -> set[str]:
    """The anchors of a page, as GitHub makes them from headings."""
    found = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text("utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        page_ = (path.parent / name).resolve() if name else path
        assert page_.exists(), f"{target}: no such file"
        assert page_.is_relative_to(ROOT), f"{target} leads out of the project"
        if anchor:
            assert anchor in anchors(page_.read_text("utf-8")), f"{target}: no such heading"
