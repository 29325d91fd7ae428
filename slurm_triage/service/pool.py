"""Processes that judge. One that dies or hangs over a case costs that case and no other.

Each is a fresh interpreter, for the service has threads, and speaks with it over a socket pair. Cases come in order
and are answered in order. Where one is gone, the first case without an answer is tried alone, the others go on; if that
was not the one that it died of, the next death finds it. A process leaves when the service is gone, and does not listen
to signals that are meant for the service.
"""

from __future__ import annotations

import gc
import os
import queue
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from slurm_triage import site
from slurm_triage.service.judge import AttemptText, Case, Cluster, Judged, judge

__all__ = ["AttemptText", "Case", "Failed", "Judged", "Pool", "PoolError"]

TOGETHER = 0.02
"""Seconds for which a process collects answers. Those of the last moment are lost with it: they are found again."""
EACH = 8
"""Cases that are worth another process."""
AHEAD = 32
"""Most cases that a process has in hand: it works on while the service records what it said."""
BYTES_AHEAD = 8 * 1024 * 1024
"""Most bytes of evidence that it has in hand; one case may have more."""
SECONDS = 120.0
"""What one case may take."""
START = 60.0
"""Seconds that a process may take to start, on a machine that has other things to do."""
MEMORY = 2 * 1024**3
"""Bytes of address space of a process."""
TRIES = 2
"""A case that a process died of is tried once more, by a process that has nothing else in hand."""
COLLECTED = (50_000, 20, 50)
"""When Python looks for cycles of objects: a case makes some ten thousand objects and hardly any cycle."""
STILLBORN = 3
"""Processes that end before they can judge, in a row, after which no more are started."""
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from slurm_triage.service.pool import work; work(int(sys.argv[2]))"
)
_ROOT = str(Path(__file__).resolve().parents[2])

_Common = tuple[Mapping[str, bytes], str | None]
"""Settings of the cluster and version of Slurm."""


class PoolError(Exception):
    """No process can be started; the message says why."""


@dataclass(frozen=True)
class Failed:
    """A case that could not be judged, and why."""

    why: str


