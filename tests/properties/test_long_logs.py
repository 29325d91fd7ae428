"""Reading fast is reading the same: against a reader that looks at every line for every hint."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage import case, grep
from slurm_triage.case import Block, EvidenceFile, Manifest
from slurm_triage.clock import Clock
from slurm_triage.model import Event, Sign
from slurm_triage.sources import Context, _finder, job_log, slurmctld_log, slurmd_log
from slurm_triage.sources._catalog import load
from slurm_triage.sources._finder import Chunk, Finder, Scan
from tests.corpus.load import BUILTIN, cases

FOLDERS = ("slurm", "program", "kernel")

PIECES = (
    b"step 17 loss 0.25", b"", b"   ", b"\xa0", b"Killed", b"Error: no", b"ValueError: x", b"my.own.Problem: it broke",
    b"Traceback (most recent call last):", b'  File "a.py", line 3, in f', b"\tat f", b"[rank3]: ", b"12: ", b"[default1]:",
    b"[Errno 28] No space left on device", b"[Errno 29] ", b"slurmstepd: error: *** JOB 17 ON c1 CANCELLED AT ",
    b"2026-03-01T10:00:00 DUE TO TIME LIMIT ***", b"\0", b"\xff\xfe", b"\xc3", "é".encode(), b"\x1b[31mKilled\x1b[0m",
    b"50%|####   |\r 51%|#### |\r", b"Segmentation faul", b"Segmentation fault (core dumped)", b"Out of memory: Killed process 7 (a)",
    b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", b"Root Cause (first observed failure):",
    b"  rank      : 3 (local_rank: 3)", b"  exitcode  : -11 (pid: 77)", b"x" * 70_000, b"Killed " * 10_000, b":",
)  # fmt: skip
"""What lines are put together from: words of errors, near misses, labels, and whatever makes bytes no text."""

ENDS = (b"\n", b"\n", b"\n", b"\r\n", b"\r", b"")
DATA = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(ENDS)), max_size=60).map(
    lambda pairs: b"".join(piece + end for piece, end in pairs)
)
QUIET = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def plain_lines(data: bytes) -> list[tuple[int, bytes]]:
    """Number and bytes of every line, read one by one."""
    found = []
    for number, raw in enumerate(io.BytesIO(data), 1):
        line = raw.removesuffix(b"\n")[: case.LINE_LIMIT]
        found.append((number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line))
    return found


class PlainFinder(Finder):
    """Every line for itself, and every hint of every family in it."""

    def chunks(self, file: EvidenceFile, scan: Scan | None = None) -> Iterator[Chunk]:
        signatures = [s for folder in self.folders for s in load(folder).signatures]
        for number, raw in plain_lines(file.data or b""):
            text = raw.rstrip(b"\r").decode("utf-8", "replace")
            families = [s for s in signatures if any(hint in text for hint in s.hints)]
            wanted = families or any(hint in text for hint in self.extra)
            yield Chunk(Block(number, raw), {0: families} if wanted else {}, {0: raw})

    def __init__(self, folders: tuple[str, ...], extra: tuple[str, ...] = ()) -> None:
        super().__init__(folders, extra)
        self.folders, self.extra = folders, extra


PLAIN = cache(PlainFinder)
FINDER = cache(Finder)  # what one learns in a file is true of all


def read(source: object, data: bytes, scan: Scan | None = None) -> list[Event]:
    context = Context(Clock(), Manifest(), scan)
    return list(source.parse(EvidenceFile("job.out", data=data), context))  # type: ignore[attr-defined]


def ways(monkeypatch: pytest.MonkeyPatch, source: object, data: bytes, block: int) -> Iterator[tuple[str, list[Event]]]:
    """The events of all readers, the plain one first."""
    with monkeypatch.context() as patched:
        patched.setattr(source, "finder", PLAIN)
        yield "plain", read(source, data)
    with monkeypatch.context() as patched:
        patched.setattr(source, "finder", FINDER)
        patched.setattr(_finder, "FIRST", 1 << 60)
        yield "small", read(source, data)
        patched.setattr(_finder, "FIRST", -1)
        yield "shapes", read(source, data)
        patched.setattr(_finder, "LONG", 0)
        patched.setattr(grep, "BLOCK", block)
        yield "grep", read(source, data, grep.scan)
        patched.setattr(grep, "COMMAND", "there-is-no-such-grep")
        yield "no grep", read(source, data, grep.scan)


def same(monkeypatch: pytest.MonkeyPatch, source: object, data: bytes, block: int = 5000) -> list[Event]:
    (_, wanted), *others = ways(monkeypatch, source, data, block)
    for name, found in others:
        assert found == wanted, name
    return wanted


@QUIET
@given(DATA, st.sampled_from((1, 7, 100, case.BLOCK)))
def test_blocks_hold_the_lines(data: bytes, size: int) -> None:
    file = EvidenceFile("x", data=data)
    wanted = [(number, raw.rstrip(b"\r").decode("utf-8", "replace")) for number, raw in plain_lines(data)]
    assert EvidenceFile("x", data=data).count() == len(wanted)
    assert list(file.lines(size)) == wanted
    assert file.count() == len(wanted)
    assert all(block.count == len(block.data.split(b"\n")) for block in file.blocks(size))


@QUIET
@given(DATA)
def test_every_reader_of_an_output_says_the_same(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    same(monkeypatch, job_log, data)


@QUIET
@given(DATA)
def test_a_traceback_is_given_up_by_all_readers_at_the_same_line(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(job_log, "GIVEN_UP", 3)
    same(monkeypatch, job_log, data)


@settings(parent=QUIET, max_examples=20)
@given(DATA)
def test_every_reader_of_a_daemons_log_says_the_same(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    same(monkeypatch, slurmctld_log, data)
    same(monkeypatch, slurmd_log, data)


def test_every_reader_says_the_same_of_the_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [
        data
        for corpus in BUILTIN
        for _, files, _ in cases(corpus)
        for name, data in files.items()
        if name.endswith((".out", ".err", ".log"))
    ]
    assert len(outputs) > 100
    found = same(monkeypatch, job_log, b"\r\n".join(outputs), block=50_000)
    assert len({event.id for event in found if isinstance(event, Sign)}) > 20


def test_numbers_are_those_of_the_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of many blocks, with lines longer than one among them."""
    monkeypatch.setattr(_finder, "LONG", 0)
    monkeypatch.setattr(grep, "BLOCK", 4096)
    path = tmp_path / "job.out"
    with path.open("wb") as stream:
        for number in range(1, 3001):
            stream.write(
                b"Killed\n" if number % 300 == 0 else b"y" * 200_000 + b"\n" if number % 701 == 0 else b"step\n"
            )
    context = Context(Clock(), Manifest(), grep.scan)
    found = [
        e
        for e in job_log.parse(EvidenceFile("job.out", path), context)
        if isinstance(e, Sign) and "Killed" in e.cite.text
    ]
    lines = path.read_bytes().split(b"\n")
    assert sorted({e.cite.line for e in found}) == list(range(300, 3001, 300))
    assert all(lines[e.cite.line - 1].decode() == e.cite.text for e in found)


