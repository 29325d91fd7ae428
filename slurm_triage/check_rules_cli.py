"""`slurm-triage check-rules`: whether the knowledge that a site adds does what its examples and cases say."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_triage.site.check import Checked
    from slurm_triage.site.load import Problem

OK, WRONG, UNUSABLE = 0, 1, 2
SCHEMA = "slurm-triage/check-rules/1"
Complain = Callable[[str], None]


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb `check-rules` to the command."""
    verb = verbs.add_parser(
        "check-rules",
        help="check the signatures, causes and rules that this site adds, with their examples and cases",
        description="Check what a site adds to the knowledge of slurm-triage: every signature against its examples "
        "and against lines made to be slow, every rule, and every case against the answer that it expects. Rules are "
        "run. Exit status: 0 all is well, 1 something has to be put right, 2 bad usage or a folder that cannot be "
        "used.",
    )
    verb.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        help="the folder (default: $SLURM_TRIAGE_KNOWLEDGE, else /etc/slurm-triage/knowledge.d)",
    )
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, complain: Complain) -> int:
    """Runs the verb; returns the exit status."""
    from slurm_triage import site
    from slurm_triage.site.check import check

    folder = Path(options.folder) if options.folder else site.folder_of(None)
    if folder is None or not folder.is_dir():
        complain(f"check-rules: {folder or site.NONE}: there is no such folder.")
        return UNUSABLE
    with contextlib.redirect_stdout(sys.stderr):  # what a rule prints must not stand in the answer
        found = check(folder)
    whole = [problem for problem in found.errors if not problem.file]
    if whole:
        complain(f"check-rules: {whole[0].what}.")
        return UNUSABLE
    if options.json:
        print(json.dumps(_document(found), ensure_ascii=True, indent=2))
    else:
        for line in _lines(found):
            print(line)
    return WRONG if found.errors else OK


def _document(found: Checked) -> dict[str, object]:
    made = found.knowledge.extension
    return {
        "schema": SCHEMA,
        "folder": str(found.knowledge.folder),
        "signatures": sorted(s.id for signatures in made.signatures.values() for s in signatures),
        "causes": sorted(made.causes),
        "rules": [{"cause": rule.cause, "file": rule.file} for rule in made.rules],
        "cases": found.cases,
        "errors": [_entry(problem) for problem in found.errors],
        "hints": [_entry(problem) for problem in found.hints],
    }


def _entry(problem: Problem) -> dict[str, object]:
    return {"file": problem.file, "line": problem.line, "what": problem.what}


def _lines(found: Checked) -> list[str]:
    from slurm_triage.live._command import clean

    folder = found.knowledge.folder
    lines = [f"{folder / problem.place}: {clean(problem.what, 600)}" for problem in found.errors]
    lines += [f"{folder / problem.place}: (hint) {clean(problem.what, 600)}" for problem in found.hints]
    verdict = f"{len(found.errors)} to put right" if found.errors else "all is well"
    return [*lines, f"{verdict}: {found.knowledge.said}, {found.cases} cases"]
