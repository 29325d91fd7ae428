"""Writers, readers and crashes in any order: every complete record is handed on once, or counted as dropped.

Each actor runs in a thread of its own, one at a time, and gives way before every system call of the spool; hypothesis
says who goes on, and who dies there. What a process that dies leaves behind is what the kernel leaves: its files, but
no open descriptor and no lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.spool import Limits, Spool, _counts, _folders
from tests.spool import writers

_here = threading.local()
_rename, _flock, _open = _folders.move, fcntl.flock, os.open


Schedule = list[tuple[int, int, bool]]


class Crash(BaseException):
    """The process dies here."""


class Actor:
    """A process that does one system call at a time."""

    def __init__(self, world: World, work: Callable[[World], None]) -> None:
        self.world, self.go, self.over, self.dead = world, threading.Semaphore(0), False, False
        self.fault: BaseException | None = None
        self.spool: Spool | None = None
        self.holds: set[bytes] = set()
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self.thread.start()

    def _run(self, work: Callable[[World], None]) -> None:
        _here.actor = self
        self.go.acquire()
        try:
            if not self.dead:
                work(self.world)
        except Crash:
            pass
        except BaseException as error:
            self.fault = error
        if self.spool is not None:
            self.spool.close()
        self.holds.clear()
        self.over = True
        self.world.back.release()

    def step(self) -> None:
        """Gives way; dies if it was told to."""
        self.world.back.release()
        self.go.acquire()
        if self.dead:
            raise Crash


def step() -> None:
    actor = getattr(_here, "actor", None)
    if actor is not None and not actor.dead:
        actor.step()


class World:
    """A spool and all that happens to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.back = threading.Semaphore(0)
        self.actors: list[Actor] = []
        self.complete: set[bytes] = set()
        self.done: Counter[bytes] = Counter()
        self.given_up = 0

    def start(self, *work: Callable[[World], None]) -> None:
        self.actors += [Actor(self, each) for each in work]

    def run(self, schedule: Schedule) -> None:
        """Lets them go on as scheduled (who, how many steps, whether he dies then), afterwards in turn to the end."""
        for who, steps, dies in schedule:
            actor = self.actors[who % len(self.actors)]
            for _ in range(steps):
                self.resume(actor, False)
            if dies:
                self.resume(actor, True)
        while not all(actor.over for actor in self.actors):
            for actor in self.actors:
                self.resume(actor, False)
        for actor in self.actors:
            actor.thread.join()
            if actor.fault is not None:
                raise actor.fault

    def resume(self, actor: Actor, dies: bool) -> None:
        if not actor.over:
            actor.dead = actor.dead or dies
            actor.go.release()
            self.back.acquire()

    def finish(self) -> None:
        """What is left after all crashes is what a reader that comes later handles."""
        with Spool(str(self.path)) as spool:
            spool.recover(-1e6)
            for record in spool.claim():
                assert spool.done(record)
            assert spool.recover(-1e6).back == 0


def tokens(data: bytes) -> list[bytes]:
    """The whole marks in a file: of a ticket one, if it is whole; of task records one a line."""
    if b"TOKEN=" in data:
        return (
            [v.removeprefix(b"TOKEN=") for v in data.split(b"\0") if v.startswith(b"TOKEN=")]
            if data.endswith(b"\0")
            else []
        )
    return data.splitlines()


# ------------------------------------------------------------------------------------------------ the system calls


@contextmanager
def calls(world: World) -> Iterator[None]:
    """Every system call of the reader is a step; what is moved to done/ is noted."""

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **kwargs: Any) -> Any:
            step()
            return real(*args, **kwargs)

        return stepped

    def move(source: int, name: str, target: int, new_name: str) -> None:
        step()
        folder = str(Path(f"/proc/self/fd/{target}").readlink())
        data = b""
        if folder.endswith("/done"):
            with suppress(OSError), (Path(f"/proc/self/fd/{source}").readlink() / name).open("rb") as file:
                data = file.read()
        _rename(source, name, target, new_name)
        world.done.update(tokens(data))

    def wait(file: int) -> None:
        while True:
            step()
            try:
                _flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return

    with ExitStack() as stack:
        stack.enter_context(patch.object(_folders, "move", move))
        stack.enter_context(patch.object(_counts, "wait_for_lock", wait))
        stack.enter_context(patch("fcntl.flock", before(_flock)))
        stack.enter_context(patch("os.fsync", lambda file: step()))  # the disk itself is not what is tested
        for call in ("open", "stat", "unlink", "rename", "listdir", "pread"):
            stack.enter_context(patch(f"os.{call}", before(getattr(os, call))))
        yield


# ------------------------------------------------------------------------------------------------ the actors


