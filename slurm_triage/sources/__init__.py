"""Sources: one module per kind of evidence, text to events, pure.

A source is a module in this folder with three names (see `Source`); it is found by listing the folder. Adding one is
adding one file.

`recognise` looks at content first: 0.0 = surely not this kind, 0.5 = could be, 1.0 = surely. The file's name is a hint
that may add a little. The best answer of all sources wins; ties go to the source whose module comes first by name.

One thing goes before all that: a file of the name that Slurm gives for the job's own output is the job's output,
whatever it looks like. A job may print kernel lines or another daemon's log there, and they prove nothing. And where
the caller made the files and named them, he knows what they are, whatever a job calls its output.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Protocol

from slurm_triage.case import Case, EvidenceFile, Manifest
from slurm_triage.clock import Clock
from slurm_triage.model import Cite, ControllerJob, Coverage, Event, HookEnv, JobRecord, Stamp, Unreadable
from slurm_triage.sources._finder import Scan
from slurm_triage.sources._names import is_daemon_name
from slurm_triage.sources._outputs import OutputNames, letters

TEXT_LIMIT = 1000
"""Characters kept of a cited line."""

JOB_OUTPUT = "job_log"
"""Kind of the source that reads the job's own output."""

_NONE: Mapping[str, Any] = {}


class Source(Protocol):
    """What a module in this folder offers."""

    KIND: str
    """Name of the kind of evidence, as it appears in citations and coverage."""

    def recognise(self, name: str, head: Sequence[str]) -> float:
        """How sure it is that a file of this name with these first lines is of this kind, 0.0 to 1.0."""

    def parse(self, file: EvidenceFile, context: Context) -> Iterator[Event]:
        """The events of the file, in the order of its lines. Never raises for bad content: yields `Unreadable`."""


class Context:
    """What a source may know beside the file: how to read times, and which Slurm printed it."""

    def __init__(self, clock: Clock, manifest: Manifest, scan: Scan | None = None) -> None:
        """`clock` reads times; `manifest.version` is the Slurm version, None if not known; `scan` reads long files."""
        self.clock = clock
        self.manifest = manifest
        self.scan = scan
        self.notes: list[str] = []
        """What the source says of how it read the file, for the coverage."""

    def note(self, text: str) -> None:
        """Say it in the coverage of the file; an empty text says nothing."""
        if text:
            self.notes.append(text)

    def cite(
        self, source: str, file: EvidenceFile, line: int, text: str, *, node: str | None = None, at: Stamp | None = None
    ) -> Cite:
        """A citation of line `line` of `file`."""
        return Cite(source, file.name, line, text[:TEXT_LIMIT], node, at)


@cache
def all_sources() -> tuple[Source, ...]:
    """The source modules of this folder, by name."""
    found = []
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda i: i.name):
        if info.name.startswith("_") or info.ispkg:
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        if hasattr(module, "KIND"):
            found.append(module)
    return tuple(found)


@cache
def by_kind() -> Mapping[str, Source]:
    """The source modules by the kind of evidence that they read."""
    return {source.KIND: source for source in all_sources()}


def recognise(file: EvidenceFile) -> Source | None:
    """The source that reads this file, None if none does."""
    head = file.head()
    best: Source | None = None
    score = 0.0
    for source in all_sources():
        sure = source.recognise(file.name, head)
        if sure > score:
            best, score = source, sure
    return best


Parsed = Mapping[str, tuple[Sequence[Event], Coverage]]
"""By the file's name, its events and what was read of it."""


def parse(
    case: Case, kinds: Mapping[str, str] = _NONE, shared: Parsed = _NONE, scan: Scan | None = None
) -> tuple[tuple[Event, ...], tuple[Coverage, ...]]:
    """All events of a case, and what was read of each file. The order of files changes nothing.

    Where the manifest does not give the offset of local times, it is taken from a job's start that stands in the
    evidence both ways (accounting as text, and as JSON or in a hook's environment); then everything is read again.

    `kinds` says what files are, by name, whatever they look like. `shared` are files of many cases, parsed already
    (`parse_files`), as if they lay in this one. `scan` searches long files faster; what is found is the same.
    """
    events, coverage = _parse(case, case.clock, kinds, shared, scan)
    if case.clock.utc_offset is None:
        offset = _offset(events)
        if offset is not None:
            return _parse(case, replace(case.clock, utc_offset=offset), kinds, shared, scan)
    return events, coverage


def parse_files(case: Case, kinds: Mapping[str, str] = _NONE, scan: Scan | None = None) -> Parsed:
    """The files of a case, each for itself; none is taken for a job's output because another file says so."""
    files = sorted(case.files, key=lambda f: f.name)
    return {
        f.name: _read(f, Context(case.clock, case.manifest, scan), by_kind().get(kinds.get(f.name, ""))) for f in files
    }