FAULTS = {
    "stops": "exit 3",
    "stops at NUL": 'exec sed -n "/^Kil/{=;p}"',
    "says it is binary": 'echo "Binary file (standard input) matches"',
    "is killed": "kill -9 $$",
    "says nothing": "exit 1",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_grep_that_is_none(fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = tmp_path / "grep"
    command.write_text(f"#!/bin/sh\n{FAULTS[fault]}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(grep, "COMMAND", str(command))
    (found,) = grep.scan(EvidenceFile("x", data=b"a\nKilled\n\0Killed\n"), [b"Killed"])
    assert found == (Block(1, b"a\nKilled\n\0Killed"), [(1, b"Killed"), (2, b"\0Killed")])


def test_a_grep_that_breaks_down_on_the_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It passes the trial and dies at the third block: nothing is lost."""
    command, count = tmp_path / "grep", tmp_path / "count"
    command.write_text(f'#!/bin/sh\necho x >>{count}\n[ $(wc -l <{count}) -lt 4 ] || kill -9 $$\nexec grep "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(grep, "COMMAND", str(command))
    monkeypatch.setattr(grep, "BLOCK", 70)
    data = b"".join(b"line %d\n" % n if n % 5 else b"Killed\n" for n in range(100))
    found = [
        (block.first + index, raw)
        for block, lines in grep.scan(EvidenceFile("x", data=data), [b"Killed"])
        for index, raw in lines
    ]
    assert found == [(n + 1, b"Killed") for n in range(0, 100, 5)]
    assert len(count.read_text()) // 2 <= 6


def test_a_search_that_is_left_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grep, "BLOCK", 10)
    search = grep.scan(EvidenceFile("x", data=b"Killed\n" * 100), [b"Killed"])
    next(search)
    search.close()  # type: ignore[attr-defined]  # leaves no child: pytest would warn of it
