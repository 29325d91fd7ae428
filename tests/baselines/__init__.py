"""Other ways to say why a job died, asked about the same cases in the same run: see README.md.

An adapter turns what a baseline says into causes of ours, and generously so: where one answer of it may stand for
several causes, all of them count, and any one that the label accepts makes the answer right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / "build" / "baselines" / "bin" / "python"
"""Interpreter of the venv that `make baselines` fills with the tools of others; no part of the project needs it."""
HOW_TO_INSTALL = "make baselines"
SECONDS = 300

Texts = Mapping[str, str]
"""The files of one case: name to text."""


@dataclass(frozen=True)
class Said:
    """One answer. `causes`: all that it may stand for, the nearest first, empty if it names none.

    `strength`: "confirmed" where the baseline states its answer as sure by a scale of its own, else "likely".
    """

    causes: tuple[str, ...] = ()
    strength: str = "likely"
    words: str = ""


@dataclass(frozen=True)
class Baseline:
    """A way to answer. `ask` raises `NotInstalled` where it is not there, and `BaselineError` where it fails."""

    name: str
    what: str
    ask: Callable[[Sequence[Texts]], list[Said]]


class NotInstalled(Exception):
    """The baseline is not there; the message says how to install it."""


class BaselineError(Exception):
    """The baseline is there and gave no answers; the message says why."""


def version(package: str) -> str:
    """Version of a package in the baselines' venv. Raises `NotInstalled`."""
    if not PYTHON.exists():
        raise NotInstalled(f"not installed ({HOW_TO_INSTALL})")
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=SECONDS, check=False)
    if found.returncode:
        raise NotInstalled(f"not installed ({HOW_TO_INSTALL})")
    return found.stdout.strip()


def ask_outside(module: str, package: str, cases: Sequence[Texts]) -> list[Said]:
    """Runs `module` of this folder with the baselines' interpreter: cases as JSON in, answers as JSON out."""
    version(package)
    done = subprocess.run(
        [PYTHON, "-m", module],
        input=json.dumps([dict(case) for case in cases]),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=ROOT,
        env={"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BaselineError(f"failed with status {done.returncode}: {last}")
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return [Said(tuple(a["causes"]), a["strength"], a["words"]) for a in answers]


def serve(answer: Callable[[Texts], Said]) -> None:
    """The other end of `ask_outside`."""
    json.dump([asdict(answer(case)) for case in json.load(sys.stdin)], sys.stdout)


def all_text(case: Texts) -> str:
    """Every file of a case, one after the other, by name."""
    return "\n".join(case[name] for name in sorted(case))
