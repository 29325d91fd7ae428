"""Rounds until told to stop. A round that fails is tried again, ever less often; nothing is lost meanwhile."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from functools import partial

from slurm_triage.log import Log
from slurm_triage.service import ledger as books
from slurm_triage.service.ask import Asker
from slurm_triage.service.config import Settings
from slurm_triage.service.metrics import metrics
from slurm_triage.service.notify import notify
from slurm_triage.service.sweep import Stopped, Sweeper, SweepError

LONGEST = 900.0
"""Most seconds between two tries."""
WATCH = 20.0
"""Seconds between two signs of life for systemd while nothing is to be done."""


class Service:
    """The service with its settings. `clock` gives the epoch."""

    def __init__(self, settings: Settings, log: Log, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.log = log
        self.clock = clock
        self.asker = Asker(settings.timeout)
        self.sweeper = Sweeper(settings, self.asker, log)
        self.stop = threading.Event()
        self._ledger = settings.state / books.FILE
        self._failures = 0

    def once(self) -> bool:
        """One round, whole or not at all as far as the ledger goes; whether it came to its end."""
        began = time.monotonic()
        ledger = None
        try:
            with books.locked(self.settings.state):
                ledger = books.load(self._ledger)
                found = self.sweeper.sweep(ledger, self.clock(), partial(self._part_done, ledger))
                books.save(self._ledger, ledger.text())
        except Stopped:
            return False
        except Exception as error:  # the service outlives whatever goes wrong in a round
            known = isinstance(error, (SweepError, books.LedgerError))
            why = str(error) if known else f"{type(error).__name__}: {error}"
            self._failures += 1
            self.log.error("sweep-failed", why=why, failures=self._failures)
            if ledger is not None:
                self._count_failure()
            notify(f"STATUS=failed {self._failures} times")
            return False
        self._failures = 0
        causes = ",".join(f"{cause}={n}" for cause, n in sorted(found.causes.items())) or None
        self.log.info(
            "swept",
            ended=found.ended,
            recorded=found.recorded,
            amended=found.amended or None,
            waiting=found.waiting,
            bad=found.bad or None,
            causes=causes,
            seconds=time.monotonic() - began,
            calls=sum(self.asker.calls.values()),
        )
        self._metrics(ledger)
        notify(f"STATUS=swept; {found.recorded} recorded, {found.waiting} waiting")
        return True

    def _part_done(self, ledger: books.Ledger) -> None:
        """What has been said is kept at once: a service that is killed need not say it again."""
        books.save(self._ledger, ledger.text())
        notify("WATCHDOG=1")
        if self.stop.is_set():
            raise Stopped

    def _count_failure(self) -> None:
        """Counts a failure on the ledger as it was: nothing of a broken round may stay."""
        try:
            kept = books.load(self._ledger)
            kept.counts["failures"] += 1
            books.save(self._ledger, kept.text())
            self._metrics(kept)
        except books.LedgerError:
            return  # said already

    def _metrics(self, ledger: books.Ledger) -> None:
        try:
            books.save(self.settings.state / "metrics.prom", metrics(ledger, self.asker.calls, self.clock()), 0o644)
        except books.LedgerError as error:
            self.log.error("no-metrics", why=str(error))

    def pause(self) -> float:
        """Seconds until the next round: the interval, doubled for every failure in a row."""
        return min(self.settings.interval * 2.0 ** min(self._failures, 10), max(LONGEST, self.settings.interval))

    def run(self) -> None:
        """Rounds until SIGTERM or SIGINT; of a round that is under way the part in hand is finished first."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())
        notify("READY=1")
        self.log.info("started", interval=self.settings.interval, history=self.settings.history)
        while not self.stop.is_set():
            self.once()
            end = time.monotonic() + self.pause()
            while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
                notify("WATCHDOG=1")
                self.stop.wait(min(left, WATCH))
        notify("STOPPING=1")
        self.log.info("stopped")
