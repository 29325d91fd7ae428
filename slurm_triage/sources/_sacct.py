"""What the accounting sources share: state words, exit codes, sizes, durations, ids, columns, and records made of them.

Sources: sacct(1), squeue(1) and "Job State Codes" of Slurm 22.05, 24.11 and 26.05; output recorded on 22.05.8, 24.11.5
and 26.05.5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from slurm_triage.case import EvidenceFile, Manifest
from slurm_triage.clock import Clock
from slurm_triage.model import Cite, Event, JobRecord, ShownExit, Stamp, StepRecord, Unreadable
from slurm_triage.sources import _sluid

# ------------------------------------------------------------------------------------------------------------- states

FINAL_STATES = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
"""States after which nothing more happens to this attempt."""

OPEN_STATES = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
"""Base states of a job that is not over."""

ENDED_FLAGS = frozenset({"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "SPECIAL_EXIT"})
"""Flags of a record that another record of the same job follows: the last word on that attempt once the next exists."""

FLAGS = ENDED_FLAGS | {
    "COMPLETING",
    "CONFIGURING",
    "EXPEDITING",
    "LAUNCH_FAILED",
    "POWER_UP_NODE",
    "RECONFIG_FAIL",
    "RESV_DEL_HOLD",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
    "UPDATE_DB",
}
"""Words that are not base states: sacct text and squeue show them in place of the base state, JSON beside it."""

STATES = FINAL_STATES | OPEN_STATES | FLAGS

CODES = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RD": "RESV_DEL_HOLD",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "S": "SUSPENDED",
    "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "TO": "TIMEOUT",
}
"""Short forms, as squeue shows them (ST)."""

_STATE = re.compile(r"([A-Z][A-Z_]{0,30})(?: by (\S{1,64}))?")


@dataclass(frozen=True, slots=True)
class State:
    """A state as read: the most telling word, the further words, and who cancelled (uid or name, None if not said)."""

    word: str
    flags: tuple[str, ...] = ()
    by: str | None = None


def complete(word: str, known: Iterable[str], shortest: int = 1) -> str | None:
    """The word itself if it is known, else the one known word that begins with it (a `+` at the end, the mark of a cut
    cell, is taken off); None when there is none or more than one, or when less than `shortest` characters are left."""
    stem = word.removesuffix("+")
    known = frozenset(known)
    if stem in known:
        return stem
    if len(stem) < shortest:
        return None
    fits = [candidate for candidate in known if candidate.startswith(stem)]
    return fits[0] if len(fits) == 1 else None


def read_state(text: str) -> State | None:
    """`FAILED`, `CANCELLED by 1001`, `OUT_OF_ME+`, `CG`. None if it is no state, or a cut word with no one completion.

    A flag that stands alone is both the word and a flag, so that `"REQUEUED" in flags` holds for text and JSON alike.
    """
    text = text.strip()
    cut = text.endswith("+")
    match = _STATE.fullmatch(text.removesuffix("+"))
    if not match:
        return None
    word: str | None = CODES.get(match[1], match[1])
    if cut or word not in STATES:
        word = complete(match[1], STATES, 4)
    if word is None:
        # a state of a Slurm newer than this table is a word as well; a cut one is not known to be anything
        return None if cut or len(match[1]) < 4 else State(match[1])
    return State(word, (word,) if word in FLAGS else (), match[2])


def read_states(words: Sequence[str]) -> State | None:
    """The list of JSON: base state and flags. A base that is not final yields to a flag (`["PENDING", "REQUEUED"]` is
    what sacct text calls REQUEUED); a final base stays (`["FAILED", "COMPLETING"]`)."""
    words = [word for word in words if word]
    if not words:
        return None
    flags = tuple(word for word in words if word in FLAGS)
    bases = [word for word in words if word not in FLAGS]
    if bases and (bases[0] in FINAL_STATES or not flags):
        return State(bases[0], tuple(bases[1:]) + flags)
    return State(flags[0], flags)


def finality(state: State | None, end: Stamp | None, early: bool) -> bool | None:
    """Whether the record is the last word on its attempt; None if unknown. `early`: asked inside a hook."""
    if early:
        return False
    if state is None:
        return None
    if state.word in OPEN_STATES or any(flag not in ENDED_FLAGS for flag in state.flags if flag in FLAGS):
        return False
    if state.word in ENDED_FLAGS:
        return None if end is not None else False
    return True if state.word in FINAL_STATES and end is not None else None


def asked_early(name: str) -> bool:
    """Whether the file's name says that accounting was asked inside EpilogSlurmctld, when steps are not settled yet."""
    return "at_epilog" in name.rsplit("/", 1)[-1]


