"""The agent as one file: what is in it, what may not be, and that an old Python runs it."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from slurm_triage import __version__
from tools import agent_zipapp

MODULES = {
    "slurm_triage/__init__.py": "",
    "slurm_triage/node/__init__.py": "",
    "slurm_triage/node/cli.py": "import os\n\ndef main(argv):\n    from slurm_triage.spool import Spool\n",
    "slurm_triage/node/collect/__init__.py": "",
    "slurm_triage/node/collect/one.py": "from slurm_triage.report.mask import mask\n",
    "slurm_triage/report/__init__.py": "",
    "slurm_triage/report/mask.py": "",
    "slurm_triage/report/text.py": "",
    "slurm_triage/spool/__init__.py": "from . import _reader\n",
    "slurm_triage/spool/_reader.py": "",
    "slurm_triage/rules/__init__.py": "",
}


def project(root: Path, **changed: str) -> Path:
    """A small project; `cli` and `one` say what stands in these two files."""
    names = {"cli": "slurm_triage/node/cli.py", "one": "slurm_triage/node/collect/one.py"}
    for path, text in {**MODULES, **{names[name]: text for name, text in changed.items()}}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_what_is_imported_is_in_it_and_nothing_else(tmp_path: Path) -> None:
    unused = {"slurm_triage/report/text.py", "slurm_triage/rules/__init__.py"}
    assert agent_zipapp.files(project(tmp_path)) == sorted(set(MODULES) - unused)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("import jinja2", "jinja2"),
        ("def late():\n    import yaml.nodes", "yaml.nodes"),
        ("from slurm_triage.rules import x", "slurm_triage.rules"),
        ("from slurm_triage.report import text", "slurm_triage.report.text"),
        ("from ...rules import x", "slurm_triage.rules"),
    ],
)
def test_what_a_node_may_not_have_ends_the_making(tmp_path: Path, line: str, named: str) -> None:
    with pytest.raises(agent_zipapp.NotAllowed, match=f"collect/one.py imports {named}, which"):
        agent_zipapp.build(project(tmp_path, one=line + "\n"))


def test_what_only_the_type_checker_sees_is_not_needed(tmp_path: Path) -> None:
    lines = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jinja2\n    from slurm_triage.spool import x\n"
    )
    found = agent_zipapp.files(project(tmp_path, cli=lines))
    assert "slurm_triage/spool/__init__.py" not in found and "slurm_triage/node/cli.py" in found


def test_without_a_command_there_is_no_agent(tmp_path: Path) -> None:
    (project(tmp_path) / "slurm_triage/node/cli.py").unlink()
    with pytest.raises(agent_zipapp.NotAllowed, match=r"slurm_triage\.node\.cli"):
        agent_zipapp.build(tmp_path)


def test_the_same_sources_are_the_same_bytes(tmp_path: Path) -> None:
    one, other = project(tmp_path / "one"), project(tmp_path / "other")
    for path in other.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    assert agent_zipapp.build(one) == agent_zipapp.build(other)


def test_it_answers_as_the_program_does_and_takes_nothing_from_its_surroundings(tmp_path: Path) -> None:
    """Root runs it, perhaps in a folder of a user's."""
    cli = "import os\n\ndef main(argv):\n    print(argv, os.__file__)\n    return 7\n"
    file = tmp_path / "agent"
    file.write_bytes(agent_zipapp.build(project(tmp_path / "project", cli=cli)))
    (tmp_path / "os.py").write_text("raise SystemExit('not this one')\n")
    flags = agent_zipapp.INTERPRETER.split()[1:]
    ran = subprocess.run(
        [sys.executable, *map(os.fsdecode, flags), file, "a", "b"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout.split(" /")[0]) == (7, "['a', 'b']"), ran.stderr
    assert str(tmp_path) not in ran.stdout


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real one."""
    file = tmp_path_factory.mktemp("agent") / "slurm-triage-agent"
    assert agent_zipapp.main([str(file)]) == 0
    return file


def test_every_collector_is_in_it(agent: Path) -> None:
    names = set(zipfile.ZipFile(io.BytesIO(agent.read_bytes())).namelist())
    folder = agent_zipapp.ROOT / "slurm_triage/node/collect"
    assert {f"slurm_triage/node/collect/{path.name}" for path in folder.glob("*.py")} <= names


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
@pytest.mark.parametrize("python", ["python3.9", "python3", sys.executable])
def test_an_old_python_runs_it(agent: Path, python: str, words: list[str], tmp_path: Path) -> None:
    program = shutil.which(python)
    if program is None or subprocess.run([program, "-c", ""], capture_output=True, timeout=60).returncode:
        pytest.skip(f"no {python} here")
    ran = subprocess.run([program, "-I", agent, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert __version__ in ran.stdout if words == ["--version"] else "run" in ran.stdout and "status" in ran.stdout
