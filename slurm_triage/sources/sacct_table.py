"""What a terminal shows of accounting and what people paste of it.

* `sacct` and `squeue` tables, with or without the line of dashes, indented or not, cells cut (`OUT_OF_ME+`, `.bat+`);
* rows without a header (`10763635_1  name  TIMEOUT  00:02:11  8  0:0`);
* `seff` reports;
* lone statements: `CANCELLED by 0`, `NODE_FAIL`, `State=OUT_OF_MEMORY`, `MaxRSS 255.97G`.

A cell is taken only where it can be said for certain which column it belongs to. Sources: sacct(1), squeue(1), and the
seff script of Slurm's contribs; recorded tables and public reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Cite, Event, JobRecord, ShownExit, Stamp, StepRecord, Unreadable
from slurm_triage.sources import Context, _sacct

KIND = "sacct_table"

ROW_LIMIT = 2000
"""Longest line that is read as a row, in characters: a terminal has no longer ones."""

_DASHES = re.compile(r"\s*-{2,}(?:\s+-{2,})*\s*")
_TOKEN = re.compile(r"\S+")
_BY = re.compile(r"\b(CANCELLED)\s+by\s+(\S{1,64})")
_CUT_ID = re.compile(r"([0-9]{1,10}(?:[_+][0-9]{1,10})?)(_\[[0-9,:%\-]{0,40}|\.[a-z]{0,11})?\+")
_CUT_BY = re.compile(r"\bCANCELLED b(?:y(?: \d{0,9})?)?\+")
_KEY_VALUE = re.compile(
    r"(State|ExitCode|DerivedExitCode|MaxRSS|ReqMem|Elapsed|ElapsedRaw|Timelimit|TimelimitRaw|JobID|JobIDRaw|JobName"
    r"|NodeList|FailedNode|Reason|Partition|User|Account|QOS|Start|End|Submit|WorkDir)(?:\s*[:=]\s*|\s+)(\S.*)",
    re.IGNORECASE,
)
_SEFF = re.compile(
    r"(Job ID|Array Job ID|Cluster|User/Group|State|Nodes|Job Wall-clock time|Memory Utilized|Memory Efficiency"
    r"|CPU Utilized|CPU Efficiency|Cores per node|Cores)\s*:\s*(\S.*)"
)
_SEFF_STATE = re.compile(r"([A-Z][A-Z_]{1,30}(?: by \S{1,64})?)(?:\s+\(exit code (\d{1,6})\))?")
_SEFF_MEMORY = re.compile(r"([\d.]{1,20}\s*[KMGTPE]?i?B)\b")
_SEFF_EFFICIENCY = re.compile(r"[\d.]{1,20}%\s+of\s+([\d.]{1,20}\s*[KMGTPE]?i?B)\b")
_SHOWN_EXIT = re.compile(r"(?:0|[1-9]\d{0,2}):(?:0|[1-9]\d{0,2})")
_SHOWN_SPAN = re.compile(r"(?:\d{1,5}-)?\d{2}:\d{2}:\d{2}")
_PROGRAM_OUTPUT = (".out", ".err", ".log")
_CUT_WORDS = frozenset(
    ["user", "account", "partition", "qos", "cluster", "nodelist", "workdir", "reason", "failednode", "maxrssnode"]
)
_SQUEUE = {"st": "state", "nodelist(reason)": "nodesorreason", "nodes": "nnodes", "cpus": "ncpus", "name": "jobname"}
_SQUEUE_FORMS = {
    "state": re.compile(r"[A-Z][A-Z_]{0,30}\+?(?: by \S{1,64})?"),
    "nodesorreason": None,
    "time": re.compile(r"(?:\d{1,5}-)?\d{1,2}:\d\d(?::\d\d)?|INVALID|0:00"),
    "time_limit": re.compile(r"(?:\d{1,5}-)?\d{1,2}:\d\d(?::\d\d)?|UNLIMITED|infinite|INVALID|NOT_SET"),
}


# ---------------------------------------------------------------------------------------------------------- recognise


def _headings(line: str) -> list[str] | None:
    """The column names in small letters if the line is the header of a sacct or squeue table, else None."""
    if len(line) > ROW_LIMIT or "|" in line:
        return None
    names = line.lower().split()
    if len(names) < 2 or len(set(names)) < len(names):
        return None
    names = [_SQUEUE.get(name, name) for name in names]
    # node tables (sinfo) have states too: without an id only the exit code shows that the rows are jobs
    if not {"jobid", "jobidraw"} & set(names) and not {"state", "exitcode"} <= set(names):
        return None
    known = sum(name in _sacct.KNOWN_COLUMNS or name in _SQUEUE_FORMS for name in names)
    return names if known >= 2 and known >= 0.7 * len(names) else None


def _alone(line: str) -> _sacct.State | None:
    """A state that is all a line says."""
    text = line.strip().rstrip(".")
    first = text[:100].split(" ")[0]
    # a cut word has its mark: FAIL, OK or TIME alone are somebody's words, not Slurm's
    if len(text) > 100 or not (first in _sacct.STATES or (len(first) > 4 and first.endswith("+"))):
        return None
    return _sacct.read_state(text)


def _statement(line: str) -> tuple[str, str] | None:
    """Column and value of `State=FAILED`, `MaxRSS 255.97G`, `ExitCode: 9:0`; None if the value does not fit."""
    match = _KEY_VALUE.fullmatch(line[:ROW_LIMIT].strip())
    if not match:
        return None
    key, value = match[1].lower(), match[2]
    if key == "state":
        state = _SEFF_STATE.fullmatch(value)
        return (key, value) if state and _alone(state[1]) else None
    form = _sacct.column(key).form
    if form is None:
        return (key, value) if re.match(r"\w+\s*[:=]", line.strip()) and " " not in value else None
    return (key, value) if form.fullmatch(value) and value[:1].isalnum() else None


def _row(line: str) -> dict[str, str] | None:
    """The cells of a row without header: an id first, a state further on; None if it is not one."""
    if len(line) > ROW_LIMIT:
        return None
    text = _BY.sub(r"\1 by \2".replace(" ", "\x00"), line)
    parts = [part.strip() for part in text.split("|")] if "|" in text else text.split()
    parts = [part.replace("\x00", " ") for part in parts]
    if len(parts) < 2 or not (_sacct.read_id(parts[0]) or _CUT_ID.fullmatch(parts[0])):
        return None
    at = [i for i, part in enumerate(parts) if i and part.split(" ")[0] in _sacct.STATES]
    if not at:
        cut = [i for i, part in enumerate(parts) if i and part.endswith("+") and _sacct.read_state(part)]
        at = cut[-1:]
    if not at:
        return None
    cells = {"jobid": parts[0], "state": parts[at[-1]]}
    exits = [part for part in parts[at[-1] + 1 :] if _SHOWN_EXIT.fullmatch(part)]
    spans = [part for part in parts[1:] if _SHOWN_SPAN.fullmatch(part)]
    if exits:
        cells["exitcode"] = exits[0]  # the derived code, where there are two, stands behind it
    if len(spans) == 1:
        cells["elapsed"] = spans[0]
    if at[-1] == 2:
        cells["jobname"] = parts[1]
    return cells


def recognise(name: str, head: Sequence[str]) -> float:
    """Sure for a table with headings or a seff report; less for bare rows and for a few lone statements.

    `scontrol show job` (`JobId=`, `JobState=`) is another kind. What a program printed into its own output may look
    like this and is not accounting, hence the doubt for `.out`, `.err` and `.log`.
    """
    lines = [line for line in head if line.strip()]
    if not lines or any("JobId=" in line or "JobState=" in line for line in lines):
        return 0.0
    base = name.rsplit("/", 1)[-1].lower()
    hint = 0.1 if any(word in base for word in ("sacct", "seff", "squeue")) else 0.0
    doubt = 0.5 if base.endswith(_PROGRAM_OUTPUT) else 0.0
    seff = {match[1] for match in map(_SEFF.fullmatch, (line[:ROW_LIMIT].strip() for line in lines)) if match}
    if {"State", "Job ID"} <= seff or {"State", "Memory Utilized"} <= seff:
        return 0.9 + hint - doubt
    if any("seen" in line.split("|", 200) for line in lines):
        return 0.0
    score = 0.0
    at = next((i for i, line in enumerate(lines) if _headings(line)), None)
    if at is not None:
        rows = lines[at + 1 : at + 3]
        sure = bool(rows) and (bool(_DASHES.fullmatch(rows[0])) or _row_id(rows[0]) is not None)
        score = 0.85 if sure else 0.6
    elif sum(_row(line) is not None for line in lines) * 2 >= len(lines):
        score = 0.7
    elif len(lines) <= 12 and sum(bool(_alone(line) or _statement(line)) for line in lines) * 2 > len(lines):
        score = 0.6
    return max(score + (hint if score else 0.0) - doubt, 0.0)


def _row_id(line: str) -> str | None:
    """The id a row begins with, cut or whole."""
    first = line.replace("|", " ", 1).split(None, 1)[0] if line.strip(" |") else ""
    return first if _sacct.read_id(first) or _CUT_ID.fullmatch(first) else None


# -------------------------------------------------------------------------------------------------------------- table


class _Table:
    """A table whose header was seen: headings, and where each column stands if the dashes tell."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.spans: list[tuple[int, int]] = []

    def dashes(self, line: str) -> None:
        """The line of dashes below the header."""
        spans = [match.span() for match in re.finditer(r"-+", line)]
        self.spans = spans if len(spans) == len(self.names) else []

    def cells(self, line: str) -> dict[str, str] | None:
        """The cells of a row that are certain; None if the row does not fit the table."""
        if len(line) > ROW_LIMIT:
            return None
        line = _CUT_BY.sub(lambda match: "CANCELLED+".ljust(len(match[0])), line)  # who it was is cut off
        by_place = self._by_place(line)
        if by_place is not None:
            return by_place
        text = _BY.sub("\\1\x00by\x00\\2", line).replace("None assigned", "None\x00assigned")
        tokens = [token.replace("\x00", " ") for token in text.split()]
        cells = _sacct.assign([self._column(name) for name in self.names], tokens, " ")
        # without these the rest of the row says nothing for certain
        return cells if cells is not None and {"state"} & set(self.names) <= set(cells) else None

    def _column(self, name: str) -> _sacct.Column:
        need = name in ("jobid", "jobidraw", "state") or "nodesorreason" in self.names  # squeue leaves no cell blank
        if name in _SQUEUE_FORMS:
            return _sacct.Column(name, _SQUEUE_FORMS[name], not need)
        if name in ("jobid", "jobidraw"):
            return _sacct.Column(name, re.compile(rf"{_CUT_ID.pattern}|[0-9][\w.\[\],:%+\-]*"), False)
        return replace(_sacct.column(name), optional=not need)

    def _by_place(self, line: str) -> dict[str, str] | None:
        """Cells by the columns of the dashes; None unless each lies in one column, at one of its edges, and fits it.

        sacct puts every cell at the right or the left edge: one in between shows that the row was moved.
        """
        if not self.spans:
            return None
        ends = [stop for _, stop in self.spans]
        line = line.rstrip()
        ends[-1] = max(ends[-1], len(line))
        for match in _TOKEN.finditer(line):
            if not any(
                begin <= match.start() and match.end() <= stop
                for (begin, _), stop in zip(self.spans, ends, strict=True)
            ):
                return None
        cells: dict[str, str] = {}
        for name, (begin, _), stop in zip(self.names, self.spans, ends, strict=True):
            whole = line[begin:stop]
            cell = whole.strip()
            moved = whole.startswith(" ") and (whole.endswith(" ") or len(whole) < stop - begin)
            form = self._column(name).form
            if cell and (moved or (form is not None and not form.fullmatch(cell))):
                return None
            cells[name] = cell
        return cells