def _offset(events: Sequence[Event]) -> timedelta | None:
    """The offset that makes local and epoch starts of a job agree: a multiple of 15 minutes, the smallest one."""
    local: dict[str, set[float]] = {}
    epoch: dict[str, set[float]] = {}
    for event in events:
        if isinstance(event, (JobRecord, HookEnv, ControllerJob)) and event.job and event.start is not None:
            (epoch if event.start.zoned else local).setdefault(event.job, set()).add(event.start.lo)
    found = []
    for job, starts in local.items():
        for one in starts:
            for other in epoch.get(job, ()):
                seconds = one - other  # local times were read as if they were UTC
                quarter = round(seconds / 900) * 900
                if abs(seconds - quarter) <= 1.0 and abs(quarter) <= 14 * 3600:
                    found.append(quarter)
    return timedelta(seconds=min(found, key=abs)) if found else None


def _parse(
    case: Case, clock: Clock, kinds: Mapping[str, str], shared: Parsed, scan: Scan | None
) -> tuple[tuple[Event, ...], tuple[Coverage, ...]]:
    read = {**shared, **parse_files(replace(case, clock=clock), kinds, scan)}
    for name, namer in _own_outputs(case, read, kinds.keys() | shared.keys()).items():
        file = next(f for f in case.files if f.name == name)
        events, entry = _read(file, Context(clock, case.manifest, scan), by_kind()[JOB_OUTPUT])
        said = f"read as the job's own output: {namer} names it so"
        read[name] = events, replace(entry, note=f"{entry.note}; {said}" if entry.note else said)
    found = [read[name] for name in sorted(read)]
    coverage = [entry for _, entry in found]
    coverage += [Coverage(name, None, note="never an input") for name in case.skipped]
    return tuple(e for events, _ in found for e in events), _with_problems(coverage, case.problems)


def _read(file: EvidenceFile, context: Context, source: Source | None) -> tuple[list[Event], Coverage]:
    """Events and coverage of one file; without `source`, of the kind that it looks like."""
    try:
        if source is None or file.size() == 0:
            source = recognise(file)
        if source is None:
            note = "empty" if file.size() == 0 else "not recognised as any kind of evidence; not used"
            return [], Coverage(file.name, None, note=note)
        found = list(source.parse(file, context))
        last_line = file.count()
    except OSError as error:
        return [], Coverage(file.name, None, note=f"could not be read: {error.strerror or error}")
    stamps = [e.at for e in found if e.at is not None]
    bad = sum(isinstance(e, Unreadable) for e in found)
    nodes = {e.node for e in found if e.node}
    entry = Coverage(
        file.name,
        source.KIND,
        last_line,
        len(found) - bad,
        nodes.pop() if len(nodes) == 1 else None,
        min(stamps, key=_moment, default=None),
        max(reversed(stamps), key=_moment, default=None),
        "; ".join([*([f"{bad} record(s) could not be read"] if bad else []), *context.notes]),
    )
    return found, entry


def _moment(stamp: Stamp) -> tuple[float, float]:
    return stamp.lo, stamp.hi


def _own_outputs(case: Case, read: Parsed, known: Collection[str]) -> dict[str, str]:
    """Files that look like another kind of evidence, but have the name of a job's output; with the file that says so.

    Files whose kind is `known` are not among them. A file is not believed when it names itself, and what a job's output
    says of other files is not believed either: files whose name is a daemon's or a tool's are asked first, and a file
    found to be an output is not asked.
    """
    beside = f"{case.manifest.cluster_dir}/" if case.manifest.cluster_dir else None
    files: dict[str, list[str]] = {}
    for name, (_, entry) in read.items():
        if entry.kind != JOB_OUTPUT and name not in known and not (beside and name.startswith(beside)):
            files.setdefault(name.rsplit("/", 1)[-1], []).append(name)
    if not files:
        return {}
    tellers = {
        name: [e for e in found if isinstance(e, (JobRecord, ControllerJob, HookEnv))]
        for name, (found, entry) in read.items()
        if entry.kind != JOB_OUTPUT
    }
    about = letters(e for events in tellers.values() for e in events)
    outputs: dict[str, str] = {}
    for teller in sorted(tellers, key=lambda name: (not is_daemon_name(name), name)):
        if teller in outputs or not tellers[teller]:
            continue
        for base in sorted(OutputNames(tellers[teller], about).among(files)):
            for name in files[base]:
                if name != teller:
                    outputs.setdefault(name, teller)
    return outputs


def _with_problems(coverage: Sequence[Coverage], problems: Sequence[str]) -> tuple[Coverage, ...]:
    """The coverage with `what: why it could not be looked at`, beside the file of that name if it was read in part."""
    merged = list(coverage)
    for problem in problems:
        what, _, why = problem.partition(": ")
        for index, entry in enumerate(merged):
            if entry.file == what:
                merged[index] = replace(entry, note=f"{entry.note}; {why}" if entry.note else why)
                break
        else:
            merged.append(Coverage(what, None, note=why or what))
    return tuple(merged)
