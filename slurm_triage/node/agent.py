"""One activation of the agent: collects, hands over, waits for diagnoses and writes them, and ends.

What cannot be done now stays on disk, and the next activation (a record in the spool, or the timer) goes on with it.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slurm_triage.log import Log
from slurm_triage.node.collect import all_collectors
from slurm_triage.node.config import Settings
from slurm_triage.node.drawer import Drawer, DrawerError, Limits
from slurm_triage.node.exchange import Exchange
from slurm_triage.node.gather import Gatherer
from slurm_triage.spool import NoSpool, Spool, SpoolError, usual_owner
from slurm_triage.transport.auth import auth_of
from slurm_triage.transport.client import Client, Unreachable

OUTBOX = Limits(files=2000, size=256 * 1024 * 1024, age=14 * 86400.0)
TARGETS = Limits(files=5000, size=32 * 1024 * 1024, age=2 * 86400.0)
"""Targets stay after a diagnosis was written: a verdict may change."""
WAIT = 30.0
"""Seconds of one long poll."""
NAP = 0.5
"""Seconds between two looks at records that are too young."""
PAUSE = (5.0, 60.0)
"""Seconds between two tries to reach the service: the first, and the longest."""
TRIM_EVERY = 60.0
"""Seconds between two looks whether the drawers hold too much or too old things."""
LONGEST = 1200.0
"""Seconds after which an activation ends though there is work left: the next one goes on."""
SHORTEST_POLL = 2.0
"""Seconds between two long polls that brought nothing: a service that answers at once must not be asked at once."""
SAME_TROUBLE = 600.0
"""Seconds after which the same trouble with a spool is logged again."""
ALL_EVERY = 240.0
"""Seconds between two questions about all targets, also those that another node writes, or that are written."""


class AnotherAgent(Exception):
    """Another agent is at work on this host."""


class Agent:
    """The agent with its settings. `clock` gives the epoch; `stop` says that it has to end."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises `DrawerError` if its state cannot be kept, `AuthError` if messages cannot be signed."""
        self.settings, self.log, self.stop, self.clock = settings, log, stop, clock
        self.outbox = Drawer(f"{settings.state}/outbox", OUTBOX, clock)
        self.targets = Drawer(f"{settings.state}/targets", TARGETS, clock)
        client = Client(settings.servers, auth_of(settings.auth, settings.key), trusted(settings.service_users))
        self.exchange = Exchange(settings, client, self.outbox, self.targets, log, clock)
        self.gatherer = Gatherer(settings, self.outbox, self.targets, all_collectors(), log, clock)
        self._pause = 0.0
        self._try_at = float("-inf")
        self._all_at = float("-inf")
        self._trimmed_at = float("-inf")
        self._trouble: dict[str, tuple[str, float]] = {}

    # -------------------------------------------------------------------------------------------- activations

    def run(self) -> None:
        """Does what there is to do, and waits for diagnoses of jobs whose batch host this is. Raises `AnotherAgent`."""
        with alone(self.settings.state):
            began = time.monotonic()
            end = began + self.settings.linger
            while not self.stop() and time.monotonic() - began < LONGEST:
                asked_at = time.monotonic()
                worked, soon = self.round(max(0.0, end - asked_at))
                if worked:
                    end = time.monotonic() + self.settings.linger
                if soon:
                    time.sleep(NAP)
                elif not self._waits() or self._pause or time.monotonic() >= end:
                    return
                elif not worked:
                    self._rest(min(asked_at + SHORTEST_POLL, end))

    def watch(self) -> None:
        """The same without an end, for hosts without systemd. Raises `AnotherAgent`."""
        with alone(self.settings.state):
            while not self.stop():
                asked_at = time.monotonic()
                worked, soon = self.round()
                if soon:
                    time.sleep(NAP)
                elif not worked:
                    self._rest(asked_at + SHORTEST_POLL)

    def _rest(self, until: float) -> None:
        """Sleeps until then (monotonic), or until there is something to do."""
        while not self.stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(NAP, left))
            if self._new_records():
                return

    def round(self, wait: float = WAIT) -> tuple[bool, bool]:
        """One look at everything: (whether something was done, whether something has to be looked at again soon).

        It waits for diagnoses no longer than `wait` seconds, and not at all for what is to be looked at again soon.
        """
        handled, soon = self._gather()
        came = self._talk(0.0 if soon else min(wait, WAIT))
        return handled > 0 or came > 0, soon

    def _gather(self) -> tuple[int, bool]:
        handled, soon = 0, False
        for path in self.settings.spools:
            try:
                with Spool(path, usual_owner(path)) as spool:
                    some, young = self.gatherer.gather(spool)
            except NoSpool:
                self._trouble.pop(path, None)
                continue
            except (SpoolError, OSError) as error:
                self._troubled(path, str(error))
                continue
            self._trouble.pop(path, None)
            handled, soon = handled + some, soon or young
        if time.monotonic() - self._trimmed_at >= TRIM_EVERY:
            self._trimmed_at = time.monotonic()
            self.targets.trim()  # what is old there has had its time
            if lost := self.outbox.trim():
                self.log.error("dropped", what=self.outbox.path, files=lost)
        return handled, soon

    def _troubled(self, path: str, why: str) -> None:
        """Logs what is wrong with a spool, but not over and over."""
        before, at = self._trouble.get(path, ("", 0.0))
        if why != before or time.monotonic() - at >= SAME_TROUBLE:
            self._trouble[path] = (why, time.monotonic())
            self.log.error("spool", path=path, why=why)

    # -------------------------------------------------------------------------------------------- the service

    def _talk(self, wait: float) -> int:
        """Sends, asks and writes, unless the service was not reachable a moment ago; says how much came of it."""
        if time.monotonic() < self._try_at:
            return 0
        try:
            came = self.exchange.send() + self._texts(wait)
            self.exchange.tell()
        except Unreachable as error:
            self._pause = min(max(PAUSE[0], 2 * self._pause), PAUSE[1])
            self._try_at = time.monotonic() + self._pause
            self.log.error("unreachable", why=str(error), again_in_s=self._pause)
            return 0
        self._pause = 0.0
        return came

    def _texts(self, wait: float) -> int:
        listed = self.exchange.listed()
        came = 0
        if listed and time.monotonic() - self._all_at >= ALL_EVERY:
            came += self.exchange.fetch([target for target in listed if not target.waits], 0.0)
            self._all_at = time.monotonic()
        if waiting := [target for target in listed if target.waits]:
            came += self.exchange.fetch(waiting, wait, lambda: self.stop() or self._new_records())
        return came

    def _waits(self) -> bool:
        return any(target.waits for target in self.exchange.listed())

    def _new_records(self) -> bool:
        """Whether something lies in a spool that is old enough to be looked at, and that can be."""
        for path in self.settings.spools:
            if path in self._trouble:
                continue
            try:
                with os.scandir(f"{path}/new") as found:
                    if any(self.clock() - entry.stat(follow_symlinks=False).st_mtime >= self.settings.settle
                           for entry in found):  # fmt: skip
                        return True
            except OSError:
                continue
        return False


@contextmanager
def alone(state: str) -> Iterator[None]:
    """Holds the agent's lock. Raises `AnotherAgent`, `DrawerError`."""
    try:
        descriptor = os.open(f"{state}/agent.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DrawerError(f"{state}: cannot be used: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AnotherAgent(f"another agent is at work on this host ({state}/agent.lock)") from None
        yield
    finally:
        os.close(descriptor)


def trusted(users: tuple[str, ...]) -> set[int]:
    """The uids of these users (names or numbers); names that this host does not know are passed over."""
    found = set()
    for user in users:
        if user.isascii() and user.isdigit():
            found.add(int(user))
            continue
        try:
            found.add(pwd.getpwnam(user).pw_uid)
        except KeyError:
            continue
    return found