def _whole_id(cells: dict[str, str], before: str | None) -> dict[str, str] | None:
    """The cells with a cut id made whole, None if there is more than one way to do it.

    `before` is the id of the job row above. A step row has the step's word as its name where the name is shown.
    """
    key = "jobid" if "jobid" in cells else "jobidraw"
    match = _CUT_ID.fullmatch(cells.get(key, "").strip())
    if not match or _sacct.read_id(cells[key]):
        return cells
    stem, rest = match[1], match[2] or ""
    if rest.startswith("_["):
        return {**cells, key: stem}  # some tasks of a waiting array; which of them is cut off
    named = cells.get("jobname", cells.get("name", ""))
    step = named if named in _sacct.STEPS else None
    if rest:
        spelled = _sacct.complete(rest[1:], _sacct.STEPS) if rest != "." else None
        if step is None or not step.startswith(rest[1:]):
            step = spelled
        return {**cells, key: f"{stem}.{step}"} if step else None
    # the step's word itself is cut off; it belongs to the job above if that is the only one it can belong to
    if step and before and before.startswith(stem):
        return {**cells, key: f"{before}.{step}"}
    if cells.get("partition"):
        return {**cells, key: ""}  # steps have no partition: a job line, of which job or task is not known
    return None


def _without_cut_words(cells: dict[str, str]) -> dict[str, str]:
    """The cells without names that end in the middle; the job's name stays, people know it by its beginning."""
    return {k: v for k, v in cells.items() if not (k in _CUT_WORDS and v.endswith("+"))}


