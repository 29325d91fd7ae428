"""One round over some jobs: asks about them, puts the evidence together, has them judged, records and publishes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from slurm_triage.history.database import HistoryError, is_about_the_document
from slurm_triage.history.store import BATCH, History
from slurm_triage.log import Log
from slurm_triage.model import Strength
from slurm_triage.service import ask
from slurm_triage.service.ahead import ahead
from slurm_triage.service.ask import Asker, JobName
from slurm_triage.service.assemble import Assembled, assemble
from slurm_triage.service.config import Settings
from slurm_triage.service.glance import Glance, glance
from slurm_triage.service.intake import Intake, Told
from slurm_triage.service.ledger import Ledger, Said, Waiting
from slurm_triage.service.patience import patience
from slurm_triage.service.pool import Case, Failed, Judged, Pool
from slurm_triage.service.publish import Publisher

BAD = "(bad)"
"""In the ledger, in the place of the cause of a job that could not be judged."""
UNSEEN = "accounting lists it and does not show it"
ONLY_ACCOUNTING = "the job's output, the nodes' kernel logs: the service sees accounting and slurmctld only"
BYTES_AT_ONCE = 64 * 1024 * 1024
"""Bytes of what nodes sent from which on no further job is taken into a piece of the work. There are two at a time."""
_RANK = {Strength.CONFIRMED.value: 3, Strength.LIKELY.value: 2, Strength.POSSIBLE.value: 1}


@dataclass
class Swept:
    """What came of a sweep: numbers of jobs."""

    ended: int = 0
    recorded: int = 0
    amended: int = 0
    waiting: int = 0
    bad: int = 0
    causes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Means:
    """What a round works with, for the life of the service. Without `intake` and `publisher` there are no nodes."""

    settings: Settings
    asker: Asker
    pool: Pool
    log: Log
    intake: Intake | None = None
    publisher: Publisher | None = None


@dataclass(frozen=True)
class _Piece:
    """Some jobs with all that is known of them, by raw id. A job that accounting does not show is in `jobs` only."""

    jobs: Sequence[JobName]
    shown: Mapping[str, Mapping[str, bytes]]
    told: Mapping[str, Sequence[Told]]
    looks: Mapping[str, Glance]
    sent: Mapping[str, Assembled]
    digests: Mapping[str, str]

    @classmethod
    def of(
        cls, jobs: Sequence[JobName], shown: Mapping[str, Mapping[str, bytes]], told: Mapping[str, Sequence[Told]]
    ) -> _Piece:
        looks = {raw: glance(files["sacct.psv"]) for raw, files in shown.items() if "sacct.psv" in files}
        sent = {raw: assemble(look, told.get(raw, ())) for raw, look in looks.items()}
        return cls(jobs, shown, told, looks, sent, {raw: _digest(shown[raw], found) for raw, found in sent.items()})


class Round:
    """A round at the epoch `now`. `keep` is called after each part of the work."""

    def __init__(
        self, means: Means, ledger: Ledger, history: History, now: float, keep: Callable[[], None] = lambda: None
    ) -> None:
        self.means, self.ledger, self.history, self.now, self.keep = means, ledger, history, now, keep
        self.found = Swept()
        self.due: dict[str, float] = {}
        """By raw id, for jobs that wait: from when on it is worth looking again."""

    def jobs(self, jobs: Sequence[JobName]) -> None:
        """Judges jobs. One that cannot be judged or recorded is bad, and stops no other.

        Raises `AskError`, `HistoryError`, `IntakeError`, `TextsError`, and what `keep` raises.
        """
        for piece in ahead(self._pieces(jobs)):
            self._piece(piece)
            self.keep()

    def _pieces(self, jobs: Sequence[JobName]) -> Iterator[_Piece]:
        """The jobs with their evidence, in pieces of which each fits into the memory. In a thread of its own: while a
        piece is judged, accounting answers about the next.
        """
        for first in range(0, len(jobs), ask.AT_ONCE):
            part = jobs[first : first + ask.AT_ONCE]
            shown = self.means.asker.evidence(part)
            for some, told in self._told(part):
                yield _Piece.of(some, {job.raw: shown[job.raw] for job in some if job.raw in shown}, told)

    def _told(self, jobs: Sequence[JobName]) -> Iterator[tuple[list[JobName], dict[str, list[Told]]]]:
        """The jobs with what nodes sent, so many at a time that it is not too much."""
        intake = self.means.intake
        some: list[JobName] = []
        told: dict[str, list[Told]] = {}
        size = 0
        for job in jobs:
            if size >= BYTES_AT_ONCE:
                yield some, told
                some, told, size = [], {}, 0
            some.append(job)
            for case in intake.of([job.raw]).get(job.raw, ()) if intake else ():
                told.setdefault(job.raw, []).append(case)
                size += sum(map(len, case.files.values()))
        if some:
            yield some, told

    def _piece(self, piece: _Piece) -> None:
        new = [job for job in piece.jobs if not self._known(job.raw, piece)]
        self._used({job.raw for job in piece.jobs} - {job.raw for job in new}, piece.told)
        for done in self._judge(new, piece) if new else ():
            self._used(done, piece.told)
            self.keep()

    def _used(self, jobs: Iterable[str], told: Mapping[str, Sequence[Told]]) -> None:
        """It is done with what nodes sent of these jobs."""
        cases = [(raw, len(told.get(raw, ()))) for raw in jobs]
        if self.means.intake and cases:
            self.means.intake.used(cases)

    def _known(self, job: str, piece: _Piece) -> bool:
        said = self.ledger.said.get(job)
        return job not in self.ledger.waiting and said is not None and said.digest == piece.digests.get(job)

    def _judge(self, jobs: Sequence[JobName], piece: _Piece) -> Iterator[set[str]]:
        """Judges those that are final; yields the raw ids of those with which it is done, some at a time.

        What is judged is recorded and published soon: whoever is killed in the middle of a storm has lost little.
        """
        settings = self.means.asker.settings()
        patient = patience(settings)
        ready: list[JobName] = []
        given_up: set[str] = set()
        for job in jobs:
            waiting = self.ledger.waiting.setdefault(job.raw, Waiting(job.shown, self.now))
            if job.raw not in piece.looks:
                self.due[job.raw] = self.now
                if self.now - waiting.since >= 2 * self.means.settings.recheck:
                    self._bad(job.raw, "", UNSEEN)
                    given_up.add(job.raw)
                continue
            due = patient.due(piece.looks[job.raw], piece.sent[job.raw], waiting.since)
            if self.now < due:
                self.due[job.raw] = due
                continue
            ready.append(job)
        views = self.means.asker.controller(ready)
        cases = [_case(job.raw, piece.shown[job.raw], views.get(job.raw), piece.sent[job.raw]) for job in ready]
        if given_up:
            yield given_up
        results = self.means.pool.judge(cases, settings, self.means.asker.version)
        while some := list(islice(results, BATCH)):
            said = self._record(some, piece.digests)
            for raw in said:
                for why in piece.sent[raw].foreign:
                    self.means.log.error("foreign", job=raw, why=why)
            if self.means.publisher:
                fresh = [
                    (raw, found, piece.looks[raw]) for raw, found in some if raw in said and isinstance(found, Judged)
                ]
                self.means.publisher.publish(fresh, self.history, self.now)
            yield {raw for raw, _ in some}

    def _record(self, results: Iterable[tuple[str, Judged | Failed]], digests: Mapping[str, str]) -> set[str]:
        """Puts verdicts into the history, in one transaction; returns of whom something new was said."""
        said = set()
        with self.history.batch():
            for raw, result in results:
                if isinstance(result, Failed):
                    self._bad(raw, digests[raw], result.why)
                elif self._one(raw, result, digests[raw]):
                    said.add(raw)
        return said

    def _one(self, raw: str, result: Judged, digest: str) -> bool:
        """Records what was found of one job; whether something new is said of it."""
        before = self.ledger.said.get(raw)
        if before is not None and before.cause == BAD:
            before = None
        if before is not None and _RANK.get(result.strength or "", 0) < _RANK.get(before.strength or "", 0):
            # Accounting forgets (who cancelled, after a restart of slurmctld), and so does slurmctld.
            before.digest = digest
            self._settled(raw)
            return False
        keep = result.worth_keeping(self.means.settings.own_scancel)
        try:
            if keep:
                for document, detail in result.recordings:
                    self.history.record(document, detail)
        except HistoryError as error:
            if not is_about_the_document(error):
                raise
            self._bad(raw, digest, str(error))
            return False
        self._settled(raw)
        said = Said(digest, result.cause, result.strength, self.now, before.revision if before else 0)
        self.ledger.said[raw] = said
        if keep:
            self._tell(raw, said, before, result.owner)
        return True

    def _settled(self, job: str) -> None:
        self.ledger.waiting.pop(job, None)
        self.ledger.bad.pop(job, None)

    def _bad(self, job: str, digest: str, why: str) -> None:
        self.ledger.waiting.pop(job, None)
        self.ledger.said[job] = Said(digest, BAD, None, self.now)  # not again before the evidence changes
        self.ledger.bad[job] = why[:300]
        self.ledger.counts["bad"] += 1
        self.found.bad += 1
        self.means.log.error("bad", job=job, why=self.ledger.bad[job])

    def _tell(self, job: str, said: Said, before: Said | None, owner: str) -> None:
        """Counts and logs what was recorded of a job."""
        log = self.means.log
        self.found.recorded += 1
        self.found.causes[said.cause] = self.found.causes.get(said.cause, 0) + 1
        if before is None:
            self.ledger.counts[f"cause:{said.cause}"] += 1
            log.info("verdict", job=job, cause=said.cause, strength=said.strength, owner=owner)
        elif (before.cause, before.strength) != (said.cause, said.strength):
            said.revision += 1
            self.found.amended += 1
            self.ledger.counts["amended"] += 1
            log.info("amended", job=job, cause=said.cause, strength=said.strength, before=before.cause)


def _case(raw: str, shown: Mapping[str, bytes], view: bytes | None, sent: Assembled) -> Case:
    files = {**sent.files, **shown}
    if view is not None:
        files["scontrol-job.txt"] = view
    unseen = sent.not_seen if sent.files else [ONLY_ACCOUNTING]
    return Case(raw, files, {**sent.manifest, "not_seen": unseen})


def _digest(files: Mapping[str, bytes], sent: Assembled) -> str:
    """Of what accounting and nodes say: it is what changes later. slurmctld forgets, and settings are everybody's."""
    found = hashlib.sha256(files.get("sacct.psv", b"") + (b"json" if "sacct.json" in files else b""))
    for name, data in sorted(sent.files.items()):
        found.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
    return found.hexdigest()[:32]
