"""`sacct -P`: lines as recorded on Slurm 22.05.8, 24.11.5 and 26.05.5."""

from __future__ import annotations

import math
import time
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage import sources
from slurm_triage.case import from_files
from slurm_triage.model import Event, JobRecord, ShownExit, StepRecord, Unreadable
from slurm_triage.sources import Context, _sacct, sacct_text

T = TypeVar("T", bound=Event)

HEADER = (
    "JobIDRaw|JobID|JobName|User|UID|Account|Partition|QOS|State|ExitCode|DerivedExitCode|Submit|Eligible|Start|End|"
    "ElapsedRaw|Suspended|TimelimitRaw|Reason|NNodes|NodeList|FailedNode|NTasks|NCPUS|ReqMem|MaxRSS|MaxRSSTask|"
    "MaxRSSNode|AveRSS|MaxVMSize|TRESUsageInMax|Restarts|Flags|WorkDir|StdOut|StdErr|SubmitLine|Comment|AdminComment|"
    "SystemComment\n"
)
NAMED = """\
1104|1104|my run é|日本 §1
second line|user1|1001|acc|main|normal|FAILED|5:0|0:0|2026-11-30T15:10:50|2026-11-30T15:10:50|2026-11-30T15:10:51|\
2026-11-30T15:10:54|3|00:00:00|UNLIMITED|None|1|c1|||1|60M|||||||0|SchedMain,StartReceived|/shared|\
/shared/out/%j.out||sbatch --parsable -J my run é|日本 §1
second line -o /shared/out/%j.out -D /shared --mem=60|||
1104.batch|1104.batch|batch|||acc|||FAILED|5:0||2026-11-30T15:10:51|2026-11-30T15:10:51|2026-11-30T15:10:51|\
2026-11-30T15:10:54|3|00:00:00|||1|c1||1|1||784K|0|c1|784K|4K|cpu=00:00:00,energy=0,fs/disk=0,mem=784K,pages=0,\
vmem=4K|||||||||
"""
PENDING_CANCEL = (
    "1141|1141|fold|user1|1001|acc|main|normal|CANCELLED by 1001|0:0|0:0|2026-11-30T15:11:22|Unknown|None|"
    "2026-11-30T15:11:26|0|00:00:00|Partition_Limit|None|1|None assigned|||0|60M|||||||0|StartReceived|/shared|"
    "/shared/out/%j.out||sbatch --parsable -J fold -H|||\n"
)


def read(text: str, name: str = "sacct.psv", slurm: str | None = "24.11.5") -> list[Event]:
    manifest = f'slurm = "{slurm}"\nutc_offset = "+00:00"\n' if slurm else ""
    case = from_files({name: text.encode(), "manifest.toml": manifest.encode()})
    (file,) = (f for f in case.files if f.name == name)
    return list(sacct_text.parse(file, Context(case.clock, case.manifest)))


def only(events: list[Event], kind: type[T]) -> T:
    (found,) = (e for e in events if isinstance(e, kind))
    return found


def short(row: str, slurm: str | None = "24.11.5", name: str = "sacct.psv") -> list[Event]:
    return read("JobID|State|ExitCode|Start|End\n" + row, name, slurm)


