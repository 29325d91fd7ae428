"""The evidence folder: what is in it, read line by line. Format: docs/reference/evidence-folder.md."""

from __future__ import annotations

import io
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from slurm_triage.clock import Clock, offset_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LAST_LINE = 2**53
"""No file has so many lines; JSON holds numbers up to it exactly."""

LINE_LIMIT = 64 * 1024
"""Longest line that is looked at, in bytes; the rest of a longer line is passed over."""

NOT_EVIDENCE = frozenset({"times.toml", "sacct_poll.psv", "submit.txt", "expect.toml", "case.toml", "manifest.toml"})
"""Names that are never evidence: notes of the people who made the case, and the manifest, which is read as such."""

CLUSTER_FILES = (
    "scontrol-config.txt",
    "scontrol-config.json",
    "scontrol-partition.txt",
    "sacctmgr-qos.psv",
    "slurm.conf",
)
"""Files of the cluster's folder (`cluster_dir` of the manifest) that are evidence for every case of that cluster."""


BLOCK = 1024 * 1024
"""Bytes that are read at once."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Consecutive lines of a file: number of the first one, and their bytes, without the end of the last one."""

    first: int
    data: bytes

    @cached_property
    def count(self) -> int:
        """How many lines these are."""
        return self.data.count(b"\n") + 1


def text_of(raw: bytes) -> str:
    """The text of one line."""
    return raw.rstrip(b"\r").decode("utf-8", "replace")


def blocks_of(lines: Iterable[tuple[int, bytes]], size: int = BLOCK) -> Iterator[Block]:
    """Numbered lines as blocks; a new one begins wherever lines were left out."""
    first, length = 1, 0
    kept: list[bytes] = []
    for number, raw in lines:
        if kept and (number != first + len(kept) or length >= size):
            yield Block(first, b"\n".join(kept))
            kept, length = [], 0
        if not kept:
            first = number
        kept.append(raw[3:] if number == 1 and raw.startswith(_BOM) else raw)
        length += len(raw) + 1
    if kept:
        yield Block(first, b"\n".join(kept))


def _shortened(data: bytes) -> bytes:
    """The lines, none longer than `LINE_LIMIT` bytes."""
    at = begin = 0
    kept = []
    while len(data) - at > LINE_LIMIT:
        end = data.rfind(b"\n", at, at + LINE_LIMIT + 1)
        if end >= 0:  # no line up to here is too long
            at = end + 1
            continue
        kept.append(data[begin : at + LINE_LIMIT])
        begin = data.find(b"\n", at + LINE_LIMIT)
        if begin < 0:
            return b"".join(kept)
        at = begin + 1
    return b"".join((*kept, data[begin:])) if kept else data


