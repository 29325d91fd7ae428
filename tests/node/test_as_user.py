"""The child that becomes the user for good: what it is, what it cannot do, and that it hurts nobody."""

from __future__ import annotations

import gc
import os
import resource
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.node import as_user
from slurm_triage.node.as_user import AsUserError, first_uid_here, left_behind, run
from slurm_triage.node.job import Job
from tests.node.conftest import belongs
from tests.node.fuse import hanging

ADA = Job("7", "c1", uid=1001, gid=1001, groups=(1001, 2000))
BOB = Job("8", "c1", uid=1002, gid=1002, groups=())
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def why(job: Job, work: Callable[[], bytes], seconds: float = 5, limit: int = 1000, **more: int) -> str:
    with pytest.raises(AsUserError) as raised:
        run(job, work, seconds, limit, **more)
    return str(raised.value)


def told(work: Callable[[], object], job: Job = ADA) -> str:
    return run(job, lambda: repr(work()).encode(), 5, 10_000).decode()


def dies(number: signal.Signals) -> bytes:
    os.kill(os.getpid(), number)
    return b"alive"


# ------------------------------------------------------------------------------------------------ what it is


@root_only
def test_it_is_the_user_and_nobody_else() -> None:
    def work() -> object:
        session = os.getsid(0) == os.getpid()
        return os.getresuid(), os.getresgid(), sorted(os.getgroups()), Path.cwd(), os.umask(0), session

    assert told(work) == repr(((1001,) * 3, (1001,) * 3, [1001, 2000], Path("/"), 0o077, True))
    assert told(lambda: (os.getuid(), os.getgroups()), BOB) == "(1002, [])"
    assert (os.getuid(), os.geteuid()) == (0, 0)


@root_only
def test_there_is_no_way_back() -> None:
    def back() -> list[str]:
        refused = []
        calls: list[Callable[[], object]] = [
            lambda: os.setuid(0),
            lambda: os.setresuid(-1, 0, -1),
            lambda: os.setgid(0),
            lambda: os.setgroups([0]),
            lambda: os.chroot("/"),
            lambda: os.kill(os.getppid(), 0),
        ]
        for call in calls:
            try:
                call()
            except PermissionError:
                refused.append("refused")
        status = dict(
            line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line
        )
        return [*refused, *(status[key] for key in ("CapPrm", "CapEff", "CapInh", "CapAmb", "NoNewPrivs"))]

    assert told(back) == repr(["refused"] * 6 + ["0" * 16] * 4 + ["1"])


@root_only
def test_it_sees_no_more_than_the_user(place: Path) -> None:
    own = place / "ada"
    own.mkdir()
    belongs(own, 1001, mode=0o700)
    (own / "f").write_text("ada's")
    belongs(own / "f", 1001, mode=0o600)
    (place / "roots").write_text("secret")
    (place / "roots").chmod(0o600)
    (place / "groups").write_text("of the group")
    belongs(place / "groups", 0, 2000, 0o640)
    assert run(ADA, (own / "f").read_bytes, 5, 100) == b"ada's"
    assert run(ADA, (place / "groups").read_bytes, 5, 100) == b"of the group"
    assert why(BOB, (own / "f").read_bytes) == "Permission denied"
    assert why(BOB, (place / "groups").read_bytes) == "Permission denied"
    assert why(ADA, (place / "roots").read_bytes) == "Permission denied"
    assert why(ADA, lambda: bytes((place / "new").write_bytes(b""))) == "Permission denied"


@root_only
def test_groups_that_slurm_did_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the user's name here, if the name is the user's; never root's."""
    import pwd

    def entry(name: str) -> pwd.struct_passwd:
        if name != "ada":
            raise KeyError(name)
        return pwd.struct_passwd(("ada", "x", 1001, 1001, "", "/", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwnam", entry)
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, 3000, 0])
    named = replace(ADA, groups=None, user="ada")
    assert told(os.getgroups, named) == "[1001, 3000]"
    assert told(os.getgroups, replace(named, uid=1003)) == "[1001]"
    assert told(os.getgroups, replace(named, user="eve")) == "[1001]"
    assert told(os.getgroups, replace(named, user="")) == "[1001]"
    assert told(os.getgroups, replace(ADA, groups=(1001, 0))) == "[1001]"


@pytest.mark.parametrize(
    ("uid", "gid", "reason"),
    [
        (0, 1001, "nothing is done as root"),
        (1001, 0, "nothing is done as root"),
        (-1, -1, "not the ids of a user"),
        (0xFFFFFFFF, 1001, "not the ids of a user"),
        (1001, 0xFFFFFFFF, "not the ids of a user"),
        (1 << 40, 1001, "not the ids of a user"),
    ],
)
def test_who_is_refused(uid: int, gid: int, reason: str) -> None:
    assert reason in why(replace(ADA, uid=uid, gid=gid), lambda: b"ran")


