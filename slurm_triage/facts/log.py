"""The job's own output: what it says, whether it was read, and to which attempt it belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._outlived import kept
from slurm_triage.model import ControllerJob, Fact, JobRecord, Sign

KINDS = ("job_log",)
ERROR_NAME = re.compile(r"(?:^|[._-])(?:err|stderr|error)(?:[._-]|$)", re.IGNORECASE)
"""A file name that says that it holds standard error."""


class Log:
    """Message lines of the attempt, by signature id."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.signs = kept(attempt.events)
        self._by_id: dict[str, list[Sign]] = {}
        for sign in self.signs:
            self._by_id.setdefault(sign.id, []).append(sign)
        self._ids = self._by_id.keys()
        self.ends = tuple(s for s in self.signs if s.id in ("log_end", "log_empty"))

    def of(self, *ids: str) -> tuple[Sign, ...]:
        """All lines of these signatures, in the order of files and lines."""
        if self._ids.isdisjoint(ids):
            return ()
        found = [sign for id in ids if id in self._by_id for sign in self._by_id[id]]
        if len(found) < 2:
            return tuple(found)
        return tuple(sorted(found, key=lambda s: (s.cite.file, s.cite.line)))

    @once
    def read(self) -> bool:
        """Whether this attempt's output was read: all of it, standard error too where that is a file of its own."""
        return self.attempt.has_log and bool(self.ends) and not self.errors_unread

    @once
    def errors_unread(self) -> bool:
        """Slurm names a file of its own for standard error, and no such file was read.

        Its name is looked for, then any name that says `err`. Where not even standard output stands under the name
        that Slurm gives it, whoever gathered the files renamed them, and two are taken to be both.
        """
        read = {sign.cite.file.rsplit("/", 1)[-1] for sign in self.ends}
        for output, errors in self._paths():
            if output == errors or errors in read or any(ERROR_NAME.search(name) for name in read):
                continue
            if output in read or len(read) < 2:
                return True
        return False

    def _paths(self) -> Iterator[tuple[str, str]]:
        """Base names of StdOut and StdErr wherever Slurm names both, patterns filled in as far as they are known.

        An empty StdErr means StdOut (sacct and scontrol of Slurm 26.05; older ones repeat StdOut).
        """
        for record in self.attempt.records:
            if record.stdout and record.stderr:
                yield _base(record.stdout, record), _base(record.stderr, record)
        for view in (e for e in self.attempt.events if isinstance(e, ControllerJob)):
            output, errors = view.values.get("StdOut"), view.values.get("StdErr")
            if output and errors and errors != "(null)":
                yield (output, output) if output == errors else (_base(output), _base(errors))

    @once
    def how(self) -> str:
        """How to get the log."""
        job = self.attempt.job_id or "JOBID"
        if self.errors_unread and self.ends:
            return f"read the job's error file too (scontrol show job {job} names it as StdErr)"
        return f"read the job's output file (scontrol show job {job} names it as StdOut)"

    @once
    def unread(self) -> str:
        """Why the output counts as not read."""
        if self.errors_unread and self.ends:
            return "the file of this attempt's standard error was not read"
        return "this attempt's output was not read"

    def has(self, says: str, *ids: str) -> Fact:
        """Whether the output holds a line of one of these signatures. Unknown when the output was not read."""
        found = self.of(*ids)
        if found:
            return true(says, found[:3])
        if self.read:
            return false(says, "no such line in the job's output", self.ends[:1])
        return unknown(says, self.unread, self.how)


def _base(path: str, record: JobRecord | None = None) -> str:
    """The last part of a path, with sbatch's patterns filled in from the record where it knows them."""
    name = path.rsplit("/", 1)[-1]
    if record is not None:
        known = {"%A": record.array_id, "%a": record.array_task, "%j": record.job, "%x": record.name, "%u": record.user}
        for pattern, value in known.items():
            if value is not None:
                name = name.replace(pattern, value)
    return name
