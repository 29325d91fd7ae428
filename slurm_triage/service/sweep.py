"""Which jobs a round is about: those of a window of time, those that nodes told of, and those that wait.

Nothing is lost and nothing is said twice. A sweep begins where the last one that came to its end stopped, looks back a
while because accounting is corrected late, and ends at the present. What was said of a job stands in the ledger under a
digest of the evidence: the same evidence is passed over, other evidence is judged again and amends the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slurm_triage.history.database import HistoryError
from slurm_triage.history.store import History
from slurm_triage.service.ask import AT_ONCE, AskError, JobName
from slurm_triage.service.intake import IntakeError
from slurm_triage.service.ledger import Ledger
from slurm_triage.service.pool import PoolError
from slurm_triage.service.round import Means, Round, Swept
from slurm_triage.service.texts import TextsError

SLICE = 3600.0
"""Seconds of accounting that are asked about at once."""
LATE_EVERY = 3600.0
"""Seconds between two looks for jobs that came into accounting long after their end."""
AHEAD = 60.0
"""Seconds by which the end of the last sweep may lie in the future before the clock is said to have been wrong."""
HUSH = 1.0
"""Seconds without further evidence of a job before it is looked at: nodes of one job speak together."""
SOON = 0.5
"""Seconds that are between two looks at a job in any case."""
RETRY = (2.0, 60.0)
"""Seconds after which a job that nodes told of is looked at again: the first time, then doubled, up to the second."""


class SweepError(Exception):
    """A sweep could not be done; the message says why. The next one begins where this one stopped."""


class Stopped(Exception):
    """The sweep was told to stop; what is done is in the ledger."""


@dataclass(frozen=True)
class _Look:
    """When a job that nodes told of was looked at in vain, when again, and how long the pause is."""

    at: float
    again: float
    pause: float


class Sweeper:
    """Makes rounds. One object for the life of the service: what Slurm says rarely changes is asked rarely."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self.settings = means.settings
        self.log = means.log
        self._looked: dict[str, _Look] = {}

    def sweep(self, ledger: Ledger, now: float, keep: Callable[[], None] = lambda: None) -> Swept:
        """One round up to `now`; the ledger says afterwards what is done. `keep` is called after each part of the work.

        Raises `SweepError`, and what `keep` raises.
        """
        return self._round(ledger, now, keep, self._sweep)

    def prompt(
        self, ledger: Ledger, now: float, keep: Callable[[], None] = lambda: None, early: bool = False
    ) -> Swept | None:
        """One round over the jobs that nodes told of since; None if there are none whose time has come.

        With `early` only over those that no round has looked at, and only if they are a whole call of accounting.
        Raises as `sweep`.
        """
        try:
            jobs = self._told(now, early)
        except IntakeError as error:
            raise SweepError(str(error)) from error
        if not jobs:
            return None
        return self._round(ledger, now, keep, lambda one: self._look(one, jobs))

    def worth_a_round(self, now: float, early: bool = False) -> bool:
        """Whether `prompt` would make a round, which costs reading the ledger; true if that cannot be told."""
        try:
            return bool(self._told(now, early))
        except IntakeError:
            return True

    def told_something(self) -> bool:
        """Whether nodes told of jobs that no round has finished with."""
        try:
            return self.means.intake is not None and self.means.intake.waiting() > 0
        except IntakeError:
            return True

    def _round(self, ledger: Ledger, now: float, keep: Callable[[], None], work: Callable[[Round], None]) -> Swept:
        try:
            with History.open(self.settings.history) as history:
                one = Round(self.means, ledger, history, now, keep)
                work(one)
                if self.means.publisher is not None:
                    ledger.corrected = self.means.publisher.correct(history, ledger.corrected, now)
        except (AskError, HistoryError, IntakeError, TextsError, PoolError) as error:
            raise SweepError(str(error)) from error
        one.found.waiting = len(ledger.waiting)
        return one.found

    # -------------------------------------------------------------------------------------------- what nodes told

    def _told(self, now: float, early: bool) -> list[JobName]:
        if self.means.intake is None:
            return []
        news = self.means.intake.news(now - HUSH)
        known = {raw for raw, _, _ in news}
        self._looked = {raw: look for raw, look in self._looked.items() if raw in known}
        found = []
        for raw, shown, last in news:
            look = self._looked.get(raw)
            if look is None or (not early and (look.again <= now or last > look.at)):
                found.append(JobName(raw, shown))
        return found if not early or len(found) >= AT_ONCE else []

    def _look(self, one: Round, jobs: Sequence[JobName]) -> None:
        one.jobs(jobs)
        for job in jobs:
            due = one.due.get(job.raw)
            before = self._looked.pop(job.raw, None)
            if due is None:
                continue
            pause = min(2 * before.pause, RETRY[1]) if before is not None else RETRY[0]
            # Accounting may change before the job's time has come, so that it comes sooner.
            sooner = max(due, one.now + SOON) if due > one.now else one.now + pause
            self._looked[job.raw] = _Look(one.now, min(sooner, one.now + pause), pause)

    # -------------------------------------------------------------------------------------------- windows of time

    def _sweep(self, one: Round) -> None:
        ledger, now = one.ledger, one.now
        if ledger.begun is None:
            ledger.begun = now - self.settings.lookback
        if ledger.swept is not None and ledger.swept > now + AHEAD:
            self.log.error("clock", why="the last sweep lies in the future: the clock was or is wrong")
            ledger.swept, ledger.begun = None, min(ledger.begun, now - self.settings.lookback)
        since = ledger.begun
        if ledger.swept is not None:
            since = max(since, min(ledger.swept, now) - self.settings.recheck)
        one.jobs([JobName(job, waiting.shown) for job, waiting in ledger.waiting.items()])
        for begin, end in slices(since, now):
            ended = self._ended(one, begin, end)
            one.found.ended += len(ended)
            one.jobs([job for job in ended if job.raw not in ledger.waiting])
            ledger.swept = max(ledger.swept or end, end)
            one.keep()
        if now - ledger.late >= LATE_EVERY:
            for begin, end in slices(max(ledger.begun, min(now - self.settings.late, since)), since):
                one.jobs([job for job in self._ended(one, begin, end) if job.raw not in ledger.said])
            ledger.late = now
        ledger.swept = now
        self._forget(ledger, now - self.settings.late - 2 * LATE_EVERY - self.settings.recheck)
        ledger.counts["sweeps"] += 1

    def _ended(self, one: Round, begin: float, end: float) -> Sequence[JobName]:
        """The jobs of that time that may have ended badly; the runs that ended well are recorded."""
        ended = self.means.asker.ended(begin, end)
        if self.settings.good_runs:
            one.history.record_good(ended.good)
        return ended.bad

    def _forget(self, ledger: Ledger, before: float) -> None:
        ledger.forget(before)
        if self.means.intake is not None:
            lost = self.means.intake.forget(before)
            if lost:
                ledger.counts["dropped"] += lost
                self.log.error("dropped", what="evidence that no round has used", jobs=lost)
        if self.means.publisher is not None:
            self.means.publisher.texts.forget(before)


def slices(since: float, until: float) -> Iterator[tuple[float, float]]:
    """The time between two epochs in pieces of at most `SLICE` seconds."""
    begin = since
    while begin < until:
        end = min(begin + SLICE, until)
        yield begin, end
        begin = end
