"""Writes what the documents take from the program itself: `python -m tools.docs`.

`docs/reference/causes.md` comes from `slurm_triage/causes.toml` and the docstrings of the rules; the diagnosis on the
first screen of `README.md` is the real one of a recorded job, shortened. `tests/test_docs.py` fails when either is out
of date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from slurm_triage.case import from_files
from slurm_triage.causes import ARRAY_MIXED, UNKNOWN, Cause, all_causes
from slurm_triage.engine import diagnose
from slurm_triage.report.text import render
from slurm_triage.rules import Rule, all_rules
from tests.corpus.load import cases

ROOT = Path(__file__).resolve().parent.parent
CAUSES = ROOT / "docs" / "reference" / "causes.md"
README = ROOT / "README.md"
COLUMNS = 120
EXAMPLE = ("recorded-24.11-cgroup2", "203-global_oom_innocent_victim")
"""Corpus and job of the first screen."""
SHOWN = {"What happened": 99, "What to do": 99, "What else to do": 99, "Evidence": 8, "Numbers": 2}
"""How the titles of the sections begin that the first screen shows, and how many lines of each at most."""

HEAD = """\
# Causes

<!-- Made by `python -m tools.docs` from slurm_triage/causes.toml and the rules' docstrings. Do not edit. -->

The causes that a diagnosis may name. An id never changes its meaning; new ids may be added. A cause that *refines*
another one is a finer name for it: where the finer one cannot be shown, the wider one is still right. *Supersedes*
names causes that this one explains away when it is at least as strong (see
[how it reasons](../explanation/how-it-reasons.md#competition)).
"""
ENGINE = {
    ARRAY_MIXED: "Said by the engine when the parts of an array or heterogeneous job ended from different causes.",
    UNKNOWN: "Said by the engine when no rule found anything. The report then says what was missing.",
}
"""Causes that no rule gives, because they are about the outcome of all rules or all parts."""


def _wrap(text: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(
        text, COLUMNS, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _names(ids: list[str]) -> str:
    return ", ".join(f"[`{id}`](#{id})" for id in ids)


def _text(doc: str) -> Iterator[str]:
    """The paragraphs of a rule's docstring, the label of each section (`Who acts:`) in bold."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        words = " ".join(paragraph.split())
        yield ""
        yield _wrap(re.sub(r"^(What happened|Who acts|What to do|What this is not):", r"**\1:**", words))


def _section(cause: Cause, rule: Rule | None) -> Iterator[str]:
    yield from ("", f"## {cause.id}", "")
    yield _wrap(f"*{cause.title}*: {cause.meaning.rstrip('.')}.")
    if cause.refines:
        yield from ("", f"Refines {_names([cause.refines])}.")
    if rule is not None:
        yield from _text(rule.doc)
        if rule.supersedes:
            yield from ("", _wrap(f"Supersedes {_names(sorted(set(rule.supersedes)))}."))
    elif cause.id in ENGINE:
        yield from ("", ENGINE[cause.id])


def causes_page() -> str:
    """The text of docs/reference/causes.md."""
    rules = {rule.cause: rule for rule in all_rules()}
    causes = all_causes()
    judged = sorted(id for id in causes if id in rules or id in ENGINE)
    reserved = sorted(id for id in causes if id not in rules and id not in ENGINE)
    lines = [HEAD, "This version can name:", "", _wrap(_names(judged) + ".")]
    if reserved:
        lines += [
            "",
            _wrap(
                "The ids at the [end of the page](#ids-without-a-rule) have a fixed meaning, but this version has no "
                "rule for them, so no diagnosis names them."
            ),
        ]
    for id in judged:
        lines += _section(causes[id], rules.get(id))
    if reserved:
        lines += ["", "## Ids without a rule"]
        for id in reserved:
            cause = causes[id]
            wider = f" Refines {_names([cause.refines])}." if cause.refines else ""
            lines += ["", f'<a id="{id}"></a>', _wrap(f"`{id}`: {cause.meaning.rstrip('.')}.{wider}")]
    return "\n".join(lines) + "\n"


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
    CAUSES.write_text(causes_page(), "utf-8")
    README.write_text(readme(README.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
