"""Putting a report beside the job's output: `<jobid>.diagnosis.txt`, one section for each attempt.

A section starts with a marker line that names its attempt and says how many lines follow:

    ==== slurm-triage 1: cluster=mini job=1119 submit=2026-11-30T15:10:55Z start=2026-11-30T15:10:56Z lines=41 ====

The same attempt again replaces its section, another one goes where its time belongs, and whatever else stands in the
file stays. The line count, not an end marker, ends a section, so that its last line is the verdict. Runs as the user
who owns the directory; needs no more than write access to it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.clock import show
from slurm_triage.model import Diagnosis, JobIdentity

SIZE_LIMIT = 1024 * 1024
"""Bytes that a file of reports may have, beside what is not ours in it."""

_READ_LIMIT = 8 * SIZE_LIMIT
_MODE = 0o640
_OURS = b"==== slurm-triage 1: "
_MARKER = re.compile(
    rb"==== slurm-triage 1: (cluster=\S{1,80} job=\S{1,80} submit=(\S{1,40}) start=(\S{1,40})) lines=(\d{1,4}) ===="
)
_DROPPED = re.compile(rb"==== slurm-triage 1: (\d{1,9}) older section\(s\) dropped to keep this file small ====")


class Refused(Exception):
    """The report cannot go there; the message says why. Nothing was changed."""


@dataclass
class _Part:
    """Some lines of the file: a section of ours (then with `key`) or somebody else's text."""

    lines: list[bytes]
    key: bytes = b""
    when: bytes = b""  # start, or submit if it never started

    @property
    def size(self) -> int:
        return sum(len(line) + 1 for line in self.lines)


def file_name(job: JobIdentity) -> str:
    """`<jobid>.diagnosis.txt`; `<array>_<task>` for an array task, the raw id for a component of a het job.

    Raises `Refused` when the job has no id that can be part of a file name.
    """
    task = bool(job.array and job.array_task and re.fullmatch(r"[0-9]{1,10}", job.array_task))
    name = f"{job.array}_{job.array_task}" if task else (job.job_id or "")
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_+-]{0,63}", name):
        raise Refused(f"no file name can be made of the job id {name!r}")
    return f"{name}.diagnosis.txt"


def _word(value: str | None) -> str:
    """A value of the marker: no blanks, nothing but what ids and times are made of."""
    return "unknown" if not value or value == "n/a" else re.sub(r"[^A-Za-z0-9_.:+-]", "_", value)[:40]


def _section(diagnosis: Diagnosis, text: str) -> _Part:
    job = diagnosis.job
    submit = _word(show(job.submit))
    # Attempts whose start is not known must not replace each other.
    start = _word(show(job.start)) if job.start is not None else f"unknown.{job.attempt}"
    number = _word(file_name(job).removesuffix(".diagnosis.txt"))
    key = f"cluster={_word(job.cluster)} job={number} submit={submit} start={start}"
    # Reports never start a line like this (quoted lines are indented); another text may.
    lines = [f" {line}" if line.startswith("====") else line for line in text.rstrip("\n").split("\n")][:9999]
    marker = f"==== slurm-triage 1: {key} lines={len(lines)} ===="
    encoded = [line.encode("utf-8", "backslashreplace") for line in (marker, *lines)]
    return _Part(encoded, key.encode(), _when(submit.encode(), start.encode()))


def _when(submit: bytes, start: bytes) -> bytes:
    return submit if start.startswith(b"unknown") else start


def _read_parts(data: bytes) -> tuple[list[_Part], int]:
    """The parts of a file, and how many sections were dropped from it so far."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    parts: list[_Part] = []
    dropped = at = 0
    while at < len(lines):
        line = lines[at]
        note = _DROPPED.fullmatch(line)
        marker = _MARKER.fullmatch(line)
        if note:
            dropped += int(note[1])
            at += 1
        elif marker:
            end = min(at + 1 + int(marker[4]), len(lines))
            # Somebody may have shortened the section by hand: the next marker ends it in any case.
            end = next((i for i in range(at + 1, end) if lines[i].startswith(_OURS)), end)
            parts.append(_Part(lines[at:end], marker[1], _when(marker[2], marker[3])))
            at = end
        else:
            if not parts or parts[-1].key:
                parts.append(_Part([]))
            parts[-1].lines.append(line)
            at += 1
    return parts, dropped


def _put(parts: list[_Part], new: _Part) -> None:
    """The section in the place of the same attempt's, else before the first later one, else at the end."""
    for index, part in enumerate(parts):
        if part.key == new.key:
            parts[index] = new
            return
    for index, part in enumerate(parts):
        if part.key and part.when > new.when:
            parts.insert(index, new)
            return
    parts.append(new)


def merge(old: bytes, diagnosis: Diagnosis, text: str, limit: int = SIZE_LIMIT) -> bytes:
    """The content of the file with the section of this attempt in it.

    Sections together stay below `limit` bytes: the oldest are dropped, never the new one, and a line says how many.
    """
    parts, dropped = _read_parts(old)
    new = _section(diagnosis, text)
    _put(parts, new)
    ours = sum(p.size for p in parts if p.key)
    while ours > limit:
        oldest = next((p for p in parts if p.key and p is not new), None)
        if oldest is None:
            break
        ours -= oldest.size
        parts.remove(oldest)
        dropped += 1
    out = [line for part in parts for line in part.lines]
    if dropped:
        first = next((i for i, line in enumerate(out) if _MARKER.fullmatch(line)), 0)
        out.insert(first, b"==== slurm-triage 1: %d older section(s) dropped to keep this file small ====" % dropped)
    return b"\n".join(out) + b"\n"


def _existing(directory: int, name: str) -> tuple[bytes, int] | None:
    """Content and mode of the file, None if there is none. Raises `Refused` for what is not a plain file of ours."""
    try:
        # O_NONBLOCK: a FIFO must not block the open
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{name} is there and cannot be read: {error.strerror or error}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise Refused(f"{name} is there and is not a regular file")
    with os.fdopen(handle, "rb") as stream:
        data = stream.read(_READ_LIMIT + 1)
    if len(data) > _READ_LIMIT:
        raise Refused(f"{name} is larger than {_READ_LIMIT} bytes")
    return data, stat.S_IMODE(status.st_mode) & 0o777


def _replace(directory: int, name: str, data: bytes, mode: int) -> None:
    """Write a new file beside the old one and rename it over: readers see one or the other, whole."""
    temporary = f".{name}.{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    with suppress(OSError):  # some file systems cannot sync a directory; the content is safe already
        os.fsync(directory)


def deliver(directory: Path, diagnosis: Diagnosis, text: str, *, limit: int = SIZE_LIMIT) -> Path | None:
    """Put `text` (from `render`) as this attempt's section into its file in `directory`; the path of the file.

    Returns None and writes nothing when the cause is `no_failure`. A new file gets mode 0640, an existing one keeps
    its permission bits. Two deliveries into one file at the same instant: the later rename wins.

    Raises `Refused` when the target is a symbolic link, not a regular file, unreadable or larger than 8 MiB, or the
    job has no usable id, and `OSError` when the directory is gone or cannot be written; the file is then as it was.
    """
    if diagnosis.cause == "no_failure":
        return None
    name = file_name(diagnosis.job)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        old = _existing(handle, name)
        data, mode = old if old is not None else (b"", _MODE)
        _replace(handle, name, merge(data, diagnosis, text, limit), mode)
    finally:
        os.close(handle)
    return directory / name
