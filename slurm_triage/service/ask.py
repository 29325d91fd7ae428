"""What Slurm says of many jobs at once: a few calls a sweep, however many jobs there are. Calls are counted."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slurm_triage.live import accounting, limits
from slurm_triage.live._command import Reply, run

AT_ONCE = 200
"""Jobs whose accounting is asked for with one call."""
SETTINGS_AGE = 600.0
"""Seconds for which configuration, partitions and QOS are taken as unchanged."""
ENDED = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"
"""States in which an attempt has ended (sacct(1), JOB STATE CODES)."""
_ROW = re.compile(r"(\d+)(?:\.[^|]*)?\|")
_JOB = re.compile(rb"^JobId=(\d+)\b", re.MULTILINE)


class AskError(Exception):
    """Slurm did not answer; the message is one line that says what and why."""


class Asker:
    """Asks Slurm. `calls` counts what was called, by name of the command."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.calls: Counter[str] = Counter()
        self._version: str | None = None
        self._columns: tuple[str, ...] = ()
        self._settings: dict[str, bytes] = {}
        self._settings_at = float("-inf")

    def _run(self, argv: Sequence[str]) -> Reply:
        self.calls[argv[0]] += 1
        return run(argv, self.timeout)

    def _demand(self, argv: Sequence[str]) -> bytes:
        reply = self._run(argv)
        if reply.problem:
            raise AskError(reply.problem)
        return reply.output

    @property
    def version(self) -> str | None:
        """`24.11.5`; None if sacct does not say. Raises `AskError` if there is no sacct."""
        if self._version is None:
            self.calls["sacct"] += 2
            version, reply = accounting.version(self.timeout)
            if reply.problem:
                raise AskError(reply.problem)
            self._columns = accounting.columns(self.timeout)
            self._version = version
        return self._version

    def ended(self, since: float, until: float) -> list[str]:
        """Raw ids of the jobs of which an attempt ended in that time (epochs) and may have ended badly.

        Left out are only those that completed with exit code 0 and no step that failed. Raises `AskError`.
        """
        window = ("-S", _local(since), "-E", _local(until))
        fields = "JobIDRaw,State,ExitCode,DerivedExitCode"
        said = self._demand(["sacct", "-a", "-D", "-X", "-n", "-P", *window, "-s", ENDED, "-o", fields])
        found: dict[str, None] = {}
        for line in said.decode("utf-8", "replace").splitlines():
            job, state, *codes = line.split("|")
            if job.isdigit() and (state != "COMPLETED" or any(code not in ("", "0:0") for code in codes)):
                found[job] = None
        return list(found)

    def evidence(self, jobs: Sequence[str]) -> dict[str, dict[str, bytes]]:
        """By raw id, what accounting says of all attempts: `sacct.psv`, and `sacct.json` where there is JSON.

        A job that accounting does not know any more is left out. Raises `AskError`.
        """
        version = self.version
        assert self._columns or version is None
        found: dict[str, dict[str, bytes]] = {}
        for first in range(0, len(jobs), AT_ONCE):
            wanted = jobs[first : first + AT_ONCE]
            ids = ",".join(wanted)
            table = self._demand(["sacct", "-a", "-D", "-P", "-j", ids, "-o", ",".join(self._columns)])
            for job, text in split_table(table, wanted).items():
                found.setdefault(job, {})["sacct.psv"] = text
            # 22.05 has JSON as well; a sacct that has none is no reason to go without the table.
            reply = self._run(["sacct", "-a", "-D", "--json", "-j", ids])
            if not reply.problem:
                for job, text in split_document(reply.output, wanted).items():
                    found.setdefault(job, {})["sacct.json"] = text
        return found

    def controller(self, jobs: Iterable[str]) -> dict[str, bytes]:
        """By raw id, what slurmctld still has in memory. Nothing if it cannot be asked: it forgets anyway."""
        reply = self._run(["scontrol", "show", "job", "-d"])
        wanted = set(jobs)
        return {job: text for job, text in split_views(reply.output).items() if job in wanted}

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


def _local(epoch: float) -> str:
    """As sacct takes it: local time."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(epoch))


def split_table(table: bytes, wanted: Iterable[str]) -> dict[str, bytes]:
    """`sacct -P` of several jobs by raw id, each part with the header. JobIDRaw is the first column.

    A line that begins with no raw id is the rest of a name with a newline, and stays with the line before it.
    """
    header, _, rest = table.partition(b"\n")
    chosen = set(wanted)
    parts: dict[str, list[bytes]] = {}
    current: list[bytes] | None = None
    for line in rest.splitlines(keepends=True):
        match = _ROW.match(line[:80].decode("ascii", "replace"))
        if match:
            current = parts.setdefault(match[1], []) if match[1] in chosen else None
        if current is not None:
            current.append(line)
    return {job: header + b"\n" + b"".join(lines) for job, lines in parts.items()}


def split_document(document: bytes, wanted: Iterable[str]) -> dict[str, bytes]:
    """`sacct --json` of several jobs by raw id. Nothing if it is no JSON."""
    try:
        whole: Any = json.loads(document)
    except ValueError:
        return {}
    jobs = whole.get("jobs") if isinstance(whole, dict) else None
    chosen = set(wanted)
    parts: dict[str, list[Any]] = {}
    for job in jobs if isinstance(jobs, list) else ():
        number = str(job.get("job_id")) if isinstance(job, dict) else ""
        if number in chosen:
            parts.setdefault(number, []).append(job)
    return {number: json.dumps({**whole, "jobs": found}).encode() for number, found in parts.items()}


def split_views(text: bytes) -> dict[str, bytes]:
    """`scontrol show job` of several jobs by raw id."""
    heads = list(_JOB.finditer(text))
    found: dict[str, bytes] = {}
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        job = head[1].decode()
        found[job] = found.get(job, b"") + text[head.start() : following.start() if following else len(text)]
    return found
