"""The agent's talk with the service: evidence goes out, texts come in and are written, and what came of it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from slurm_triage.log import Log
from slurm_triage.node.config import Settings
from slurm_triage.node.deliver import Delivered, deliver
from slurm_triage.node.drawer import Drawer, Entry
from slurm_triage.node.target import AGAIN, MOST_TRIES, Target, read
from slurm_triage.sections import Section
from slurm_triage.transport.client import Abandoned, Client, Refused, Unreachable
from slurm_triage.transport.message import Malformed, Message, unpack

AT_ONCE = 50
"""Cases of one message."""
SIZE_AT_ONCE = 4 * 1024 * 1024
"""Bytes from which on no further case is added to a message."""
ASKED_AT_ONCE = 200
"""Targets of one question."""
MOST_REVISIONS = 1 << 31
"""No text changes so often; a service that says so is not believed."""
TOLD_AT_ONCE = 500
"""Texts of which one question tells what came of them."""
SECONDS = 15.0
"""What writing one diagnosis may take."""


class Exchange:
    """Talks about what lies in the drawers. `clock` gives the epoch."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        outbox: Drawer,
        targets: Drawer,
        log: Log,
        clock: Callable[[], float],
        writer: Callable[..., Delivered] = deliver,
    ) -> None:
        self.settings, self.client, self.log, self.clock = settings, client, log, clock
        self.outbox, self.targets = outbox, targets
        self._write = writer
        self._news: dict[str, dict[str, Any]] = {}
        """What came of texts and is not told yet, by target: the last of each."""
        self._read: dict[Entry, Target] = {}

    # -------------------------------------------------------------------------------------------- evidence

    def send(self) -> int:
        """Hands the outbox to the service; says how many cases that were. Raises `Unreachable`; the rest stays."""
        sent = 0
        waiting = [entry.name for entry in self.outbox.entries()]
        while waiting:
            batch: list[str] = []
            files: dict[str, bytes] = {}
            heads: list[Any] = []
            while waiting and len(batch) < AT_ONCE and sum(len(data) for data in files.values()) < SIZE_AT_ONCE:
                name = waiting.pop(0)
                case = self._packed(name)
                if case is not None:
                    files.update({f"{len(heads)}/{file}": data for file, data in case.files.items()})
                    heads.append(case.head)
                    batch.append(name)
            if batch:
                sent += self._send(batch, Message("evidence", {"now": self.clock(), "cases": heads}, files))
        return sent

    def _packed(self, name: str) -> Message | None:
        data = self.outbox.read(name)
        try:
            return unpack(data) if data is not None else None
        except Malformed as error:
            self.log.error("lost", what=name, why=str(error))
            self.outbox.remove(name)
            return None

    def _send(self, batch: Sequence[str], message: Message) -> int:
        try:
            answer = self.client.ask(message)
        except (Refused, Malformed) as error:  # Malformed: together they are too large
            if len(batch) > 1:  # one of them spoils the others
                return sum(self._send([name], self._alone(message, index)) for index, name in enumerate(batch))
            self._refused(batch[0], str(error))
            return 0
        said = answer.head.get("cases")
        states = said if isinstance(said, list) and len(said) == len(batch) else []
        taken = 0
        for name, state in zip(batch, states):
            if state == "taken":
                self.outbox.remove(name)
                taken += 1
            elif isinstance(state, str) and state.startswith("refused"):
                self._refused(name, state)
        if not taken and not any(str(state).startswith("refused") for state in states):
            raise Unreachable("the service took nothing")
        return taken

    def _alone(self, message: Message, index: int) -> Message:
        prefix = f"{index}/"
        files = {f"0/{n[len(prefix) :]}": data for n, data in message.files.items() if n.startswith(prefix)}
        return Message(message.kind, {**message.head, "cases": [message.head["cases"][index]]}, files)

    def _refused(self, name: str, why: str) -> None:
        self.log.error("refused", what=name, why=why)
        self.outbox.remove(name)
        self.targets.remove(name.partition(AGAIN)[0])

    # -------------------------------------------------------------------------------------------- texts

    def listed(self) -> list[Target]:
        """The targets of this host, oldest first. There may be thousands: only those that have changed are read."""
        known, self._read = self._read, {}
        for entry in self.targets.entries():
            target = known.get(entry)
            if target is None:
                data = self.targets.read(entry.name)
                target = read(data) if data is not None else None
                if target is not None and target.news is not None:
                    self._news.setdefault(target.name, target.news)  # an agent before this one could not tell it
            if target is None or target.name != entry.name:
                self.targets.remove(entry.name)
            else:
                self._read[entry] = target
        return list(self._read.values())

    def fetch(self, targets: Sequence[Target], wait: float, until: Callable[[], bool] = lambda: False) -> int:
        """Asks for texts and writes them; says how many targets something was said of. `wait` as `Client.ask`.

        Raises `Unreachable`.
        """
        said = 0
        for first in range(0, len(targets), ASKED_AT_ONCE):
            some = targets[first : first + ASKED_AT_ONCE]
            last = first + len(some) == len(targets)
            # Nothing waits behind a question that may take its time.
            said += self._fetch(some, wait if last and not said else 0.0, until)
        return said

    def _fetch(self, targets: Sequence[Target], wait: float, until: Callable[[], bool]) -> int:
        asked = [
            {
                "job": target.job.job,
                "start": target.job.start,
                "ended": target.ended,
                "node": target.job.node,
                "batch_host": target.job.batch_host,
                "revision": target.revision,
            }
            for target in targets
        ]
        news = dict(islice(self._news.items(), TOLD_AT_ONCE))
        question = Message("texts", {"asked": asked, "wait": wait, "done": list(news.values())})
        try:
            answer = self.client.ask(question, wait, until)
        except (Abandoned, Unreachable, Refused) as error:
            if isinstance(error, Refused):
                self.log.error("refused", what="targets", why=str(error))
            if isinstance(error, Unreachable):
                raise
            return 0
        self._told(news)
        items = answer.head.get("texts")
        said = 0
        left = dict(enumerate(targets))
        for item in items if isinstance(items, list) else ():
            index = item.get("index") if isinstance(item, dict) else None
            # One answer of each: what is written, and how often, is not only the service's to say.
            target = left.pop(index, None) if type(index) is int else None
            if target is not None:
                said += self._said(target, item)
        return said

    def _told(self, news: Mapping[str, dict[str, Any]]) -> None:
        """The service has been told this."""
        held = {target.name: target for target in self._read.values()}
        for name in news:
            del self._news[name]
            target = held.get(name)
            if target is not None and target.news is not None:
                target.news = None
                self.targets.put(name, target.data())

    def tell(self) -> None:
        """Tells the service what came of texts, if that is not said yet. Raises `Unreachable`."""
        while self._news:
            before = len(self._news)
            self._fetch((), 0.0, lambda: False)
            if len(self._news) >= before:
                return

    def _said(self, target: Target, item: dict[str, Any]) -> bool:
        """What the service said of one target: a text, that there will be none, or that somebody else has it.

        Whether anything is different now. What this agent does not understand is nothing said: it must not make it ask
        again at once.
        """
        state, revision = item.get("state"), item.get("revision")
        if state == "text" and type(revision) is int and 0 < revision < MOST_REVISIONS:
            return self._text(target, item, revision)
        if state == "none" and not target.closed:
            target.closed = True
            self.targets.put(target.name, target.data())
            return True
        if state == "forget":
            self.targets.remove(target.name)
            return True
        return False

    def _text(self, target: Target, item: dict[str, Any], revision: int) -> bool:
        about = item.get("section")
        if not isinstance(about, dict) or not all(isinstance(value, str) for value in about.values()):
            self.log.error("no-text", job=target.job.job, why="what the service sent is no section")
            return False
        try:
            section = Section(**about)
        except (TypeError, ValueError) as error:
            self.log.error("no-text", job=target.job.job, why=f"what the service sent is no section: {error}")
            return False
        name = str(item.get("name", ""))
        came = self._write(target.job, name, section, SECONDS, first_uid=self.settings.first_uid)
        if came.written:
            target.revision, target.tries, target.trouble, target.closed = revision, 0, "", True
            self.log.info("written", job=target.job.job, path=came.path, revision=revision)
        else:
            target.tries, target.trouble = target.tries + 1, came.why
            self.log.error("not-written", job=target.job.job, why=came.why, tries=target.tries)
        last = came.written or target.tries >= MOST_TRIES
        if last and not came.written:
            target.revision, target.tries, target.closed = revision, 0, True
        news = {
            "job": target.job.job,
            "start": target.job.start,
            "ended": target.ended,
            "node": target.job.node,
            "revision": revision,
            "written": came.written,
            "last": last,
            "path": came.path if came.written else "",
            "why": came.why,
        }
        # Whether it was written must not be forgotten with this agent; one try among others may be.
        target.news = news if last else None
        self._news[target.name] = news
        self.targets.put(target.name, target.data())
        return True
