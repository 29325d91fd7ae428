"""The documents say what the program does: options, variables, kinds of files, the truth table, generated pages, links."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from slurm_triage import case, cli, explain, sections
from slurm_triage.engine import diagnose
from slurm_triage.history import cli as history_cli
from slurm_triage.knowledge import table
from slurm_triage.model import Condition, Fact, Role, Strength
from slurm_triage.node import agent, as_user, deliver, drawer, evidence
from slurm_triage.node import config as agent_config
from slurm_triage.node.target import MOST_TRIES
from slurm_triage.report.text import render
from slurm_triage.rules import strength_of
from slurm_triage.service import config as service_config
from slurm_triage.service import gate, intake, listener, texts
from slurm_triage.service.assemble import KINDS
from slurm_triage.sources import all_sources
from slurm_triage.sources._catalog import folders
from slurm_triage.spool._limits import Limits as SpoolLimits
from slurm_triage.transport import message, wire
from tests.corpus.load import cases
from tools import docs, reference
from tools.agent_zipapp import ALLOWED

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


# ------------------------------------------------------------------------------------------------ settings


def settings_table(module: ModuleType) -> str:
    """The table of all settings: the fields of `module.Settings` with their docstrings."""
    tree = ast.parse(inspect.getsource(module.Settings)).body[0]
    assert isinstance(tree, ast.ClassDef)
    rows = ["| key | default | values | meaning |", "| --- | --- | --- | --- |"]
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant), f"{field.target.id} has no text"
            key, meaning = field.target.id, " ".join(str(text.value.value).split())
            default = getattr(module.Settings, key)
            rows.append(f"| `{key}` | {_shown(default)} | {_values(module, key, default)} | {meaning} |")
    return "\n".join(rows)


def _shown(default: object) -> str:
    """A default as it would stand in the file."""
    if isinstance(default, tuple):
        default = list(default)
    elif isinstance(default, Path):
        default = str(default)
    elif isinstance(default, float) and default == int(default):
        default = int(default)
    return f"`{json.dumps(default)}`"


def _values(module: ModuleType, key: str, default: object) -> str:
    if key in module.RANGES:
        low, high = module.RANGES[key]
        return f"{low:,.0f} to {high:,.0f}"
    if isinstance(default, bool):
        return "`true`, `false`"
    if key == "auth":
        return ", ".join(f"`{json.dumps(kind)}`" for kind in module.KINDS)
    if isinstance(default, tuple):
        return "list of strings"
    return "path" if isinstance(default, Path) or str(default).startswith("/") else "string"


@pytest.mark.parametrize(
    ("module", "heading"),
    [(service_config, "## The service"), (agent_config, "## The agent")],
    ids=["service", "agent"],
)
def test_every_setting_is_in_the_table(module: ModuleType, heading: str) -> None:
    text = page("reference/configuration.md").split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    wanted = settings_table(module)
    assert f"\n\n{wanted}\n\n" in text, f"{heading}: the table has to be\n{wanted}"


@pytest.mark.parametrize(
    ("name", "module", "table"),
    [("run-the-service", service_config, "service"), ("run-the-agent", agent_config, "agent")],
)
def test_settings_shown_by_example_are_real(name: str, module: ModuleType, table: str, tmp_path: Path) -> None:
    """Each block of a page that begins with the table's name is a file that the program reads."""
    blocks = re.findall(rf"^    \[{table}\]\n(?:^    .+\n)*", page(f"howto/{name}.md"), re.MULTILINE)
    assert blocks
    file = tmp_path / "settings.toml"
    for block in blocks:
        file.write_text("".join(f"{line[4:]}\n" for line in block.splitlines()), "utf-8")
        assert module.load(file) != module.Settings()


# ------------------------------------------------------------------------------------------------ what is logged


