"""Records: what their names say, what makes one acceptable, and the variables of a ticket."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_triage.spool._folders import OTHERS_WRITE

KINDS = ("tasks", "spank", "epilog", "epilogslurmctld")
"""`tasks` are task records, the others are tickets of the hook of that name."""

TICKET_LIMIT = 68 << 10
"""Most bytes of a ticket: writers stop at 64 KiB, and the plugin's own variables go in front."""

TASKS_LIMIT = 2 << 20
"""Most bytes of a file of task records: writers stop at 1 MiB."""

WRONG_NAME = "wrong name"
NOT_REGULAR = "not a regular file"
WRONG_OWNER = "wrong owner"
SEVERAL_LINKS = "several links"
WRITABLE = "writable for others"
TOO_LARGE = "too large"
UNREADABLE = "unreadable"
NO_JOB = "no job id"
OTHER_JOB = "another job's id"
NO_UID = "no uid"
OTHER_UID = "another user's uid"
TORN = "torn"
"""Reasons for which something goes to bad/; they are counted by these words."""

_NAME = re.compile(
    r"([0-9]{1,10})\.(?:([0-9]{1,10})\.)?([0-9]{1,12})\.([0-9]{1,12})\.(tasks|spank|epilog|epilogslurmctld)"
)
_GROWING = re.compile(r"([0-9]{1,10})\.tasks")
_PID_STEP = 10_000_000  # above every pid: PID_MAX_LIMIT is 4194304
_LONGEST_NAME = 255


class Name(NamedTuple):
    """What a record's name says. `uid` is the job's owner, None where the writer did not put it there."""

    job: str
    uid: int | None
    seconds: int
    pid: int
    kind: str


@dataclass(frozen=True)
class Record:
    """One file of the spool, read.

    `job` is the raw job id; `seconds` the epoch in the name (0 where the writer knew none); `mtime` the epoch of the
    last write. `uid` is the job's owner as Slurm told the hook; of task records the one in the name, None if there is
    none: their text is no proof. Of a ticket, `env` are the variables, the first of a name as getenv(3) takes it, and
    `cut` says that the writer stopped before the end: `data` then ends after the last whole variable.
    """

    name: str
    job: str
    seconds: int
    pid: int
    kind: str
    mtime: float
    data: bytes = field(repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    uid: int | None = None
    cut: bool = False


class Bad(Exception):
    """A file that is no record; the message is one of the reasons."""


def parse_name(name: str) -> Name | None:
    """What a record's name says, None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return Name(match[1], None if match[2] is None else int(match[2]), int(match[3]), int(match[4]), match[5])


def growing_job(name: str) -> str | None:
    """The job id of `<jobid>.tasks`, the name under which task records grow in tmp/; None for any other name."""
    match = _GROWING.fullmatch(name)
    return match[1] if match else None


def free_names(name: str) -> Iterator[str]:
    """The name, then others that say the same: of a record, pids that no process can have."""
    yield name
    parts = parse_name(name)
    for number in range(1, 1000):
        if parts is not None:
            stem = name.rsplit(".", 2)[0]
            yield f"{stem}.{parts.pid + number * _PID_STEP}.{parts.kind}"
        else:
            tail = f"~{number}"
            yield os.fsdecode(os.fsencode(name)[: _LONGEST_NAME - len(tail)]) + tail


def check(found: os.stat_result, owner: int, kind: str) -> None:
    """Raises `Bad` for what no writer leaves."""
    if not stat.S_ISREG(found.st_mode):
        raise Bad(NOT_REGULAR)
    if found.st_uid != owner:
        raise Bad(WRONG_OWNER)
    if found.st_nlink != 1:
        raise Bad(SEVERAL_LINKS)
    if found.st_mode & OTHERS_WRITE:
        raise Bad(WRITABLE)
    if found.st_size > limit_of(kind):
        raise Bad(TOO_LARGE)


def limit_of(kind: str) -> int:
    """Most bytes of a record of this kind."""
    return TASKS_LIMIT if kind == "tasks" else TICKET_LIMIT


def read(folder: int, name: str) -> int:
    """A descriptor of a plain file, which is opened without following or waiting. Raises `Bad` or `OSError`."""
    # Opening a device can act on it, so the kind is looked at first; the flags are for what changes in between.
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise Bad(NOT_REGULAR)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=folder)


def content(file: int, limit: int) -> bytes:
    """The whole content. Raises `Bad` if it is longer than `limit` bytes, and `OSError`."""
    data = b""
    while len(data) <= limit:
        piece = os.pread(file, limit + 1 - len(data), len(data))
        if not piece:
            return data
        data += piece
    raise Bad(TOO_LARGE)


def record(name: str, parts: Name, file: int, owner: int) -> Record:
    """The record in an open file. Raises `Bad` when it is none, and `OSError`."""
    job, named, seconds, pid, kind = parts
    found = os.fstat(file)
    check(found, owner, kind)
    data = content(file, limit_of(kind))
    if kind == "tasks":
        return Record(name, job, seconds, pid, kind, found.st_mtime, data, uid=named)
    whole = data[: data.rfind(b"\0") + 1]  # the rest is a part of a variable: half a number is another number
    env = variables(whole)
    if env.get("SLURM_JOB_ID", job) != job:
        raise Bad(OTHER_JOB)
    if "SLURM_JOB_ID" not in env:
        raise Bad(NO_JOB)
    uid = env.get("SLURM_JOB_UID", "")
    if not re.fullmatch(r"[0-9]{1,10}", uid):
        raise Bad(NO_UID)
    if named not in (None, int(uid)):
        raise Bad(OTHER_UID)
    return Record(name, job, seconds, pid, kind, found.st_mtime, whole, env, int(uid), len(whole) != len(data))


def variables(data: bytes) -> dict[str, str]:
    """The variables of a NUL-separated environment: of several with one name the first, as getenv(3) does."""
    found: dict[str, str] = {}
    for piece in data.split(b"\0"):
        key, equals, value = piece.partition(b"=")
        if equals:
            found.setdefault(key.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
    return found