class Pool:
    """Judges with `workers` processes; with less than two in this one. They are started when they are needed first."""

    def __init__(self, workers: int, seconds: float = SECONDS) -> None:
        self.size = workers if workers > 1 else 0
        self.seconds = seconds
        self._workers: list[_Worker] = []
        self._common: _Common | None = None
        self._cluster: Cluster | None = None
        self._stillborn = 0
        self._lines = selectors.PollSelector()

    def judge(
        self, cases: Sequence[Case], settings: Mapping[str, bytes], version: str | None
    ) -> Iterator[tuple[str, Judged | Failed]]:
        """The name of each case and what was found of it, in the order in which they are ready.

        `settings` are evidence files about the cluster, as if they lay in each case. Raises `PoolError`.
        """
        if self._common != (settings, version):
            self._common, self._cluster = (dict(settings), version), None
        if not self.size:
            yield from self._here(cases)
            return
        try:
            yield from self._there(cases)
        finally:
            for worker in list(self._workers):
                if worker.hand:  # given up in the middle: what it still says would be of no case
                    self._drop(worker)

    def close(self) -> None:
        """Ends the processes. The pool can be used again."""
        for worker in list(self._workers):
            self._drop(worker)

    def __enter__(self) -> Pool:
        """The pool itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the processes."""
        self.close()

    def _here(self, cases: Sequence[Case]) -> Iterator[tuple[str, Judged | Failed]]:
        assert self._common is not None
        for case in cases:
            answer: Judged | Failed
            try:
                self._cluster = self._cluster or Cluster(*self._common)
                answer = judge(case, self._cluster)
            except Exception as error:  # whatever it is, it is about this case only
                answer = _failed(error)
            yield case.name, answer

    def _there(self, cases: Sequence[Case]) -> Iterator[tuple[str, Judged | Failed]]:
        round_ = _Round(cases, self.size)
        while round_.left:
            self._feed(round_)
            for worker in self._ready():
                for answer in worker.answers():
                    round_.left -= 1
                    yield worker.done().name, answer
                if worker.gone or worker.late(self.seconds):
                    self._stillborn = 0 if worker.started else self._stillborn + 1
                    why = f"took more than {self.seconds:g} seconds" if not worker.gone else "ended the process"
                    self._drop(worker)
                    for case in round_.back(worker):
                        yield case.name, Failed(f"judging it {why} {TRIES} times")

    def _feed(self, round_: _Round) -> None:
        """Gives out what waits, the processes that have least in hand first."""
        assert self._common is not None
        while len(self._workers) < min(self.size, 1 + round_.left // EACH):
            if self._stillborn >= STILLBORN:
                self._stillborn = 0
                raise PoolError(f"{sys.executable}: {STILLBORN} processes ended before they could judge anything")
            try:
                worker = _Worker()
            except OSError as error:
                raise PoolError(f"{sys.executable}: {error.strerror or error}") from error
            self._workers.append(worker)
            self._lines.register(worker.line, selectors.EVENT_READ, worker)
        for worker in sorted(self._workers, key=lambda one: len(one.hand)):
            if not worker.started:
                continue
            worker.learn(self._common)
            worker.give(list(round_.some(worker)))

    def _ready(self) -> list[_Worker]:
        """Those that said something or are gone, or that took too long; waits for them."""
        busy = [worker for worker in self._workers if worker.hand or not worker.started]
        until = min(worker.since + worker.patience(self.seconds) for worker in busy)
        return [key.data for key, _ in self._lines.select(max(0.0, until - time.monotonic()))] or busy

    def _drop(self, worker: _Worker) -> None:
        self._lines.unregister(worker.line)
        worker.end()
        self._workers.remove(worker)


@dataclass
class _Task:
    case: Case
    size: int
    tries: int = 0


class _Round:
    """The cases of one call: what waits, what is to be tried alone, and how many have no answer yet."""

    def __init__(self, cases: Sequence[Case], workers: int) -> None:
        self.workers = workers
        self.waiting = deque(_Task(case, sum(map(len, case.files.values()))) for case in cases)
        self.suspects: deque[_Task] = deque()
        self.left = len(self.waiting)

    def some(self, worker: _Worker) -> Iterator[_Task]:
        """What the worker may have now."""
        if not worker.hand and self.suspects:
            yield self.suspects.popleft()
        elif not (worker.hand and worker.hand[0].tries):  # whoever has a suspect has nothing else
            count, size = len(worker.hand), sum(task.size for task in worker.hand)
            most = min(AHEAD, 1 + self.left // (2 * self.workers))  # at the end nobody is to wait for one who has many
            while self.waiting and count < most and (not count or size + self.waiting[0].size <= BYTES_AHEAD):
                count, size = count + 1, size + self.waiting[0].size
                yield self.waiting.popleft()

    def back(self, worker: _Worker) -> list[Case]:
        """Takes back what a worker had in hand; returns the case that it was at if that was its last try."""
        if not worker.hand:
            return []
        first, *rest = worker.hand
        worker.hand.clear()
        self.waiting.extendleft(reversed(rest))
        first.tries += 1
        if first.tries < TRIES:
            self.suspects.append(first)
            return []
        self.left -= 1
        return [first.case]


class _Worker:
    """A process, what it has in hand, and since when it is at the first of it (or at its start)."""

    def __init__(self) -> None:
        self.line, theirs = Pipe()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_OURS)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _CODE, _ROOT, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",  # an interpreter looks for modules where it is started
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()
        self.hand: deque[_Task] = deque()
        self.since = time.monotonic()
        self.started = False
        self.gone = False
        self._common: _Common | None = None

    def learn(self, common: _Common) -> None:
        """Tells it about the cluster, once."""
        if self._common is not common:
            self._common = common
            self._send(common)

    def give(self, tasks: Sequence[_Task]) -> None:
        """Hands over cases."""
        if tasks:
            if not self.hand:
                self.since = time.monotonic()
            self.hand.extend(tasks)
            self._send([task.case for task in tasks])

    def done(self) -> Case:
        """The case whose answer is the next one."""
        return self.hand.popleft().case

    def _send(self, what: object) -> None:
        with suppress(OSError):  # it is gone: said when its answers are asked for
            self.line.send(what)

    def answers(self) -> list[Judged | Failed]:
        """What it said next, which is nothing when it has started, and when it is gone."""
        said: list[Judged | Failed] = []
        try:
            if self.line.poll():
                said = self.line.recv()
                self.since, self.started = time.monotonic(), True
        except (EOFError, OSError):
            self.gone = True
        return said

    def patience(self, seconds: float) -> float:
        """Seconds that it may take for what it is at: its start, or a case, which may take so many."""
        return seconds if self.started else max(seconds, START)

    def late(self, seconds: float) -> bool:
        """Whether it is at something for too long."""
        return (bool(self.hand) or not self.started) and time.monotonic() - self.since >= self.patience(seconds)

    def end(self) -> None:
        """Ends it, and leaves no zombie."""
        self.line.close()
        self.process.kill()
        self.process.wait()


# ------------------------------------------------------------------------------------------------ in the process

_NOT_OURS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that are meant for the service, which ends its processes itself."""


def work(handle: int) -> None:
    """Says something, then judges what comes over the socket until that is closed. Never returns."""
    for number in _NOT_OURS:
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    site.use()
    gc.freeze()  # what is loaded stays
    gc.set_threshold(*COLLECTED)
    line = Connection(handle)
    coming: queue.SimpleQueue[Any] = queue.SimpleQueue()
    going: queue.SimpleQueue[Judged | Failed] = queue.SimpleQueue()
    line.send([])
    threading.Thread(target=_receive, args=(line, coming), daemon=True).start()
    threading.Thread(target=_send, args=(line, going), daemon=True).start()
    common: _Common | None = None
    cluster: Cluster | None = None
    while True:
        what = coming.get()
        if not isinstance(what, list):
            common, cluster = what, None
            continue
        for case in what:
            try:
                assert common is not None
                cluster = cluster or Cluster(*common)
                going.put(judge(case, cluster))
            except Exception as error:  # whatever it is, it is about this case only
                going.put(_failed(error))


def _receive(line: Connection, coming: queue.SimpleQueue[Any]) -> None:
    """Takes what comes at once, so that the service never waits; leaves with it."""
    try:
        while True:
            coming.put(line.recv())
    except BaseException:
        os._exit(0)


def _send(line: Connection, going: queue.SimpleQueue[Judged | Failed]) -> None:
    """Sends answers, those of a short while together: each time that it runs, judging has to stop for it."""
    try:
        while True:
            answers = [going.get()]
            time.sleep(TOGETHER)
            while not going.empty():
                answers.append(going.get())
            line.send(answers)
    except BaseException:
        os._exit(0)


def _failed(error: Exception) -> Failed:
    return Failed(f"{type(error).__name__}: {error}")
