"""What Slurm says of many jobs at once: a few calls a sweep, however many jobs there are. Calls are counted.

Accounting prints names, command lines and comments of users as they are, newlines and separators among them. So that
nobody can write a row of somebody else's job, the separator is a word that nobody can know, new for each call.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from slurm_triage.history.good_runs import GoodRun
from slurm_triage.live import accounting, limits
from slurm_triage.live._command import Reply, run
from slurm_triage.service.glance import epoch

AT_ONCE = 500
"""Jobs whose accounting is asked for at once: one call for the table, one for JSON."""
VIEWS = 30
"""Most jobs that slurmctld is asked about in `VIEWS_IN` seconds, one call each: its answer about all jobs at once can
be forged by a job's name, and is a heavy one."""
VIEWS_IN = 60.0
STORM, FEW_VIEWS = 200, 10
"""Of more than `STORM` jobs at once it is asked about `FEW_VIEWS` at most."""
SHORTEST = 60.0
"""Seconds below which a window of time is not halved any more when sacct prints too much of it."""
SETTINGS_AGE = 600.0
"""Seconds for which configuration, partitions and QOS are taken as unchanged."""
_LATE = "no answer within"
"""In the problem of a command that took too long."""
ENDED = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"
"""States in which an attempt has ended (sacct(1), JOB STATE CODES)."""
ENDED_FIELDS = (
    "JobIDRaw", "JobID", "ExitCode", "DerivedExitCode", "Start", "End", "NodeList", "Cluster", "Partition", "User",
    "JobName", "State",
)  # fmt: skip
"""What is asked of everything that has ended; the first and the last hold nothing that a user writes."""
_JOBS = re.compile(r'"jobs"\s*:\s*\[')
"""A quote inside a string is escaped, so that this cannot match inside one."""
_BETWEEN = re.compile(r"[\s,]*")
_JSON = json.JSONDecoder()
_BREAKS = re.compile(r"[|\r\n]")
LIVE = frozenset(("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "REQUEUE_HOLD"))
"""States of an attempt that has not ended."""


class AskError(Exception):
    """Slurm did not answer; the message is one line that says what and why."""


@dataclass(frozen=True)
class JobName:
    """A job of accounting: the raw id, and the id that Slurm shows and takes (`4711_5`), which names it alone."""

    raw: str
    shown: str


@dataclass(frozen=True)
class Ended:
    """Attempts that have ended: the jobs of those that may have ended badly, and those that ended well."""

    bad: Sequence[JobName]
    good: Sequence[GoodRun]


class Asker:
    """Asks Slurm, which is told to speak UTC. `calls` counts what was called, by name of the command.

    `at_once` is how many jobs accounting is asked about with one call: fewer after it was too slow, until it is not.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.calls: Counter[str] = Counter()
        self.at_once = AT_ONCE
        self._version: str | None = None
        self._columns: tuple[str, ...] = ()
        self._settings: dict[str, bytes] = {}
        self._settings_at = float("-inf")
        self._views = VIEWS
        self._views_at = float("-inf")

    def _run(self, argv: Sequence[str]) -> Reply:
        self.calls[argv[0]] += 1
        return run(argv, self.timeout, variables={"TZ": "UTC"})

    def _learn(self) -> None:
        """Which sacct this is and which columns it has, asked once. Raises `AskError` if there is none."""
        if self._columns:
            return
        self.calls["sacct"] += 2
        version, reply = accounting.version(self.timeout)
        if reply.problem:
            raise AskError(reply.problem)
        known = accounting.columns(self.timeout)
        self._columns = (*(name for name in known if name != "State"), "State")
        self._version = version

    @property
    def version(self) -> str | None:
        """`24.11.5`; None if sacct does not say. Raises `AskError` if there is no sacct."""
        self._learn()
        return self._version

    def ended(self, since: float, until: float) -> Ended:
        """What ended in that time (epochs).

        Well is only what completed with exit code 0 and no step that failed (22.05 does not tell of the latter). Raises
        `AskError`.
        """
        window = ("-S", _utc(since), "-E", _utc(until))
        separator = secrets.token_hex(12)
        form = ("-n", "-P", f"--delimiter={separator}")
        fields = ",".join(ENDED_FIELDS)
        reply = self._run(["sacct", "-a", "--local", "-D", "-X", *form, *window, "-s", ENDED, "-o", fields])
        if reply.cut and until - since > SHORTEST:
            middle = (since + until) / 2
            first, second = self.ended(since, middle), self.ended(middle, until)
            return Ended(list(dict.fromkeys([*first.bad, *second.bad])), [*first.good, *second.good])
        if reply.problem:
            raise AskError(reply.problem)
        return split_ended(reply.output, separator)

    def evidence(self, jobs: Sequence[JobName]) -> dict[str, dict[str, bytes]]:
        """By raw id, what accounting says of the attempts that have ended: `sacct.psv`, and `sacct.json` if it can.

        A job that is missing was not shown, or its answer alone is too much. Raises `AskError`.
        """
        self._learn()
        found: dict[str, dict[str, bytes]] = {}
        left = list(jobs)
        while left:
            part, left = left[: self.at_once], left[self.at_once :]
            for job, text in self._tables(part).items():
                found.setdefault(job, {})["sacct.psv"] = text
            for job, text in self._documents(part).items():
                if job in found:
                    found[job]["sacct.json"] = text
            self.at_once = min(AT_ONCE, self.at_once * 2)
        return found

    def _tables(self, jobs: Sequence[JobName]) -> dict[str, bytes]:
        separator = secrets.token_hex(12)
        ids = ",".join(job.shown for job in jobs)
        fields = ",".join(self._columns)
        reply = self._run(["sacct", "-a", "--local", "-D", "-P", f"--delimiter={separator}", "-j", ids, "-o", fields])
        if reply.cut:
            return self._halves(self._tables, jobs)
        if reply.problem:
            if _LATE in reply.problem:
                # The next sweep asks for less. Not now: if slurmdbd hangs, each call costs the whole time.
                if len(jobs) == 1:
                    self.at_once = 2
                    return {}
                self.at_once = max(1, len(jobs) // 2)
            raise AskError(reply.problem)
        return split_table(reply.output, {job.raw for job in jobs}, separator)

    def _documents(self, jobs: Sequence[JobName]) -> dict[str, bytes]:
        reply = self._run(["sacct", "-a", "--local", "-D", "--json", "-j", ",".join(job.shown for job in jobs)])
        if reply.cut:
            return self._halves(self._documents, jobs)
        return {} if reply.problem else split_document(reply.output, {job.raw for job in jobs})

    def _halves(self, ask: Any, jobs: Sequence[JobName]) -> dict[str, bytes]:
        if len(jobs) < 2:
            return {}
        middle = len(jobs) // 2
        return {**ask(jobs[:middle]), **ask(jobs[middle:])}

    def controller(self, jobs: Iterable[JobName]) -> dict[str, bytes]:
        """By raw id, what slurmctld still has in memory of jobs that have ended, of the first few at most.

        Nothing of a job that it does not show, and nothing if it cannot be asked: it forgets anyway.
        """
        now = time.monotonic()
        if now - self._views_at >= VIEWS_IN:
            self._views_at, self._views = now, VIEWS
        wanted = list(jobs)
        some = wanted[: min(self._views, FEW_VIEWS if len(wanted) > STORM else VIEWS)]
        self._views -= len(some)
        found = {}
        for job in some:
            reply = self._run(["scontrol", "show", "job", "-d", "--all", "--local", job.shown])
            text = reply.output
            state = re.search(rb"^   JobState=(\w+)", text, re.MULTILINE)
            # Of a requeued job it shows the attempt that has not ended.
            if not reply.problem and text.startswith(b"JobId=") and state and state[1].decode() not in LIVE:
                found[job.raw] = text
        return found

    def nodes(self) -> str:
        """What slurmctld says of its nodes, one a line. Raises `AskError`."""
        return self._answer(["scontrol", "show", "nodes", "-o", "--all", "--local"])

    def config(self) -> str:
        """The configuration. Raises `AskError`."""
        return self._answer(["scontrol", "show", "config"])

    def _answer(self, argv: Sequence[str]) -> str:
        reply = self._run(argv)
        if reply.problem:
            raise AskError(reply.problem)
        return reply.output.decode("utf-8", "replace")

    def settings(self) -> Mapping[str, bytes]:
        """Configuration, partitions and QOS as evidence files. What cannot be asked is left out."""
        if time.monotonic() - self._settings_at > SETTINGS_AGE:
            self._settings = {}
            for name, argv in limits.COMMANDS.items():
                reply = self._run(argv)
                if not reply.problem:
                    self._settings[name] = reply.output
            self._settings_at = time.monotonic()
        return self._settings


def _utc(epoch: float) -> str:
    """As sacct takes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(epoch))


def split_table(table: bytes, wanted: Iterable[str], separator: str) -> dict[str, bytes]:
    """`sacct -P` of several jobs by raw id, each with the header, of attempts that have ended only.

    JobIDRaw is the first column and State the last: neither has anything in it that a user writes. So the number of
    separators tells where a row ends, whatever stands between them. In the result the separator is `|`, and fields
    hold neither that nor newlines.
    """
    text = table.decode("utf-8", "surrogateescape")
    header, _, rest = text.partition("\n")
    names = header.split(separator)
    chosen = set(wanted)
    parts: dict[str, list[str]] = {}
    ended = False
    for first, *fields, state in _rows(rest, separator, len(names)):
        job, _, step = first.partition(".")
        if not step:
            ended = state.split(" ")[0] not in LIVE
        if job in chosen and ended:
            if _BREAKS.search("".join(fields)):
                fields = [_BREAKS.sub(" ", field) for field in fields]
            parts.setdefault(job, []).append("|".join((first, *fields, state)))
    head = "|".join(names)
    return {job: "\n".join([head, *lines, ""]).encode("utf-8", "surrogateescape") for job, lines in parts.items()}


def _rows(text: str, separator: str, columns: int) -> Iterator[list[str]]:
    """The rows of a table without its header, as long as they are whole. The last column holds no newline."""
    pieces = iter(text.split(separator))
    first = next(pieces)
    while columns > 1 and len(row := list(islice(pieces, columns - 1))) == columns - 1:
        row[-1], _, following = row[-1].partition("\n")
        yield [first, *row]
        first = following


def split_ended(table: bytes, separator: str) -> Ended:
    """Rows of `ENDED_FIELDS` without a header. What cannot be understood of a good run costs that run."""
    bad: dict[JobName, None] = {}
    good = []
    for row in _rows(table.decode("utf-8", "replace"), separator, len(ENDED_FIELDS)):
        said = dict(zip(ENDED_FIELDS, row, strict=True))
        raw, shown = said["JobIDRaw"], said["JobID"]
        if not raw.isdigit() or not accounting.job_id(shown):
            continue
        codes = (said["ExitCode"], said["DerivedExitCode"])
        if said["State"] != "COMPLETED" or any(code not in ("", "0:0") for code in codes):
            bad[JobName(raw, shown)] = None
            continue
        start, end = epoch(said["Start"]), epoch(said["End"])
        if start is not None and end is not None:
            who = (said["Cluster"], raw, said["User"], said["JobName"], said["Partition"])
            good.append(GoodRun(*who, start, end, said["NodeList"]))
    return Ended(list(bad), good)


def split_document(document: bytes, wanted: Iterable[str]) -> dict[str, bytes]:
    """`sacct --json` of several jobs by raw id, of attempts that have ended only. Nothing if it is no JSON.

    What is said of a job stays as it was printed, and all else of the document is beside it.
    """
    text = document.decode("utf-8", "surrogateescape")
    begin = _JOBS.search(text)
    if begin is None:
        return {}
    chosen = set(wanted)
    parts: dict[str, list[str]] = {}
    at = begin.end()
    try:
        while not text.startswith("]", at := _BETWEEN.match(text, at).end()):  # type: ignore[union-attr]
            job, end = _JSON.raw_decode(text, at)
            number = str(job.get("job_id")) if isinstance(job, dict) else ""
            if number in chosen and _has_ended(job):
                parts.setdefault(number, []).append(text[at:end])
            at = end
    except (ValueError, RecursionError):
        return {}
    head, tail = text[: begin.end()], text[at:]
    return {
        number: f"{head}{','.join(found)}{tail}".encode("utf-8", "surrogateescape") for number, found in parts.items()
    }


def _has_ended(job: Mapping[str, Any]) -> bool:
    state = job.get("state")
    current = state.get("current") if isinstance(state, dict) else None
    states = current if isinstance(current, list) else [current]
    # The first attempt of a requeued job is PENDING and REQUEUED at once.
    return "REQUEUED" in states or not LIVE & {str(one) for one in states}
