"""Which file is the job's output, and which files are never read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slurm_triage import case, sources
from slurm_triage.live import _submit_line, job_output
from slurm_triage.live.job_output import Output, outputs, read

MINE = os.getuid()
DEFAULT = "sbatch's default name; the job may write elsewhere"


def found(table: str) -> list[Output]:
    events, _ = sources.parse(case.from_files({"sacct.psv": table.encode()}))
    return outputs(events)


def at(path: Path, uid: int | None = MINE) -> Output:
    return Output("1", "out", str(path), uid)


def test_where_the_output_is() -> None:
    header = "JobIDRaw|JobID|JobName|User|UID|State|ExitCode|Start|End|NodeList|WorkDir|StdOut|StdErr|SubmitLine\n"
    row = "17|17|prep|user1|1001|FAILED|1:0|2026-07-01T15:10:56|2026-07-01T15:11:18|c1|/home/user1|{}|{}|{}\n"
    batch = "17.batch|17.batch|batch|||FAILED|1:0|2026-07-01T15:10:56|2026-07-01T15:11:18|c1||||\n"
    assert found(header + row.format("/o/%j.out", "", "")) == [Output("17", "out", "/o/17.out", 1001)]
    assert found(header + row.format("%x.o", "%x.e", "")) == [
        Output("17", "out", "/home/user1/prep.o", 1001),
        Output("17", "err", "/home/user1/prep.e", 1001),
    ]
    assert found(header + row.format("a", "a", "")) == [Output("17", "out", "/home/user1/a", 1001)]
    assert found(header + row.format("", "", "sbatch -o x%j run.sh")) == [Output("17", "out", "/home/user1/x17", 1001)]
    assert found(header + row.format("", "", "srun -o x true")) == []  # no batch script: no default name either
    guess = Output("17", "out", "/home/user1/slurm-17.out", 1001, DEFAULT)
    assert found(header + row.format("", "", "sbatch run.sh -o x") + batch) == [guess]
    assert found(header + row.format("", "", "sbatch -o %q run.sh") + batch) == []  # told, but not for certain


def test_a_component_without_a_script_has_no_file_of_its_own() -> None:
    table = "JobIDRaw|JobID|UID|State|ExitCode|Start|End|NodeList|WorkDir|StdOut\n" + "".join(
        f"{raw}|9+{part}|1001|FAILED|4:0|2026-07-01T15:10:56|2026-07-01T15:11:18|c1|/h|slurm-%j.out\n{step}"
        for raw, part, step in (
            (9, 0, "9.batch|9+0.batch||FAILED|4:0|2026-07-01T15:10:56|2026-07-01T15:11:18|c1||\n"),
            (10, 1, ""),
        )
    )
    first, second = sorted(found(table), key=lambda output: int(output.part))
    assert (first.path, first.hint) == ("/h/slurm-9.out", "moved, or on a node's own disk")
    assert (second.path, second.hint) == (
        "/h/slurm-10.out",
        "the script of a heterogeneous job runs in its first component",
    )


def test_failed_tasks_of_a_large_array_come_first_and_fast() -> None:
    row = "{0}|1000_{1}|1001|{2}|1:0|2026-07-01T15:10:56|2026-07-01T15:11:18|c1|/h|a%a\n"
    table = "JobIDRaw|JobID|UID|State|ExitCode|Start|End|NodeList|WorkDir|StdOut\n" + "".join(
        row.format(1000 + task, task, "FAILED" if task % 1000 == 999 else "COMPLETED") for task in range(4000)
    )
    events, _ = sources.parse(case.from_files({"sacct.psv": table.encode()}))
    start = time.monotonic()
    all_files = outputs(events)
    assert time.monotonic() - start < 2
    assert [output.path for output in all_files[:5]] == ["/h/a999", "/h/a1999", "/h/a2999", "/h/a3999", "/h/a0"]
    assert len(all_files) == 4000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sbatch --parsable -J prep -o /o/%j.out -D /o --mem=60 -p low -w p4 -c 4", {"out": "/o/%j.out"}),
        ("/usr/bin/sbatch --output=a --error b x.sh", {"out": "a", "err": "b"}),
        ("sbatch -oa -eb x.sh", {"out": "a", "err": "b"}),
        ("sbatch --job-name my job -o x run.sh", {}),
        ("sbatch run.sh -o x", {}),
        ("sbatch --exclusive -Hk -o a -o b run.sh", {"out": "b"}),
        ("sbatch --wrap gcc -o x y.c", {}),
        ("sbatch --wrap=gcc -o x y.c", {}),
        ("srun -o x true", {}),
        ("sbatch -o", {}),
        ("sbatch -- -o x", {}),
        ("", {}),
    ],
)
def test_options_of_sbatch(line: str, said: dict[str, str]) -> None:
    assert _submit_line.paths(line) == said


def test_a_submit_line_of_a_megabyte_takes_no_time() -> None:
    start = time.monotonic()
    _submit_line.paths("sbatch " + "-J x " * 200_000)
    assert time.monotonic() - start < 2


# ------------------------------------------------------------------------------------------------ reading


def test_a_file_of_the_owner_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(b"one\ntwo\0\xff\n")
    answer = read(at(path), 5)
    assert (answer.data, answer.problem, answer.note) == (b"one\ntwo\0\xff\n", "", "")


def test_a_long_file_is_read_from_a_line_start_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(b"0123456789\n" * 100)
    answer = read(at(path), 5, limit=50)
    assert answer.data == b"0123456789\n" * 4
    assert answer.note == "only the last 44 bytes were read; line numbers count from byte 1056 on"


def test_a_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"the caller's own\n")
    for uid in (MINE + 1, None):
        answer = read(at(path, uid), 5)
        assert answer.data == b""
        assert answer.problem == f"belongs to uid {MINE}, not to the job's owner"


@pytest.mark.skipif(MINE != 0, reason="who is not root follows links with his own rights")
def test_root_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x\n")
    link = tmp_path / "link"
    link.symlink_to("real")
    assert read(at(link), 5).problem == "a symbolic link, which root does not follow"


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    start = time.monotonic()
    assert read(at(pipe), 5).problem == "not a regular file"
    assert read(at(tmp_path), 5).problem == "not a regular file"
    assert read(at(Path("/dev/null")), 5).problem == "not a regular file"
    assert time.monotonic() - start < 4


def test_why_a_file_was_not_read(tmp_path: Path) -> None:
    assert "no such file here" in read(at(tmp_path / "gone"), 5).problem
    assert "the job may write elsewhere" in read(Output("1", "out", str(tmp_path / "gone"), MINE, DEFAULT), 5).problem
    assert read(Output("1", "out", "/a\0b", MINE), 5).problem == "not a usable path"
    assert read(Output("1", "out", "/" + "x" * 5000, MINE), 5).problem


def test_a_file_system_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_output, "_read", lambda *_: time.sleep(3))
    assert read(at(tmp_path / "x"), 0.2).problem == "no answer of the file system within 0.2 seconds"
