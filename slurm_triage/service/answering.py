"""Answers questions, whichever way they came: question, sender and address in, answer out."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from slurm_triage.log import Log, Sparing
from slurm_triage.service.admit import LATER, TAKEN, Check, asked_of, cases_of, outcomes_of
from slurm_triage.service.assemble import CONTROLLER
from slurm_triage.service.intake import Intake, IntakeError, Told
from slurm_triage.service.of_host import number
from slurm_triage.service.quota import Quota
from slurm_triage.service.texts import Asked, Outcome, Texts, TextsError
from slurm_triage.transport import message
from slurm_triage.transport.auth import Auth, AuthError, Sender
from slurm_triage.transport.message import Malformed, Message

LONGEST_WAIT = 60.0
"""Seconds of a long poll."""


class Answering:
    """Answers in the event loop in which `begin` was called. `heard` is called there when evidence came in.

    Messages are looked into only if their sender's uid is `welcome`: anybody can send something that is signed.
    """

    def __init__(
        self,
        way: Auth,
        intake: Intake,
        texts: Texts,
        check: Check,
        log: Log,
        heard: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
        welcome: Callable[[int], bool] = lambda uid: True,
    ) -> None:
        self.way, self.log, self.clock = way, log, clock
        self._welcome, self._sparing = welcome, Sparing()
        self._intake, self._texts, self._check, self._heard = intake, texts, check, heard
        self.counts: Counter[str] = Counter()
        self._quota = Quota()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._workers = ThreadPoolExecutor(4, "answering")
        self._writer = ThreadPoolExecutor(1, "intake")
        self._queue: list[tuple[list[Told], asyncio.Future[str]]] = []
        self._waiters: dict[str, set[asyncio.Event]] = {}

    def begin(self) -> None:
        """Takes the running loop for its own."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """No more work is begun."""
        self._workers.shutdown(wait=False)
        self._writer.shutdown(wait=False)

    def published(self, jobs: Iterable[str]) -> None:
        """Something is said of these jobs: whoever waits for it asks again. For any thread."""
        listed = list(jobs)
        if self._loop is not None and listed:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake, listed)

    def _wake(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            for event in self._waiters.get(job, ()):
                event.set()

    async def aside(self, work: Callable[..., Any], *args: Any) -> Any:
        """What the work returned, which was done in another thread."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, work, *args)

    def open(self, credential: bytes, body: bytes, about: bytes) -> tuple[Sender, Message]:
        """Who sent it, and what it is. Raises `AuthError`, `Malformed`."""
        sender = self.way.check(credential, about)
        if not self._welcome(sender.uid):
            raise AuthError(f"uid {sender.uid} is not root")
        return sender, message.unpack(body)

    def complain(self, event: str, **fields: object) -> None:
        """Logs what a sender did, but not all of what it does over and over. For the loop's thread."""
        left_out = self._sparing(event)
        if left_out is not None:
            self.log.error(event, **fields, left_out=left_out or None)

    async def answer(self, question: Message, sender: Sender, address: str) -> Message:
        """The answer to a sender at this address. Never raises what a question could cause."""
        self.counts[f"{question.kind[:20]}-messages"] += 1
        try:
            if question.kind == "evidence":
                return await self._evidence(question, sender, address)
            if question.kind == "texts":
                return await self._asked(question, sender, address)
        except (IntakeError, TextsError) as error:
            self.log.error("store", why=str(error))
            return Message("later", {"why": "the service cannot keep it now"})
        except Malformed as error:
            return Message("refused", {"why": str(error)})
        return Message("refused", {"why": f"{question.kind[:40]!r} is not known here"})

    # -------------------------------------------------------------------------------------------- evidence

    async def _evidence(self, question: Message, sender: Sender, address: str) -> Message:
        cases = cases_of(question, self.clock())
        states = await self._checked(
            [("", "", one) if isinstance(one, str) else (one.node, one.role, "") for one in cases], sender, address
        )
        good = []
        for index, one in enumerate(cases):
            if states[index] != TAKEN or not isinstance(one, Told):
                continue
            if self._quota.room(one.node, sum(map(len, one.files.values())), time.monotonic()):
                good.append(one)
            else:
                states[index] = LATER
                self.counts["over-quota"] += 1
                self.complain("over-quota", sender=address, node=one.node or CONTROLLER)
        if good:
            problem = await self._keep(good)
            if problem:
                raise IntakeError(problem)
            self.counts["cases"] += len(good)
            self._heard()
        for state in states:
            if state.startswith("refused"):
                self.counts["refused"] += 1
                self.complain("refused", sender=address, why=state)
        return Message("evidence", {"cases": states})

    async def _checked(self, who: Sequence[tuple[str, str, str]], sender: Sender, address: str) -> list[str]:
        """For each (node, role, what is wrong already) whether its sender may speak for it."""
        known: dict[tuple[str, str], str] = {}
        states = []
        for node, role, wrong in who:
            if wrong:
                states.append(f"refused: {wrong}")
                continue
            if (node, role) not in known:
                known[node, role] = await self.aside(self._check, node, role, sender.uid, address)
            states.append(known[node, role])
        return states

    async def _keep(self, cases: list[Told]) -> str:
        """Puts cases on disk, together with what others bring at the same moment; returns what went wrong."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()
        self._queue.append((cases, done))
        if len(self._queue) == 1:
            loop.create_task(self._flush())  # noqa: RUF006 (it ends by itself; the futures hold what waits for it)
        return await done

    async def _flush(self) -> None:
        await asyncio.sleep(0.005)
        while self._queue:
            batch = list(self._queue)
            together = [case for cases, _ in batch for case in cases]
            problem = ""
            try:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._intake.put, together, self.clock())
            except Exception as error:
                problem = str(error) or type(error).__name__
            del self._queue[: len(batch)]
            for _, done in batch:
                if not done.done():
                    done.set_result(problem)

    # -------------------------------------------------------------------------------------------- texts

    async def _asked(self, question: Message, sender: Sender, address: str) -> Message:
        asked = asked_of(question, self.clock())
        news = outcomes_of(question, self.clock())
        hosts = [(one.node, "node" if one.node else CONTROLLER, "") for one in asked]
        states = await self._checked(hosts, sender, address)
        if any(state == LATER for state in states):
            return Message("later", {"why": "slurmctld does not say which node is where"})
        if news:
            await self._done(news, sender, address)
        allowed = [(i, one) for i, (one, state) in enumerate(zip(asked, states, strict=True)) if state == TAKEN]
        seconds = min(number(question.head.get("wait")) or 0.0, LONGEST_WAIT)
        said = await self._wait_for([one for _, one in allowed], seconds)
        for item in said:
            item["index"] = allowed[item["index"]][0]
        return Message("texts", {"texts": said})

    async def _wait_for(self, asked: Sequence[Asked], seconds: float) -> list[dict[str, Any]]:
        """What is said of the targets, at once or when something is, at the latest after so many seconds."""
        event = asyncio.Event()
        jobs = {one.job for one in asked}
        for job in jobs:
            self._waiters.setdefault(job, set()).add(event)
        end = time.monotonic() + seconds
        try:
            while True:
                event.clear()
                said: list[dict[str, Any]] = await self.aside(self._texts.answer, asked, self.clock()) if asked else []
                left = end - time.monotonic()
                if said or left <= 0:
                    return said
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(event.wait(), left)
        finally:
            for job in jobs:
                self._waiters[job].discard(event)
                if not self._waiters[job]:
                    del self._waiters[job]

    async def _done(self, news: Sequence[Outcome], sender: Sender, address: str) -> None:
        hosts = [(one.asked.node, "node" if one.asked.node else CONTROLLER, "") for one in news]
        states = await self._checked(hosts, sender, address)
        believed = [one for one, state in zip(news, states, strict=True) if state == TAKEN]
        for job, written, what in await self.aside(self._texts.done, believed):
            self.counts["written" if written else "not-written"] += 1
            if written:
                self.log.info("written", job=job, path=what)
            else:
                self.log.error("not-written", job=job, why=what)
