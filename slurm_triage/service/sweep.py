"""One round: which jobs ended, what accounting says of them, the verdicts, the history, the ledger. In this order.

The time since the last round is taken in slices, and the jobs of a slice in parts, so that an outage of a week is many
small pieces of work. What is done is kept after each part. The ledger is written after the history, and recording is
idempotent: whoever kills the service between the two makes it do the same again, never less and never twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from slurm_triage.engine import Study
from slurm_triage.history.database import HistoryError, is_about_the_document
from slurm_triage.history.store import History
from slurm_triage.log import Log
from slurm_triage.model import Event, Setting, Strength
from slurm_triage.recording import record
from slurm_triage.service import judge
from slurm_triage.service.ask import AT_ONCE, Asker, AskError, JobName
from slurm_triage.service.config import Settings
from slurm_triage.service.ledger import Ledger, Said, Waiting
from slurm_triage.sources.scontrol_config import seconds

KILL_WAIT, UNKILLABLE = 30.0, 60.0
"""Slurm's defaults of KillWait and UnkillableStepTimeout in seconds (slurm.conf(5)), for when they cannot be asked."""
SLICE = 3600.0
"""Seconds of accounting that are asked about at once."""
LATE_EVERY = 3600.0
"""Seconds between two looks for jobs that came into accounting long after their end."""
MARGIN = 15.0
"""Seconds that accounting may be behind slurmctld when nothing is wrong (recorded: up to 4 s, 19 s after a restart)."""
AHEAD = 60.0
"""Seconds by which the end of the last sweep may lie in the future before the clock is said to have been wrong."""
BAD = "(bad)"
"""In the ledger, in the place of the cause of a job that could not be judged."""
UNSEEN = "accounting lists it and does not show it"
_RANK = {Strength.CONFIRMED.value: 3, Strength.LIKELY.value: 2, Strength.POSSIBLE.value: 1}


class SweepError(Exception):
    """A sweep could not be done; the message says why. The next one begins where this one stopped."""


class Stopped(Exception):
    """The sweep was told to stop; what is done is in the ledger."""


@dataclass
class Swept:
    """What came of a sweep: numbers of jobs."""

    ended: int = 0
    recorded: int = 0
    amended: int = 0
    waiting: int = 0
    bad: int = 0
    causes: dict[str, int] = field(default_factory=dict)