@root_only
def test_system_users_are_refused() -> None:
    assert why(replace(ADA, uid=1001), lambda: b"", first_uid=1002) == "uid 1001 is a system user's"
    assert run(replace(ADA, uid=500), lambda: b"x", 5, 10, first_uid=500) == b"x"
    assert "is a system user's" in why(replace(ADA, uid=first_uid_here() - 1), lambda: b"")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("UID_MIN\t\t 1000\nSYS_UID_MAX\t\t  999\n", 1000),
        ("UID_MIN 1000\n#SYS_UID_MAX 499\n", 1000),
        ("UID_MIN 500\n", 500),
        ("  SYS_UID_MAX 199\nUID_MIN 500\n", 200),
        ("# nothing\nUID_MINX 3\nUID_MIN x\n", 1000),
        (None, 1000),
    ],
)
def test_who_is_a_person(tmp_path: Path, text: str | None, first: int) -> None:
    if text is not None:
        (tmp_path / "login.defs").write_text(text)
    assert first_uid_here(tmp_path / "login.defs") == first


@root_only
def test_who_is_not_root_runs_it_for_himself_only(place: Path) -> None:
    belongs(place, 1001)
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(1001, 1001, 1001)
            os.setresuid(1001, 1001, 1001)
            said = [run(ADA, lambda: str(os.getresuid()).encode(), 5, 100).decode(), why(BOB, lambda: b"")]
            (place / "said").write_text("\n".join(said))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert (place / "said").read_text() == "(1001, 1001, 1001)\nonly root can become uid 1002; this is uid 1001"


# ------------------------------------------------------------------------------------------------ what it has


@root_only
def test_it_has_no_open_file_of_the_parent(place: Path) -> None:
    with (place / "secret").open("w+") as stream:
        os.set_inheritable(stream.fileno(), True)
        high = os.dup2(stream.fileno(), 900)
        try:
            said = told(lambda: [str(p.readlink()) for p in Path("/proc/self/fd").iterdir() if p.is_symlink()])
        finally:
            os.close(high)
    assert said.count("/dev/null") == 3 and said.count("pipe:[") == 1 and "secret" not in said
    assert len(said.split(",")) <= 5  # the fifth is the folder that is being listed


@root_only
def test_what_it_prints_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> bytes:
        os.write(1, b"out")
        os.write(2, b"err")
        return b"" if os.read(0, 10) == b"" else b"input"

    assert run(ADA, work, 5, 10) == b""
    assert capfd.readouterr() == ("", "")


@root_only
def test_limits() -> None:
    names = ("CORE", "CPU", "FSIZE", "NOFILE", "NPROC")
    limits = told(lambda: [resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in names])
    assert limits == repr([0, 6, as_user.FILE_SIZE, 64, 0])


@root_only
def test_a_child_that_wants_memory_files_or_processes(place: Path) -> None:
    belongs(place, 1001)

    def big_file() -> bytes:
        with (place / "big").open("wb") as stream:
            for _ in range(32):
                stream.write(bytes(1 << 20))
        return b""

    def start() -> bytes:
        os.fork()
        return b""

    assert why(ADA, lambda: bytes(1 << 30)[:1]) == "not enough memory (128 MiB)"
    assert why(ADA, big_file) == "File too large"
    assert why(ADA, start) == "Resource temporarily unavailable"
    assert why(ADA, lambda: bytes([len([os.open("/dev/null", 0) for _ in range(100)])])) == "Too many open files"


@root_only
def test_the_users_other_processes_cannot_look_into_it(place: Path) -> None:
    """Its memory is a copy of the agent's, which may hold the key of the transport."""
    belongs(place, 1001)

    agent, pid = agent_whose_child_sleeps(place)
    try:
        for file in ("mem", "environ", "maps"):
            assert why(ADA, Path(f"/proc/{pid}/{file}").read_bytes) == "Permission denied"
    finally:
        os.kill(agent, signal.SIGKILL)
        os.waitpid(agent, 0)


def agent_whose_child_sleeps(place: Path) -> tuple[int, int]:
    """(pid of a process that waits for a child as the user, pid of that child)."""

    def work() -> bytes:
        (place / "pid").write_text(str(os.getpid()))
        time.sleep(60)
        return b""

    agent = os.fork()
    if agent == 0:
        try:
            run(ADA, work, 60, 10)
        finally:
            os._exit(0)
    for _ in range(500):
        if (place / "pid").exists() and (place / "pid").read_text():
            return agent, int((place / "pid").read_text())
        time.sleep(0.01)
    raise AssertionError("the child did not start")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@root_only
def test_it_dies_with_the_agent(place: Path) -> None:
    belongs(place, 1001)
    agent, pid = agent_whose_child_sleeps(place)
    assert alive(pid)
    os.kill(agent, signal.SIGKILL)
    os.waitpid(agent, 0)
    for _ in range(200):
        if not alive(pid):
            break
        time.sleep(0.01)
    assert not alive(pid)


@root_only
def test_the_agents_handlers_do_not_run_in_it() -> None:
    ran: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: ran.append(os.getpid()))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    try:
        said = why(ADA, lambda: dies(signal.SIGUSR1))
        assert said == "the attempt as the user ended without an answer (signal 10)"
        assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == mask and not ran
        os.kill(os.getpid(), signal.SIGUSR1)
        assert ran == [os.getpid()]
    finally:
        signal.signal(signal.SIGUSR1, before)


