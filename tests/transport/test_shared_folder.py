"""The agent's side of a shared folder: what it leaves there, whom it believes, and that it never hangs with it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage.transport import client, killable, shared_folder
from slurm_triage.transport.auth import digest
from slurm_triage.transport.client import Abandoned, Client, Unreachable
from slurm_triage.transport.key import Key
from slurm_triage.transport.message import MOST_PACKED, Malformed, Message, pack, unpack
from slurm_triage.transport.shared_folder import IN_MODE, OUT_MODE
from slurm_triage.transport.wire import LONGEST_LINE, line, split
from tests.node.fuse import hanging

KEY = b"k" * 40
ME = os.geteuid()
NOBODY = 65534
QUESTION = Message("texts", {"asked": []})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, mode in (("in", IN_MODE), ("out", OUT_MODE)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    tmp_path.chmod(0o711)
    return tmp_path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(shared_folder, "LOOK", 0.02)
    monkeypatch.setattr(client, "CONNECT", 0.0)
    monkeypatch.setattr(client, "ANSWER", 10.0)
    yield
    assert killable.left_behind() == 0


def asking(folder: Path, trusted: int = ME) -> Client:
    return Client([f"dir:{folder}"], Key(KEY), [trusted])


def in_turn(folder: Path, work: Callable[[str, bytes], object]) -> threading.Thread:
    """Somebody who looks into the folder, and does something with the first question that is there."""

    def look() -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for path in (folder / "in").glob("*.question"):
                data = path.read_bytes()
                if split(data) is not None:
                    work(path.name.removesuffix(".question"), data)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=look)
    thread.start()
    return thread


def answer_to(name: str, question: bytes, text: str, key: bytes = KEY) -> bytes:
    parts = split(question)
    assert parts is not None
    about = digest(shared_folder.ROLE, parts[1], name.encode())
    return Key(key).seal(pack(Message("texts", {"texts": [text]})), about, ME)


# ------------------------------------------------------------------------------------------------ questions, answers


def test_a_question_gets_its_answer_and_is_cleared_away(folder: Path) -> None:
    seen: list[tuple[str, int, Message]] = []

    def work(name: str, data: bytes) -> None:
        parts = split(data)
        assert parts is not None
        Key(KEY).check(parts[0], digest(shared_folder.ROLE, parts[1], name.encode()))
        seen.append((name, (folder / "in" / f"{name}.question").stat().st_mode, unpack(parts[1])))
        (folder / "out" / f"{name}.answer").write_bytes(answer_to(name, data, "hello"))

    before = os.umask(0o077)
    try:
        thread = in_turn(folder, work)
        assert asking(folder).ask(QUESTION).head == {"texts": ["hello"]}
    finally:
        os.umask(before)
    thread.join()
    ((name, mode, said),) = seen
    assert said == QUESTION and shared_folder.NAME.fullmatch(name)
    # Its reader is neither owner nor group.
    assert stat.S_IMODE(mode) == 0o644
    assert list((folder / "in").iterdir()) == []


def test_each_try_has_another_name() -> None:
    assert len({shared_folder.new_name() for _ in range(100)}) == 100


def test_nothing_of_what_was_asked_stays_when_nobody_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER", 1.0)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=f"dir:{folder}: no answer in time"):
        asking(folder).ask(QUESTION)
    assert time.monotonic() - began < 5 and list((folder / "in").iterdir()) == []


def test_who_waits_can_give_it_up(folder: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Abandoned):
        asking(folder).ask(QUESTION, 30.0, lambda: True)
    assert time.monotonic() - began < 5 and list((folder / "in").iterdir()) == []


def test_the_next_server_is_asked_if_the_folder_is_gone(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"No such file.*; 127\.0\.0\.1:1: "):
        Client([f"dir:{tmp_path}/gone", "127.0.0.1:1"], Key(KEY), [ME]).ask(QUESTION)


# ------------------------------------------------------------------------------------------------ who is believed


def forged(name: str, data: bytes) -> bytes:
    return answer_to(name, data, "forged", b"x" * 40)


def of_another_question(name: str, data: bytes) -> bytes:
    return answer_to("0" * 32, data, "another's")


def question_itself(name: str, data: bytes) -> bytes:
    return data


def cut(name: str, data: bytes) -> bytes:
    return answer_to(name, data, "cut")[:-1]


def junk(name: str, data: bytes) -> bytes:
    return b"\0" * 1000


@pytest.mark.parametrize("make", [forged, of_another_question, question_itself, cut, junk])
def test_a_forged_answer_is_not_believed(folder: Path, make: Callable[[str, bytes], bytes]) -> None:
    thread = in_turn(folder, lambda name, data: (folder / "out" / f"{name}.answer").write_bytes(make(name, data)))
    with pytest.raises(Unreachable):
        asking(folder).ask(QUESTION)
    thread.join()


def test_an_answer_of_somebody_else_than_the_service_is_not_believed(folder: Path) -> None:
    thread = in_turn(
        folder, lambda name, data: (folder / "out" / f"{name}.answer").write_bytes(answer_to(name, data, "x"))
    )
    way = Client([f"dir:{folder}"], Key(KEY), [ME + 1, ME])
    way._trusted = frozenset()  # of the answer
    owners = frozenset((ME,))  # of the folder
    original = shared_folder.exchange

    def exchange(place: str, name: str, question: bytes, _: object, *more: object) -> bytes | None:
        return original(place, name, question, owners, *more)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_folder, "exchange", exchange)
        with pytest.raises(Unreachable, match="not the service's"):
            way.ask(QUESTION)
    thread.join()


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "huge"])
def test_an_answer_that_is_no_file_is_none(folder: Path, what: str) -> None:
    (folder / "secret").write_bytes(b"secret")

    def work(name: str, data: bytes) -> None:
        path = folder / "out" / f"{name}.answer"
        if what == "link":
            path.symlink_to(folder / "secret")
        elif what == "pipe":
            os.mkfifo(path)
        elif what == "folder":
            path.mkdir()
        else:
            path.touch()
            os.truncate(path, 1 << 40)

    began = time.monotonic()
    thread = in_turn(folder, work)
    with pytest.raises(Unreachable) as told:
        asking(folder).ask(QUESTION)
    thread.join()
    assert "in time" not in str(told.value) and time.monotonic() - began < 5


@pytest.mark.parametrize("mode", [0o1777, 0o1773, 0o1737])
def test_nothing_is_put_where_others_can_list_it(folder: Path, mode: int) -> None:
    (folder / "in").chmod(mode)
    with pytest.raises(Unreachable, match="listed by others"):
        asking(folder).ask(QUESTION)
    assert "listed" in shared_folder.problem(str(folder), [ME], 5.0)
    (folder / "in").chmod(IN_MODE)
    assert shared_folder.problem(str(folder), [ME], 5.0) == ""


def test_nothing_is_put_into_somebody_elses_folder(folder: Path) -> None:
    with pytest.raises(Unreachable, match=f"belongs to uid {ME}, which is not the service's"):
        asking(folder, ME + 1).ask(QUESTION)
    (folder / "in").rename(folder / "other")
    (folder / "in").symlink_to(folder / "other")
    with pytest.raises(Unreachable):
        asking(folder).ask(QUESTION)
    assert list((folder / "other").iterdir()) == []


# ------------------------------------------------------------------------------------------------ file systems


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be squashed")
def test_root_who_is_nobody_there_can_ask_and_others_cannot_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As on NFS with root_squash: the file system sees uid 65534, without a capability."""
    for above in (folder, *folder.parents):
        if above == Path("/tmp") or above == Path("/"):
            break
        above.chmod(0o711)
    libc = ctypes.CDLL(None)
    original = shared_folder._exchange

    def squashed(*args: object) -> bytes:
        libc.setfsgid(NOBODY)
        libc.setfsuid(NOBODY)
        for name in ("in", "out"):
            with pytest.raises(PermissionError):
                list((folder / name).iterdir())
        with pytest.raises(PermissionError):
            (folder / "out" / "forged").touch()
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(shared_folder, "_exchange", squashed)
    owners: list[int] = []

    def work(name: str, data: bytes) -> None:
        owners.append((folder / "in" / f"{name}.question").stat().st_uid)
        path = folder / "out" / f"{name}.answer"
        path.write_bytes(answer_to(name, data, "hello"))
        path.chmod(0o644)

    thread = in_turn(folder, work)
    assert asking(folder).ask(QUESTION).head == {"texts": ["hello"]}
    thread.join()
    assert owners == [NOBODY]


