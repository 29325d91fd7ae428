"""Pasted tables, seff reports and lone statements: forms of public reports."""

from __future__ import annotations

import time
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import from_files
from slurm_triage.model import Event, JobRecord, ShownExit, StepRecord, Unreadable
from slurm_triage.sources import Context, _sacct, sacct_table

T = TypeVar("T", bound=Event)

CUT = """\
JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
------------ ---------- ---------- ---------- ---------- ---------- --------
2321682      smk-mark_+     amilan csu-gener+          1 OUT_OF_ME+    0:125
2321682.bat+      batch            csu-gener+          1 OUT_OF_ME+    0:125
2321682.ext+     extern            csu-gener+          1  COMPLETED      0:0
"""
INDENTED = """\
    JobID           JobName  ReqCPUS     ReqMem     AveRSS     MaxRSS    Elapsed                State ExitCode
    ------------ ---------- -------- ---------- ---------- ---------- ---------- -------------------- --------
    568963             test        3      1024M                         00:01:10              TIMEOUT      0:0
    568963.batch      batch        3                12.01M     12.01M   00:01:11            CANCELLED     0:15
    568963.exte+     extern        3                 0.90M      0.90M   00:01:10            COMPLETED      0:0
"""
SEFF = """\
Job ID: 123456
Array Job ID: 123450_6
Cluster: mini
User/Group: user1/group1
State: OUT_OF_MEMORY (exit code 0)
Nodes: 1
Cores per node: 4
CPU Utilized: 00:03:12
CPU Efficiency: 24.49% of 00:13:04 core-walltime
Job Wall-clock time: 00:03:16
Memory Utilized: 3.99 GB
Memory Efficiency: 99.79% of 4.00 GB
"""
SQUEUE = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
              4242      main my run x    user1 PD       0:00      2 (Nodes required for job are DOWN, DRAINED)
              4243      main    train    user2  R 1-02:03:04      2 c[1-2]
           4244_[5-9%2]  main sweep user1 PD 0:00 1 (Resources)
