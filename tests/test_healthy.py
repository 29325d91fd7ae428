"""Healthy logs get no cause; the multiplying is deterministic; a log that is not well is found."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests import healthy
from tests.healthy import ARCHIVE, LINES, Healthy, judge, logs, measure, multiplied, sources

SMALL = 4.0
"""Megabytes: nearly every log once."""


@pytest.fixture(scope="module")
def judged() -> Healthy:
    return measure(SMALL, processes=1)


def test_no_healthy_log_gets_a_cause(judged: Healthy) -> None:
    whole = [f for f in judged.false if not f.log.startswith(LINES)]
    assert whole == []


def test_no_single_line_that_a_job_survived_gets_a_cause(judged: Healthy) -> None:
    lines = [f for f in judged.false if f.log.startswith(LINES)]
    assert lines == []


def test_every_log_and_every_line_is_judged_twice(judged: Healthy) -> None:
    lists = [data for name, data in sources().items() if name.startswith(LINES)]
    lines = sum(len(data.splitlines()) for data in lists)
    assert lines > 80
    assert judged.logs == 2 * (len(sources()) - len(lists) + lines)


def test_the_archive_is_small_and_has_every_kind() -> None:
    assert ARCHIVE.stat().st_size < 6e6
    assert {name.split("/")[0] for name in sources()} == {*healthy.NAMES, LINES}


def test_multiplied_logs_reach_200_megabytes_and_are_always_the_same() -> None:
    assert healthy.MEGABYTES >= 200
    for name, data in sources().items():
        kind = name.split("/")[0]
        if kind == LINES:
            continue
        once = multiplied(kind, data, 3 * len(data))
        assert once == multiplied(kind, data, 3 * len(data))
        assert len(once) >= 3 * len(data)
        assert once.count(b"\n") % (data if data.endswith(b"\n") else data + b"\n").count(b"\n") == 0


def test_each_round_has_another_form() -> None:
    out = multiplied("output", b"a\nb\n", 60).split(b"\n")
    assert out[:6] == [b"a", b"b", b"1: a", b"1: b", b"[rank2]: a", b"[rank2]: b"]
    kernel = multiplied("kernel", b"[    1.500000] x\n", 100).split(b"\n")
    assert [line.rsplit(b" ", 1)[0] for line in kernel[:3]] == [
        b"[    1.000000]",
        b"Mar  1 01:05:10 node1 kernel:",
        b"[2026-03-01T02:05:10,000000+01:00]",
    ]


def test_accounting_is_of_a_job_that_completed() -> None:
    rows = healthy.accounting()["sacct.psv"].decode().splitlines()
    head = rows[0].split("|")
    state, code = head.index("State"), head.index("ExitCode")
    assert {(row.split("|")[state], row.split("|")[code]) for row in rows[1:]} == {("COMPLETED", "0:0")}


def _archive(path: Path, name: str, data: bytes) -> Path:
    with tarfile.open(path, "w:xz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return path


def test_a_log_that_is_not_well_is_a_false_positive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oom = b"[  100.000000] Memory cgroup out of memory: Killed process 4711 (python3) total-vm:9kB, anon-rss:9kB\n"
    bad = _archive(tmp_path / "bad.tar.xz", "kernel/bad.log", oom)
    (alone, completed) = logs(0.0, bad)
    assert [name for name, _ in (alone, completed)] == ["kernel/bad.log, alone", "kernel/bad.log, job completed"]
    found, size, lines = judge(alone)
    assert found is not None and "Killed process 4711" in found.line
    assert (size, lines) == (len(oom), 1)
    result = measure(0.0, 1, bad)
    assert found in result.false and result.distinct_megabytes == len(oom) / 1e6
    assert f"{len(result.false)} false positives" in healthy.text(result, every=True)


def test_the_program_writes_cases_and_says_when_there_is_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert healthy.main(["--megabytes", "0", "--into", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "kernel_boot_q35_nvme.log_alone" / "kmsg.txt").stat().st_size > 10_000
    monkeypatch.setattr(healthy, "logs", lambda *_: (_ for _ in ()).throw(FileNotFoundError("healthy.tar.xz")))
    assert healthy.main(["--processes", "1"]) == 2
    assert "healthy.tar.xz" in capsys.readouterr().err
