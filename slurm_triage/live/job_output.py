"""The job's own output files, read as the calling user.

The job's owner chooses the path and what lies there. So a file counts only if it is a regular file that belongs to the
job's owner: a path that leads to a file of somebody else (the caller's own secrets, say) is not read. root opens no
symbolic link at the end of the path either. Nothing is opened that could block or act when opened: the kind is looked
at first, and the file is opened without waiting.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from slurm_triage.filename_pattern import fill
from slurm_triage.live import _submit_line
from slurm_triage.live._command import clean
from slurm_triage.model import ControllerJob, Event, JobRecord, StepRecord
from slurm_triage.nodeset import expand

READ_LIMIT = 64 * 1024 * 1024
"""Most bytes that are read of one file: its end, from the start of a line."""

TOTAL_LIMIT = 4 * READ_LIMIT
"""Most bytes that are read of all files of an array together."""

MOST_FILES = 200
"""Most files that are read of an array."""

ENDED_WELL = frozenset({"COMPLETED", "RUNNING", "PENDING"})
_T = TypeVar("_T")


@dataclass(frozen=True)
class Output:
    """Where a part of a job (by raw id) writes. `stream` is `out` or `err`; `uid` the owner's, None if unknown.

    `hint` says what it means if there is no such file.
    """

    part: str
    stream: str
    path: str
    uid: int | None
    hint: str = "moved, or on a node's own disk"


@dataclass(frozen=True)
class Read:
    """What was read of a file, or `problem`; `note` says what was left out."""

    data: bytes = b""
    problem: str = ""
    note: str = ""


def outputs(events: Iterable[Event]) -> list[Output]:
    """The output files of all parts of the job, parts that ended badly first, the newest attempt of each.

    From slurmctld's record, else accounting (24.11 and later), else the options of sbatch in SubmitLine, else sbatch's
    default name in the working directory.
    """
    records: dict[str, list[JobRecord]] = {}
    views: dict[str, ControllerJob] = {}
    batch: set[str] = set()
    for event in events:
        if event.job is None:
            continue
        if isinstance(event, JobRecord):
            records.setdefault(event.job, []).append(event)
        elif isinstance(event, ControllerJob):
            views[event.job] = event
        elif isinstance(event, StepRecord) and event.step == "batch":
            batch.add(event.job)
    parts = sorted({*records, *views}, key=lambda p: (_went_well(records.get(p, []), views.get(p)), len(p), p))
    return [o for part in parts for o in _of_part(part, records.get(part, []), views.get(part), part in batch)]


def _went_well(records: list[JobRecord], view: ControllerJob | None) -> bool:
    state = records[-1].state if records else view.values.get("JobState") if view else None
    return state in ENDED_WELL


def _of_part(part: str, records: list[JobRecord], view: ControllerJob | None, batch: bool) -> Iterable[Output]:
    values = view.values if view else {}
    uid = next((r.uid for r in records if r.uid is not None), None)
    if uid is None and (match := re.search(r"\((\d{1,10})\)$", values.get("UserId", ""))):
        uid = int(match[1])
    names = _names(part, records, values)
    base = values.get("WorkDir") or next((r.work_dir for r in reversed(records) if r.work_dir), "")

    def place(said: Iterable[str | None]) -> str | None:
        """The first path that can be made out for certain, preferably one without a pattern."""
        usable = [path for path in said if path and path not in ("(null)", "/dev/null")]
        usable.sort(key=lambda path: "%" in path)
        paths = [full for path in usable if (full := _absolute(fill(path, names), base))]
        return paths[0] if paths else None

    line = next((r.submit_line for r in reversed(records) if r.submit_line), "")
    options = _submit_line.paths(line)
    out = place([values.get("StdOut"), *(r.stdout for r in reversed(records))]) or place([options.get("out")])
    err = place([values.get("StdErr"), *(r.stderr for r in reversed(records))]) or place([options.get("err")])
    if out and not batch and any(r.het_offset not in (None, "0") for r in records):
        yield Output(part, "out", out, uid, "the script of a heterogeneous job runs in its first component")
    elif out:
        yield Output(part, "out", out, uid)
    elif base.startswith("/") and "out" not in options and (batch or values.get("BatchFlag") == "1"):
        master = names.get("A")
        name = f"slurm-{master}_{names['a']}.out" if "a" in names else f"slurm-{part}.out"
        yield Output(part, "out", f"{base}/{name}", uid, "sbatch's default name; the job may write elsewhere")
    if err and err != out:
        yield Output(part, "err", err, uid)


def _names(part: str, records: list[JobRecord], values: Mapping[str, str]) -> dict[str, str]:
    """What sbatch's filename patterns stand for, by letter; sbatch(1), "filename pattern"."""

    def first(get: Callable[[JobRecord], str | None]) -> str | None:
        return next((value for record in records if (value := get(record))), None)

    user = first(lambda r: r.user) or values.get("UserId", "").partition("(")[0]
    found: dict[str, str | None] = {
        "j": part,
        "J": part,
        "A": first(lambda r: r.array_id) or values.get("ArrayJobId") or part,
        "a": first(lambda r: r.array_task) or values.get("ArrayTaskId"),
        "u": user,
        "x": first(lambda r: r.name),
        "n": "0",
        "t": "0",
    }
    nodes = expand(first(lambda r: r.nodes) or values.get("NodeList") or "") or ()
    host = values.get("BatchHost") or (nodes[0] if nodes else None)
    found["N"] = host.partition(".")[0] if host else None
    task = found["a"]
    if task is not None and not task.isdigit():
        found["a"] = task = None  # a record of tasks that wait
    found["b"] = str(int(task) % 10) if task else None
    return {letter: value for letter, value in found.items() if value}