def _squeue(cells: dict[str, str]) -> dict[str, str]:
    """The cells of a squeue row under sacct's names."""
    last = cells.pop("nodesorreason", "").strip()
    if last.startswith("("):
        cells["reason"] = last[1:].rstrip(")")
    elif last and " " not in last:
        cells["nodelist"] = last
    limit = cells.pop("time_limit", "")
    if limit:
        cells["timelimit"] = limit
    elapsed = cells.pop("time", "")
    if elapsed:
        cells["elapsed"] = elapsed
    return cells


# --------------------------------------------------------------------------------------------------------------- seff


def _seff_cells(key: str, value: str) -> tuple[dict[str, str], ShownExit | None]:
    """What a line of seff says, by sacct's column names, and the exit code.

    seff prints only the exit code, not the signal: 0 means nothing unless the job is COMPLETED. Memory Utilized is the
    largest step's MaxRSS times its tasks; its units are powers of 1,024.
    """
    if key == "State":
        match = _SEFF_STATE.fullmatch(value)
        state = _sacct.read_state(match[1]) if match else None
        if not match or state is None:
            return {}, None
        code = int(match[2]) if match[2] else None
        sure = code is not None and (code > 0 or state.word == "COMPLETED")
        return {"state": match[1]}, ShownExit(code, 0) if code is not None and sure else None
    if key == "Job ID":
        return ({"jobidraw": value}, None) if _sacct.read_id(value) else ({}, None)
    if key == "Array Job ID":
        return ({"jobid": value}, None) if _sacct.read_id(value) else ({}, None)
    if key == "Memory Utilized":
        match = _SEFF_MEMORY.match(value)
        return ({"maxrss": match[1]}, None) if match else ({}, None)
    if key == "Memory Efficiency":
        match = _SEFF_EFFICIENCY.match(value)
        return ({"reqmem": match[1]}, None) if match else ({}, None)
    if key == "Job Wall-clock time":
        return {"elapsed": value}, None
    if key == "Nodes":
        return {"nnodes": value}, None
    if key == "Cluster":
        return {"cluster": value}, None
    if key == "User/Group":
        return {"user": value.split("/")[0]}, None
    return {}, None