class Sweeper:
    """Sweeps. One object for the life of the service: what Slurm says rarely changes is asked rarely."""

    def __init__(self, settings: Settings, asker: Asker, log: Log) -> None:
        self.settings = settings
        self.asker = asker
        self.log = log

    def sweep(self, ledger: Ledger, now: float, keep: Callable[[], None] = lambda: None) -> Swept:
        """One round up to `now`; the ledger says afterwards what is done. `keep` is called after each part of the work.

        Raises `SweepError`, and what `keep` raises.
        """
        try:
            return self._sweep(ledger, now, keep)
        except (AskError, HistoryError) as error:
            raise SweepError(str(error)) from error

    def _sweep(self, ledger: Ledger, now: float, keep: Callable[[], None]) -> Swept:
        if ledger.begun is None:
            ledger.begun = now - self.settings.lookback
        if ledger.swept is not None and ledger.swept > now + AHEAD:
            self.log.error("clock", why="the last sweep lies in the future: the clock was or is wrong")
            ledger.swept, ledger.begun = None, min(ledger.begun, now - self.settings.lookback)
        since = ledger.begun
        if ledger.swept is not None:
            since = max(since, min(ledger.swept, now) - self.settings.recheck)
        found = Swept()
        with History.open(self.settings.history) as history:
            self._jobs(ledger, history, [JobName(job, w.shown) for job, w in ledger.waiting.items()], now, found, keep)
            for begin, end in slices(since, now):
                jobs = self.asker.ended(begin, end)
                found.ended += len(jobs)
                self._jobs(ledger, history, [job for job in jobs if job.raw not in ledger.waiting], now, found, keep)
                ledger.swept = max(ledger.swept or end, end)
                keep()
            if now - ledger.late >= LATE_EVERY:
                for begin, end in slices(max(ledger.begun, min(now - self.settings.late, since)), since):
                    late = [job for job in self.asker.ended(begin, end) if job.raw not in ledger.said]
                    self._jobs(ledger, history, late, now, found, keep)
                ledger.late = now
        ledger.swept = now
        ledger.forget(now - self.settings.late - 2 * LATE_EVERY - self.settings.recheck)
        found.waiting = len(ledger.waiting)
        ledger.counts["sweeps"] += 1
        return found

    def _jobs(
        self,
        ledger: Ledger,
        history: History,
        jobs: list[JobName],
        now: float,
        found: Swept,
        keep: Callable[[], None],
    ) -> None:
        for first in range(0, len(jobs), AT_ONCE):
            self._part(ledger, history, jobs[first : first + AT_ONCE], now, found)
            keep()

    def _part(self, ledger: Ledger, history: History, jobs: list[JobName], now: float, found: Swept) -> None:
        """Judges some jobs. One that cannot be judged or recorded is bad, and stops no other."""
        evidence = self.asker.evidence(jobs)
        new = [job for job in jobs if job.raw not in evidence or not _known(ledger, job.raw, evidence[job.raw])]
        views = self.asker.controller(job for job in new if job.raw in evidence)
        settings = self.asker.settings() if new else {}
        for job in new:
            waiting = ledger.waiting.setdefault(job.raw, Waiting(job.shown, now))
            if job.raw not in evidence:
                if now - waiting.since >= 2 * self.settings.recheck:
                    self._bad(ledger, job.raw, "", UNSEEN, now, found)
                continue
            view = {"scontrol-job.txt": views[job.raw]} if job.raw in views else {}
            files = {**evidence[job.raw], **view, **settings}
            digest = _digest(evidence[job.raw])
            before = ledger.said.get(job.raw)
            if before is not None and before.cause == BAD:
                before = None
            try:
                study = self._study(files, now, waiting.since)
                if study is None:
                    continue
                weaker = before is not None and _weaker(study, before)
                keep = not weaker and judge.worth_keeping(study, self.settings.own_scancel)
                if keep:
                    record(history, study)
            except Exception as error:  # whatever it is, it is about this job only
                if isinstance(error, HistoryError) and not is_about_the_document(error):
                    raise
                self._bad(ledger, job.raw, digest, f"{type(error).__name__}: {error}", now, found)
                continue
            ledger.waiting.pop(job.raw, None)
            ledger.bad.pop(job.raw, None)
            if before is not None and weaker:
                # Accounting forgets (who cancelled, after a restart of slurmctld), and so does slurmctld.
                before.digest = digest
                continue
            verdict = study.diagnosis
            strength = verdict.strength.value if verdict.strength else None
            said = Said(digest, verdict.cause, strength, now, before.revision if before else 0)
            ledger.said[job.raw] = said
            if keep:
                self._tell(ledger, job.raw, said, before, verdict.owner.value, found)

    def _study(self, files: Mapping[str, bytes], now: float, since: float) -> Study | None:
        """The study of a job, None as long as accounting is not final."""
        parsed = judge.read(files, self.asker.version)
        settle, deadline = _patience(parsed.events)
        if not parsed.final(now, settle) and now - since < deadline:
            return None
        return parsed.study()

    def _bad(self, ledger: Ledger, job: str, digest: str, why: str, now: float, found: Swept) -> None:
        ledger.waiting.pop(job, None)
        ledger.said[job] = Said(digest, BAD, None, now)  # not again before the evidence changes
        ledger.bad[job] = why[:300]
        ledger.counts["bad"] += 1
        found.bad += 1
        self.log.error("bad", job=job, why=ledger.bad[job])

    def _tell(self, ledger: Ledger, job: str, said: Said, before: Said | None, owner: str, found: Swept) -> None:
        """Counts and logs what was recorded of a job."""
        found.recorded += 1
        found.causes[said.cause] = found.causes.get(said.cause, 0) + 1
        if before is None:
            ledger.counts[f"cause:{said.cause}"] += 1
            self.log.info("verdict", job=job, cause=said.cause, strength=said.strength, owner=owner)
        elif (before.cause, before.strength) != (said.cause, said.strength):
            said.revision += 1
            found.amended += 1
            ledger.counts["amended"] += 1
            self.log.info("amended", job=job, cause=said.cause, strength=said.strength, before=before.cause)


def slices(since: float, until: float) -> Iterator[tuple[float, float]]:
    """The time between two epochs in pieces of at most `SLICE` seconds."""
    begin = since
    while begin < until:
        end = min(begin + SLICE, until)
        yield begin, end
        begin = end


def _known(ledger: Ledger, job: str, files: Mapping[str, bytes]) -> bool:
    said = ledger.said.get(job)
    return job not in ledger.waiting and said is not None and said.digest == _digest(files)


def _weaker(study: Study, before: Said) -> bool:
    """Whether less is known now than when something was said of the job."""
    now = study.diagnosis.strength.value if study.diagnosis.strength else ""
    return _RANK.get(now, 0) < _RANK.get(before.strength or "", 0)


def _digest(files: Mapping[str, bytes]) -> str:
    """Of what accounting says: it is what changes later. slurmctld forgets, and settings are everybody's."""
    with_json = b"json" if "sacct.json" in files else b""
    return hashlib.sha256(files.get("sacct.psv", b"") + with_json).hexdigest()[:32]


def _patience(events: Iterable[Event]) -> tuple[float, float]:
    """(seconds after the last end before accounting is believed, seconds after which it is judged as it is)."""
    told = {e.key: seconds(e.value) for e in events if isinstance(e, Setting)}
    kill_wait = told.get("KillWait") or KILL_WAIT
    unkillable = told.get("UnkillableStepTimeout") or UNKILLABLE
    return kill_wait + MARGIN, kill_wait + unkillable + 120.0