def write(path: Path, data: bytes, flags: int = os.O_WRONLY | os.O_CREAT | os.O_APPEND) -> None:
    """A single write(2), which is whole or not there; a step may lie behind it, none within."""
    file = _open(path, flags, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def drop(world: World) -> None:
    step()
    file = _open(world.path / "dropped", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        step()
        os.write(file, b"1")
        world.given_up += 1
    finally:
        os.close(file)


def ticket_writer(name: str, token: str) -> Callable[[World], None]:
    """A hook: tmp/, then new/, never over another's."""

    def work(world: World) -> None:
        job = name.split(".")[0]
        data = writers.ticket(job, TOKEN=token)
        path = world.path / "tmp" / name
        step()
        try:
            write(path, data[:20], os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return drop(world)
        step()
        with suppress(FileNotFoundError):
            write(path, data[20:], os.O_WRONLY | os.O_APPEND)
        step()
        try:
            _link(path, world.path / "new" / name)
        except OSError:
            drop(world)
        else:
            world.complete.add(token.encode())
        return None

    return work


def _link(source: Path, target: Path) -> None:
    """rename(2) as one step that does not overwrite: two hooks of one name are not the reader's concern."""
    folders = [_open(path.parent, os.O_RDONLY | os.O_DIRECTORY) for path in (source, target)]
    try:
        _rename(folders[0], source.name, folders[1], target.name)
    finally:
        for folder in folders:
            os.close(folder)


def tasks_writer(job: str, pid: int, *marks: str) -> Callable[[World], None]:
    """The plugin: the records grow in tmp/, job_epilog moves them and writes its ticket."""

    def work(world: World) -> None:
        for mark in marks:
            step()
            write(world.path / "tmp" / f"{job}.tasks", f"{mark}\n".encode())
            world.complete.add(mark.encode())
        step()
        with suppress(OSError):  # a reader took them over meanwhile
            _link(world.path / "tmp" / f"{job}.tasks", world.path / "new" / f"{job}.7.{pid}.tasks")
        ticket_writer(f"{job}.7.{pid}.spank", f"{marks[0]}-ticket")(world)

    return work


def reader(older_than: float, *, gives_back: bool = False) -> Callable[[World], None]:
    """A reader that clears up, takes, and hands on; twice."""

    def work(world: World) -> None:
        actor: Actor = _here.actor
        with Spool(str(world.path)) as spool:
            actor.spool = spool
            for _ in range(2):
                spool.recover(older_than)
                for number, record in enumerate(spool.claim()):
                    mine = set(tokens(record.data))
                    for other in world.actors:
                        assert not mine & other.holds, "two readers have the same record"
                    actor.holds |= mine
                    for _ in range(3):
                        step()
                    if gives_back and number % 2:
                        actor.holds -= mine  # from here on another may take it
                        assert spool.release(record)
                    else:
                        assert spool.done(record), "another reader moved a record that was held"
                        actor.holds -= mine

    return work


def trimmer(world: World) -> None:
    """Another process that keeps the spool small."""
    actor: Actor = _here.actor
    with Spool(str(world.path)) as spool:
        actor.spool = spool
        spool.trim(Limits(files=2))


def scheduled(actors: int) -> st.SearchStrategy[Schedule]:
    steps = st.one_of(st.integers(1, 6), st.integers(7, 60))
    return st.lists(st.tuples(st.integers(0, actors - 1), steps, st.sampled_from([False] * 7 + [True])), max_size=30)


def happen(schedule: Schedule, *work: Callable[[World], None]) -> tuple[World, dict[str, int]]:
    """The world after it all, and what the spool says was dropped. A reader had died before it began."""
    folder = Path(tempfile.mkdtemp())
    try:
        world = World(writers.make(folder / "spool"))
        for folder_, name in (("work", "5.1.1.epilog"), ("new", "5.1.1.epilog"), ("new", "6.1.1.epilog")):
            token = f"{folder_}-{name}"
            writers.put(world.path, name, writers.ticket(name[0], TOKEN=token), folder_, at=1.0)
            world.complete.add(token.encode())
        with calls(world):
            world.start(*work)
            world.run(schedule)
            world.finish()
            left = [path.name for name in ("tmp", "new", "work") for path in (world.path / name).glob("*")]
            assert left == []
            with Spool(str(world.path)) as spool:
                dropped = dict(spool.state().dropped)
            late = Spool(str(world.path), clock=lambda: time.time() + 100)
            with late:
                for _ in range(3):  # sets aside, counts
                    late.trim()
                assert dict(late.state().dropped) == dropped
            assert names_in(world.path) <= {"tmp", "new", "work", "done", "bad", "counts.json", "counts.json.new"}
        return world, dropped
    finally:
        shutil.rmtree(folder)


def names_in(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


WRITERS = (
    ticket_writer("7.0.1.epilog", "a"),
    ticket_writer("7.0.1.epilog", "b"),  # the same name again: a pid that came round
    ticket_writer("8.5.2.epilogslurmctld", "c"),
    tasks_writer("9", 3, "d", "e"),
)


@given(scheduled(3))
def test_two_readers_never_have_the_same_record(schedule: Schedule) -> None:
    world, dropped = happen(schedule, reader(3600.0), reader(3600.0), reader(3600.0, gives_back=True))
    assert world.done == Counter(dict.fromkeys(world.complete, 1))
    assert dropped == {}


@given(scheduled(7), st.sampled_from([-1e6, 0.0, 3600.0]))
def test_every_complete_record_is_handed_on_once(schedule: Schedule, older_than: float) -> None:
    world, dropped = happen(schedule, *WRITERS, reader(older_than), reader(3600.0), reader(3600.0, gives_back=True))
    assert {token: count for token, count in world.done.items() if count > 1} == {}
    assert world.complete - set(world.done) == set()
    assert dropped.get("writers", 0) == world.given_up
    assert set(dropped) <= {"writers"}


@given(scheduled(7))
def test_what_is_lost_is_counted(schedule: Schedule) -> None:
    world, dropped = happen(schedule, *WRITERS, reader(3600.0), trimmer, trimmer)
    assert {token: count for token, count in world.done.items() if count > 1} == {}
    lost = world.complete - set(world.done)
    files = {"d" if token in (b"d", b"e") else token.decode() for token in lost}  # records of one file are lost as one
    counted = sum(count for kind, count in dropped.items() if kind != "writers")
    assert len(files) <= counted
    if not any(dies for *_, dies in schedule):
        assert len(files) == counted
    assert dropped.get("writers", 0) == world.given_up
