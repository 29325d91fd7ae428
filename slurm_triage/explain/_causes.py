"""Pages of causes, from `causes.toml` and the docstrings of the rules."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_triage.causes import Cause, all_causes
from slurm_triage.explain._entry import Entry, Part, sentence
from slurm_triage.explain._prose import parts
from slurm_triage.rules import Rule, all_rules


def cause(word: str) -> Iterator[Entry]:
    """The page of a cause, if the word is one."""
    found = all_causes().get(word.lower())
    if found is not None:
        yield _page(found, next((rule for rule in all_rules() if rule.cause == found.id), None))


def causes() -> Iterator[Entry]:
    """The pages of all causes, by id."""
    rules = {rule.cause: rule for rule in all_rules()}
    for id, entry in sorted(all_causes().items()):
        yield _page(entry, rules.get(id))


def _page(entry: Cause, rule: Rule | None) -> Entry:
    finer = tuple(sorted(c.id for c in all_causes().values() if c.refines == entry.id))
    told, sources = parts(rule.doc if rule is not None else entry.page)
    found = [Part("", sentence(entry.meaning)), *told]
    if rule is not None and rule.supersedes:
        found.append(Part("Explains away", ", ".join(sorted(set(rule.supersedes)))))
    if entry.refines:
        found.append(Part("Refines", f"{entry.refines}: right as well, but wider"))
    if finer:
        found.append(Part("Refined by", ", ".join(finer)))
    see = (*((entry.refines,) if entry.refines else ()), *finer)
    return Entry("cause", entry.id, entry.title, tuple(found), see, sources)
