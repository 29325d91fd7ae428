"""`slurm-triage check-rules`: a site's knowledge held against its own examples and cases, before it is put in force."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_triage import extension
from slurm_triage.attempts import Attempt
from slurm_triage.facts import Job
from slurm_triage.rules import Rule, judge
from slurm_triage.site.cases import LABEL, judged
from slurm_triage.site.causes import Bad
from slurm_triage.site.lines import line_of, line_with
from slurm_triage.site.load import CASES, CAUSES, Knowledge, Problem, load
from slurm_triage.site.slow import slow_line
from slurm_triage.site.stop import TookTooLong, stopped_after
from slurm_triage.sources._catalog import Form, Signature
from slurm_triage.sources._catalog import load as load_catalog

SECTIONS = ("What happened:", "Who acts:", "What to do:", "What this is not:")
SECONDS = 30.0
"""Seconds for each rule without evidence, and for each case."""


@dataclass(frozen=True)
class Checked:
    """What was looked at and what is wrong with it: `errors` have to be put right, `hints` are worth a thought."""

    knowledge: Knowledge
    errors: tuple[Problem, ...]
    hints: tuple[Problem, ...]
    cases: int


def check(folder: Path) -> Checked:
    """Looks at everything in a folder. What was in force before is in force again afterwards. Never raises."""
    before = extension.current()
    found = load(folder)
    try:
        extension.use(found.extension)
        return _checked(found)
    finally:
        extension.use(before)


def _checked(found: Knowledge) -> Checked:
    errors = list(found.problems)
    hints: list[Problem] = []
    for name, signatures in found.extension.signatures.items():
        for signature in signatures:
            errors += _signature(signature, name, found)
    for rule in found.extension.rules:
        errors += _rule(rule, found)
    spoke: set[str] = set()
    folders = _cases(found.folder)
    for folder in folders:
        errors += _case(folder, spoke)
    for rule in found.extension.rules:
        if rule.cause not in spoke:
            hints.append(Problem(rule.file, f"no case of {CASES}/ is diagnosed as {rule.cause} by it", _line(rule)))
    used = {rule.cause for rule in found.extension.rules}
    for cause in found.extension.causes.values():
        if cause.id not in used:
            hints.append(Problem(CAUSES, f"no rule says {cause.id}", line_with(found.texts[CAUSES], cause.id)))
    return Checked(found, tuple(errors), tuple(hints), len(folders))


# ------------------------------------------------------------------------------------------------ signatures


def _signature(signature: Signature, catalog: str, found: Knowledge) -> Iterator[Problem]:
    file = found.of[signature.id]
    text = found.texts[file]
    known = {other.id for other in load_catalog(catalog).signatures}
    for other in sorted(set(signature.also) - known):
        yield Problem(file, f"also: {other} is no signature of {catalog}", line_of(text, "also"))
    if not re.fullmatch(r"\d{4}-\d{2}", signature.since):
        yield Problem(file, "since has to be a year and a month, 2026-12", line_of(text, "since"))
    for number, form in enumerate(signature.forms, 1):
        for what, piece in _form(signature, form, catalog):
            yield Problem(file, f"form {number}: {what}", line_with(text, piece))


def _form(signature: Signature, form: Form, catalog: str) -> Iterator[tuple[str, str]]:
    """What is wrong with one form, and the text whose line shows it."""
    for example in form.examples:
        if not signature.hinted(example):
            yield f"no hint is in the example {example!r}: such a line would never be looked at", example
    slow = slow_line(form.pattern, form.examples, signature.hints)
    if slow is not None:
        what = "the regex takes too long on a line that begins like"
        yield f"{what} {slow!r}: no repetition in a repetition, no two neighbours that match the same", form.regex
        return  # the examples are not worth an hour either
    for example in form.examples:
        if not form.pattern.search(example):
            yield f"the regex does not match the example {example!r}", example
        for other, _ in load_catalog(catalog).match(example):
            if other.id != signature.id and other.id not in signature.also and signature.id not in other.also:
                yield f"{other.id} matches the example {example!r}, too: name it under also if that is right", example
    for counter in form.counter:
        if signature.hinted(counter) and signature.fields(counter) is not None:
            yield f"a form matches the counter-example {counter!r}", counter


# ------------------------------------------------------------------------------------------------ rules


def _line(rule: Rule) -> int | None:
    return getattr(getattr(rule.judge, "__code__", None), "co_firstlineno", None)


def _rule(rule: Rule, found: Knowledge) -> Iterator[Problem]:
    line = _line(rule)
    if not rule.doc.strip():
        yield Problem(rule.file, "the rule has no docstring: it is what `slurm-triage explain` shows", line)
    else:
        missing = [section for section in SECTIONS if section not in rule.doc]
        if missing or rule.doc.strip().startswith(SECTIONS):
            what = ", ".join(repr(section) for section in missing) or "a first sentence before the sections"
            yield Problem(rule.file, f"the docstring lacks {what}", line)
    try:
        with stopped_after(SECONDS, waiting=True):
            verdict = judge(rule, Job(Attempt()))
    except TookTooLong:
        yield Problem(rule.file, f"the rule does not come to its end within {SECONDS:.0f} s", line)
        return
    except Exception as error:
        path = str(found.folder / rule.file)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        why = f"the rule fails where there is no evidence: {type(error).__name__}: {error}"
        yield Problem(rule.file, why, frames[-1].lineno if frames else line)
        return
    if not verdict.conditions:
        yield Problem(rule.file, "the rule yields no condition (require, confirm, support, refute)", line)
    elif verdict.strength.rank:
        strength = verdict.strength.value
        yield Problem(rule.file, f"the rule says {rule.cause} ({strength}) where there is no evidence at all", line)


# ------------------------------------------------------------------------------------------------ cases


def _cases(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in (folder / CASES).iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return []


def _case(folder: Path, spoke: set[str]) -> Iterator[Problem]:
    """What is wrong with a case. Causes that a rule of the site said go into `spoke`."""
    file = f"{CASES}/{folder.name}/{LABEL}"
    try:
        with stopped_after(SECONDS, waiting=True):
            diagnosis, wrong = judged(folder)
    except TookTooLong:
        yield Problem(file, f"judging the case takes more than {SECONDS:.0f} s")
        return
    except Bad as error:
        yield Problem(file, str(error), error.line)
        return
    except Exception as error:
        yield Problem(file, f"judging the case failed: {type(error).__name__}: {error}")
        return
    spoke.update(cause for part in (diagnosis, *diagnosis.parts) for cause, _ in part.site_rules)
    for bad in wrong:
        yield Problem(file, str(bad), bad.line)
