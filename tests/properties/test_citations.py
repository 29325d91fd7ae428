"""Every citation of every diagnosis of the corpus really is that line of that file."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_triage.model import Cite, Diagnosis
from slurm_triage.report.document import document
from tests.citations import Citations, places_of
from tests.properties.corpus import parsed


def _cites(diagnosis: Diagnosis) -> Iterator[Cite]:
    """Lines cited anywhere in a diagnosis: as evidence, in the timeline, for and against every rule considered."""
    yield from diagnosis.evidence
    yield from (moment.cite for moment in diagnosis.timeline)
    if diagnosis.first_failure is not None:
        yield diagnosis.first_failure.cite
    for verdict in (*diagnosis.considered, *diagnosis.ruled_out, *diagnosis.also):
        for condition in verdict.conditions:
            yield from condition.fact.cites
    for part in diagnosis.parts:
        yield from _cites(part)


def test_every_citation_resolves() -> None:
    false, checked = [], 0
    for case in parsed():
        check = Citations(case.files)
        diagnosis = case.study().diagnosis
        places: set[tuple[str, int, str | None]] = {(c.file, c.line, c.text) for c in _cites(diagnosis)}
        places |= set(places_of(document(diagnosis)))
        checked += len(places)
        false += [f"{case.id}: {problem}" for place in sorted(places, key=str) if (problem := check.problem(*place))]
    assert not false, "\n".join(false[:20])
    assert checked > 2000


def test_an_answer_has_evidence() -> None:
    """A cause that is named rests on at least one line."""
    bare = []
    for case in parsed():
        diagnosis = case.study().diagnosis
        for part in diagnosis.parts or (diagnosis,):
            if part.strength is not None and not part.evidence:
                bare.append(f"{case.id}: {part.cause} ({part.strength.value}) without a line of evidence")
    assert not bare, "\n".join(bare)
