"""Asks a live cluster about one job and gathers the answers as an evidence folder held in memory.

`gather` needs no privilege and changes nothing. Each kind of evidence comes from one module of this package (a
*collector*); what a collector could not look at is a note, never silence.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from slurm_triage import case, sources
from slurm_triage.live import accounting, controller, job_output, kernel, limits, pyslurm_view, witnesses
from slurm_triage.live._command import Reply, clean, run
from slurm_triage.model import ControllerJob, Coverage, Event, JobRecord, Stamp, StepRecord
from slurm_triage.nodeset import expand

TIMEOUT = 60.0
"""Seconds that one command or one file may take."""

job_id = accounting.job_id


class NotFound(Exception):
    """Slurm shows no such job; the message says what that can mean."""


class CannotLook(Exception):
    """Neither accounting nor slurmctld could be asked; the message says why."""


@dataclass(frozen=True)
class Gathered:
    """The evidence of one job: file name to bytes, `manifest.toml` among them, and what could not be looked at.

    Each note is a `Coverage` of kind None whose `note` says why.
    """

    job: str
    files: Mapping[str, bytes]
    notes: tuple[Coverage, ...] = ()

    def case(self) -> case.Case:
        """The evidence as a case."""
        return case.from_files(self.files)

    def parse(self) -> tuple[tuple[Event, ...], tuple[Coverage, ...]]:
        """Events and coverage of the case as `sources.parse` gives them, the notes among the coverage."""
        return sources.parse(self.case())

    def save(self, folder: Path) -> None:
        """Writes the evidence folder, readable by its owner only. Raises `OSError`; `folder` must be new or empty."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(17, "the folder is not empty", str(folder))
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)


def gather(job: str, timeout: float = TIMEOUT) -> Gathered:
    """All evidence of `job` (`123`, `123_4`, `123+1`) that the caller may see from this host.

    Raises `ValueError` for anything that is not a job id, `CannotLook` when neither accounting nor slurmctld could be
    asked, `NotFound` when they know no such job (or do not show it to the caller).
    """
    if accounting.job_id(job) is None:
        raise ValueError(f"{job!r} is not a job id (123, 123_4 or 123+1)")
    gathering = _Gathering(job, timeout)
    gathering.ask_slurm()
    gathering.read_output()
    gathering.read_kernel_log()
    gathering.read_spool()
    return Gathered(job, {"manifest.toml": gathering.manifest(), **gathering.files}, tuple(gathering.told()))