def test_all_columns_of_a_job_and_its_step() -> None:
    events = read(
        HEADER + NAMED.replace("my run é|日本 §1\nsecond line", "plain") + PENDING_CANCEL,
    )
    job, step = events[0], only(events, StepRecord)
    assert isinstance(job, JobRecord)
    assert (job.job, job.shown_id, job.name, job.user, job.uid) == ("1104", "1104", "plain", "user1", 1001)
    assert (job.account, job.partition, job.qos, job.state) == ("acc", "main", "normal", "FAILED")
    assert job.exit == ShownExit(5, 0, True)
    assert job.derived == ShownExit(0, 0, False)
    assert job.start and job.end and job.submit and job.start.zoned
    assert job.end.seconds_since(job.start) == 3
    assert job.cite.at == job.end
    assert (job.elapsed, job.suspended, job.time_limit) == (3.0, 0.0, math.inf)
    assert (job.nodes, job.n_nodes, job.req_mem, job.req_mem_per) == ("c1", 1, 60 << 20, None)
    assert (job.reason, job.failed_node, job.max_rss, job.restarts) == (None, None, None, 0)
    assert (job.work_dir, job.stdout, job.stderr) == ("/shared", "/shared/out/%j.out", None)
    assert job.started is True and job.final is True
    assert job.cite.line == 2 and job.cite.text.startswith("1104|1104|plain|user1")
    assert (step.job, step.step, step.max_rss, step.max_rss_task, step.max_rss_node) == (
        "1104", "batch", 784 << 10, 0, "c1",
    )  # fmt: skip
    assert step.exit == ShownExit(5, 0, True) and step.final is True and step.n_tasks == 1


def test_a_name_with_a_pipe_and_a_newline_is_read_as_far_as_it_is_certain() -> None:
    events = read(HEADER + NAMED)
    job = only(events, JobRecord)
    assert job.name == "my run é|日本 §1\nsecond line"
    assert (job.user, job.state, job.exit, job.nodes) == ("user1", "FAILED", ShownExit(5, 0, True), "c1")
    assert job.cite.line == 2 and job.cite.text == "1104|1104|my run é|日本 §1"
    assert job.submit_line is None and job.work_dir is None  # which pipe ends them is not certain
    assert only(events, StepRecord).step == "batch"
    assert not any(isinstance(e, Unreadable) for e in events)


def test_a_name_that_imitates_columns_makes_the_record_unreadable_never_wrong() -> None:
    fake = "x|root|0|acc|main|normal|CANCELLED by 0|0:0|0:0|" + "2026-11-30T15:10:50|" * 4 + "3|00:00:00|UNLIMITED|None"
    fake += "|1|c9|||1|60M|||||||0|SchedMain|/"
    events = read(HEADER + NAMED.replace("my run é|日本 §1\nsecond line", fake))
    assert only(events, Unreadable).job == "1104"
    assert not any(isinstance(e, JobRecord) for e in events)
    assert only(events, StepRecord).state == "FAILED"


def test_a_name_that_begins_a_false_record_never_gives_another_job_this_ones_state() -> None:
    text = HEADER + NAMED.replace("|日本 §1\nsecond line", "\n77|77|false")
    jobs = [e for e in read(text) if isinstance(e, JobRecord)]
    assert not any(j.job == "77" for j in jobs)
    assert not any(j.job == "1104" for j in jobs)


def test_a_cut_last_record_is_unreadable_and_stops_no_other() -> None:
    events = read(HEADER + PENDING_CANCEL + PENDING_CANCEL[:40])
    assert only(events, JobRecord).job == "1141"
    assert only(events, Unreadable).cite.line == 3


def test_never_started() -> None:
    job = only(read(HEADER + PENDING_CANCEL), JobRecord)
    assert job.started is False and job.start is None
    assert (job.state, job.cancelled_by, job.nodes) == ("CANCELLED", "1001", None)
    assert job.time_limit is None and job.final is True


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "REQUEUED"])
def test_not_started_yet_is_not_never_started(state: str) -> None:
    assert only(short(f"7|{state}|0:0|Unknown|Unknown\n"), JobRecord).started is None


def test_cancel_time_printed_as_start() -> None:
    """Older releases print Start = End for a job that was cancelled while it waited."""
    row = "7|CANCELLED by 1001|0:0|2026-11-30T15:10:50|2026-11-30T15:10:50"
    assert only(short(row + "\n"), JobRecord).started is None
    text = f"JobID|State|ExitCode|Start|End|NodeList\n{row}|None assigned\n"
    assert only(read(text), JobRecord).started is False
    assert only(read(text.replace("None assigned", "c1")), JobRecord).started is True


