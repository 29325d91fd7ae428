"""The text of a diagnosis file, `<jobid>.diagnosis.txt`: one section for each attempt of the job.

A section starts with a marker line that names its attempt and says how many lines follow:

    ==== slurm-triage 1: cluster=mini job=1119 submit=2026-11-30T15:10:55Z start=2026-11-30T15:10:56Z lines=41 ====

The same attempt again replaces its section, another one goes where its time belongs, and whatever else stands in the
file stays. The line count, not an end marker, ends a section, so that its last line is the verdict. Pure: bytes in,
bytes out. The agent on nodes imports it: standard library only, Python 3.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SIZE_LIMIT = 1024 * 1024
"""Bytes that the sections of a file may have together, beside what is not ours in it."""

FILE_LIMIT = 8 * SIZE_LIMIT
"""Bytes of the largest file that is read and written again."""

_OURS = b"==== slurm-triage 1: "
_MARKER = re.compile(
    rb"==== slurm-triage 1: (cluster=\S{1,80} job=\S{1,80} submit=(\S{1,40}) start=(\S{1,40})) lines=(\d{1,4}) ===="
)
_DROPPED = re.compile(rb"==== slurm-triage 1: (\d{1,9}) older section\(s\) dropped to keep this file small ====")


@dataclass(frozen=True)
class Section:
    """What is said of one attempt of a job, all as text.

    `job_name` is the job as the name of the file has it (`1119`, `1001_4`); `cluster`, `submit` and `start` say which
    attempt it is, whatever they are made of. A start that begins with `unknown` is none.
    """

    job_name: str
    cluster: str
    submit: str
    start: str
    text: str


@dataclass
class _Part:
    """Some lines of the file: a section of ours (then with `key`) or somebody else's text."""

    lines: list[bytes]
    key: bytes = b""
    when: bytes = b""  # start, or submit if it never started

    @property
    def size(self) -> int:
        return sum(len(line) + 1 for line in self.lines)


def merge(old: bytes, section: Section, limit: int = SIZE_LIMIT) -> bytes:
    """The content of a file with the section in it, in the place of the same attempt's if there is one.

    Sections together stay below `limit` bytes: the oldest are dropped, never the new one, and a line says how many.
    """
    parts, dropped = _read_parts(old)
    new = _part(section)
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


def _word(value: str) -> str:
    """A value of the marker: no blanks, nothing but what ids and times are made of."""
    return "unknown" if not value or value == "n/a" else re.sub(r"[^A-Za-z0-9_.:+-]", "_", value)[:40]


def _part(section: Section) -> _Part:
    submit, start = _word(section.submit), _word(section.start)
    key = f"cluster={_word(section.cluster)} job={_word(section.job_name)} submit={submit} start={start}"
    # Reports never start a line like this (quoted lines are indented); another text may.
    lines = [f" {line}" if line.startswith("====") else line for line in section.text.rstrip("\n").split("\n")][:9999]
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
