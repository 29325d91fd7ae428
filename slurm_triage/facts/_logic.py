"""Three-valued statements: how facts are made and joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurm_triage.model import Cite, Event, Fact


def true(says: str, cites: Iterable[Cite | Event]) -> Fact:
    """The statement holds; at least one citation says so."""
    return Fact(says, True, _cites(cites))


def false(says: str, because: str, cites: Iterable[Cite | Event] = ()) -> Fact:
    """The statement does not hold, `because` says why."""
    return Fact(says, False, _cites(cites), because)


def unknown(says: str, because: str, how: str) -> Fact:
    """It could not be seen; `because` says why, `how` tells how to find out."""
    return Fact(says, None, (), because, how)


def _cites(items: Iterable[Cite | Event]) -> tuple[Cite, ...]:
    if not items:
        return ()
    found: dict[tuple[str, int], Cite] = {}
    for item in items:
        cite = item if isinstance(item, Cite) else item.cite
        if cite.text:  # an empty file has no line to show
            found.setdefault((cite.file, cite.line), cite)
    return tuple(found.values())


def _of_all(facts: Sequence[Fact]) -> tuple[Cite, ...]:
    """The citations of facts, each once. Mostly there is one fact that has any."""
    cited = [f.cites for f in facts if f.cites]
    if len(cited) < 2:
        return cited[0] if cited else ()
    return _cites(c for cites in cited for c in cites)


def any_of(says: str, *facts: Fact) -> Fact:
    """True if one of them is, false if all are, else unknown."""
    good = [f for f in facts if f.holds]
    if good:
        return Fact(says, True, _of_all(good))
    open_ = [f for f in facts if f.holds is None]
    if open_:
        return Fact(says, None, (), _join([f.because for f in open_]), _join([f.how for f in open_]))
    return Fact(says, False, _of_all(facts), _join(f.because for f in facts))


def all_of(says: str, *facts: Fact) -> Fact:
    """True if all are, false if one is not, else unknown."""
    bad = [f for f in facts if f.holds is False]
    if bad:
        return Fact(says, False, _of_all(bad), _join(f.because for f in bad))
    open_ = [f for f in facts if f.holds is None]
    if open_:
        return Fact(says, None, (), _join([f.because for f in open_]), _join([f.how for f in open_]))
    return Fact(says, True, _of_all(facts))


def negation(says: str, fact: Fact) -> Fact:
    """The opposite of a fact."""
    if fact.holds is None:
        return Fact(says, None, (), fact.because, fact.how)
    return Fact(says, not fact.holds, fact.cites, fact.says if fact.holds else "")


def _join(texts: Iterable[str]) -> str:
    found = list(dict.fromkeys(filter(None, texts)))
    return found[0] if len(found) == 1 else "; ".join(found)
