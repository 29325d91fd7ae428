"""A file that holds only some lines of another one: its lines keep their numbers, and are no neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_triage.case import from_files, read
from slurm_triage.model import Sign
from slurm_triage.sources import parse

DATA = b"\xef\xbb\xbfstarted\nTraceback (most recent call last):\n  x\nKeyError: 3\nlast\n"
RUNS = [[1, 1], [500, 502], [900, 900]]


def numbers(values: dict[str, Any], data: bytes = DATA) -> list[int]:
    (file,) = from_files({"job.out": data}, values).files
    return [number for number, _ in file.lines()]


def test_lines_have_the_numbers_of_the_whole_file() -> None:
    assert numbers({"line_ranges": {"job.out": RUNS}}) == [1, 500, 501, 502, 900]
    assert numbers({}) == [1, 2, 3, 4, 5]
    assert numbers({"line_ranges": {"job.err": RUNS}}) == [1, 2, 3, 4, 5]


def test_more_lines_than_the_ranges_say_are_counted_on() -> None:
    assert numbers({"line_ranges": {"job.out": [[7, 8]]}}) == [7, 8, 9, 10, 11]


def test_fewer_lines_than_the_ranges_say() -> None:
    assert numbers({"line_ranges": {"job.out": RUNS}}, b"a\nb\n") == [1, 500]


def test_a_folder_says_it_in_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_bytes(DATA)
    (tmp_path / "manifest.toml").write_text('line_ranges = {"job.out" = [[1, 1], [500, 502], [900, 900]]}')
    case = read(tmp_path)
    assert [number for number, _ in case.files[0].lines()] == [1, 500, 501, 502, 900]
    assert case.problems == ()


@pytest.mark.parametrize(
    "said",
    [
        5,
        "x",
        [1],
        [[1]],
        [[0, 3]],
        [[3, 1]],
        [[5, 9], [9, 12]],
        [[5, 9], [1, 2]],
        [[1, 2.0]],
        [[True, 3]],
        [[1, 2**60]],
    ],
)
def test_ranges_that_are_none_are_said_and_not_used(said: object) -> None:
    case = from_files({"job.out": DATA}, {"line_ranges": {"job.out": said}})
    assert [number for number, _ in case.files[0].lines()] == [1, 2, 3, 4, 5]
    assert case.problems == ("job.out: line_ranges of the manifest cannot be read: its lines were counted from 1",)


@pytest.mark.parametrize("said", [None, [], "x", 3])
def test_no_table_of_ranges_is_none(said: object) -> None:
    assert numbers({"line_ranges": said}) == [1, 2, 3, 4, 5]


def test_signs_cite_the_lines_of_the_whole_file() -> None:
    events, coverage = parse(from_files({"job.out": DATA}, {"line_ranges": {"job.out": RUNS}}))
    found = {s.id: s.cite.line for s in events if isinstance(s, Sign) and not s.id.startswith("log_tail")}
    assert found["python_exception"] == 502 and found["log_end"] == 900
    assert coverage[0].kind == "job_log"


def test_the_first_lines_are_looked_at_whatever_their_numbers() -> None:
    (file,) = from_files({"x.log": b"a\nb\nc\n"}, {"line_ranges": {"x.log": [[800, 802]]}}).files
    assert file.head(2) == ["a", "b"]