@root_only
def test_the_end_of_the_agent_lets_it_finish() -> None:
    """systemd sends SIGTERM to all processes of the service at once: half a write would go to another place."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        assert run(ADA, lambda: dies(signal.SIGTERM), 5, 100) == b"alive"
    finally:
        signal.signal(signal.SIGTERM, before)


@root_only
def test_a_handler_that_raises_leaves_no_child(place: Path) -> None:
    """The agent is told to stop while a child hangs."""
    os.mkfifo(place / "fifo")
    belongs(place / "fifo", 1001)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(ADA, (place / "fifo").read_bytes, 30, 10)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


# ------------------------------------------------------------------------------------------------ what comes out


@root_only
def test_results_have_a_size() -> None:
    assert run(ADA, lambda: b"", 5, 0) == b""
    big = bytes(range(256)) * 4096
    assert run(ADA, lambda: big, 5, len(big)) == big
    assert why(ADA, lambda: big, limit=len(big) - 1) == f"more than {len(big) - 1} bytes"


@root_only
def test_what_the_work_raises_is_the_reason() -> None:
    def fails(error: BaseException) -> Callable[[], bytes]:
        def work() -> bytes:
            raise error

        return work

    assert why(ADA, fails(AsUserError("there is no room"))) == "there is no room"
    assert why(ADA, fails(OSError(122, "Disk quota exceeded"))) == "Disk quota exceeded"
    assert why(ADA, fails(ValueError("bad"))) == "ValueError: bad"
    assert why(ADA, fails(SystemExit(3))) == "SystemExit: 3"
    assert why(ADA, fails(AsUserError("a\n\x1b[2J\udc80" + "x" * 100_000))).startswith("a??[2J?xxx")
    assert len(why(ADA, fails(AsUserError("x" * 100_000)))) == as_user.WHY_LIMIT


@root_only
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"+",
        b"+\0\0\0",
        struct.pack("!cI", b"+", 0xFFFFFFFF),
        struct.pack("!cI", b"+", 5) + b"four",
        bytes(100_000),
    ],
)
def test_a_child_that_writes_what_it_likes(answer: bytes) -> None:
    def work() -> bytes:
        pipes = [int(p.name) for p in Path("/proc/self/fd").iterdir() if p.is_symlink() and "pipe" in str(p.readlink())]
        os.write(pipes[0], answer)
        os._exit(7)

    assert why(ADA, work) == "the attempt as the user ended without an answer (exit status 7)"


@root_only
def test_a_child_that_is_killed() -> None:
    assert why(ADA, lambda: dies(signal.SIGKILL)) == ("the attempt as the user ended without an answer (signal 9)")


@root_only
@pytest.mark.parametrize("kind", ["fifo", "spins", "sleeps deaf", "stopped"])
def test_a_child_that_takes_too_long(place: Path, kind: str) -> None:
    os.mkfifo(place / "fifo")
    belongs(place / "fifo", 1001)

    def work() -> bytes:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if kind == "fifo":
            return (place / "fifo").read_bytes()
        if kind == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        while True:
            time.sleep(0 if kind == "spins" else 60)

    begun = time.monotonic()
    assert why(ADA, work, seconds=0.3) == "no answer within 0.3 seconds: the file system hangs or is very slow"
    assert 0.25 < time.monotonic() - begun < 2
    assert left_behind() == 0


@root_only
def test_many_runs_leave_nothing_behind() -> None:
    gc.collect()  # what other tests have left open would be closed meanwhile
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(30):
        run(ADA, lambda: b"x", 5, 1)
        why(ADA, lambda: b"xx", limit=1)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@root_only
def test_a_file_system_that_hangs(place: Path) -> None:
    (place / "mnt").mkdir()
    with hanging(place / "mnt"):
        assert "the file system hangs" in why(ADA, lambda: bytes(len(list((place / "mnt").iterdir()))), seconds=0.3)
        assert left_behind() == 0


@root_only
def test_a_child_that_cannot_be_killed_is_left_behind_and_counted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State D: the file system's daemon took the question and never answers."""
    (place / "mnt").mkdir()
    with hanging(place / "mnt") as mount:
        daemon = os.fork()
        if daemon == 0:
            try:
                mount.take_requests()
                time.sleep(60)
            finally:
                os._exit(0)
        try:
            begun = time.monotonic()
            said = why(ADA, lambda: bytes(len(list((place / "mnt").iterdir()))), seconds=0.5)
            assert time.monotonic() - begun < 3
            assert said.endswith("the file system hangs or is very slow and cannot be killed yet")
            assert left_behind() == 1
            monkeypatch.setattr(as_user, "MOST_LEFT", 1)
            assert why(BOB, lambda: b"") == "1 earlier attempts as users still hang; no further one is started"
        finally:
            os.kill(daemon, signal.SIGKILL)
            os.waitpid(daemon, 0)
            mount.release()
        for _ in range(200):
            if left_behind() == 0:
                break
            time.sleep(0.01)
        assert left_behind() == 0 and run(BOB, lambda: b"x", 5, 1) == b"x"