class _Gathering:
    """One gathering: files and notes as they come in."""

    def __init__(self, job: str, timeout: float) -> None:
        self.job, self.timeout = job, timeout
        self.files: dict[str, bytes] = {}
        self.notes: list[Coverage] = []
        self.version: str | None = None
        self.boot: dict[str, float] = {}
        self.events: tuple[Event, ...] = ()
        self.offset = _offset(time.time())

    def note(self, what: str, why: str) -> None:
        """Something that could not be looked at, or not wholly."""
        self.notes.append(Coverage(what, None, note=why))

    def keep(self, name: str, reply: Reply) -> None:
        """An answer: the file if there is any text, the note if something is missing."""
        data = reply.output
        if reply.problem and not reply.cut:
            self.note(name, f"could not be read: {reply.problem}")
            return
        if reply.cut:
            data = data[: data.rfind(b"\n") + 1] or data
            self.note(name, reply.problem)
        self.files[name] = data

    # ------------------------------------------------------------------------------------------------ Slurm

    def ask_slurm(self) -> None:
        """Accounting, slurmctld and the limits, all asked at once."""
        self.version, said = accounting.version(self.timeout)
        have_sacct = not said.problem
        with ThreadPoolExecutor(6) as pool:
            view_ = pool.submit(controller.job, self.job, self.timeout)
            settings = {n: pool.submit(run, argv, self.timeout) for n, argv in limits.COMMANDS.items()}
            table, document = said, Reply(problem=said.problem)
            if have_sacct:
                document_ = pool.submit(accounting.document, self.job, self.timeout)
                table = accounting.table(self.job, accounting.columns(self.timeout), self.timeout)
                document = document_.result()
            view = view_.result()
            replies = {name: reply.result() for name, reply in settings.items()}
        self.keep("sacct.psv", table)
        if not document.problem or document.cut:
            self.keep("sacct.json", document)
        elif not table.problem:  # else the reason is said already
            self.note("sacct.json", f"not available, exit codes may be cut: {document.problem}")
        self._keep_view(view)
        for name, reply in replies.items():
            self.keep(name, reply)
        self._look()
        if not any(isinstance(e, (JobRecord, ControllerJob, StepRecord)) for e in self.events):
            self._nothing(table, document, view)

    def _keep_view(self, view: Reply) -> None:
        if view.problem == controller.FORGOTTEN:
            self.note("scontrol-job.txt", view.problem)
            return
        version = pyslurm_view.installed() if view.problem and self.job.isdigit() else None
        if version is not None and pyslurm_view.matches(version, self.version):
            text, why = pyslurm_view.ask(self.job, self.timeout)
            if text:
                self.files["scontrol-job.pyslurm.txt"] = text
            self.note("scontrol-job.txt", f"could not be read: {view.problem}; " + (why or "pyslurm was asked instead"))
            return
        self.keep("scontrol-job.txt", view)

    def _nothing(self, table: Reply, document: Reply, view: Reply) -> None:
        asked_sacct = not (table.problem and document.problem)
        asked_controller = view.problem in ("", controller.FORGOTTEN)
        could_not = [r.problem for r in (table, view) if r.problem and r.problem != controller.FORGOTTEN]
        if not asked_sacct and not asked_controller:
            raise CannotLook("; ".join(dict.fromkeys(could_not)))
        private = _private(self.files.get("scontrol-config.txt", b""))
        if not asked_sacct:
            raise NotFound(f"{controller.FORGOTTEN}, and accounting could not be asked: {'; '.join(could_not)}")
        reason = (
            f"PrivateData={private} is set: jobs of other users are not shown to you, or there is no such job"
            if private
            else "it never existed, its records were purged, or it is on another cluster"
        )
        if could_not:
            reason += f"; slurmctld could not be asked: {'; '.join(could_not)}"
        raise NotFound(reason)

    def _look(self) -> None:
        """Reads what there is so far, with the offset of local time that held when the job ended."""
        plain, _ = sources.parse(case.from_files(self.files))
        now = time.time()
        moments = [min(_epoch(stamp), now) for event in plain for stamp in _stamps(event)]
        if moments:
            self.offset = _offset(max(moments))
            if _offset(min(moments)) != self.offset:
                self.note("manifest.toml", "local time was shifted meanwhile: times before that are off")
        self.events, _ = sources.parse(case.from_files({"manifest.toml": self.manifest(), **self.files}))

    # ------------------------------------------------------------------------------------------------ files

    def read_output(self) -> None:
        """The job's output files."""
        found = job_output.outputs(self.events)
        single = len({output.part for output in found}) <= 1
        by_path: dict[str, list[job_output.Output]] = {}
        for output in found:
            by_path.setdefault(output.path, []).append(output)
        room = job_output.TOTAL_LIMIT
        for count, (path, users) in enumerate(by_path.items()):
            shown = clean(path, 120)
            if count >= job_output.MOST_FILES or room <= 0:
                self.note(shown, f"could not be read: this and {len(by_path) - count - 1} more would be too much")
                break
            read = job_output.read(users[0], self.timeout, min(room, job_output.READ_LIMIT))
            name = self._output_name(users, single)
            if read.problem:
                self.note(shown, f"could not be read: {read.problem}")
                continue
            room -= len(read.data)
            self.files[name] = read.data
            if read.note:
                self.note(name, read.note)

    def _output_name(self, users: Sequence[job_output.Output], single: bool) -> str:
        """A name of ours: the base name is the user's choice and could be that of another kind of evidence."""
        if single:
            return f"job.{users[0].stream}"
        if len({user.part for user in users}) > 1:
            return f"out/shared{sum(n.startswith('out/shared') for n in self.files) or ''}.{users[0].stream}"
        return f"out/{users[0].part}.{users[0].stream}"

    def read_kernel_log(self) -> None:
        """The kernel log of this host, if the job ran here."""
        lists = {e.nodes for e in self.events if isinstance(e, (JobRecord, StepRecord)) and e.nodes}
        lists |= {e.values.get("NodeList", "") for e in self.events if isinstance(e, ControllerJob)}
        nodes = sorted({node for text in lists for node in expand(text) or ()})
        if not nodes:
            return  # never ran
        here = kernel.this_node(nodes)
        if here is None:
            self.note("kernel log", f"could not be read: this host is none of the job's nodes ({_some(nodes)})")
            return
        boot = kernel.boot_epoch()
        ends = [e.end for e in self.events if isinstance(e, (JobRecord, ControllerJob))]
        if ends and all(end is not None and end.zoned and end.hi < boot for end in ends):
            self.note("kernel log", f"could not be read: {here} was booted after the job had ended")
            return
        reply = kernel.log(self.timeout)
        name = f"kmsg.{here}.txt"
        self.keep(name, reply)
        if name in self.files:
            self.boot[here] = boot
            others = [node for node in nodes if node != here]
            if others:
                self.note("kernel log", f"could not be read on the job's other nodes ({_some(others)})")

    def read_spool(self) -> None:
        """What the hooks of this host left of the job."""
        jobs = {e.job for e in self.events if isinstance(e, (JobRecord, ControllerJob)) and e.job}
        files, problems = witnesses.look(jobs)
        self.files.update(files)
        for problem in problems:
            self.note("spool", problem)

    def told(self) -> list[Coverage]:
        """The notes, what tells least last."""
        return sorted(self.notes, key=lambda note: note.file in limits.COMMANDS)

    def manifest(self) -> bytes:
        """How to read the other files, and what could not be looked at."""
        lines = ["# gathered by slurm-triage diagnose"]
        if self.version:
            lines.append(f'slurm = "{self.version}"')
        lines.append(f'utc_offset = "{self.offset}"')
        if self.notes:  # JSON's strings are TOML's too
            unseen = ", ".join(json.dumps(clean(f"{n.file}: {n.note}")) for n in self.told())
            lines.append(f"not_seen = [{unseen}]")
        if self.boot:
            lines += [f"page_size = {os.sysconf('SC_PAGE_SIZE')}", "", "[boot_epoch]"]
            lines += [f'"{node}" = {epoch:.3f}' for node, epoch in self.boot.items()]
        return ("\n".join(lines) + "\n").encode("utf-8")


def _private(config: bytes) -> str:
    match = re.search(rb"^PrivateData\s*=\s*(\S*\bjobs\b\S*)", config, re.MULTILINE)
    return match[1].decode("ascii", "replace") if match else ""


def _some(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")


def _stamps(event: Event) -> Iterable[Stamp]:
    if isinstance(event, (JobRecord, ControllerJob)):
        yield from (stamp for stamp in (event.submit, event.start, event.end) if stamp is not None)


def _epoch(stamp: Stamp) -> float:
    """The instant of a stamp. One that was printed without a zone holds this system's local time as if it were UTC."""
    if stamp.zoned:
        return stamp.lo
    try:
        return time.mktime((*time.gmtime(stamp.lo)[:8], -1))
    except (ValueError, OverflowError, OSError):
        return time.time()


def _offset(epoch: float) -> str:
    """The offset of this system's local time at an instant, as `+02:00`."""
    seconds = time.localtime(epoch).tm_gmtoff
    sign, seconds = ("-", -seconds) if seconds < 0 else ("+", seconds)
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
