"""The job's own output: `job.out` and `job.err`, the lines that may tell why it ended (`_excerpt`), read as the user.

The job's owner chose the path and what lies there. So it is looked at by a child that has become the user, and a file
counts only if it is a regular one of that user; it is opened without waiting. Which lines were taken stands in the
manifest (`line_ranges`), so that a citation has the number that the line has in the user's own file.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_triage.node import as_user, output_paths
from slurm_triage.node.collect import Budget, Collected, _excerpt
from slurm_triage.node.job import Job

HEAD = 256 * 1024
"""Bytes that are read of the start of a file that is longer than both together."""
TAIL = 8 * 1024 * 1024
"""Bytes that are read of its end."""
SECONDS = 5.0
"""Longest that the child may take."""
SKEW = 60.0
"""Seconds by which the clock of a file server may differ."""
LATE = 120.0
"""Seconds after the job's end in which its own last words may still be written; what comes later is somebody else's."""


@dataclass(frozen=True)
class Part:
    """What was taken of one file: `ranges` as in the manifest; `problem` why nothing, `note` what was left out."""

    data: bytes = b""
    ranges: tuple[tuple[int, int], ...] = ()
    problem: str = ""
    note: str = ""


def collect(job: Job, budget: Budget) -> Collected:
    """Both files of the batch script, on the node that it ran on; nothing on the others."""
    found = Collected()
    if not job.batch_host:
        return found
    paths = _paths(job, found)
    if not paths:
        return found
    size = budget.size // len(paths)

    def work() -> bytes:
        return _packed([read(path, job, size) for path in paths.values()])

    try:
        answer = as_user.run(job, work, min(SECONDS, budget.seconds), 2 * budget.size, budget.first_uid)
        parts = _unpacked(answer)
    except (as_user.AsUserError, ValueError) as error:
        found.not_seen += [f"{name}: could not be read: {error}" for name in paths]
        return found
    for name, part in zip(paths, parts):
        if part.problem:
            found.not_seen.append(f"{name}: {part.problem}")
            continue
        found.files[name] = part.data
        found.manifest.setdefault("line_ranges", {})[name] = [list(run) for run in part.ranges]
        if part.note:
            found.not_seen.append(f"{name}: {part.note}")
    return found


def _paths(job: Job, found: Collected) -> dict[str, str]:
    """The files by the names that they get here."""
    out, err = (output_paths.expand(pattern, job) if pattern else None for pattern in (job.stdout, job.stderr))
    paths = {}
    if not job.stdout:
        found.not_seen.append("job.out: Slurm did not tell this node where the job writes")
    elif out is None:
        found.not_seen.append("job.out: the path cannot be made out for certain from what this node knows")
    elif out == os.devnull:
        found.not_seen.append("job.out: the job writes to /dev/null")
    else:
        paths["job.out"] = out
    if job.stderr and err is None:
        found.not_seen.append("job.err: the path cannot be made out for certain from what this node knows")
    elif err not in (None, out, os.devnull):
        paths["job.err"] = err
    return paths


# ------------------------------------------------------------------------------------------------ in the child


def read(path: str, job: Job, size: int) -> Part:
    """The excerpt of one file, at most `size` bytes; called by the child, so as the user. Never raises `OSError`."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # opening a device or a pipe may act
            return Part(problem="not a regular file")
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Part(problem="no such file on this node (moved, removed, or on another node's disk)")
    except (OSError, ValueError) as error:
        return Part(problem=f"could not be read: {getattr(error, 'strerror', None) or 'not a usable path'}")
    try:
        status = os.fstat(handle)
        problem = _not_of(status, job)
        return Part(problem=problem) if problem else _taken(handle, status.st_size, size)
    except OSError as error:
        return Part(problem=f"could not be read: {error.strerror}")
    finally:
        os.close(handle)


def _not_of(status: os.stat_result, job: Job) -> str:
    """Why the file is not this attempt's, empty if nothing says so."""
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if status.st_uid != job.uid:
        return f"belongs to uid {status.st_uid}, not to the job's owner"
    if job.start is not None and status.st_mtime < job.start - SKEW:
        return "last written before the job began: not the output of this attempt"
    if job.end is not None and status.st_mtime > job.end + LATE:
        late = int(status.st_mtime - job.end)
        return f"last written {late} seconds after the job's end: it may be a later attempt's, or another job's"
    return ""


def _taken(handle: int, length: int, size: int) -> Part:
    """The excerpt of the file; of a long one that of its two ends."""
    if length <= HEAD + TAIL:
        whole = _excerpt.excerpt(_pread(handle, 0, HEAD + TAIL), size)
        note = f"its first {whole.skipped} lines were not looked at" if whole.skipped else ""
        return Part(whole.data, tuple(whole.ranges), note=note)
    head = _pread(handle, 0, HEAD)
    head = head[: head.rfind(b"\n") + 1]
    tail = _pread(handle, length - TAIL, TAIL)
    behind = tail.find(b"\n") + 1  # 0 if it is one long line: then from the middle of it
    first, last = _excerpt.excerpt(head, size // 4), _excerpt.excerpt(tail[behind:], size - size // 4)
    count = head.count(b"\n")
    ranges = first.ranges + [(one + count, other + count) for one, other in last.ranges]
    note = (
        f"of {length} bytes only the first {len(head)} and the last {len(tail) - behind} were looked at; line numbers "
        f"above {count} count from byte {length - TAIL + behind} on"
    )
    return Part(first.data + last.data, tuple(_joined(ranges)), note=note)


def _pread(handle: int, offset: int, length: int) -> bytes:
    pieces = []
    while length > 0:
        piece = os.pread(handle, min(length, 1024 * 1024), offset)
        if not piece:
            break
        pieces.append(piece)
        offset, length = offset + len(piece), length - len(piece)
    return b"".join(pieces)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs, those that follow each other as one."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


# ------------------------------------------------------------------------------------------------ to the parent


def _packed(parts: list[Part]) -> bytes:
    """One line of JSON, then the excerpts."""
    head: list[dict[str, Any]] = [
        {"size": len(part.data), "ranges": part.ranges, "problem": part.problem, "note": part.note} for part in parts
    ]
    return b"\n".join((json.dumps(head).encode("ascii"), b"".join(part.data for part in parts)))


def _unpacked(answer: bytes) -> list[Part]:
    """What `_packed` made. The child was the user's for a moment: raises `ValueError` for anything else."""
    line, _, data = answer.partition(b"\n")
    parts = []
    head = json.loads(line)
    if not isinstance(head, list):
        raise ValueError("the child's answer cannot be read")
    for entry in head:
        try:
            size, ranges = int(entry["size"]), tuple((int(one), int(other)) for one, other in entry["ranges"])
            parts.append(Part(data[:size], ranges, str(entry["problem"])[:300], str(entry["note"])[:300]))
        except (KeyError, TypeError) as error:
            raise ValueError("the child's answer cannot be read") from error
        data = data[size:]
    return parts