@pytest.mark.parametrize(
    ("slurm", "minus"), [("22.05.8", True), ("25.05.1", True), ("25.11.0", False), ("26.05.5", False), (None, None)]
)
def test_who_subtracts_128(slurm: str | None, minus: bool | None) -> None:
    job = only(short("7|FAILED|9:0|2026-11-30T15:10:50|2026-11-30T15:10:51\n", slurm), JobRecord)
    assert job.exit == ShownExit(9, 0, minus)


def test_one_large_code_proves_that_nothing_is_subtracted_in_the_file() -> None:
    row = "|2026-11-30T15:10:50|2026-11-30T15:10:51\n"
    events = short(f"7|FAILED|9:0{row}8|FAILED|137:0{row}8.batch|FAILED|137:0{row}", None)
    assert [e.exit.minus_128 for e in events if isinstance(e, (JobRecord, StepRecord)) and e.exit] == [False] * 3


def test_a_large_derived_code_proves_nothing() -> None:
    """DerivedExitCode is never reduced: step exit 137 is `9:0` with the derived code `137:0`."""
    job = only(read("JobID|State|ExitCode|DerivedExitCode\n7|FAILED|9:0|137:0\n", slurm=None), JobRecord)
    assert job.exit == ShownExit(9, 0, None) and job.derived == ShownExit(137, 0, False)


def test_attempts_keep_their_order_and_a_followed_requeue_is_final() -> None:
    rows = (
        "7|REQUEUED|0:0|2026-11-30T15:10:50|2026-11-30T15:10:51\n"
        "7.batch|CANCELLED|0:15|2026-11-30T15:10:50|2026-11-30T15:10:51\n"
        "7|COMPLETED|0:0|2026-11-30T15:13:50|2026-11-30T15:13:51\n"
        "7.batch|COMPLETED|0:0|2026-11-30T15:13:50|2026-11-30T15:13:51\n"
    )
    first, step, second, _ = short(rows)
    assert isinstance(first, JobRecord) and isinstance(second, JobRecord) and isinstance(step, StepRecord)
    assert (first.state, first.flags, first.final) == ("REQUEUED", ("REQUEUED",), True)
    assert (second.state, second.flags, second.final) == ("COMPLETED", (), True)
    assert only(short(rows.split("\n")[0] + "\n"), JobRecord).final is None


@pytest.mark.parametrize(
    ("name", "row", "final"),
    [
        ("sacct.psv", "FAILED|1:0|2026-11-30T15:10:50|2026-11-30T15:10:51", True),
        ("sacct_at_epilogslurmctld.txt", "FAILED|1:0|2026-11-30T15:10:50|2026-11-30T15:10:51", False),
        ("a/sacct_at_epilogslurmctld.attempt1.txt", "FAILED|1:0|2026-11-30T15:10:50|2026-11-30T15:10:51", False),
        ("sacct.psv", "RUNNING|0:0|2026-11-30T15:10:50|Unknown", False),
        ("sacct.psv", "COMPLETING|0:0|2026-11-30T15:10:50|2026-11-30T15:10:51", False),
        ("sacct.psv", "PENDING|0:0|Unknown|Unknown", False),
        ("sacct.psv", "FAILED|1:0|2026-11-30T15:10:50|Unknown", None),
    ],
)
def test_final(name: str, row: str, final: bool | None) -> None:
    assert only(short(f"7|{row}\n", name=name), JobRecord).final is final
    assert only(short(f"7.batch|{row}\n", name=name), StepRecord).final is final


def test_array_and_het_ids() -> None:
    text = "JobIDRaw|JobID|State\n1020|1017_0|FAILED\n1112|1111+1|FAILED\n1112.0|1111+1.0|FAILED\n9|9_[5-9%2]|PENDING\n"
    array, het, step, waiting = read(text)
    assert isinstance(array, JobRecord) and isinstance(het, JobRecord) and isinstance(waiting, JobRecord)
    assert (array.job, array.shown_id, array.array_id, array.array_task) == ("1020", "1017_0", "1017", "0")
    assert (het.job, het.shown_id, het.het_id, het.het_offset) == ("1112", "1111+1", "1111", "1")
    assert isinstance(step, StepRecord) and (step.job, step.step) == ("1112", "0")
    assert (waiting.array_id, waiting.array_task) == ("9", "[5-9%2]")


