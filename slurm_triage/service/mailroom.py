"""The second way to the service: questions that come as files in a shared folder, and answers that go there.

One thread touches the folder, and may hang with it; another one has the event loop that answers. Neither the rounds
nor the port wait for them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from slurm_triage.service.admit import Check
from slurm_triage.service.answering import Answering
from slurm_triage.service.mailbox import AT_ONCE, BoxError, Letter, Mailbox
from slurm_triage.service.of_host import number
from slurm_triage.transport import auth, message, shared_folder
from slurm_triage.transport.auth import AuthError, Sender
from slurm_triage.transport.message import Malformed, Message

BEATS = (1.0, 3.0)
"""Seconds between two looks into the folder: while something comes, and else."""
BUSY = 60.0
"""Seconds after the last question for which more are expected."""
SWEEP = 30.0
"""Seconds between two looks for what is to be removed."""
MOST_OPEN = 4000
MOST_BYTES = 256 * 1024 * 1024
"""Questions, and their bytes, that are taken and not answered yet; beyond it they stay where they are."""
HANGS = 60.0
"""Seconds without a look after which the file system is said to hang."""


class Mailroom:
    """Answers what comes in the folder, from `start` to `stop`; `answering` works for no other way.

    Its check gets the address that is in the sender's credential, or an empty one: `by_origin`.
    """

    def __init__(self, folder: Path, answering: Answering, beats: tuple[float, float] = BEATS) -> None:
        self.folder, self._answering, self._beats = folder, answering, beats
        self.log, self.counts = answering.log, answering.counts
        self._box = Mailbox(folder, self._refused)
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._answers: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = self._bytes = 0
        self._looked = self._came = time.monotonic()
        self._sweep_at = float("-inf")
        self._trouble = ""

    # -------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Prepares the folder and serves. Raises `BoxError`."""
        self._box.prepare()
        ready = threading.Event()
        # Both may be left behind in a file system that hangs, and must not keep the service from ending.
        for name, work in (("answers", lambda: self._serve(ready)), ("folder", self._work)):
            self._threads.append(threading.Thread(target=work, name=name, daemon=True))
        self._threads[0].start()
        ready.wait()
        self._threads[1].start()

    def _serve(self, ready: threading.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._answering.begin()
            self._ended = asyncio.Event()
            ready.set()
            while not self._ended.is_set():
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), HANGS / 4)
                if time.monotonic() - self._looked > HANGS and not self._stopping.is_set():
                    self._say("the file system does not answer")

        asyncio.run(main())

    def stop(self) -> None:
        """Takes nothing more; what is under way is cut off, and its senders try again."""
        self._stopping.set()
        self._answers.put(None)
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)
        for thread in self._threads:
            thread.join(2)
        self._answering.close()

    def published(self, jobs: Iterable[str]) -> None:
        """Something is said of these jobs: whoever waits for it asks again. For any thread."""
        self._answering.published(jobs)

    # -------------------------------------------------------------------------------------------- the folder's thread

    def _work(self) -> None:
        due = 0.0
        while not self._stopping.is_set():
            self._looked = time.monotonic()
            if self._looked >= due:
                full = self._guarded(self._round)
                busy = self._open or time.monotonic() - self._came < BUSY
                due = time.monotonic() + (0.0 if full else self._beats[0] if busy else self._beats[1])
            self._send(due)

    def _send(self, due: float) -> None:
        """Leaves answers as they are ready, until it is time for the next look, but no more than a round's worth."""
        for _ in range(AT_ONCE):
            try:
                answer = self._answers.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                return
            self._looked = time.monotonic()
            if answer is not None:
                self._guarded(partial(self._box.put, *answer))

    def _guarded(self, work: Callable[[], object]) -> object:
        """What the work returned; None if the folder could not be used, which is said once."""
        try:
            done = work()
        except BoxError as error:
            self._say(str(error))
        except Exception as error:  # one file must not end the service
            self.counts["failed"] += 1
            self._say(f"{type(error).__name__}: {error}")
        else:
            return done
        return None

    def _round(self) -> bool:
        """Takes what is there; whether there may be more at once."""
        self._box.prepare()
        taken = 0
        for letter in self._box.letters():
            if self._open >= MOST_OPEN or self._bytes >= MOST_BYTES or not self._take(letter):
                break
            taken += 1
        if time.monotonic() >= self._sweep_at:
            self._box.sweep()
            self._sweep_at = time.monotonic() + SWEEP
        for what in ("junk", "put-aside"):
            if self._box.counts[what]:
                self.counts[what] = self._box.counts[what]
        if self._trouble:
            self._trouble = ""
            self.log.info("folder", path=self.folder, state="usable again")
        return taken >= AT_ONCE

    def _take(self, letter: Letter) -> bool:
        """Hands a question on, or refuses it; False if nobody's word can be proven now."""
        about = auth.digest(shared_folder.ROLE, letter.body, letter.name.encode("ascii"))
        try:
            sender, question = self._answering.open(letter.credential, letter.body, about)
        except AuthError as error:
            if error.later:
                self._complain("folder", path=self.folder, why=str(error))
                return False
            self._box.refuse(letter, str(error))
            return True
        except Malformed as error:
            self._box.refuse(letter, str(error))
            return True
        if self._box.claim(letter) and self._loop is not None:
            self._came = time.monotonic()
            self._count(1, len(letter.body))
            question = as_if_just_sent(question, letter.waited, self._answering.clock())
            answer = self._answer(letter.name, about, sender, question, len(letter.body))
            try:
                asyncio.run_coroutine_threadsafe(answer, self._loop)
            except RuntimeError:  # it is being stopped
                answer.close()
                self._count(-1, -len(letter.body))
        return True

    def _refused(self, owner: int, why: str) -> None:
        self.counts["not-understood"] += 1
        self._complain("not-understood", sender=f"a file of uid {owner}", why=why)

    def _count(self, number: int, size: int) -> None:
        with self._lock:
            self._open += number
            self._bytes += size

    # -------------------------------------------------------------------------------------------- the loop's thread

    async def _answer(self, name: str, about: bytes, sender: Sender, question: Message, size: int) -> None:
        try:
            answer = await self._answering.answer(question, sender, sender.address)
            self._answers.put((name, await self._answering.aside(self._sealed, answer, about, sender.uid)))
        except Exception as error:  # one sender must not end the service
            self.counts["failed"] += 1
            self._complain("folder", path=self.folder, why=f"an answer was lost: {type(error).__name__}: {error}")
        finally:
            self._count(-1, -size)

    def _sealed(self, answer: Message, about: bytes, uid: int) -> bytes:
        """The answer, with as many texts as can be sealed: the others are asked for again."""
        packed = message.pack(answer)
        while len(packed) > self._answering.way.holds:
            texts = answer.head.get("texts")
            if not isinstance(texts, list) or not texts:
                raise Malformed(f"{len(packed)} bytes are too many for one answer")
            answer = Message(answer.kind, {**answer.head, "texts": texts[: len(texts) // 2]})
            packed = message.pack(answer)
        return self._answering.way.seal(packed, about, uid)

    # -------------------------------------------------------------------------------------------- any thread

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._complain("folder", path=self.folder, why=trouble)

    def _complain(self, event: str, **fields: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(lambda: self._answering.complain(event, **fields))


def as_if_just_sent(question: Message, waited: float, now: float) -> Message:
    """The question with a `now` without the time for which it may have lain in the folder, `waited` seconds at most.

    What it says differs from the service's clock by that time, and by what the clocks differ: if the time alone can
    explain it, the clocks are taken to agree.
    """
    sent = number(question.head.get("now"))
    if sent is None or sent >= now:
        return question
    return Message(question.kind, {**question.head, "now": min(now, sent + waited)}, question.files)


def by_origin(check: Check) -> Check:
    """The check for messages without a connection, whose address is the one that munged put into the credential."""

    def checked(node: str, role: str, uid: int, address: str) -> str:
        found = ipaddress.ip_address(address or "0.0.0.0")
        if found.is_loopback or found.is_unspecified:
            return f"refused: munged on the sender's host gives {found} as its address (its option --origin)"
        return check(node, role, uid, address)

    return checked
