"""`sacct -P` with a header line: any columns in any order, job and step lines, several attempts (`-D`).

sacct escapes nothing: a job name with the separator or a newline is in there as it is (recorded on 22.05, 24.11 and
26.05), so a record may have too many fields and run over several lines. Such a record is read only as far as all ways
to read it agree, else it is `Unreadable`. A name that imitates whole records, line for line, cannot be told from
records here; `sacct --json` is safe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Cite, Event, Stamp, Unreadable
from slurm_triage.sources import Context, _sacct
from slurm_triage.sources._names import is_output_name

KIND = "sacct"

FIELD_LIMIT = 2000
"""Most fields of one record; sacct has about 120 columns."""

_NAME = re.compile(r"[a-z0-9_]{2,40}")
_START = re.compile(r"[0-9]{1,10}(?:[_+][0-9]{1,10}|_\[[0-9,:%.\-]{1,20000}\])?(?:\.[a-zA-Z0-9+]{1,20})?\|")


def _header(line: str) -> tuple[_sacct.Column, ...] | None:
    """The columns, None if the line is not a header: names that sacct has, among them the state or an id."""
    if "|" not in line or len(line) > 4000:
        return None
    small = line.lower()
    if "jobid" not in small and "state" not in small:
        return None
    return _columns(line)


@lru_cache(maxsize=16)  # one header heads thousands of tables
def _columns(line: str) -> tuple[_sacct.Column, ...] | None:
    names = [name.strip() for name in line.split("|")]
    if names[-1] == "":  # sacct -p puts a separator at the end of each line
        names.pop()
    # `%30` behind a name is a width; a heading that is not known is taken as free text
    names = [name.split("%")[0].lower() for name in names]
    known = sum(name in _sacct.KNOWN_COLUMNS for name in names)
    if len(set(names)) < len(names) or not {"jobid", "jobidraw", "state"} & set(names) or "seen" in names:
        return None
    if known < 2 or known < 0.8 * len(names) or not all(_NAME.fullmatch(name) for name in names):
        return None
    columns = tuple(_sacct.column(name) for name in names)
    return (*columns, _sacct.column("")) if line.rstrip().endswith("|") else columns


def recognise(name: str, head: Sequence[str]) -> float:
    """1.0 for a header with an id and the state, less for fewer columns. A poll (column `seen`) is not accounting.

    A file named like a job's output is not either: a job may print any table.
    """
    if is_output_name(name):
        return 0.0
    for line in head:
        fields = line.split("|", 200)
        if "seen" in (field.strip() for field in fields):
            return 0.0
        columns = _header(line)
        if columns:
            names = {c.name for c in columns}
            sure = 0.9 if names & {"jobid", "jobidraw"} and "state" in names else 0.6
            return sure + (0.1 if "sacct" in name.rsplit("/", 1)[-1] else 0.0)
    return 0.0


class _Reader:
    """Groups lines to records and records to events."""

    def __init__(self, file: EvidenceFile, context: Context) -> None:
        self.file = file
        self.context = context
        self.early = _sacct.asked_early(file.name)
        self.minus_128 = _sacct.subtracts_128(context.manifest)
        self.columns: tuple[_sacct.Column, ...] = ()
        self.header_line = ""
        self.lines: list[tuple[int, str]] = []
        self.fields = 0
        self.suspect = False  # the record before was too short: this one may be a part of its job name
        self.rows = 0

    def feed(self, number: int, line: str) -> Iterator[Event]:
        """One line; the events of a record come when the next one begins."""
        if not self.columns:
            self.header_line, self.columns = line, _header(line) or ()
            return
        full = not self.lines or self.fields >= len(self.columns)
        if full and "|" in line and (line == self.header_line or _header(line)):
            yield from self.flush()
            self.header_line, self.columns = line, _header(line) or self.columns
            self.rows = 0
            return
        if self.lines and not self._starts(line):
            if self.fields <= FIELD_LIMIT and len(self.lines) <= FIELD_LIMIT:
                self.lines.append((number, line))
            self.fields += line.count("|")
            return
        yield from self.flush()
        if line.strip():
            self.lines = [(number, line)]
            self.fields = line.count("|") + 1

    def _starts(self, line: str) -> bool:
        """Whether a record seems to begin here."""
        at = next((i for i, c in enumerate(self.columns) if c.name in ("jobid", "jobidraw")), None)
        if at == 0:
            return _START.match(line) is not None if len(self.columns) > 1 else _sacct.read_id(line) is not None
        count = line.count("|") + 1
        if at is None:
            return count == len(self.columns)
        return count == len(self.columns) and _sacct.read_id(line.split("|", at + 1)[at]) is not None

    def flush(self) -> Iterator[Event]:
        """The record that is complete now, if any."""
        if not self.lines:
            return
        lines, self.lines = self.lines, []
        short = self.fields < len(self.columns)
        suspect, self.suspect = self.suspect, short
        number, text = lines[0]
        ids = _sacct.read_id(text.split("|", 1)[0]) if self.columns[0].name in ("jobid", "jobidraw") else None

        def cite(at: Stamp | None) -> Cite:
            return self.context.cite(KIND, self.file, number, text, at=at)

        def bad(why: str) -> Unreadable:
            return Unreadable(cite(None), ids.job if ids else None, ids.step if ids else None, why)

        if short:
            yield bad(f"{self.fields} fields, the header has {len(self.columns)}: cut, or a newline in the job name")
            return
        if suspect:
            # whoever chose the job name may have written this line: its id cannot be trusted
            yield bad("the record before is incomplete, so this line may be part of its job name")
            return
        cells = self._cells(lines)
        if cells is None:
            yield bad(
                "a job name or another text holds the separator, and the columns cannot be told apart for certain"
            )
            return
        self.rows += 1
        if self.rows > 1 and not {"jobid", "jobidraw"} & set(cells):
            yield bad("no job id column: a job line cannot be told from a step line")
            return
        yield _sacct.build(cells, cite, self.context.clock, self.minus_128, self.early)

    def _cells(self, lines: list[tuple[int, str]]) -> dict[str, str] | None:
        names = [c.name for c in self.columns]
        first = lines[0][1].split("|")
        if len(lines) == 1 and len(first) == len(names):
            return dict(zip(names, first, strict=True))
        fields = "\n".join(line for _, line in lines).split("|", FIELD_LIMIT + 1)
        whole = len(fields) <= FIELD_LIMIT
        cells = _sacct.assign(self.columns, fields, "|") if whole else None
        if cells is not None:
            # an id, a state or an exit code that is not certain makes the record worthless
            vital = {"jobid", "jobidraw", "state", "exitcode"} & set(names)
            return cells if vital <= set(cells) else None
        if len(first) == len(names) and (all(c.form for c in self.columns) or not any("|" in t for _, t in lines[1:])):
            # a complete record with other text behind it (a message of sacct, the next prompt)
            cells = dict(zip(names, first, strict=True))
            if self.columns[-1].form is None:
                del cells[names[-1]]
            return cells
        return None


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """A `JobRecord` for each allocation line, a `StepRecord` for each step line, `Unreadable` for the others."""
    yield from _sacct.read_lines(file, _Reader(file, context))