def test_where_nothing_can_be_removed_it_is_answered_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor renamed, nor given another mode: as root without CAP_FOWNER in a sticky folder of NFS."""

    def no(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    for name in ("unlink", "rename", "chmod", "fchmod"):
        monkeypatch.setattr(os, name, no)
    thread = in_turn(
        folder, lambda name, data: (folder / "out" / f"{name}.answer").write_bytes(answer_to(name, data, "x"))
    )
    assert asking(folder).ask(QUESTION).head == {"texts": ["x"]}
    thread.join()


def test_a_full_file_system_is_a_sentence_and_nothing_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 10 and stat.S_ISREG(os.fstat(descriptor).st_mode):
            if os.fstat(descriptor).st_size:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, data[:10])
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Unreachable, match="No space left"):
        asking(folder).ask(QUESTION)
    monkeypatch.undo()
    assert list((folder / "in").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_file_system_that_hangs_costs_a_wait_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killable.FOLDERS, "grace", 0.1)
    monkeypatch.setattr(client, "ANSWER", 1.0)
    place = tmp_path / "shared"
    place.mkdir()
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with hanging(place) as mount:
        daemon = threading.Thread(target=mount.take_requests)
        daemon.start()
        began = time.monotonic()
        with pytest.raises(Unreachable, match="no answer in time"):
            asking(place).ask(QUESTION)
        assert time.monotonic() - began < 5
        daemon.join(10)
        # Not even SIGKILL ends it; the agent's lock is free all the same.
        assert killable.left_behind() == 1
        os.close(lock)
        again = os.open(tmp_path / "lock", os.O_RDWR)
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(again)
        monkeypatch.setattr(killable.FOLDERS, "most", 1)
        began = time.monotonic()
        with pytest.raises(Unreachable, match="still hang"):
            asking(place).ask(QUESTION)
        assert time.monotonic() - began < 0.5
        mount.release()
        end = time.monotonic() + 10
        while killable.left_behind() and time.monotonic() < end:
            time.sleep(0.01)
        assert killable.left_behind() == 0


# ------------------------------------------------------------------------------------------------ the child


def test_what_goes_wrong_in_the_child_is_a_sentence() -> None:
    def wrong(_: killable.Enough) -> bytes:
        raise ValueError("no such thing")

    def ends(_: killable.Enough) -> bytes:
        os._exit(3)

    with pytest.raises(OSError, match="ValueError: no such thing"):
        killable.run(wrong, 5, 10)
    with pytest.raises(OSError, match="without an answer"):
        killable.run(ends, 5, 10)
    with pytest.raises(OSError, match="more than 10 bytes"):
        killable.run(lambda _: b"x" * 11, 5, 10)
    assert killable.run(lambda _: b"x" * 10, 5, 10) == b"x" * 10


def test_a_large_answer_comes_whole() -> None:
    data = os.urandom(3_000_000)
    assert killable.run(lambda _: data, 10, len(data)) == data


def test_a_child_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(killable.FOLDERS, "grace", 0.1)

    def stubborn(_: killable.Enough) -> bytes:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return b""

    with pytest.raises(TimeoutError):
        killable.run(stubborn, 0.5, 10)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_child_ends_when_the_agent_is_killed(tmp_path: Path) -> None:
    """It waits for an answer that nobody would read."""
    agent = os.fork()
    if agent == 0:
        try:

            def work(enough: killable.Enough) -> bytes:
                (tmp_path / "pid").write_text(str(os.getpid()))
                enough(60)
                (tmp_path / "cleared").touch()
                return b""

            killable.run(work, 60, 10)
        finally:
            os._exit(0)
    end = time.monotonic() + 10
    while not (tmp_path / "pid").exists() and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(agent, 9)
    os.waitpid(agent, 0)
    while not (tmp_path / "cleared").exists():
        assert time.monotonic() < end
        time.sleep(0.01)


# ------------------------------------------------------------------------------------------------ forms


def test_places_of_folders() -> None:
    assert shared_folder.path_of("dir:/shared/triage") == "/shared/triage"
    # Hosts may be called so.
    assert shared_folder.path_of("dir") is None and shared_folder.path_of("dir:6821") is None
    assert client.checked("dir:6821") == "dir:6821" and client.place("dir:6821") == ("dir", 6821)
    for wrong in ("dir:shared", "dir:", "dir:../x", "dir:/a\0b"):
        with pytest.raises(ValueError, match="absolute path"):
            client.checked(wrong)


def test_a_message_in_a_file_is_whole_not_yet_whole_or_none() -> None:
    whole = line(b"abc", b"defgh") + b"abcdefgh"
    assert split(whole) == (b"abc", b"defgh")
    for size in range(len(whole)):
        assert split(whole[:size]) is None
    for wrong in (whole + b"x", b"x" * LONGEST_LINE, b"GET /\n", line(b"", b"x" * 9)[:-2] + b"999999999\n"):
        with pytest.raises(Malformed):
            split(wrong)


def test_the_largest_question_fits_into_a_file() -> None:
    assert len(line(b"c" * 65536, b"b" * MOST_PACKED)) + 65536 + MOST_PACKED <= shared_folder.MOST