def _absolute(path: str | None, base: str) -> str | None:
    if not path or "\0" in path:
        return None
    if path.startswith("/"):
        return path
    return f"{base}/{path}" if base.startswith("/") else None


# ------------------------------------------------------------------------------------------------ reading


def read(output: Output, timeout: float, limit: int = READ_LIMIT) -> Read:
    """The end of the file, at most `limit` bytes. Never raises; a file system that hangs is given `timeout` seconds."""
    answer = _within(timeout, lambda: _read(output, limit, os.getuid()))
    return answer or Read(problem=f"no answer of the file system within {timeout:g} seconds")


def _within(timeout: float, work: Callable[[], _T]) -> _T | None:
    """The result of `work`, None if it takes longer. A hanging call is left behind; it does not keep the program."""
    result: list[_T] = []
    thread = threading.Thread(target=lambda: result.append(work()), daemon=True)
    thread.start()
    thread.join(timeout)
    return result[0] if result else None


def _read(output: Output, limit: int, caller: int) -> Read:
    try:
        before = Path(output.path).stat(follow_symlinks=caller != 0)
        if caller == 0 and stat.S_ISLNK(before.st_mode):
            return Read(problem="a symbolic link, which root does not follow")
        if not stat.S_ISREG(before.st_mode):
            return Read(problem="not a regular file")
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (os.O_NOFOLLOW if caller == 0 else 0)
        descriptor = os.open(output.path, flags)
    except (OSError, ValueError) as error:
        return Read(problem=_why(error, output.hint))
    with os.fdopen(descriptor, "rb") as stream:
        try:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Read(problem="not a regular file")
            if output.uid is None or status.st_uid != output.uid:
                return Read(problem=f"belongs to uid {status.st_uid}, not to the job's owner")
            skipped = max(0, status.st_size - limit)
            stream.seek(skipped)
            data = stream.read(limit)
            if skipped:
                cut = data.find(b"\n") + 1  # 0 if it is one long line: then from the middle of it
                data, skipped = data[cut:], skipped + cut
        except OSError as error:
            return Read(problem=_why(error, output.hint))
    note = f"only the last {len(data)} bytes were read; line numbers count from byte {skipped} on" if skipped else ""
    return Read(data, "", note)


def _why(error: OSError | ValueError, hint: str) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no such file here ({hint})"
    return clean(error.strerror or str(error)) if isinstance(error, OSError) else "not a usable path"
