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
from slurm_triage.transport.auth import AuthError, auth_of
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

    # -------------------------------------------------------------------------------------------- activations

    def run(self) -> None:
        """Does what there is to do, and waits for diagnoses of jobs whose batch host this is. Raises `AnotherAgent`."""
        with alone(self.settings.state):
            end = time.monotonic() + self.settings.linger
            while not self.stop():
                worked, soon = self.round(max(0.0, end - time.monotonic()))
                if worked:
                    end = time.monotonic() + self.settings.linger
                if soon:
                    time.sleep(NAP)
                elif not self._waits() or self._pause or time.monotonic() >= end:
                    return

    def watch(self) -> None:
        """The same without an end, for hosts without systemd. Raises `AnotherAgent`."""
        with alone(self.settings.state):
            while not self.stop():
                worked, _ = self.round()
                if not worked:
                    time.sleep(NAP)

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
                continue
            except (SpoolError, OSError) as error:
                self.log.error("spool", path=path, why=str(error))
                continue
            handled, soon = handled + some, soon or young
        if time.monotonic() - self._trimmed_at >= TRIM_EVERY:
            self._trimmed_at = time.monotonic()
            for drawer in (self.outbox, self.targets):
                if lost := drawer.trim():
                    self.log.error("dropped", what=drawer.path, files=lost)
        return handled, soon

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
        """Whether something lies in a spool that is old enough to be looked at."""
        for path in self.settings.spools:
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
        if user.isdigit():
            found.add(int(user))
            continue
        try:
            found.add(pwd.getpwnam(user).pw_uid)
        except KeyError:
            continue
    return found


__all__ = ["Agent", "AnotherAgent", "AuthError", "DrawerError", "alone", "trusted"]