# --------------------------------------------------------------------------------------------------------------- file


class _Statements:
    """Lone statements and seff lines that follow each other: one record, cited at the line of the state."""

    def __init__(self) -> None:
        self.cells: dict[str, str] = {}
        self.exit: ShownExit | None = None
        self.line: tuple[int, str] | None = None

    def add(self, number: int, line: str, cells: Mapping[str, str], exit_: ShownExit | None) -> None:
        """What one more line says."""
        self.cells.update(cells)
        self.exit = exit_ or self.exit
        if self.line is None or "state" in cells:
            self.line = (number, line)


class _Reader:
    """Lines to records."""

    def __init__(self, file: EvidenceFile, context: Context) -> None:
        self.file, self.context = file, context
        self.early = _sacct.asked_early(file.name)
        self.minus_128 = _sacct.subtracts_128(context.manifest)
        self.table: _Table | None = None
        self.before: str | None = None
        self.rows = 0
        self.loose = _Statements()

    def _cite(self, number: int, line: str) -> Callable[[Stamp | None], Cite]:
        return lambda at: self.context.cite(KIND, self.file, number, line, at=at)

    def feed(self, number: int, line: str) -> Iterator[Event]:
        """One line."""
        if not line.strip():
            return
        names = _headings(line)
        if names:
            yield from self.flush()
            self.table, self.before, self.rows = _Table(names), None, 0
            return
        if _DASHES.fullmatch(line[:ROW_LIMIT]):
            if self.table:
                self.table.dashes(line)
            return
        if _row_id(line[:ROW_LIMIT]) is not None or (self.table and not {"jobid", "jobidraw"} & set(self.table.names)):
            yield from self._table_row(number, line)
            return
        seff = _SEFF.fullmatch(line[:ROW_LIMIT].strip())
        if seff:
            cells, exit_ = _seff_cells(seff[1], seff[2])
            if cells:
                if seff[1] == "Job ID":
                    yield from self.flush()
                self.loose.add(number, line, cells, exit_)
            return
        said = _statement(line)
        state = _alone(line)
        if said or state:
            cells = {said[0]: said[1]} if said else {"state": line.strip().rstrip(".")}
            if self.loose.cells.keys() & cells.keys():
                yield from self.flush()  # the same key again: the next job
            self.loose.add(number, line, cells, None)

    def _table_row(self, number: int, line: str) -> Iterator[Event]:
        cite = self._cite(number, line)
        cells = self.table.cells(line) if self.table else None
        if cells is None:
            cells = _row(line)
        if cells is None:
            if self.table:
                yield Unreadable(cite(None), why="the cells of this row cannot be told apart for certain")
            return
        whole = _whole_id(cells, self.before)
        if whole is None:
            yield Unreadable(cite(None), why="the id is cut and can be completed in several ways")
            return
        self.rows += 1
        if self.rows > 1 and not {"jobid", "jobidraw"} & set(whole):
            yield Unreadable(cite(None), why="no job id column: a job line cannot be told from a step line")
            return
        event = _sacct.build(_squeue(_without_cut_words(whole)), cite, self.context.clock, self.minus_128, self.early)
        if isinstance(event, JobRecord):
            self.before = event.shown_id or event.job
        yield event

    def flush(self) -> Iterator[Event]:
        """The record of the lone statements so far."""
        loose, self.loose = self.loose, _Statements()
        if loose.line is None:
            return
        event = _sacct.build(loose.cells, self._cite(*loose.line), self.context.clock, self.minus_128, self.early)
        if isinstance(event, (JobRecord, StepRecord)) and loose.exit is not None:
            event = replace(event, exit=loose.exit)
        yield event


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """A `JobRecord` or `StepRecord` for each row and for each group of lone statements; other text is passed over."""
    yield from _sacct.read_lines(file, _Reader(file, context))