"""


def read(text: str | bytes, name: str = "sacct.txt", slurm: str | None = None) -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({name: data, "manifest.toml": f'slurm = "{slurm}"'.encode() if slurm else b""})
    (file,) = (f for f in case.files if f.name == name)
    return list(sacct_table.parse(file, Context(case.clock, case.manifest)))


def only(events: list[Event], kind: type[T]) -> T:
    (found,) = (e for e in events if isinstance(e, kind))
    return found


def test_cut_cells_are_completed_where_there_is_one_way() -> None:
    job, batch, extern = read(CUT)
    assert isinstance(job, JobRecord) and isinstance(batch, StepRecord) and isinstance(extern, StepRecord)
    assert (job.job, job.state, job.exit) == ("2321682", "OUT_OF_MEMORY", ShownExit(0, 125, None))
    assert (job.name, job.partition, job.account) == ("smk-mark_+", "amilan", None)
    assert (batch.job, batch.step, batch.state) == ("2321682", "batch", "OUT_OF_MEMORY")
    assert (extern.step, extern.state, extern.exit) == ("extern", "COMPLETED", ShownExit(0, 0, None))
    assert job.cite.line == 3 and job.cite.text.startswith("2321682      smk")
    assert job.final is None and job.end is None


def test_blank_cells_and_indentation() -> None:
    job, batch, extern = read(INDENTED)
    assert isinstance(job, JobRecord) and isinstance(batch, StepRecord) and isinstance(extern, StepRecord)
    assert (job.state, job.elapsed, job.req_mem, job.max_rss) == ("TIMEOUT", 70.0, 1024 << 20, None)
    assert (batch.state, batch.exit, batch.max_rss) == ("CANCELLED", ShownExit(0, 15, None), round(12.01 * 2**20))
    assert extern.step == "extern"


@pytest.mark.parametrize("drop", ["dashes", "dash indentation", "row indentation"])
def test_a_moved_row_gives_no_wrong_cell(drop: str) -> None:
    lines = INDENTED.splitlines()
    if drop == "dashes":
        del lines[1]
    elif drop == "dash indentation":
        lines[1] = lines[1].strip()
    else:
        lines[2:] = [line.strip() for line in lines[2:]]
    job, batch, _ = read("\n".join(lines))
    assert isinstance(job, JobRecord) and isinstance(batch, StepRecord)
    assert (job.state, job.exit) == ("TIMEOUT", ShownExit(0, 0, None))
    assert job.elapsed in (70.0, None) and job.req_mem in (1024 << 20, None) and job.max_rss is None
    assert batch.max_rss in (round(12.01 * 2**20), None) and batch.state == "CANCELLED"


def test_ids_that_are_cut_in_several_possible_ways() -> None:
    head = "JobID           JobName  Partition      State ExitCode\n"
    head += "------------ ---------- ---------- ---------- --------\n"
    events = read(
        head
        + "107636350_1+      sweep       main     FAILED      9:0\n"
        + "107636350_1+      batch                FAILED      9:0\n"
        + "10763635_12       sweep       main     FAILED      9:0\n"
        + "10763635_12+      batch                FAILED      9:0\n"
        + "10763635_12+     python                FAILED      9:0\n"
        + "1076363512.+     extern             COMPLETED      0:0\n"
        + "1076363512.+     python             COMPLETED      0:0\n"
    )
    task, lost, whole, batch, other, extern, step = events
    assert isinstance(task, JobRecord) and task.job is None and task.state == "FAILED"
    assert isinstance(lost, Unreadable) and "cut" in lost.why
    assert isinstance(whole, JobRecord) and whole.array_task == "12"
    assert isinstance(batch, StepRecord) and (batch.job, batch.step) == ("10763635_12", "batch")
    assert isinstance(other, Unreadable)
    assert isinstance(extern, StepRecord) and (extern.job, extern.step) == ("1076363512", "extern")
    assert isinstance(step, Unreadable)


def test_cancelled_by_in_a_narrow_and_in_a_wide_column() -> None:
    text = (
        "JobID        State        ExitCode\n------------ ------------ --------\n7            CANCELLED b+      0:0\n"
    )
    narrow = only(read(text), JobRecord)
    assert (narrow.state, narrow.cancelled_by) == ("CANCELLED", None)
    wide = only(read("JobID State ExitCode\n7 CANCELLED by 1001 0:0\n"), JobRecord)
    assert (wide.state, wide.cancelled_by, wide.exit) == ("CANCELLED", "1001", ShownExit(0, 0, None))


def test_a_state_that_could_be_two_is_unreadable() -> None:
    events = read("JobID State ExitCode\n7 COMPLET+ 0:0\n8 FAILED 1:0\n")
    assert isinstance(events[0], Unreadable) and isinstance(events[1], JobRecord)


@pytest.mark.parametrize(
    ("row", "job", "state", "exit_", "elapsed", "name"),
    [
        ("10763635_1     w2-persample-timeout    TIMEOUT   00:02:11          8      0:0",
         "10763635_1", "TIMEOUT", ShownExit(0, 0, None), 131.0, "w2-persample-timeout"),
        ("10763638_9  w2-range  FAILED  00:00:13  8  64:0",
         "10763638_9", "FAILED", ShownExit(64, 0, None), 13.0, "w2-range"),
        ("99|train|CANCELLED by 1001|1-00:00:13|0:15",
         "99", "CANCELLED", ShownExit(0, 15, None), 86413.0, "train"),
        ("99 FAILED OUT_OF_MEMORY 0:125", "99", "OUT_OF_MEMORY", ShownExit(0, 125, None), None, "FAILED"),
        ("99 NODE_FAIL", "99", "NODE_FAIL", None, None, None),
    ],
)  # fmt: skip
def test_rows_without_a_header(
    row: str, job: str, state: str, exit_: ShownExit | None, elapsed: float | None, name: str | None
) -> None:
    assert sacct_table.recognise("x.txt", [row]) >= 0.5
    record = only(read(row + "\n"), JobRecord)
    assert (record.job, record.state, record.exit) == (job, state, exit_)
    assert (record.elapsed, record.name) == (elapsed, name)
    assert record.cite.text == row


@pytest.mark.parametrize(
    ("line", "state", "by"),
    [
        ("CANCELLED by 0", "CANCELLED", "0"),
        ("NODE_FAIL", "NODE_FAIL", None),
        ("State=OUT_OF_MEMORY", "OUT_OF_MEMORY", None),
        ("State: OUT_OF_MEMORY (exit code 0)", "OUT_OF_MEMORY", None),
        ("  State  TIMEOUT ", "TIMEOUT", None),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", None),
    ],
)
def test_lone_statements(line: str, state: str, by: str | None) -> None:
    assert sacct_table.recognise("note.txt", [line]) >= 0.5
    job = only(read(line), JobRecord)
    assert (job.state, job.cancelled_by, job.job, job.exit) == (state, by, None, None)


def test_statements_on_several_lines_are_one_record() -> None:
    job = only(read("State=OUT_OF_MEMORY\nMaxRSS 255.97G\nReqMem 256G\n"), JobRecord)
    assert (job.state, job.max_rss, job.req_mem) == ("OUT_OF_MEMORY", round(255.97 * 2**30), 256 << 30)
    assert job.cite.line == 1


def test_the_same_key_again_is_the_next_job() -> None:
    states = [e.state for e in read("State=FAILED\nExitCode=9:0\nState=TIMEOUT\n") if isinstance(e, JobRecord)]
    assert states == ["FAILED", "TIMEOUT"]


def test_seff() -> None:
    assert sacct_table.recognise("x.txt", SEFF.splitlines()) >= 0.9
    job = only(read(SEFF), JobRecord)
    assert (job.job, job.shown_id, job.array_id, job.array_task) == ("123456", "123450_6", "123450", "6")
    assert (job.state, job.elapsed, job.n_nodes, job.user) == ("OUT_OF_MEMORY", 196.0, 1, "user1")
    assert (job.max_rss, job.req_mem) == (round(3.99 * 2**30), 4 << 30)
    assert job.exit is None  # seff hides the signal: 0 is not the exit code
    assert job.cite.text.startswith("State:")


@pytest.mark.parametrize(
    ("state", "exit_"),
    [
        ("FAILED (exit code 137)", ShownExit(137, 0, False)),
        ("COMPLETED (exit code 0)", ShownExit(0, 0, False)),
        ("CANCELLED (exit code 0)", None),
    ],
)
def test_exit_codes_of_seff(state: str, exit_: ShownExit | None) -> None:
    assert only(read(SEFF.replace("OUT_OF_MEMORY (exit code 0)", state)), JobRecord).exit == exit_


def test_two_reports_of_seff() -> None:
    events = read(SEFF + "\n" + SEFF.replace("123456", "99").replace("OUT_OF_MEMORY", "TIMEOUT"))
    assert [(e.job, e.state) for e in events if isinstance(e, JobRecord)] == [
        ("123456", "OUT_OF_MEMORY"),
        ("99", "TIMEOUT"),
    ]


def test_squeue() -> None:
    assert sacct_table.recognise("x.txt", SQUEUE.splitlines()) >= 0.8
    waiting, running, array = read(SQUEUE)
    assert isinstance(waiting, JobRecord) and isinstance(running, JobRecord) and isinstance(array, JobRecord)
    assert (waiting.job, waiting.state, waiting.nodes, waiting.final) == ("4242", "PENDING", None, False)
    assert waiting.reason == "Nodes required for job are DOWN, DRAINED"
    assert (running.state, running.nodes, running.n_nodes, running.elapsed) == ("RUNNING", "c[1-2]", 2, 93784.0)
    assert (running.name, running.user, running.reason, running.final) == ("train", "user2", None, False)
    assert (array.array_id, array.array_task, array.reason) == ("4244", "[5-9%2]", "Resources")


def test_a_name_with_blanks_moves_no_value() -> None:
    for name in ("FAILED 0:0", "my run", "1001 COMPLETED", "a b c d"):
        for event in read(f"JobID JobName State ExitCode\n7 {name} TIMEOUT 0:15\n"):
            assert isinstance(event, Unreadable) or (isinstance(event, JobRecord) and event.state == "TIMEOUT")
            if isinstance(event, JobRecord) and event.exit:
                assert event.exit == ShownExit(0, 15, None)


def test_reduced_codes_follow_the_version() -> None:
    text = "JobID State ExitCode\n7 FAILED 9:0\n"
    assert only(read(text, slurm="24.11.5"), JobRecord).exit == ShownExit(9, 0, True)
    assert only(read(text, slurm="26.05.5"), JobRecord).exit == ShownExit(9, 0, False)
    assert only(read(text), JobRecord).exit == ShownExit(9, 0, None)
    assert {e.exit for e in read(text + "8 FAILED 139:0\n") if isinstance(e, JobRecord)} == {
        ShownExit(9, 0, False),
        ShownExit(139, 0, False),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sacct.txt", "JobId=80634 JobName=x\n   JobState=PENDING Reason=None\n"),
        (
            "x.txt",
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nmain*        up   infinite      2   idle c[1-2]\n",
        ),
        ("x.txt", "REASON               USER      TIMESTAMP           NODELIST\nKill task failed     root  2026 c1\n"),
        ("x.txt", "seen|JobIDRaw|State\n1.5|7|FAILED\n"),
        ("x.txt", "[ 12.5] Out of memory: Killed process 7 (a)\n"),
        ("x.txt", "Traceback (most recent call last):\n  File x\nKeyError: 'State'\n"),
        ("x.txt", "FAIL\n"),
        ("x.txt", "ERROR\n"),
        ("x.txt", "\n\n"),
    ],
)
def test_not_a_table_of_jobs(name: str, text: str) -> None:
    assert sacct_table.recognise(name, text.splitlines()) == 0.0


@pytest.mark.parametrize("line", ["FAILED", "7 test_a FAILED", "State: FAILED"])
def test_the_output_of_a_program_is_doubted(line: str) -> None:
    assert sacct_table.recognise("job.out", [line]) < 0.3


def test_states() -> None:
    assert _sacct.read_state("COMPLET+") is None
    assert _sacct.read_state("CG") == _sacct.State("COMPLETING", ("COMPLETING",))
    assert _sacct.read_state("CANCELLED by user1") == _sacct.State("CANCELLED", (), "user1")
    assert all(_sacct.read_state(word) for word in _sacct.STATES)
    for word in _sacct.STATES:
        if len(word) > 10:
            cut = _sacct.read_state(word[:9] + "+")
            assert cut is not None and cut.word == word


LINES = st.sampled_from([*CUT.splitlines(), *INDENTED.splitlines(), *SEFF.splitlines(), *SQUEUE.splitlines(), "FAILED"])


@given(st.lists(st.one_of(LINES, st.text(max_size=40))), st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_arbitrary_text_never_raises(lines: list[str], data: bytes) -> None:
    text = "\n".join(lines).encode("utf-8", "replace") + data
    case = from_files({"x.txt": text})
    assert 0.0 <= sacct_table.recognise("x.txt", case.files[0].head()) <= 1.0
    read(text)


def test_long_lines_take_linear_time() -> None:
    start = time.perf_counter()
    for junk in ("State" + " " * 1_000_000, "- " * 500_000, "7 " + "x " * 500_000, "State: " * 150_000, "--" * 500_000):
        read(CUT + junk + "\n" + junk)
        sacct_table.recognise("x.txt", [junk])
    read(CUT + ("State" + " " * 1990 + "\n7 " + "1 " * 990 + "\n") * 100)
    assert time.perf_counter() - start < 10
