"""The corpus for property tests: every case read once, and the same case with one file less.

`SLURM_TRIAGE_FULL=1` takes every case; otherwise all of Slurm 24.11 (both trees) and every third of the rest, picked by
a hash of the id so that a new case does not shuffle the others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from slurm_triage import causes, sources
from slurm_triage.attempts import Attempt
from slurm_triage.case import NOT_EVIDENCE, Case, from_files
from slurm_triage.engine import Study, study_events
from slurm_triage.model import Coverage, Diagnosis, Event, Strength
from tests.corpus.load import PUBLIC, RECORDED
from tests.corpus.load import cases as load

FULL = os.environ.get("SLURM_TRIAGE_FULL") == "1"
"""Read when the module is imported: the tests' own environment is emptied of such variables."""
WHOLE = ("recorded-24.11", "recorded-24.11-cgroup2")
SHARE = 3


@dataclass(frozen=True)
class Parsed:
    """A case of the corpus with what the sources read from it. `id` is `<corpus>/<folder>`."""

    id: str
    files: Mapping[str, bytes] = field(repr=False)
    case: Case = field(repr=False)
    events: tuple[Event, ...] = field(repr=False)
    coverage: tuple[Coverage, ...] = field(repr=False)

    @property
    def evidence(self) -> list[str]:
        """Names of the files that events were read from."""
        return sorted({event.cite.file for event in self.events})

    def study(self) -> Study:
        """The diagnosis of the whole case."""
        return study_events(self.events, self.coverage, self.case)

    def without(self, *names: str) -> Study:
        """The diagnosis as if these files had never been collected."""
        events = tuple(e for e in self.events if e.cite.file not in names)
        coverage = tuple(c for c in self.coverage if c.file not in names)
        kept = tuple(f for f in self.case.files if f.name not in names)
        return study_events(events, coverage, replace(self.case, files=kept))


def parse(id: str, files: Mapping[str, bytes]) -> Parsed:
    """Reads a case."""
    case = from_files(files)
    events, coverage = sources.parse(case)
    return Parsed(id, files, case, events, coverage)


def _picked(corpus: str, id: str) -> bool:
    if FULL or corpus in WHOLE:
        return True
    return hashlib.sha256(id.encode()).digest()[0] % SHARE == 0


CORPORA = (*RECORDED, PUBLIC)
"""Not our own cases: some ended as TIMEOUT or NODE_FAIL because of what the kernel log alone tells, and without that log the
state is confirmed."""


@cache
def files_of(corpora: tuple[str, ...] = CORPORA, everything: bool = False) -> tuple[tuple[str, dict[str, bytes]], ...]:
    """(id, files) of the picked cases of these corpora; labels are left out."""
    return tuple(
        (f"{corpus}/{id}", files)
        for corpus in corpora
        for id, files, _ in load(corpus)
        if everything or _picked(corpus, id)
    )


@cache
def parsed() -> tuple[Parsed, ...]:
    """The picked cases, each read once."""
    return tuple(parse(id, files) for id, files in files_of())


def notes_of_people(files: Mapping[str, bytes]) -> list[str]:
    """Names in the case that are never evidence (the manifest apart)."""
    return [n for n in files if n.rsplit("/", 1)[-1] in NOT_EVIDENCE and n != "manifest.toml"]


def related(one: str, other: str) -> bool:
    """Whether one of the two causes is the other or refines it."""
    return causes.refines(one, other) or causes.refines(other, one)


def confirmed(diagnosis: Diagnosis) -> bool:
    """Whether the answer is given as confirmed."""
    return diagnosis.strength is Strength.CONFIRMED


@dataclass(frozen=True)
class Answer:
    """What was said of one attempt, in a form small enough to keep thousands. `read` is why no_failure may be sure:
    final accounting with steps was there, and the job's own output."""

    cause: str
    confirmed: bool
    read: bool


def answers(study: Study) -> tuple[Answer, dict[tuple[str | None, str | None], Answer]]:
    """The answer for the folder, and for each attempt by raw job id and start time (seconds)."""
    top = study.diagnosis
    found = {}
    for attempt, part in zip(study.attempts, top.parts or (top,), strict=True):
        start = f"{part.job.start.lo:.0f}{'Z' if part.job.start.zoned else ''}" if part.job.start else None
        found[part.job.job_id, start] = Answer(part.cause, confirmed(part), _read(attempt))
    return Answer(top.cause, confirmed(top), all(a.read for a in found.values())), found


def _read(attempt: Attempt) -> bool:
    records = any(r.final is not False and r.state not in (None, "PENDING", "RUNNING") for r in attempt.records)
    steps = any(s.final is not False for s in attempt.steps)
    return records and steps and any(e.cite.source == "job_log" for e in attempt.events)
