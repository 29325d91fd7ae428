"""The service's port: takes evidence, hands out texts.

It has a thread of its own, so that rounds and nodes do not wait for each other.
"""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from slurm_triage.log import Log, Sparing
from slurm_triage.service.admit import LATER, TAKEN, Check, asked_of, cases_of, outcomes_of
from slurm_triage.service.assemble import CONTROLLER
from slurm_triage.service.gate import MOST_CONNECTIONS, Full, Gate
from slurm_triage.service.intake import Intake, IntakeError, Told
from slurm_triage.service.of_host import number
from slurm_triage.service.texts import Asked, Outcome, Texts, TextsError
from slurm_triage.transport import auth, message, wire
from slurm_triage.transport.auth import Auth, AuthError, Sender
from slurm_triage.transport.message import Malformed, Message

SLOW = 30.0
"""Seconds for a message to come in whole, or an answer to go out."""
FIRST = 10.0
"""Seconds for its first line."""
PIECE = 256 * 1024
"""Bytes of a message that are read at once."""
LONGEST_WAIT = 60.0
"""Seconds of a long poll."""
BACKLOG = 4096
OTHER_FILES = 200
"""Open files beside those of connections."""


class ListenError(Exception):
    """The port cannot be opened; the message says why."""


class Listener:
    """Serves in a thread from `start` to `stop`. `heard` is called, in that thread, when evidence came in.

    Messages are looked into only if their sender's uid is `welcome`: anybody can send something that is signed.
    """

    def __init__(
        self,
        address: tuple[str, int],
        way: Auth,
        intake: Intake,
        texts: Texts,
        check: Check,
        log: Log,
        heard: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
        gate: Gate | None = None,
        welcome: Callable[[int], bool] = lambda uid: True,
    ) -> None:
        self.address, self.log, self.clock = address, log, clock
        self._gate, self._welcome, self._sparing = gate or Gate(), welcome, Sparing()
        self._auth, self._intake, self._texts, self._check, self._heard = way, intake, texts, check, heard
        self.counts: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._workers = ThreadPoolExecutor(4, "listener")
        self._writer = ThreadPoolExecutor(1, "intake")
        self._queue: list[tuple[list[Told], asyncio.Future[str]]] = []
        self._waiters: dict[str, set[asyncio.Event]] = {}

    # -------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Opens the port and serves. Raises `ListenError`."""
        _allow_files()
        opened: list[BaseException | None] = []
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(opened, ready), name="listener", daemon=True)
        self._thread.start()
        ready.wait()
        if opened and opened[0] is not None:
            raise ListenError(f"cannot listen on {self.address[0]}:{self.address[1]}: {opened[0]}")

    def _serve(self, opened: list[BaseException | None], ready: threading.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._ended = asyncio.Event()
            try:
                server = await asyncio.start_server(
                    self._connection, self.address[0] or None, self.address[1], limit=1 << 16, backlog=BACKLOG
                )
            except OSError as error:
                opened.append(error)
                ready.set()
                return
            self.address = server.sockets[0].getsockname()[:2]
            ready.set()
            async with server:
                await self._ended.wait()

        asyncio.run(main())

    def stop(self) -> None:
        """Closes the port; what is under way is cut off, and its senders try again."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(10)
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

    # -------------------------------------------------------------------------------------------- one connection

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("?",))[0])
        try:
            with self._gate.connection(address) as held:
                await self._talk(reader, writer, address, held.add)
        except Full:
            self.counts["turned-away"] += 1
            self._complain("turned-away", sender=address, why="too many connections, or too much at once")
        except (Malformed, AuthError) as error:
            self.counts["not-understood"] += 1
            self._complain("not-understood", sender=address, why=str(error))
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self.counts["cut"] += 1
        except asyncio.CancelledError:  # the port is being closed; asyncio would print it
            return
        except Exception as error:  # one sender must not end the service
            self.counts["failed"] += 1
            self._complain("listener", why=f"{type(error).__name__}: {error}")
        finally:
            with suppress(Exception):
                writer.close()

    def _complain(self, event: str, **fields: object) -> None:
        """Logs what a sender did, but not all of what it does over and over."""
        left_out = self._sparing(event)
        if left_out is not None:
            self.log.error(event, **fields, left_out=left_out or None)

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, count: Callable[[int], None]
    ) -> None:
        first, second = wire.sizes(await asyncio.wait_for(reader.readuntil(b"\n"), FIRST))
        credential, body = await asyncio.wait_for(_whole(reader, first, second, count), SLOW)
        about = auth.digest(wire.QUESTION, body)
        sender, question = await self._aside(self._open, credential, body, about)
        answer = await self._answer(question, sender, address)
        packed, signed = await self._aside(self._sign, answer, about)
        writer.write(wire.line(signed, packed) + signed + packed)
        await asyncio.wait_for(writer.drain(), SLOW)

    def _open(self, credential: bytes, body: bytes, about: bytes) -> tuple[Sender, Message]:
        sender = self._auth.check(credential, about)
        if not self._welcome(sender.uid):
            raise AuthError(f"uid {sender.uid} is not root")
        return sender, message.unpack(body)

    def _sign(self, answer: Message, about: bytes) -> tuple[bytes, bytes]:
        packed = message.pack(answer)
        return packed, self._auth.sign(auth.digest(wire.ANSWER, packed, about))

    async def _aside(self, work: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work, *args)

    async def _answer(self, question: Message, sender: Sender, address: str) -> Message:
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
        good = [one for one, state in zip(cases, states, strict=True) if state == TAKEN and isinstance(one, Told)]
        if good:
            problem = await self._keep(good)
            if problem:
                raise IntakeError(problem)
            self.counts["cases"] += len(good)
            self._heard()
        for state in states:
            if state.startswith("refused"):
                self.counts["refused"] += 1
                self._complain("refused", sender=address, why=state)
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
                known[node, role] = await self._aside(self._check, node, role, sender.uid, address)
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
                said: list[dict[str, Any]] = await self._aside(self._texts.answer, asked, self.clock()) if asked else []
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
        for job, written, what in await self._aside(self._texts.done, believed):
            self.counts["written" if written else "not-written"] += 1
            if written:
                self.log.info("written", job=job, path=what)
            else:
                self.log.error("not-written", job=job, why=what)


async def _whole(
    reader: asyncio.StreamReader, first: int, second: int, count: Callable[[int], None]
) -> tuple[bytes, bytes]:
    """The credential and the body. Only what has come is counted: announcing much costs nothing."""
    credential = await reader.readexactly(first)
    pieces, left = [], second
    while left:
        piece = await reader.readexactly(min(left, PIECE))
        count(len(piece))
        pieces.append(piece)
        left -= len(piece)
    return credential, b"".join(pieces)


def _allow_files() -> None:
    """Each connection is an open file, and the usual limit is 1,024: beyond it the whole service could open none."""
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if most != resource.RLIM_INFINITY and most < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
