"""Runs something in a child that has become the user for good, with a deadline; the parent is root and stays so.

What the child touches is the user's: it may hang, lie, or be killed by its owner. That costs this one child. What comes
out of it is data of bounded length, whatever it is.
"""

from __future__ import annotations

import ctypes
import math
import os
import pwd
import re
import resource
import select
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from slurm_triage.node.job import Job

MOST_LEFT = 8
"""Children that could not be killed (a file system hangs below them) and are left behind; beyond it none is started."""

FILE_SIZE = 16 << 20
"""Bytes of the largest file that the child can write."""

MEMORY = 128 << 20
"""Bytes of memory that the child can take beside what the parent has."""

OPEN_FILES = 64
WHY_LIMIT = 500
"""Characters of the sentence that says why the child could not do it."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_HEAD = struct.Struct("!cI")  # `+` result or `-` sentence, and the length of what follows
_GRACE = 0.2  # seconds that a child which has answered, or was killed, has to end
_NO_ID = 0xFFFFFFFF  # "leave it as it is", for setresuid(2)
_left: set[int] = set()


class AsUserError(Exception):
    """The child could not do it; the message says why: the work's own sentence, a refusal, or that it took too long."""


def run(job: Job, work: Callable[[], bytes], seconds: float, limit: int, first_uid: int | None = None) -> bytes:
    """What `work` returned in a child with the job's uid, gid and groups; at most `limit` bytes.

    `work` has no rights but the user's and no open file of the parent, and cannot start processes; its folder is `/`,
    its umask 077. What it imports has to be loaded before: Python's own files may be closed to the user. An
    `AsUserError` or `OSError` that it raises is the answer. `first_uid` is the lowest uid of a person, by default that
    of /etc/login.defs. The caller has one thread only; one who is not root runs it for his own jobs.

    Raises `AsUserError`: uid 0, gid 0 and system uids are refused; so is what raises, takes longer, or returns more.
    """
    check(job, first_uid)
    if left_behind() >= MOST_LEFT:
        raise AsUserError(f"{MOST_LEFT} earlier attempts as users still hang; no further one is started")
    libc = ctypes.CDLL(None, use_errno=True)  # here, because the child loads nothing
    deadline = time.monotonic() + seconds
    parent = os.getpid()
    reader, writer = os.pipe()
    # A signal between fork and the child's own settings would run the parent's handler in the child.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reader)
        os.close(writer)
        raise AsUserError(f"no process could be started: {error.strerror}") from error
    if pid == 0:
        _child(job if os.geteuid() == 0 else None, work, limit, seconds, writer, libc, parent)
    answer: bytes | None = None
    status: int | None = None
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writer)
        answer = _read(reader, limit, deadline)
    finally:
        os.close(reader)
        status = _end(pid, 0.0 if answer is None else _GRACE)
    return _understood(answer, status, limit, seconds)


def check(job: Job, first_uid: int | None = None) -> None:
    """Raises `AsUserError`, with the reason, for a job of somebody for whom `run` does nothing."""
    caller = os.geteuid()
    if job.uid == 0 or job.gid == 0:
        raise AsUserError("a job of root or of root's group: nothing is done as root")
    if not 0 < job.uid < _NO_ID or not 0 < job.gid < _NO_ID:
        raise AsUserError(f"uid {job.uid}, gid {job.gid}: not the ids of a user")
    if caller != 0:
        if job.uid != caller:
            raise AsUserError(f"only root can become uid {job.uid}; this is uid {caller}")
    elif job.uid < (first_uid_here() if first_uid is None else first_uid):
        raise AsUserError(f"uid {job.uid} is a system user's")


def left_behind() -> int:
    """How many children are still there although they were killed. Those that have ended meanwhile are cleared away."""
    for pid in list(_left):
        if _reaped(pid) is not None:
            _left.discard(pid)
    return len(_left)


def first_uid_here(path: Path = Path("/etc/login.defs")) -> int:
    """The lowest uid that is not a system user's: SYS_UID_MAX + 1 of login.defs(5), else UID_MIN, else 1000."""
    try:
        text = path.read_text("ascii", "replace")
    except OSError:
        return 1000
    told = dict(re.findall(r"^[ \t]*(SYS_UID_MAX|UID_MIN)[ \t]+([0-9]{1,10})\b", text, re.MULTILINE))
    return int(told["SYS_UID_MAX"]) + 1 if "SYS_UID_MAX" in told else int(told.get("UID_MIN", 1000))


# ------------------------------------------------------------------------------------------------ the parent


def _read(reader: int, limit: int, deadline: float) -> bytes | None:
    """The answer with its head, as far as it came before the pipe was closed; None if the time was up first."""
    poll = select.poll()
    poll.register(reader, select.POLLIN | select.POLLHUP)
    most = _HEAD.size + max(limit, 4 * WHY_LIMIT)
    data = bytearray()
    while len(data) < _HEAD.size or len(data) < _HEAD.size + _HEAD.unpack_from(data)[1]:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(math.ceil(left * 1000)):
            return None
        piece = os.read(reader, 65536)
        data += piece
        if not piece or len(data) > most:
            break
    return bytes(data)