@pytest.mark.parametrize(("part", "heading"), [("service", "## service"), ("node", "## agent")])
def test_every_line_of_the_log_is_documented(part: str, heading: str) -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "slurm_triage" / part).rglob("*.py"))
    used = set(re.findall(r"\blog\.(?:info|error)\(\s*\"([a-z-]+)\"", code))
    used |= set(re.findall(r"(?:_said|complain)\(\"([a-z-]+)\"", code))
    assert {"service": "swept", "node": "collected"}[part] in used
    text = page("reference/cli.md").split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    table = text.split("| event |", 1)[1].split("\n\n", 1)[0]
    documented = {word for row in table.splitlines() for word in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert documented == used


def test_every_member_of_a_status_is_documented(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.toml").write_text(f'[agent]\nstate = "{tmp_path}/state"\n', "utf-8")
    (tmp_path / "service.toml").write_text(f'[service]\nstate = "{tmp_path}"\n', "utf-8")
    for verb in ("agent", "service"):
        cli.main([verb, "status", "--json", "--config", str(tmp_path / f"{verb}.toml")])
        said = json.loads(capsys.readouterr().out)
        text = page("reference/cli.md").split(f"\n### {verb} status\n", 1)[1].split("\n#", 1)[0]
        assert said.pop("schema") in text
        assert {key for key in said if f"`{key}`" not in text} == set()


# ------------------------------------------------------------------------------------------------ limits


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:,.0f} GiB"


def _days(seconds: float) -> str:
    return f"{seconds / 86400:,.0f} days"


def _drawer(limits: drawer.Limits | SpoolLimits) -> tuple[str, ...]:
    return f"{limits.files:,} files", _mib(limits.size), _days(limits.age)


LIMITS: Mapping[str, tuple[str, ...]] = {
    "spool": _drawer(SpoolLimits()),
    "`outbox/`": _drawer(agent.OUTBOX),
    "`targets/`": _drawer(agent.TARGETS),
    "evidence of one attempt": (_mib(evidence.MOST),),
    "a message": (_mib(message.MOST_PACKED), _mib(message.MOST), f"{message.MOST_FILES:,} files"),
    "the port": (f"{gate.MOST_CONNECTIONS:,} connections", _mib(gate.MOST_BYTES), f"{listener.SLOW:.0f} s"),
    "`intake.sqlite`": (f"{intake.MOST_CASES:,} cases", _mib(intake.MOST_BYTES)),
    "a text": (f"{deliver.TEXT_LIMIT // 1024} KiB",),
    "a diagnosis file": (_mib(sections.SIZE_LIMIT), _mib(sections.FILE_LIMIT)),
    "a child as the user": (_mib(as_user.MEMORY), _mib(as_user.FILE_SIZE), f"{as_user.MOST_LEFT} that hang"),
    "tries to write": (f"{MOST_TRIES} on one node",),
}
"""By the first cell of a row, what the row has to say."""


def test_limits_are_those_of_the_code() -> None:
    text = page("explanation/how-a-diagnosis-travels.md").split("\n## Limits\n", 1)[1].split("\n## ", 1)[0]
    rows = {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("| ")}
    for name, words in LIMITS.items():
        assert name in rows, f"no row about {name}"
        assert [word for word in words if word not in rows[name]] == [], name


def test_times_and_places_of_the_way_are_those_of_the_code() -> None:
    text = page("explanation/how-a-diagnosis-travels.md")
    for word in (
        f"TCP {wire.PORT}",
        f"{texts.OTHERS_AFTER:.0f} s",
        f"{texts.CONTROLLER_AFTER:.0f} s",
        f"{agent.ALL_EVERY:.0f} s",
    ):
        assert word in text, word
    assert {kind for kind in KINDS if f"`{kind}*`" not in text} == set()


def test_the_decision_names_what_nodes_have_of_the_project() -> None:
    text = page("adr/0010-agent-and-transport.md").split("## Consequences", 1)[1]
    assert {part for part in ALLOWED if f"`{part}`" not in text} == set()


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


@pytest.mark.parametrize("name", reference.PAGES_MADE)
def test_made_pages_are_up_to_date(name: str) -> None:
    assert page(f"reference/{name}") == reference.page(name), "run: python -m tools.docs"


def test_made_pages_leave_nothing_out() -> None:
    """Each cause, exit, signal and state has its section; each Xid and SXid its row, and the part that goes for it."""
    wanted = {"cause": "causes.md", "state": "states.md", "signal": "exit-codes-and-signals.md"}
    for kind, name in wanted.items():
        text = page(f"reference/{name}")
        assert [e.name for e in explain.PAGES[kind]() if f"\n## {e.name}\n" not in text] == []
    exits = page("reference/exit-codes-and-signals.md")
    assert [e.name for e in explain.PAGES["exit code"]() if f"\n## Exit {e.name}\n" not in exits] == []
    for kind, name in (("Xid", "nvidia-xid.md"), ("SXid", "nvidia-sxid.md")):
        text = page(f"reference/{name}")
        numbers = [e.name.split()[1] for e in explain.PAGES[kind]()]
        assert [n for n in numbers if f"\n| {n} |" not in text and f"\n| [{n}](#xid-{n}) |" not in text] == []
        for class_ in table("nvidia_pages")[kind.lower()].values():
            section = text.split(f"\n## Class: {class_['title']}\n", 1)[1].split("\n## ", 1)[0]
            assert [heading for heading in explain.REQUIRED if f"**{heading}:**" not in section] == []


def test_every_made_section_has_its_parts() -> None:
    for name in ("causes.md", "states.md", "exit-codes-and-signals.md"):
        for section in page(f"reference/{name}").split("\n## ")[1:]:
            title, _, body = section.partition("\n")
            if title != "Sources":
                assert [heading for heading in explain.REQUIRED if f"**{heading}:**" not in body] == [], title


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
