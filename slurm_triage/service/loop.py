"""Rounds until told to stop. A round that fails is tried again, ever less often; nothing is lost meanwhile."""

from __future__ import annotations

import pwd
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from slurm_triage.log import Log
from slurm_triage.service import admit
from slurm_triage.service import ledger as books
from slurm_triage.service.answering import Answering
from slurm_triage.service.ask import Asker
from slurm_triage.service.config import Settings, address
from slurm_triage.service.gate import SHARE, Gate
from slurm_triage.service.intake import Intake, IntakeError
from slurm_triage.service.listener import Listener, ListenError
from slurm_triage.service.mailbox import BoxError
from slurm_triage.service.mailroom import Mailroom, by_origin
from slurm_triage.service.metrics import metrics
from slurm_triage.service.notify import notify
from slurm_triage.service.peers import Peers
from slurm_triage.service.pool import Pool
from slurm_triage.service.publish import Publisher
from slurm_triage.service.round import Means, Swept
from slurm_triage.service.sweep import Stopped, Sweeper, SweepError
from slurm_triage.service.texts import Texts, TextsError
from slurm_triage.transport.auth import AuthError, auth_of

LONGEST = 900.0
"""Most seconds between two tries."""
WATCH = 20.0
"""Seconds between two signs of life for systemd while nothing is to be done."""
LOOK = 0.5
"""Seconds between two looks at what nodes told, while there is something."""
BEATS = ((10, 1.0), (100, 5.0))
"""Most jobs of a prompt round, and the seconds from its beginning to that of the next."""
KEEP = 2.0
"""Seconds of a storm after which the ledger is written again: it is whole each time, so that more often costs much."""
BUSY_BEAT = 30.0
"""The same after a larger round."""


class StartError(Exception):
    """The service cannot begin its work; the message says why."""