@dataclass(frozen=True)
class EvidenceFile:
    """One file of a case. `name` is its path relative to the case folder, with `/`; `data` its bytes, unless `path`.

    `ranges` says of a file that holds only some lines of another one which lines these are: the first and last number
    of each run of lines. Without it, and behind the last run, lines are counted on.
    """

    name: str
    path: Path | None = None
    data: bytes | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    _counted: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
    """How many lines there were when all were read, so that a file of gigabytes is not read for it again."""

    def _open(self) -> io.BufferedIOBase:
        if self.path is not None:
            return self.path.open("rb")
        return io.BytesIO(self.data or b"")

    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size if self.path is not None else len(self.data or b"")

    def lines(self, size: int = BLOCK) -> Iterator[tuple[int, str]]:
        """(number from 1, text) of every line, streamed. Bytes that are not UTF-8 become U+FFFD; CR at the end goes."""
        for block in self.blocks(size):
            for index, raw in enumerate(block.data.split(b"\n")):
                yield block.first + index, text_of(raw)

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """All lines in pieces of about `size` bytes: memory stays the same however long the file is."""
        if self.ranges:
            raw = (line for data in self._pieces(size) for line in data.split(b"\n"))
            yield from blocks_of(zip(self._numbers(), raw, strict=False), size)
            return
        first = 1
        for data in self._pieces(size):
            block = Block(first, data[3:] if first == 1 and data.startswith(_BOM) else data)
            yield block
            first += block.count
        self._counted[:] = [first - 1]

    def _numbers(self) -> Iterator[int]:
        """The numbers of the lines, without end."""
        last = 0
        for first, last in self.ranges:
            yield from range(first, last + 1)
        yield from itertools.count(last + 1)

    def _pieces(self, size: int) -> Iterator[bytes]:
        """Whole lines, at most `LINE_LIMIT` bytes of each, without the end of the last one."""
        with self._open() as stream:
            begun = b""
            while data := stream.read(size):
                end = data.rfind(b"\n")
                if end < 0:
                    begun = (begun + data)[:LINE_LIMIT]
                    continue
                piece = _shortened(b"".join((begun, memoryview(data)[:end])))
                begun = data[end + 1 : end + 1 + LINE_LIMIT]
                del data  # the reader may hold a piece for long
                yield piece
            if begun:
                yield begun

    def count(self) -> int:
        """How many lines there are."""
        if self._counted:
            return self._counted[0]
        lines, last = 0, b"\n"
        with self._open() as stream:
            while data := stream.read(BLOCK):
                lines, last = lines + data.count(b"\n"), data[-1:]
        return lines + (last != b"\n")

    def head(self, limit: int = 60) -> list[str]:
        """The first `limit` lines, for recognising what the file is."""
        return [line for _, line in itertools.islice(self.lines(LINE_LIMIT), limit)]

    def text(self, limit: int = 64 * 1024 * 1024) -> str:
        """The whole text, at most `limit` bytes; for formats that cannot be streamed (JSON, NUL-separated)."""
        with self._open() as stream:
            return stream.read(limit).decode("utf-8", "replace")

    @property
    def base(self) -> str:
        """The last part of the name."""
        return self.name.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Manifest:
    """`manifest.toml`: how to read the folder. All members are optional.

    `not_seen` holds what whoever gathered the folder could not look at, as `what: why`.
    """

    slurm: str | None = None
    cluster: str | None = None
    env_format: str | None = None
    cluster_dir: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    not_seen: tuple[str, ...] = ()

    @property
    def version(self) -> tuple[int, int] | None:
        """(24, 11) of `24.11.5`."""
        match = re.match(r"(\d{1,2})\.(\d{1,2})", self.slurm or "")
        return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class Case:
    """A folder of evidence. `skipped` names what lies there and is never read as evidence."""

    files: tuple[EvidenceFile, ...]
    manifest: Manifest = Manifest()
    clock: Clock = field(default_factory=Clock)
    skipped: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def _manifest(text: str) -> Manifest:
    try:
        return _manifest_of(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Manifest(problem=f"manifest.toml: not valid TOML, so nothing in it was used: {error}")


def _manifest_of(values: Mapping[str, Any]) -> Manifest:
    def word(key: str) -> str | None:
        value = values.get(key)
        return str(value) if isinstance(value, (str, int, float)) and str(value) else None

    unseen = values.get("not_seen")
    seen = tuple(str(entry) for entry in unseen if isinstance(entry, str)) if isinstance(unseen, list) else ()
    return Manifest(word("slurm"), word("cluster"), word("env_format"), word("cluster_dir"), values, not_seen=seen)


def _ranges(manifest: Manifest, problems: list[str]) -> dict[str, tuple[tuple[int, int], ...]]:
    """`line_ranges` of the manifest by file. One that is no list of runs in order is a problem, and not used."""
    said = manifest.values.get("line_ranges")
    found = {}
    for name, runs in said.items() if isinstance(said, dict) else ():
        read = _runs(runs)
        if read is None:
            problems.append(f"{name}: line_ranges of the manifest cannot be read: its lines were counted from 1")
        else:
            found[str(name)] = read
    return found


def _runs(said: object) -> tuple[tuple[int, int], ...] | None:
    runs: list[tuple[int, int]] = []
    for run in said if isinstance(said, list) else [None]:
        if not isinstance(run, (list, tuple)) or len(run) != 2 or any(type(number) is not int for number in run):
            return None
        if not (runs[-1][1] if runs else 0) < run[0] <= run[1] < LAST_LINE:
            return None
        runs.append((run[0], run[1]))
    return tuple(runs)


def _clock(manifest: Manifest) -> Clock:
    offset = manifest.values.get("utc_offset")
    boot = manifest.values.get("boot_epoch")
    epochs: dict[str, float] = {}
    if isinstance(boot, (int, float)) and not isinstance(boot, bool):
        epochs[""] = float(boot)
    elif isinstance(boot, dict):
        epochs = {str(k): float(v) for k, v in boot.items() if isinstance(v, (int, float))}
    return Clock(offset_of(offset) if isinstance(offset, str) else None, epochs)


def from_files(files: Mapping[str, bytes], values: Mapping[str, Any] | None = None) -> Case:
    """A case held in memory: name to bytes. `values` are the manifest's; without, `manifest.toml` is read as it."""
    manifest = Manifest()
    if values is not None:
        manifest = _manifest_of(values)
    elif "manifest.toml" in files:
        manifest = _manifest(files["manifest.toml"].decode("utf-8", "replace"))
    problems = [manifest.problem] if manifest.problem else []
    problems += manifest.not_seen
    ranges = _ranges(manifest, problems)
    kept = tuple(
        EvidenceFile(name, data=data, ranges=ranges.get(name, ()))
        for name, data in sorted(files.items())
        if name.rsplit("/", 1)[-1] not in NOT_EVIDENCE
    )
    skipped = tuple(n for n in sorted(files) if n.rsplit("/", 1)[-1] in NOT_EVIDENCE and n != "manifest.toml")
    return Case(kept, manifest, _clock(manifest), skipped, tuple(problems))


def read(folder: Path) -> Case:
    """The case in `folder`. Raises `OSError` when it cannot be listed; single unreadable files become `problems`."""
    kept: list[EvidenceFile] = []
    skipped: list[str] = []
    problems: list[str] = []
    manifest = Manifest()
    list(folder.iterdir())  # raises for a folder that is missing or may not be listed; rglob would be silent
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            if path.is_symlink():
                problems.append(f"{name}: a symbolic link, not followed")
            continue
        try:
            with path.open("rb"):
                pass
            if name == "manifest.toml":
                manifest = _manifest(path.read_text("utf-8", "replace"))
        except OSError as error:
            problems.append(f"{name}: {error.strerror or error}")
            continue
        if path.name in NOT_EVIDENCE:
            if name != "manifest.toml":
                skipped.append(name)
            continue
        kept.append(EvidenceFile(name, path))
    if manifest.problem:
        problems.append(manifest.problem)
    problems.extend(manifest.not_seen)
    ranges = _ranges(manifest, problems)
    kept = [replace(file, ranges=ranges.get(file.name, ())) for file in kept]
    kept.extend(_cluster_files(folder, manifest, {f.base for f in kept}, problems))
    return Case(tuple(kept), manifest, _clock(manifest), tuple(skipped), tuple(problems))


def _cluster_files(folder: Path, manifest: Manifest, have: set[str], problems: list[str]) -> Iterator[EvidenceFile]:
    """Files of `cluster_dir`, which lies beside the case (one level up at most: a case cannot point anywhere else)."""
    if not manifest.cluster_dir:
        return
    if not re.fullmatch(r"(\.\./)?[\w.-]+", manifest.cluster_dir) or manifest.cluster_dir in ("..", "../.."):
        problems.append(f"manifest.toml: cluster_dir {manifest.cluster_dir!r} must be a folder in or beside the case")
        return
    base = folder / manifest.cluster_dir
    for name in CLUSTER_FILES:
        path = base / name
        if name not in have and path.is_file() and not path.is_symlink():
            yield EvidenceFile(f"{manifest.cluster_dir}/{name}", path)
