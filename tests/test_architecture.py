"""The shape that keeps the reasoning pure: who may import what, and what a quick command may not load."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_triage
from tools.agent_zipapp import ALLOWED

PACKAGE = Path(slurm_triage.__file__).resolve().parent
IMPURE = {"subprocess", "sqlite3", "socket", "urllib", "http", "multiprocessing", "ssl", "asyncio", "requests"}
PURE = (
    "model",
    "extension",
    "clock",
    "case",
    "causes",
    "signals",
    "nodeset",
    "filename_pattern",
    "sections",
    "attempts",
    "engine",
    "sources",
    "facts",
    "rules",
    "report.corrected",
    "report.document",
    "report.text",
    "report.brief",
    "report.explain",
    "report.mask",
)
"""Modules and packages between the evidence folder and the finished text: same input, same output, nothing outside."""

AGENT = ALLOWED
"""What a node has of this project: these import the standard library and each other, nothing else."""

FORBIDDEN = {
    "sources": ("attempts", "facts", "rules", "engine", "report", "history", "live", "node", "cli"),
    "facts": ("rules", "engine", "report", "history", "live", "node", "cli"),
    "rules": ("report", "history", "live", "node", "cli"),
    "engine": ("report", "history", "live", "node", "cli"),
    "report": ("history", "live", "node", "cli"),
    "history": ("sources", "facts", "rules", "engine", "live", "node"),
}
"""What a part may not import: imports point one way."""


def _files(part: str) -> list[Path]:
    """The files of a module or package, none if it does not exist."""
    path = PACKAGE.joinpath(*part.split("."))
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    return [path.with_suffix(".py")] if path.with_suffix(".py").is_file() else []


def _imports(source: str, package: str) -> Iterator[str]:
    """Absolute names of all modules that a source file imports, also inside functions and `if TYPE_CHECKING`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join((*parent, *filter(None, [node.module])))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _imports_of(path: Path) -> set[str]:
    package = ".".join(("slurm_triage", *path.relative_to(PACKAGE).parent.parts))
    return set(_imports(path.read_text("utf-8"), package))


def _inside(name: str, part: str) -> bool:
    return name == part or name.startswith(part + ".")


def test_the_reader_of_imports_sees_every_form() -> None:
    source = (
        "import a.b, c\nfrom d import e\nfrom . import f\nfrom .g import h\nfrom ..i import j\ndef x():\n    import k\n"
    )
    assert set(_imports(source, "slurm_triage.facts")) == {
        "a.b",
        "c",
        "d",
        "d.e",
        "slurm_triage.facts",
        "slurm_triage.facts.f",
        "slurm_triage.facts.g",
        "slurm_triage.facts.g.h",
        "slurm_triage.i",
        "slurm_triage.i.j",
        "k",
    }


@pytest.mark.parametrize("part", PURE)
def test_the_pure_part_reaches_for_nothing_outside(part: str) -> None:
    files = _files(part)
    assert files, f"slurm_triage.{part} is gone: take it out of PURE"
    for path in files:
        impure = {name for name in _imports_of(path) if name.split(".")[0] in IMPURE}
        assert not impure, f"{path.relative_to(PACKAGE)} imports {sorted(impure)}"


def test_the_model_imports_nothing_of_ours() -> None:
    (path,) = _files("model")
    assert not {name for name in _imports_of(path) if _inside(name, "slurm_triage")}


@pytest.mark.parametrize("part", FORBIDDEN)
def test_imports_point_one_way(part: str) -> None:
    for path in _files(part):
        for name in _imports_of(path):
            wrong = [other for other in FORBIDDEN[part] if _inside(name, f"slurm_triage.{other}")]
            assert not wrong, f"{path.relative_to(PACKAGE)} imports {name}"


@pytest.mark.parametrize("part", AGENT)
def test_the_agent_needs_nothing_but_an_old_python(part: str) -> None:
    """It runs on nodes, with their system's Python 3.9 and without the packages of this project."""
    files = _files(part)
    assert files, f"slurm_triage.{part} is gone: take it out of AGENT"
    for path in files:
        ast.parse(path.read_text("utf-8"), feature_version=(3, 9))
        own = {name for name in _imports_of(path) if _inside(name, "slurm_triage")}
        wrong = {name for name in own if not _of_agent(name)}
        assert not wrong, f"{path.relative_to(PACKAGE)} imports {sorted(wrong)}"
        assert {name.split(".")[0] for name in _imports_of(path) - own} <= sys.stdlib_module_names, path.name


def _of_agent(name: str) -> bool:
    """Whether a name is one of the agent's parts, in one, or a package around one."""
    parts = ["slurm_triage.__version__", *(f"slurm_triage.{part}" for part in AGENT)]
    return any(_inside(name, part) or _inside(part, name) for part in parts)


def test_packages_around_the_agents_parts_import_nothing() -> None:
    for part in ("", "report"):
        path = PACKAGE / part / "__init__.py"
        assert not {name for name in _imports_of(path) if _inside(name, "slurm_triage")}


def test_the_agent_runs_on_python_3_9() -> None:
    python = shutil.which("python3.9")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True, timeout=60).returncode:
        pytest.skip("no Python 3.9 here")
    paths = [path.relative_to(PACKAGE.parent).with_suffix("") for part in AGENT for path in _files(part)]
    modules = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    code = f"import importlib\nfor name in {modules!r}:\n    importlib.import_module(name)"
    done = subprocess.run([python, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_query_command_loads_neither_templates_nor_rules() -> None:
    """`sdiag-history` is typed by people all day: its start must stay cheap."""
    code = "import sys, slurm_triage.history.cli; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(run.stdout.split())
    assert "slurm_triage.history.cli" in loaded
    heavy = ("jinja2", "slurm_triage.rules", "slurm_triage.facts", "slurm_triage.engine", "slurm_triage.sources")
    assert not {name for name in loaded for part in heavy if _inside(name, part)}
