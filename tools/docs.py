"""Writes what the documents take from the program itself: `python -m tools.docs`.

Pages of `docs/reference` come from what `slurm-triage explain` says (`tools/reference.py`); the diagnosis on the first
screen of `README.md` is the real one of a recorded job, shortened. `tests/test_docs.py` fails when one is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.report.text import render
from tests.corpus.load import cases
from tools import reference

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
README = ROOT / "README.md"
EXAMPLE = ("recorded-24.11-cgroup2", "203-global_oom_innocent_victim")
"""Corpus and job of the first screen."""
SHOWN = {"What happened": 99, "What to do": 99, "What else to do": 99, "Evidence": 8, "Numbers": 2}
"""How the titles of the sections begin that the first screen shows, and how many lines of each at most."""


def _example() -> str:
    """The report of the example, shortened, as an indented block."""
    corpus, job = EXAMPLE
    files = next(files for name, files, _ in cases(corpus) if name == job)
    top, *sections = render(diagnose(from_files(files))).strip("\n").split("\n\n")
    lines = [f"$ slurm-triage diagnose --evidence {job}", *top.split("\n"), "..."]
    for section in sections:
        title, *body = section.split("\n")
        most = next((most for begin, most in SHOWN.items() if title.startswith(begin)), 0)
        if most:
            lines += [title, *body[:most], "..." if len(body) > most else ""]
    return "\n".join(f"    {line}".rstrip() for line in lines).rstrip()


def readme(text: str) -> str:
    """`text` of README.md with its first indented block replaced by the example as the program gives it now."""
    return re.sub(
        r"^    \$ slurm-triage diagnose (?:.*\n(?=    |\n    ))*.*$", lambda _: _example(), text, count=1, flags=re.M
    )


def main() -> int:
    """Write the pages and the first screen of the README; 0."""
    argparse.ArgumentParser(
        prog="python -m tools.docs", description="Write the generated parts of the documents."
    ).parse_args()
    for name in reference.PAGES_MADE:
        (REFERENCE / name).write_text(reference.page(name), "utf-8")
    README.write_text(readme(README.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