def _end(pid: int, grace: float) -> int | None:
    """Ends the child, which has `grace` seconds to do so itself: its wait status, None if it cannot be killed now."""
    status = _wait(pid, grace)
    if status is None:
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        status = _wait(pid, _GRACE)
    if status is None:
        _left.add(pid)
    return status


def _wait(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while (status := _reaped(pid)) is None and time.monotonic() < end:
        time.sleep(0.001)
    return status


def _reaped(pid: int) -> int | None:
    """The wait status of a child that has ended, else None."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has reaped it
        return 0
    return status if done else None


def _understood(answer: bytes | None, status: int | None, limit: int, seconds: float) -> bytes:
    """The child's result. Raises `AsUserError`."""
    if answer is None:
        left = " and cannot be killed yet" if status is None else ""
        raise AsUserError(
            f"no answer within {round(seconds, 1):g} seconds: the file system hangs or is very slow{left}"
        )
    if len(answer) < _HEAD.size or len(answer) != _HEAD.size + _HEAD.unpack_from(answer)[1]:
        raise AsUserError(f"the attempt as the user ended without an answer ({_ended(status)})")
    kind, length = _HEAD.unpack_from(answer)
    data = answer[_HEAD.size :]
    if kind != b"+":
        raise AsUserError(_sentence(data.decode("utf-8", "replace")))
    if length > limit:
        raise AsUserError(f"more than {limit} bytes")
    return data


def _ended(status: int | None) -> str:
    if status is None:
        return "it still runs"
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit status {os.WEXITSTATUS(status)}"


def _sentence(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:WHY_LIMIT] or "no reason given"


# ------------------------------------------------------------------------------------------------ the child


def _child(
    job: Job | None, work: Callable[[], bytes], limit: int, seconds: float, writer: int, libc: ctypes.CDLL, parent: int
) -> None:
    """All that the child does; never returns."""
    try:
        try:
            _alone(writer, seconds)
            if job is not None:
                _become(job)
            _for_good(libc, parent)
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            data = work()
            kind = b"+"
            if len(data) > limit:
                kind, data = b"-", f"more than {limit} bytes".encode()
        except BaseException as error:
            kind, data = b"-", _why(error).encode("utf-8", "replace")[: 4 * WHY_LIMIT]
        view = memoryview(_HEAD.pack(kind, len(data)) + data)
        while view:
            view = view[os.write(writer, view) :]
    finally:
        os._exit(0)


def _why(error: BaseException) -> str:
    if isinstance(error, AsUserError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, MemoryError):
        return f"not enough memory ({MEMORY >> 20} MiB)"
    return f"{type(error).__name__}: {error}"


def _alone(writer: int, seconds: float) -> None:
    """A session of its own, no handler, no file and few resources of the parent."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # systemd ends all processes of the agent at once: what is begun is finished, or killed at its deadline.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        if standard != writer:
            os.dup2(null, standard)
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor != writer:
            with suppress(OSError):  # the one that listed the folder
                os.close(descriptor)
    cpu = math.ceil(seconds) + 1
    size = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, FILE_SIZE),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_AS, size + MEMORY),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    os.umask(0o077)
    os.chdir("/")


def _become(job: Job) -> None:
    """Takes the user's ids and groups; raises `AsUserError` unless there is no way back."""
    wanted = set(_groups(job)) - {0}
    os.setgroups(sorted(wanted))
    os.setresgid(job.gid, job.gid, job.gid)
    os.setresuid(job.uid, job.uid, job.uid)
    if (
        os.getresuid() != (job.uid,) * 3
        or os.getresgid() != (job.gid,) * 3
        or set(os.getgroups()) != wanted
        or _can(os.setuid, 0)
        or _can(os.setgid, 0)
        or _can(os.setgroups, [0])
        or _capabilities()
    ):
        raise AsUserError("root's rights could not be given up for good")


def _can(call: Callable[..., object], argument: object) -> bool:
    try:
        call(argument)
    except PermissionError:
        return False
    return True


def _capabilities() -> int:
    """The permitted capabilities as a bit mask; securebits(7) can keep them across a change of ids."""
    status = Path("/proc/self/status").read_bytes()  # bytes: a codec could have to be loaded, which the user may not
    return int(status.split(b"CapPrm:", 1)[1].split(None, 1)[0], 16)


def _groups(job: Job) -> list[int]:
    """Supplementary groups: as Slurm sent them, else those of the user's name here, else none."""
    if job.groups is not None:
        return list(job.groups)
    try:
        if job.user and pwd.getpwnam(job.user).pw_uid == job.uid:
            return os.getgrouplist(job.user, job.gid)
    except (KeyError, OSError):
        pass
    return [job.gid]


def _for_good(libc: ctypes.CDLL, parent: int) -> None:
    """What would be lost by the change of ids, or must not come back after it."""
    # The memory is a copy of the parent's: other processes of the user must not read it.
    for option, value in ((_PR_SET_DUMPABLE, 0), (_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_PDEATHSIG, signal.SIGKILL)):
        if libc.prctl(option, int(value), 0, 0, 0) != 0:
            raise AsUserError(f"prctl({option}): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before the kernel was told to kill this process with it
        raise AsUserError("the agent is gone")
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