# ------------------------------------------------------------------------------------------------------ small readers

_EXIT = re.compile(r"(\d{1,10}):(\d{1,5})")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGTPE]?)(i?B)?([nc]?)", re.IGNORECASE)
_SPAN = re.compile(r"(?:(\d{1,6})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?(?:\.\d{1,9})?")
_MINUTES = re.compile(r"\d{1,10}")
_COUNT = re.compile(r"[0-9]{1,15}")
_EPOCH = re.compile(r"[0-9]{9,11}")
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def read_exit(text: str, minus_128: bool | None) -> ShownExit | None:
    """`rc:sig`; None if it is not that."""
    match = _EXIT.fullmatch(text.strip())
    return ShownExit(int(match[1]), int(match[2]), minus_128) if match else None


def read_size(text: str) -> int | None:
    """Bytes of `102012K`, `255.97G`, `4.00 GB`, `4Gn` (units are powers of 1,024); None if it is none or unmarked.

    A bare number other than 0 has no sure unit (kB, MB and bytes have all been printed) and is None.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        return None
    number = float(match[1])
    if not match[2] and not match[3] and number:
        return None
    return round(number * (1 << 10 * _POWER[match[2].upper()]))


def memory_per(text: str) -> str | None:
    """What a request is per: `4Gn` a node, `2000Mc` a cpu (sacct before 21.08); None for the total."""
    return {"n": "node", "c": "cpu"}.get(text.strip()[-1:])


def read_span(text: str) -> float | None:
    """Seconds of `[D-]HH:MM:SS` or `MM:SS[.mmm]`; inf for UNLIMITED; None for anything else (`Partition_Limit`)."""
    text = text.strip()
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    match = _SPAN.fullmatch(text)
    if not match or (match[3] is None and match[1] is None):
        return None
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    if match[1] is not None:  # D-HH, D-HH:MM, D-HH:MM:SS
        return float(days * 86400 + first * 3600 + second * 60 + third)
    return float(first * 3600 + second * 60 + third) if match[4] is not None else float(first * 60 + second)


def read_minutes(text: str) -> float | None:
    """Seconds of TimelimitRaw, which is in minutes; inf for UNLIMITED; None for `Partition_Limit`."""
    text = text.strip()
    return float(text) * 60 if _MINUTES.fullmatch(text) else read_span(text)


def read_int(text: str) -> int | None:
    """A plain count."""
    text = text.strip()
    return int(text) if _COUNT.fullmatch(text) else None


def read_time(clock: Clock, text: str) -> Stamp | None:
    """A time as printed (`2026-11-30T15:11:18`) or, with SLURM_TIME_FORMAT=%s, as epoch; None for Unknown and None."""
    text = text.strip()
    return epoch(int(text)) if _EPOCH.fullmatch(text) else clock.local(text)


def epoch(seconds: float) -> Stamp:
    """A time that Slurm cut to whole seconds."""
    return Stamp(float(seconds), float(seconds) + 1.0)


def read_nodes(text: str | None) -> str | None:
    """A node list; None for `None assigned` and its like."""
    text = (text or "").strip()
    return None if not text or " " in text or text in ("None", "(null)", "N/A") else text


def word(text: str | None) -> str | None:
    """A text, None if it says nothing (empty, `None`, `(null)`, `Unknown`)."""
    text = (text or "").strip()
    return None if text in ("", "None", "(null)", "Unknown") else text


# ---------------------------------------------------------------------------------------------------------------- ids

STEPS = frozenset({"batch", "extern", "interactive"})
_ID = re.compile(
    r"(?P<base>[0-9]{1,10})(?:_(?P<task>[0-9]{1,10}|\[[0-9,:%.\-]{1,20000}\])|\+(?P<offset>[0-9]{1,5}))?"
    r"(?:\.(?P<step>batch|extern|interactive|TBD|[0-9]{1,10})(?:\+[0-9]{1,5})?)?"
)


@dataclass(frozen=True, slots=True)
class Ids:
    """The parts of a job id as a tool prints it."""

    job: str
    step: str | None = None
    array_id: str | None = None
    array_task: str | None = None
    het_id: str | None = None
    het_offset: str | None = None


def read_id(text: str) -> Ids | None:
    """`1065`, `1001_4`, `1001_[5-9]`, `1111+0`, each with `.batch`, `.extern`, `.interactive` or `.0` for a step."""
    match = _ID.fullmatch(text.strip())
    if not match:
        return None
    base, task, offset = match["base"], match["task"], match["offset"]
    job = match[0].strip().split(".")[0] if not (task and task.startswith("[")) else f"{base}_{task}"
    return Ids(
        job,
        match["step"],
        base if task else None,
        task,
        base if offset else None,
        offset,
    )


# ------------------------------------------------------------------------------------------------------------ columns

_INTS = "uid gid elapsedraw nnodes ntasks ncpus reqcpus alloccpus allocnodes reqnodes restarts cputimeraw priority"
_SPANS = (
    "elapsed suspended timelimit timelimitraw planned reserved resvcpu plannedcpu plannedcpuraw resvcpuraw cputime "
    "totalcpu systemcpu usercpu avecpu mincpu time"
)
_SIZES = (
    "reqmem maxrss averss maxvmsize avevmsize maxdiskread maxdiskwrite avediskread avediskwrite avepages maxpages "
    "consumedenergy consumedenergyraw avecpufreq reqcpufreq reqcpufreqmin reqcpufreqmax"
)
_TIMES = "submit eligible start end"
_WORDS = (
    "user account partition qos qosraw cluster group assoc associd blockid dbindex sluid originalsluid layout "
    "reqcpufreqgov flags "
    "maxdiskreadnode maxdiskreadtask maxdiskwritenode maxdiskwritetask maxpagesnode maxpagestask maxrssnode maxrsstask "
    "maxvmsizenode maxvmsizetask mincpunode mincputask allocgres reqgres alloctres reqtres tresusageinave "
    "tresusageinmax tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode tresusageinmintask "
    "tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode tresusageoutmaxtask tresusageoutmin "
    "tresusageoutminnode tresusageoutmintask tresusageouttot mcslabel wckey wckeyid reservationid failednode qosreq"
)
_TEXTS = (
    "jobname name workdir submitline comment admincomment systemcomment stdout stderr stdin constraints extra "
    "container licenses reservation reason"
)

_KINDS: dict[str, re.Pattern[str] | None] = {
    **dict.fromkeys(_INTS.split(), re.compile(r"[0-9]*")),
    **dict.fromkeys(_SPANS.split(), re.compile(r"[0-9:.\-]*|[A-Za-z_]{1,20}")),
    **dict.fromkeys(_SIZES.split(), re.compile(r"(?:[0-9][0-9.]*[KMGTPEkmgtpe]?[nc?]?|Unknown|[A-Za-z]{1,15})?")),
    **dict.fromkeys(_TIMES.split(), re.compile(r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d{9,11}|Unknown|None|N/A)?")),
    **dict.fromkeys(_WORDS.split(), re.compile(r"[^\s|]*")),
    **dict.fromkeys(_TEXTS.split()),
    "state": re.compile(r"(?:[A-Z][A-Z_]{1,30}\+?(?: by \S{1,64})?)?"),
    "exitcode": re.compile(r"(?:\d{1,10}:\d{1,5})?"),
    "derivedexitcode": re.compile(r"(?:\d{1,10}:\d{1,5})?"),
    "nodelist": re.compile(r"None assigned|[\w.,\[\]\-]*"),
    "jobid": _ID,
    "jobidraw": _ID,
    "jobidmain": _ID,
}

KNOWN_COLUMNS = frozenset(_KINDS)
"""Names of sacct's columns (`sacct --helpformat` of 22.05 to 26.05), in small letters."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: what one cell may look like (None: any text, which may itself contain the separator), and whether the
    cell may be missing (only where blank cells leave no trace)."""

    name: str
    form: re.Pattern[str] | None
    optional: bool = False


def column(name: str, optional: bool = False) -> Column:
    """The column of that heading. A heading that is not known may hold any text."""
    name = name.strip().lower()
    return Column(name, re.compile("") if name == "" else _KINDS.get(name), optional)


def assign(columns: Sequence[Column], fields: Sequence[str], joiner: str) -> dict[str, str] | None:
    """Which field belongs to which column, where free text may contain the separator.

    All assignments that fit the forms of the columns are looked at together; a cell is in the answer only if it is the
    same in all of them. None if nothing fits. Takes time proportional to columns times fields.
    """
    n, m = len(columns), len(fields)
    fits = [
        None if c.form is None else bytearray(c.form.fullmatch(f) is not None for f in fields) for c in columns
    ]  # fits[c][f]: field f may be the whole cell c
    forward = [bytearray(m + 1) for _ in range(n + 1)]
    forward[0][0] = 1
    for c in range(n):
        here, there, fit = forward[c], forward[c + 1], fits[c]
        seen = False
        for f in range(m + 1):
            if fit is None:
                there[f] |= seen or (columns[c].optional and here[f])
                seen = seen or bool(here[f])
            elif here[f]:
                if columns[c].optional:
                    there[f] = 1
                if f < m and fit[f]:
                    there[f + 1] = 1
    if not forward[n][m]:
        return None
    backward = [bytearray(m + 1) for _ in range(n + 1)]
    backward[n][m] = 1
    for c in range(n - 1, -1, -1):
        here, there, fit = backward[c], backward[c + 1], fits[c]
        seen = False
        for f in range(m, -1, -1):
            if fit is None:
                here[f] = seen or (columns[c].optional and there[f])
                seen = seen or bool(there[f])
            else:
                here[f] = bool((f < m and fit[f] and there[f + 1]) or (columns[c].optional and there[f]))
    found: dict[str, str] = {}
    for c, spec in enumerate(columns):
        starts = [f for f in range(m + 1) if forward[c][f] and backward[c][f]]
        fit = fits[c]
        if fit is None:
            ends = [f for f in range(m + 1) if forward[c + 1][f] and backward[c + 1][f]]
            if len(starts) == len(ends) == 1:
                found[spec.name] = joiner.join(fields[starts[0] : ends[0]])
            continue
        options = {fields[f] for f in starts if f < m and fit[f] and backward[c + 1][f + 1]}
        if spec.optional and any(backward[c + 1][f] for f in starts):
            options.add("")
        if len(options) == 1:
            found[spec.name] = options.pop()
    return found


# ------------------------------------------------------------------------------------------------------------ records


def never_started(state: State | None, start_cell: str | None, nodes_cell: str | None, elapsed: float | None) -> bool:
    """Whether a record says that the job never started.

    Recorded on 22.05, 24.11 and 26.05: `Start` None and `NodeList` "None assigned". Older releases print the time of
    the cancel as Start, so "None assigned" in a record that is over and took no time is enough. A job that waits has
    not started *yet*: that is not this.
    """
    if state is None or state.word in OPEN_STATES or state.word in FLAGS:
        return False
    if nodes_cell is not None and nodes_cell.strip() == "None assigned" and not elapsed:
        return True
    return start_cell is not None and start_cell.strip() in ("None", "Unknown")


def build(
    cells: Mapping[str, str], cite: Callable[[Stamp | None], Cite], clock: Clock, minus_128: bool | None, early: bool
) -> JobRecord | StepRecord | Unreadable:
    """A record of cells by column name in small letters. `cite` makes the citation, given the end of the record."""
    raw, shown = cells.get("jobidraw", ""), cells.get("jobid", "")
    ids = read_id(raw) or read_id(shown)
    state_cell = cells.get("state", "").strip()
    state = read_state(state_cell)
    if (ids is None and (raw or shown)) or (state is None and state_cell):
        bad = "job id" if ids is None and (raw or shown) else "state"
        return Unreadable(cite(None), ids.job if ids else None, ids.step if ids else None, f"not a {bad}")
    shown_ids = read_id(shown) or ids or Ids("")
    end = read_time(clock, cells.get("end", ""))
    start = read_time(clock, cells.get("start", ""))
    elapsed = _number(read_int(cells["elapsedraw"])) if cells.get("elapsedraw") else read_span(cells.get("elapsed", ""))
    nodes = read_nodes(cells.get("nodelist"))
    exit_ = read_exit(cells.get("exitcode", ""), minus_128)
    by = state.by if state else None
    if ids is not None and ids.step is not None:
        return StepRecord(
            cite(end),
            ids.job,
            ids.step,
            name=cells.get("jobname", cells.get("name")) or None,
            state=state.word if state else None,
            cancelled_by=by,
            exit=exit_,
            start=start,
            end=end,
            elapsed=elapsed,
            nodes=nodes,
            n_tasks=read_int(cells.get("ntasks", "")),
            max_rss=read_size(cells.get("maxrss", "")),
            max_rss_task=read_int(cells.get("maxrsstask", "")),
            max_rss_node=word(cells.get("maxrssnode")),
            submit_line=cells.get("submitline") or None,
            final=finality(state, end, early),
        )
    never = never_started(state, cells.get("start"), cells.get("nodelist"), elapsed)
    started: bool | None = False if never else None
    if start is not None and not never and (nodes or not _looks_unstarted(state, start, end, elapsed)):
        started = True
    suspended = read_span(cells.get("suspended", ""))
    if suspended is not None and start is not None and end is not None and suspended > end.hi - start.lo:
        suspended = None  # recorded: 20787 days on a job of seconds
    limit = cells.get("timelimitraw", "")
    request = cells.get("reqmem", "")
    return JobRecord(
        cite(end),
        ids.job if ids else None,
        None,
        shown_id=shown_ids.job if read_id(shown) else None,
        array_id=shown_ids.array_id,
        array_task=shown_ids.array_task,
        het_id=shown_ids.het_id,
        het_offset=shown_ids.het_offset,
        name=cells.get("jobname", cells.get("name")) or None,
        user=word(cells.get("user")),
        uid=read_int(cells.get("uid", "")),
        account=word(cells.get("account")),
        partition=word(cells.get("partition")),
        qos=word(cells.get("qos")),
        cluster=word(cells.get("cluster")),
        state=state.word if state else None,
        flags=state.flags if state else (),
        cancelled_by=by,
        exit=exit_,
        derived=read_exit(
            cells.get("derivedexitcode", ""), False
        ),  # never cut, unlike ExitCode (recorded 22.05, 24.11)
        submit=read_time(clock, cells.get("submit", "")),
        start=None if never else start,
        started=started,
        end=end,
        elapsed=elapsed,
        suspended=suspended,
        time_limit=read_minutes(limit) if limit else read_span(cells.get("timelimit", "")),
        reason=word(cells.get("reason")),
        nodes=nodes,
        n_nodes=read_int(cells.get("nnodes", "")),
        n_tasks=read_int(cells.get("ntasks", "")),
        failed_node=word(cells.get("failednode")),
        req_mem=read_size(request) or None,  # 0 = nothing requested or the whole node: not a size
        req_mem_per=memory_per(request) if read_size(request) else None,
        max_rss=read_size(cells.get("maxrss", "")),
        tres=word(cells.get("alloctres")),
        restarts=read_int(cells.get("restarts", "")),
        sluid=_sluid.read(cells.get("originalsluid", "").strip()),
        record_sluid=_sluid.read(cells.get("sluid", "").strip()),
        work_dir=cells.get("workdir") or None,
        stdout=cells.get("stdout") or None,
        stderr=cells.get("stderr") or None,
        submit_line=cells.get("submitline") or None,
        final=finality(state, end, early),
    )


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)


def _looks_unstarted(state: State | None, start: Stamp, end: Stamp | None, elapsed: float | None) -> bool:
    """A cancel of a waiting job in releases that print its time as Start, where the record shows no node list."""
    return (
        state is not None
        and state.word in ("CANCELLED", "DEADLINE")
        and (not elapsed if elapsed is not None else end is not None and end.lo == start.lo)
    )


def subtracts_128(manifest: Manifest) -> bool | None:
    """Whether sacct text of this release shows exit codes of 128 and more less 128: up to 25.05 yes, from 25.11 no.

    None when the manifest does not tell the version. Source: sacct/print.c of the releases; recorded on 22.05, 24.11
    (a script that exits 137 is `9:0`) and 26.05 (`137:0`).
    """
    return None if manifest.version is None else manifest.version < (25, 11)


class LineReader(Protocol):
    """What turns the lines of one file of accounting text into records."""

    minus_128: bool | None

    def feed(self, number: int, line: str) -> Iterator[Event]:
        """One line; the events that it completes."""

    def flush(self) -> Iterator[Event]:
        """The events of the lines that are still held at the end of the file."""


def read_lines(file: EvidenceFile, reader: LineReader) -> list[Event]:
    """Every record of a file, settled."""
    events: list[Event] = []
    for number, line in file.lines():
        events.extend(reader.feed(number, line))
    events.extend(reader.flush())
    return settle(events, reader.minus_128)


def settle(events: Sequence[Event], minus_128: bool | None) -> list[Event]:
    """The last pass over the records of one file, for what only the whole file tells.

    * an exit code of 128 or more proves that this sacct does not subtract 128: true of every code in the file;
    * a REQUEUED or RESIZING record is final for its attempt when a later record of the same job follows.
    """
    whole = minus_128 is not False and any(
        isinstance(e, (JobRecord, StepRecord))
        and e.exit is not None
        and e.exit.minus_128 is not False
        and e.exit.code >= 128
        for e in events
    )
    later: set[str | None] = set()
    settled: list[Event] = []
    for event in reversed(events):
        if isinstance(event, (JobRecord, StepRecord)) and whole and event.exit is not None:
            event = replace(event, exit=replace(event.exit, minus_128=False))
        if isinstance(event, JobRecord):
            if event.final is None and event.end is not None and event.state in ENDED_FLAGS and event.job in later:
                event = replace(event, final=True)
            later.add(event.job)
        settled.append(event)
    settled.reverse()
    return settled
