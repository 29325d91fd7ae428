"""One round: which jobs ended, what accounting says of them, the verdicts, the history, the ledger. In this order.

The ledger is written after the history, and recording is idempotent: whoever kills the service between the two makes it
do the same again, never less and never twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_triage.history.database import HistoryError
from slurm_triage.history.store import History
from slurm_triage.model import Event, Setting
from slurm_triage.recording import record
from slurm_triage.service import judge
from slurm_triage.service.ask import Asker, AskError
from slurm_triage.service.config import Settings
from slurm_triage.service.ledger import Ledger, Said
from slurm_triage.service.log import Log
from slurm_triage.sources.scontrol_config import seconds

KILL_WAIT, UNKILLABLE = 30.0, 60.0
"""Slurm's defaults of KillWait and UnkillableStepTimeout in seconds (slurm.conf(5)), for when they cannot be asked."""
BAD = "(bad)"
"""In the ledger, in the place of the cause of a job that could not be judged."""
MARGIN = 15.0
"""Seconds that accounting may be behind slurmctld when nothing is wrong (recorded: up to 4 s, 19 s after a restart)."""


class SweepError(Exception):
    """A sweep could not be done; the message says why. The next one begins where this one began."""


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

    def sweep(self, ledger: Ledger, now: float) -> Swept:
        """One round up to `now`; the ledger says afterwards what is done. Raises `SweepError`."""
        try:
            return self._sweep(ledger, now)
        except (AskError, HistoryError) as error:
            raise SweepError(str(error)) from error

    def _sweep(self, ledger: Ledger, now: float) -> Swept:
        since = now - self.settings.lookback if ledger.swept is None else ledger.swept
        ended = self.asker.ended(since - self.settings.recheck, now)
        jobs = list(dict.fromkeys([*ledger.waiting, *ended]))
        found = Swept(ended=len(ended))
        if jobs:
            evidence = self.asker.evidence(jobs)
            new = {job for job, files in evidence.items() if not self._known(ledger, job, files)}
            views = self.asker.controller(new) if new else {}
            settings = self.asker.settings()
            with History.open(self.settings.history) as history:
                for job in jobs:
                    if job not in evidence:
                        ledger.waiting.pop(job, None)  # accounting has forgotten it
                    elif job in new:
                        view = {"scontrol-job.txt": views[job]} if job in views else {}
                        files = {**evidence[job], **view, **settings}
                        self._one(ledger, history, job, files, _digest(evidence[job]), now, found)
        ledger.swept = now
        ledger.forget(now - 2 * self.settings.recheck - self.settings.interval)
        found.waiting = len(ledger.waiting)
        ledger.counts["sweeps"] += 1
        return found

    @staticmethod
    def _known(ledger: Ledger, job: str, files: Mapping[str, bytes]) -> bool:
        said = ledger.said.get(job)
        return job not in ledger.waiting and said is not None and said.digest == _digest(files)

    def _one(
        self,
        ledger: Ledger,
        history: History,
        job: str,
        files: Mapping[str, bytes],
        digest: str,
        now: float,
        found: Swept,
    ) -> None:
        """Judges one job. Nothing about its evidence raises: one bad record must not stop the others."""
        try:
            parsed = judge.read(files, self.asker.version)
            settle, deadline = _patience(parsed.events)
            first = ledger.waiting.setdefault(job, now)
            if not parsed.final(now, settle) and now - first < deadline:
                return
            study = parsed.study()
            keep = judge.worth_keeping(study, self.settings.own_scancel)
        except Exception as error:  # whatever it is, it is about this job only
            ledger.waiting.pop(job, None)
            ledger.said[job] = Said(digest, BAD, None, now)  # not again before the evidence changes
            ledger.bad[job] = f"{type(error).__name__}: {error}"[:300]
            ledger.counts["bad"] += 1
            found.bad += 1
            self.log.error("bad", job=job, why=ledger.bad[job])
            return
        verdict = study.diagnosis
        strength = verdict.strength.value if verdict.strength else None
        before = ledger.said.get(job)
        if before is not None and before.cause == BAD:
            before = None
            ledger.bad.pop(job, None)
        said = Said(digest, verdict.cause, strength, now, before.revision if before else 0)
        if keep:
            record(history, study)
            found.recorded += 1
            found.causes[said.cause] = found.causes.get(said.cause, 0) + 1
        if before is None:
            if keep:
                ledger.counts[f"cause:{said.cause}"] += 1
                self.log.info("verdict", job=job, cause=said.cause, strength=strength, owner=verdict.owner.value)
        elif (before.cause, before.strength) != (said.cause, said.strength):
            said.revision += 1
            found.amended += 1
            ledger.counts["amended"] += 1
            self.log.info("amended", job=job, cause=said.cause, strength=strength, before=before.cause)
        ledger.said[job] = said
        ledger.waiting.pop(job, None)


def _digest(files: Mapping[str, bytes]) -> str:
    """Of what accounting says: it is what changes later. slurmctld forgets, and settings are everybody's."""
    table = files.get("sacct.psv", b"")
    return hashlib.sha256(table).hexdigest()[:32]


def _patience(events: Iterable[Event]) -> tuple[float, float]:
    """(seconds after the last end before accounting is believed, seconds after which it is judged as it is)."""
    told = {e.key: seconds(e.value) for e in events if isinstance(e, Setting)}
    kill_wait = told.get("KillWait") or KILL_WAIT
    unkillable = told.get("UnkillableStepTimeout") or UNKILLABLE
    return kill_wait + MARGIN, kill_wait + unkillable + 120.0