@pytest.mark.parametrize(
    ("text", "size", "per"),
    [
        ("100M", 100 << 20, None),
        ("4Gn", 4 << 30, "node"),
        ("2000Mc", 2000 << 20, "cpu"),
        ("0.50G", 1 << 29, None),
        ("0", None, None),
        ("0n", None, None),
        ("16?", None, None),
        ("", None, None),
    ],
)
def test_requested_memory(text: str, size: int | None, per: str | None) -> None:
    job = only(read(f"JobID|State|ReqMem\n7|FAILED|{text}\n"), JobRecord)
    assert (job.req_mem, job.req_mem_per) == (size, per)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-00:00:00", 86400.0),
        ("00:01:02", 62.0),
        ("01:02", 62.0),
        ("20:00", 1200.0),
        ("UNLIMITED", math.inf),
        ("Partition_Limit", None),
        ("", None),
        ("5", None),
        ("-1:00", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert _sacct.read_span(text) == seconds


def test_the_raw_limit_is_in_minutes_and_a_nonsense_pause_is_dropped() -> None:
    text = (
        "JobID|State|Start|End|Elapsed|Suspended|TimelimitRaw\n"
        "7|TIMEOUT|2026-11-30T15:10:50|2026-11-30T15:11:50|00:00:52|00:00:08|1\n"
        "8|TIMEOUT|2026-11-30T15:10:50|2026-11-30T15:11:50|00:00:00|20787-15:05:58|1\n"
    )
    good, odd = read(text)
    assert isinstance(good, JobRecord) and isinstance(odd, JobRecord)
    assert (good.time_limit, good.suspended, good.elapsed) == (60.0, 8.0, 52.0)
    assert odd.suspended is None


def test_other_text_around_the_records() -> None:
    text = "$ sacct -j 7 -P -o JobID,State,ExitCode\nJobID|State|ExitCode\n7|FAILED|1:0\n\nsacct: error: lost\n"
    events = read(text)
    job = only(events, JobRecord)
    assert job.exit and job.exit.code == 1 and len(events) == 1


def test_separator_at_the_end_of_the_lines() -> None:
    job = only(read("JobID|State|ExitCode|\n7|FAILED|1:0|\n"), JobRecord)
    assert job.state == "FAILED"


def test_two_outputs_in_one_file() -> None:
    events = read("JobID|State\n7|FAILED\nJobID|ExitCode|State\n8|2:0|FAILED\n")
    assert [e.job for e in events] == ["7", "8"]
    assert isinstance(events[1], JobRecord) and events[1].exit == ShownExit(2, 0, True)


def test_without_ids_only_the_first_row_is_surely_a_job() -> None:
    events = read("State|ExitCode\nFAILED|1:0\nFAILED|1:0\n")
    assert only(events, JobRecord).job is None
    assert "no job id column" in only(events, Unreadable).why


def test_bad_cells_stop_no_other_record() -> None:
    events = read("JobID|State|ExitCode\n7|not a state|1:0\n8|FAILED|\n")
    assert isinstance(events[0], Unreadable) and events[0].job == "7"
    assert only(events, JobRecord).exit is None


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("JobIDRaw|JobID|State|ExitCode\n", True),
        ("JobID|NodeList|State|ExitCode\n", True),
        ("$ sacct -P\n\nJobID|State\n", True),
        ("seen|JobIDRaw|Start|State|ExitCode|DerivedExitCode|End|MaxRSS\n", False),
        ("Name|Priority|GraceTime|Preempt\n", False),
        ("Cluster|NodeName|Start|End|State|Reason|User\n", False),
        ("JobID    State\n", False),
        ("a|b|c\n", False),
        ("", False),
    ],
)
def test_recognise(text: str, sure: bool) -> None:
    assert (sacct_text.recognise("x.psv", text.splitlines()) >= 0.9) is sure


