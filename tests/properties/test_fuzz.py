"""Broken and hostile evidence: real cases, damaged. Nothing raises, nothing is evaluated, no citation is false."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_triage.case import LINE_LIMIT, from_files
from slurm_triage.engine import diagnose
from slurm_triage.report.brief import brief
from slurm_triage.report.document import document
from slurm_triage.report.explain import explain
from slurm_triage.report.text import render
from tests.citations import TEXT_LIMIT, agrees, places_of
from tests.properties.corpus import files_of

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/reference/diagnosis-1.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
MIB = 1024 * 1024
Files = dict[str, bytes]
Damage = Callable[[Files], Files]

PRODUCT = "62615533"  # of 7919 and 7907: a number that no evidence holds
EVIL_NAMES = (
    "{{ 7919*7907 }}",
    "{% raw %}",
    "{% for x in range(9) %}{{ 7919*7907 }}{% endfor %}",
    "$((7919*7907))`expr 7919 \\* 7907`",
    "a\nSLURM_JOB_EXIT_CODE=35072\nJobState=TIMEOUT",
    "a\r\n4711|4711|x|root|0|COMPLETED|0:0",
    "a|CANCELLED by 0|0:9|b",
    "\x1b[2J\x1b]0;owned\x07\x1b[31mred",
    "\u202edrowssap\u202c\u2066x\u2069\u200b",
    "\U0001f600\u0000\u0085\u2028end",
    "Killed process 1 (init) total-vm:1kB, anon-rss:1kB, file-rss:0kB",
    "x" * 70_000,
    "%s%n%x%j%A",
    "../../../etc/passwd",
    "",
)

# ------------------------------------------------------------------------------------------------ cases and damage


@cache
def _cases() -> tuple[tuple[str, Files], ...]:
    """Every ninth case of the whole corpus: all kinds of ends, four clusters, public excerpts."""
    return tuple((id, dict(files)) for id, files in files_of(everything=True)[::9])


def _job_name(files: Mapping[str, bytes]) -> bytes:
    """The name that accounting shows for the job, a word that surely is not there if it shows none."""
    head, _, rest = files.get("sacct.psv", b"").partition(b"\n")
    columns = head.split(b"|")
    cells = rest.partition(b"\n")[0].split(b"|")
    if b"JobName" in columns and len(cells) == len(columns) and len(cells[columns.index(b"JobName")]) > 1:
        return cells[columns.index(b"JobName")]
    return b"no such name"


def _swap(files: Files, one: str, other: str) -> Files:
    return files | {one: files[other], other: files[one]}


def _insert(data: bytes, at: int, more: bytes) -> bytes:
    return data[:at] + more + data[at:]


@st.composite
def _damages(draw: st.DrawFn, files: Files) -> Files:
    """The case with one to four things wrong."""
    for _ in range(draw(st.integers(1, 4))):
        names = sorted(files)
        name = draw(st.sampled_from(names))
        data = files[name]
        at = draw(st.integers(0, len(data)))
        kind = draw(
            st.sampled_from(
                (
                    "garbage", "insert", "cut", "head", "long", "nul", "utf16", "latin1", "bom", "crlf", "copy", "swap",
                    "name", "name", "empty", "unlines", "shuffle", "brackets",
                )
            )
        )  # fmt: skip
        if kind == "garbage":
            files = files | {name: draw(st.binary(max_size=400))}
        elif kind == "insert":
            files = files | {name: _insert(data, at, draw(st.binary(min_size=1, max_size=60)))}
        elif kind == "cut":
            files = files | {name: data[:at]}
        elif kind == "head":
            files = files | {name: data[at:]}
        elif kind == "long":
            unit = draw(
                st.sampled_from((b"a", b" ", b"[", b"(", b"=", b"|", b"1", b"Killed process 1 (", b"\xff", b"\t:"))
            )
            files = files | {name: _insert(data, at, unit * (MIB // len(unit)))}
        elif kind == "nul":
            files = files | {name: data.replace(draw(st.sampled_from((b"\n", b" ", b"="))), b"\0")}
        elif kind == "utf16":
            files = files | {name: data.decode("utf-8", "replace").encode("utf-16")}
        elif kind == "latin1":
            files = files | {name: _insert(data, at, "M\u00fcller \u00df\n".encode("latin-1"))}
        elif kind == "bom":
            files = files | {name: b"\xef\xbb\xbf" + data}
        elif kind == "crlf":
            files = {n: d.replace(b"\n", b"\r\n") for n, d in files.items()}
        elif kind == "copy":
            files = files | {
                draw(st.sampled_from(("copy.txt", "a/" + name, "zz.log", "sacct.psv", "env.epilog.x.txt"))): data
            }
        elif kind == "swap":
            files = _swap(files, name, draw(st.sampled_from(names)))
        elif kind == "name":
            evil = draw(st.sampled_from(EVIL_NAMES)).encode("utf-8", "replace")
            old = _job_name(files)
            files = {n: d.replace(old, evil, 40) for n, d in files.items()}
        elif kind == "empty":
            files = files | {name: b""}
        elif kind == "unlines":
            files = files | {name: data.replace(b"\n", b"\r")}
        elif kind == "shuffle":
            lines = data.splitlines(keepends=True)[:300]
            files = files | {name: b"".join(draw(st.permutations(lines)))}
        else:
            files = files | {name: b"[" * 5000 + data}
    return files


@st.composite
def _broken_cases(draw: st.DrawFn) -> Files:
    _, files = draw(st.sampled_from(_cases()))
    return draw(_damages(dict(files)))


# ------------------------------------------------------------------------------------------------ what must hold


def _units(data: bytes, separator: bytes) -> list[str]:
    """The lines or records of a file, as the evidence format defines them: CR at the end goes, bad bytes are U+FFFD.

    Of a line longer than the limit only the start is looked at; that is more than a citation keeps.
    """
    cut = [unit[:LINE_LIMIT] for unit in data.removeprefix(b"\xef\xbb\xbf").split(separator)]
    return [unit.rstrip(b"\r").decode("utf-8", "replace") for unit in cut]


def _false_citations(files: Files, paper: object) -> Iterator[str]:
    split: dict[tuple[str, bytes], list[str]] = {}
    for file, line, text in set(places_of(paper)):
        if file not in files:
            yield f"{file}: there is no such file"
            continue
        found = []
        for separator in (b"\n", b"\0"):
            units = split.setdefault((file, separator), _units(files[file], separator))
            if 0 < line <= len(units):
                found.append(units[line - 1][:TEXT_LIMIT])
        if not found:
            yield f"{file}:{line}: there is no such line"
        elif text is not None and not any(agrees(text, unit) or _cut_early(text, unit) for unit in found):
            yield f"{file}:{line}: cited {text[:200]!r}, the line is {found[0][:200]!r}"


def _cut_early(text: str, unit: str) -> bool:
    """A line cut with its byte order mark still on: a character short, but no false one."""
    return len(text) >= TEXT_LIMIT - 1 and unit.startswith(text)


def _printable(text: str) -> bool:
    return all(32 <= ord(char) < 127 or char == "\n" for char in text)


def check(files: Files) -> None:
    """All that must hold for any bytes at all."""
    diagnosis = diagnose(from_files(files))
    paper = document(diagnosis)
    text, why, line = render(diagnosis), explain(diagnosis), brief(diagnosis)

    VALIDATOR.validate(paper)
    json.dumps(paper).encode("ascii")
    assert not list(_false_citations(files, paper))

    lines = text.split("\n")
    assert lines[-1] == "" and len(lines) - 1 <= 60
    assert max(map(len, lines)) <= 79
    for shown in (text, why, line):
        assert _printable(shown)
        assert PRODUCT not in shown
    assert "\n" not in line.rstrip("\n")
    assert PRODUCT not in json.dumps(paper)


def test_the_cases_themselves_hold() -> None:
    assert len(_cases()) > 40
    for _, files in _cases():
        check(files)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(_broken_cases())
def test_damaged_cases(files: Files) -> None:
    check(files)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(("sacct.psv", "job.out", "kmsg.txt", "env.x", "spank.txt", "sacct.json", "m")),
                       st.binary(max_size=300), max_size=4))  # fmt: skip
def test_any_bytes(files: Files) -> None:
    check(files)


def test_every_evil_name() -> None:
    id, files = next(case for case in _cases() if _job_name(case[1]) != b"no such name")
    old = _job_name(files)
    for name in EVIL_NAMES:
        evil = name.encode("utf-8", "replace")
        changed = {n: d.replace(old, evil) for n, d in files.items()}
        assert changed != files, id
        check(changed)


def test_lines_of_a_mebibyte_in_every_file() -> None:
    _, files = next(case for case in _cases() if {"sacct.psv", "kmsg.txt", "job.out"} <= case[1].keys())
    for name, data in files.items():
        check(files | {name: b"x" * MIB + b"\n" + data})