class Service:
    """The service with its settings. `clock` gives the epoch, `knowledge` is what the status says of the site's."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        clock: Callable[[], float] = time.time,
        knowledge: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        self.log = log
        self.clock = clock
        self.knowledge = dict(knowledge or {})
        self.asker = Asker(settings.timeout)
        self.pool = Pool(int(settings.workers))
        self.listener: Listener | None = None
        self.mailroom: Mailroom | None = None
        self.sweeper = Sweeper(Means(settings, self.asker, self.pool, log))
        self.stop = threading.Event()
        self._heard = threading.Event()
        self._ledger = settings.state / books.FILE
        self._failures = 0
        self._prompt_at = float("-inf")
        self._kept_at = float("-inf")

    # -------------------------------------------------------------------------------------------- rounds

    def once(self) -> bool:
        """One sweep, whole or not at all as far as the ledger goes; whether it came to its end."""
        began = time.monotonic()
        found = self._round(self.sweeper.sweep)
        if found is None:
            return False
        self._failures = 0
        self._said("swept", found, began)
        notify(f"STATUS=swept; {found.recorded} recorded, {found.waiting} waiting")
        return True

    def prompt(self) -> bool:
        """One round over what nodes told, if its time has come; whether one was made.

        It comes sooner when so many jobs are new that asking about them is well spent.
        """
        began = time.monotonic()
        early = began < self._prompt_at
        if early and self._failures:
            return False  # what failed is tried again after a while
        if not self.sweeper.worth_a_round(self.clock(), early):
            return False
        calls = sum(self.asker.calls.values())
        found = self._round(partial(self.sweeper.prompt, early=early))
        if found is None:
            self._prompt_at = began + (BUSY_BEAT if self._failures else LOOK)
            return False
        looked = found.recorded + found.bad + found.waiting
        beat = next((seconds for most, seconds in BEATS if looked <= most), BUSY_BEAT)
        self._prompt_at = began + beat
        if found.recorded or found.bad or sum(self.asker.calls.values()) > calls + 5:
            self._said("told", found, began)
        return True

    def _round(self, work: Callable[..., Swept | None]) -> Swept | None:
        """What came of a round; None if it did not come to its end, or if there was nothing to do."""
        ledger = None
        try:
            with books.locked(self.settings.state):
                ledger = books.load(self._ledger)
                found = work(ledger, self.clock(), partial(self._part_done, ledger))
                if found is not None:
                    self._note(ledger)
                    books.save(self._ledger, ledger.text())
        except Stopped:
            return None
        except Exception as error:  # the service outlives whatever goes wrong in a round
            self._failed(error, ledger)
            return None
        if found is not None:
            self._metrics(ledger)
        return found

    def _note(self, ledger: books.Ledger) -> None:
        """How things stand with agents and with the site's knowledge, for whoever asks for the status."""
        ledger.knowledge = self.knowledge
        means = self.sweeper.means
        if means.intake is not None and means.publisher is not None:
            ledger.told = means.intake.waiting()
            ledger.texts = means.publisher.texts.counts(self.clock())

    def _failed(self, error: Exception, ledger: books.Ledger | None) -> None:
        known = isinstance(error, (SweepError, books.LedgerError))
        why = str(error) if known else f"{type(error).__name__}: {error}"
        self._failures += 1
        self.log.error("sweep-failed", why=why, failures=self._failures)
        if ledger is not None:
            self._count_failure()
        notify(f"STATUS=failed {self._failures} times")

    def _said(self, event: str, found: Swept, began: float) -> None:
        causes = ",".join(f"{cause}={n}" for cause, n in sorted(found.causes.items())) or None
        self.log.info(
            event,
            ended=found.ended or None,
            recorded=found.recorded,
            amended=found.amended or None,
            waiting=found.waiting,
            bad=found.bad or None,
            causes=causes,
            seconds=time.monotonic() - began,
            calls=sum(self.asker.calls.values()),
        )

    def _part_done(self, ledger: books.Ledger) -> None:
        """What has been said is kept soon: a service that is killed need not say much again."""
        notify("WATCHDOG=1")
        stopping = self.stop.is_set()
        if stopping or time.monotonic() - self._kept_at >= KEEP:
            books.save(self._ledger, ledger.text())
            self._kept_at = time.monotonic()
        if stopping:
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
            agents: Counter[str] = Counter()
            for door in self._doors():
                agents.update(door.counts)
            text = metrics(ledger, self.asker.calls, self.clock(), agents)
            books.save(self.settings.state / "metrics.prom", text, 0o644)
        except books.LedgerError as error:
            self.log.error("no-metrics", why=str(error))

    def pause(self) -> float:
        """Seconds until the next sweep: the interval, doubled for every failure in a row."""
        return min(self.settings.interval * 2.0 ** min(self._failures, 10), max(LONGEST, self.settings.interval))

    # -------------------------------------------------------------------------------------------- life

    def run(self) -> None:
        """Rounds until SIGTERM or SIGINT; of a round that is under way the part in hand is finished first.

        Raises `StartError` if the port for agents cannot be opened, or the folder cannot be used.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())
        try:
            if self.settings.listen or self.settings.folder:
                self.open()
            notify("READY=1")
            self.log.info("started", interval=self.settings.interval, history=self.settings.history)
            while not self.stop.is_set():
                self.once()
                self._until(time.monotonic() + self.pause())
            notify("STOPPING=1")
        finally:
            self.close()
        self.log.info("stopped")

    def end(self) -> None:
        """Says that it is to end. For signal handlers."""
        self.stop.set()
        self._heard.set()

    def close(self) -> None:
        """Closes the port, leaves the folder, ends the processes."""
        for door in self._doors():
            door.stop()
        self.pool.close()

    def _until(self, end: float) -> None:
        """Prompt rounds as nodes speak, until the time of the next sweep."""
        while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
            notify("WATCHDOG=1")
            self.prompt()
            waiting = self.sweeper.told_something()
            self._heard.wait(min(left, LOOK if waiting else WATCH))
            if self._heard.is_set() and not self.stop.is_set():
                self._heard.clear()

    def open(self) -> None:
        """Opens the ways for agents: the port, the folder, or both. Raises `StartError`."""
        settings = self.settings
        if settings.folder and settings.auth == "key" and settings.check_addresses:
            raise StartError(
                f"folder {settings.folder} with a key: nobody can tell which host a file comes from. Set "
                "check_addresses = false if whoever has the key is believed about every node"
            )
        try:
            intake, texts = Intake(settings.state), Texts(settings.state)
            slurm = self._slurm_uid()
            check = self._check(slurm)

            def answering(checked: admit.Check) -> Answering:
                way = auth_of(settings.auth, str(settings.key))
                return Answering(
                    way, intake, texts, checked, self.log, self._heard.set, self.clock, lambda uid: uid in (0, slurm)
                )

            if settings.listen:
                self._open_port(answering(check))
            if settings.folder:
                self._open_folder(answering(by_origin(check) if settings.check_addresses else check))
        except (IntakeError, TextsError, ListenError, BoxError, AuthError) as error:
            raise StartError(str(error)) from error
        publisher = Publisher(settings, texts, self._published)
        self.sweeper = Sweeper(Means(settings, self.asker, self.pool, self.log, intake, publisher))

    def _open_port(self, answering: Answering) -> None:
        gate = Gate(SHARE if self.settings.check_addresses else 1)
        self.listener = Listener(address(self.settings.listen), answering, gate)
        self.listener.start()
        self.log.info("listening", address=f"{self.listener.address[0]}:{self.listener.address[1]}")

    def _open_folder(self, answering: Answering) -> None:
        self.mailroom = Mailroom(Path(self.settings.folder), answering)
        self.mailroom.start()
        self.log.info("listening", folder=self.settings.folder)

    def _doors(self) -> list[Listener | Mailroom]:
        """The ways that are open."""
        return [door for door in (self.listener, self.mailroom) if door is not None]

    def _published(self, jobs: Iterable[str]) -> None:
        listed = list(jobs)
        for door in self._doors():
            door.published(listed)

    def _slurm_uid(self) -> int:
        try:
            return pwd.getpwnam(self.settings.slurm_user).pw_uid
        except KeyError:
            self.log.error("no-user", why=f"there is no user {self.settings.slurm_user} here (setting slurm_user)")
            return -1

    def _check(self, slurm: int) -> admit.Check:
        peers = Peers(self.asker.nodes, self.asker.config)
        believing = not self.settings.check_addresses
        return lambda node, role, uid, at: admit.check(node, role, uid, at, None if believing else peers, slurm)