def test_a_poll_is_not_accounting_for_any_source() -> None:
    head = ["seen|JobIDRaw|Start|State|ExitCode", "1.5|7|Unknown|PENDING|0:0"]
    assert all(s.recognise("sacct.psv", head) == 0.0 for s in sources.all_sources() if s.KIND.startswith("sacct"))


@given(
    st.binary(max_size=400), st.sampled_from([b"JobID|JobName|State|ExitCode\n", HEADER.encode(), b"State|JobName\n"])
)
@settings(max_examples=150, deadline=None)
def test_arbitrary_bytes_never_raise(data: bytes, header: bytes) -> None:
    case = from_files({"sacct.psv": header + data})
    for event in sacct_text.parse(case.files[0], Context(case.clock, case.manifest)):
        assert event.cite.line >= 2


NAME = st.lists(st.sampled_from([*"ab|\n 1.:/", "7|7|", "FAILED", "|0:0", "CANCELLED by 0"]), max_size=12).map("".join)


@given(NAME, NAME)
@settings(max_examples=200, deadline=None)
def test_no_job_name_changes_a_value_of_the_record(name: str, comment: str) -> None:
    """What is read is right or not read, unless the name imitates a whole record (which sacct text cannot show)."""
    header = "JobID|JobName|User|Submit|State|ExitCode|Comment\n"
    row = f"1104|{name}|user1|2026-11-30T15:10:50|TIMEOUT|0:0|{comment}\n"
    if any(line.count("|") >= 6 for line in f"1104|{name}".split("\n")):
        return
    for event in read(header + row):
        if isinstance(event, JobRecord) and event.job == "1104":
            assert event.state == "TIMEOUT" and event.user in ("user1", None)
            assert event.name in (name or None, None)


@given(st.integers(1, 40), st.integers(1, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_assign_never_contradicts_a_true_assignment(columns: int, extra: int, data: st.DataObject) -> None:
    names = [data.draw(st.sampled_from(["jobname", "uid", "state", "workdir", "user"])) for _ in range(columns)]
    true = {"uid": "12", "state": "FAILED", "user": "u1"}
    spec = [_sacct.Column(f"{n}{i}", _sacct.column(n).form) for i, n in enumerate(names)]
    cells = [true.get(n) or "|".join(data.draw(st.lists(st.sampled_from(["", "12", "FAILED", "z z"]), min_size=1)))
             for n in names]  # fmt: skip
    found = _sacct.assign(spec, "|".join(cells).split("|"), "|")
    assert found is not None
    assert all(found[c.name] == cell for c, cell in zip(spec, cells, strict=True) if c.name in found)


def test_long_lines_take_linear_time() -> None:
    start = time.perf_counter()
    for junk in ("|" * 1_000_000, "9" * 1_000_000, "7|x" * 300_000, "7|" + "\n|" * 100_000, "\x00\xff" * 500_000):
        read(HEADER + junk + "\n" + PENDING_CANCEL)
    assert time.perf_counter() - start < 10


def test_times_without_a_zone_stay_without() -> None:
    job = only(short("7|FAILED|1:0|2026-11-30T15:10:50|2026-11-30T15:10:51\n", None), JobRecord)
    assert job.end and not job.end.zoned


def test_sluid_of_the_run_and_of_the_record() -> None:
    head = "JobID|State|ExitCode|Start|End|SLUID|OriginalSLUID\n"
    row = "1102|FAILED|1:0|2026-11-30T14:49:21|2026-11-30T14:49:27|"
    job = only(read(f"{head}{row}s0AHM8PEXBCJ00|s0AHM8PEX3RE00\n"), JobRecord)
    assert (job.sluid, job.record_sluid) == ("s0AHM8PEX3RE00", "s0AHM8PEXBCJ00")
    job = only(read(f"{head}{row}s00000000001A7|s0000000000000\n"), JobRecord)
    assert (job.sluid, job.record_sluid) == (None, None)
