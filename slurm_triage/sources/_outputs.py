"""Which files are the job's own output: the paths that Slurm knows, with the patterns of sbatch filled in.

Accounting (`StdOut`, `StdErr`, 24.11 and newer), the hooks (`SLURM_JOB_STDOUT`, `SLURM_JOB_STDERR`) and slurmctld up
to 22.05 hold the pattern as the user wrote it; slurmctld of later versions holds the path.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from slurm_triage.filename_pattern import MOST_TEXTS, PATTERN, fill_all, padded
from slurm_triage.model import ControllerJob, Event, HookEnv, JobRecord
from slurm_triage.nodeset import expand

NOWHERE = frozenset({"", "(null)", "none", "null"})
_COUNTED = frozenset("tnsb")
"""Letters that stand for a number that differs from file to file of one job: task, node, step, task modulo 10."""

Letters = Mapping[str, set[str]]


class OutputNames:
    """Base names of the output files of jobs, by raw id.

    `owners` is asked for many files: names without an open number are looked up, the others are tried in turn.
    """

    def __init__(self, paths: Iterable[Event], about: Mapping[str, Letters]) -> None:
        """`paths` are the records that name output paths, `about` what the letters stand for (see `letters`)."""
        self._exact: dict[str, set[str]] = {}
        self._open: dict[re.Pattern[str], set[str]] = {}
        for event in paths:
            for path in _paths(event):
                for name in _names(path, about.get(event.job or "", {})):
                    if isinstance(name, str):
                        self._exact.setdefault(name, set()).add(event.job or "")
                    else:
                        self._open.setdefault(name, set()).add(event.job or "")

    def owners(self, base: str) -> frozenset[str]:
        """Raw ids of the jobs that write to a file of this base name; `""` for a record without an id."""
        found = set(self._exact.get(base, ()))
        for pattern, jobs in self._open.items():
            if pattern.fullmatch(base):
                found |= jobs
        return frozenset(found)

    def among(self, bases: Collection[str]) -> set[str]:
        """Which of these base names are of output files."""
        found = {base for base in self._exact if base in bases}
        for pattern in self._open:
            found |= {base for base in bases if pattern.fullmatch(base)}
        return found


def letters(events: Iterable[Event]) -> dict[str, dict[str, set[str]]]:
    """What the letters of filename patterns stand for, by raw id: all values that records, views and hooks give."""
    found: dict[str, dict[str, set[str]]] = {}
    for event in events:
        raw = event.job or ""
        if isinstance(event, JobRecord):
            said = {
                "A": event.array_id, "a": event.array_task, "u": event.user, "x": event.name, "N": event.nodes,
            }  # fmt: skip
        elif isinstance(event, ControllerJob):
            values = event.values
            said = {
                "A": values.get("ArrayJobId"), "a": values.get("ArrayTaskId"), "x": values.get("JobName"),
                "u": values.get("UserId", "").partition("(")[0], "N": values.get("NodeList"),
            }  # fmt: skip
        elif isinstance(event, HookEnv):
            values = event.values
            said = {
                "A": values.get("SLURM_ARRAY_JOB_ID"), "a": values.get("SLURM_ARRAY_TASK_ID"),
                "x": values.get("SLURM_JOB_NAME"), "u": values.get("SLURM_JOB_USER"),
                "N": values.get("SLURM_JOB_NODELIST") or values.get("SLURM_NODELIST"),
            }  # fmt: skip
        else:
            continue
        mine = found.setdefault(raw, {"j": {raw}, "J": {raw}})
        for letter, value in said.items():
            if value and value not in NOWHERE:
                names = (expand(value) or ())[:MOST_TEXTS] if letter == "N" else (value,)
                mine.setdefault(letter, set()).update(n.partition(".")[0] if letter == "N" else n for n in names)
    for raw, mine in found.items():
        mine.setdefault("A", {raw})  # of a job that is no array, %A is its id
    return found


def _paths(event: Event) -> list[str]:
    found: list[str | None] = []
    if isinstance(event, JobRecord):
        found = [event.stdout, event.stderr]
    elif isinstance(event, ControllerJob):
        found = [event.values.get("StdOut"), event.values.get("StdErr")]
    elif isinstance(event, HookEnv):
        found = [event.values.get("SLURM_JOB_STDOUT"), event.values.get("SLURM_JOB_STDERR")]
    return [path for path in found if path and path.lower() not in NOWHERE and not path.startswith("/dev/")]


def _names(path: str, about: Letters) -> list[str | re.Pattern[str]]:
    """The base names that a path can stand for; none if a letter's value is not known."""

    def values(letter: str, width: int) -> list[str]:
        return [padded(letter, value, width) for value in sorted(about.get(letter, ()))]

    def shapes(letter: str, width: int) -> list[str]:
        return [r"\d{1,10}"] if letter in _COUNTED else [re.escape(value) for value in values(letter, width)]

    if "\\" in path or not any(match["letter"] in _COUNTED for match in PATTERN.finditer(path)):
        return [base for text in fill_all(path, values) if (base := _base(text))]
    return [re.compile(_base(text)) for text in fill_all(path, shapes, re.escape)]


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
