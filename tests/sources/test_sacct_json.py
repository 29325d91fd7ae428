"""`sacct --json`: objects as recorded on Slurm 22.05.8 and 24.11.5 (26.05.5 has the same shapes as 24.11.5)."""

from __future__ import annotations

import json
import math
import time
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import from_files
from slurm_triage.model import Event, JobRecord, ShownExit, StepRecord, Unreadable
from slurm_triage.sources import Context, sacct_json

T = TypeVar("T", bound=Event)

JOB_22 = """{"account":"acc","allocation_nodes":2,"array":{"job_id":0,"limits":{"max":{"running":{"tasks":0}}},\
"task":null,"task_id":null},"association":{"account":"acc","cluster":"mini","partition":null,"user":"user1"},\
"cluster":"mini","derived_exit_code":{"status":"SIGNALED","return_code":null,"signal":{"signal_id":11,\
"name":"Segmentation fault"}},"time":{"elapsed":5,"eligible":1796050818,"end":1796050823,"start":1796050818,\
"submission":1796050818,"suspended":0,"limit":null},"exit_code":{"status":"SUCCESS","return_code":0},\
"flags":["CLEAR_SCHEDULING"],"het":{"job_id":0,"job_offset":null},"job_id":1075,"name":"eval","nodes":"c[1-2]",\
"partition":"main","priority":4294901693,"qos":"normal","required":{"CPUs":4,"memory":60},"kill_request_user":null,\
"state":{"current":"FAILED","reason":"None"},"steps":[{"nodes":{"list":["c1","c2"],"count":2,"range":"c[1-2]"},\
"tres":{"requested":{"max":[{"type":"cpu","name":null,"id":1,"count":0,"task":3,"node":"c2"},{"type":"mem",\
"name":null,"id":2,"count":106496,"task":1,"node":"c1"}]}},"time":{"elapsed":4,"end":1796050823,"start":1796050819,\
"suspended":0},"exit_code":{"status":"SIGNALED","return_code":null,"signal":{"signal_id":11,"name":\
"Segmentation fault"}},"tasks":{"count":4},"kill_request_user":null,"state":"CANCELLED","step":{"job_id":1075,\
"het":{"component":null},"id":0,"name":"solver"}}],"tres":{"requested":[{"type":"cpu","name":null,"id":1,"count":4},\
{"type":"mem","name":null,"id":2,"count":120}]},"user":"user1","working_directory":"/shared"}"""
META_22 = """"meta":{"plugin":{"type":"openapi/dbv0.0.38","name":"Slurm OpenAPI DB v0.0.38"},"Slurm":{"version":\
{"major":22,"micro":8,"minor":5},"release":"22.05.8"}}"""
META_24 = """"meta":{"plugin":{"data_parser":"data_parser/v0.0.42"},"slurm":{"version":{"major":"24","micro":"5",\
"minor":"11"},"release":"24.11.5","cluster":"mini"}},"errors":[],"warnings":[]"""
NONE = '{"set":false,"infinite":false,"number":0}'
JOB_24 = (
    """{"account":"acc","allocation_nodes":2,"array":{"job_id":0,"task_id":#,"task":""},"association":{"user":"user1"},\
"cluster":"mini","derived_exit_code":{"status":["SIGNALED"],"return_code":#,"signal":{"id":{"set":true,"infinite":\
false,"number":11},"name":"11"}},"time":{"elapsed":8,"end":1796051459,"start":1796051451,"submission":1796051444,\
"suspended":0,"limit":{"set":false,"infinite":true,"number":0}},"exit_code":{"status":["ERROR"],"return_code":\
{"set":true,"infinite":false,"number":139},"signal":{"id":#,"name":""}},"failed_node":"","het":{"job_id":0,\
"job_offset":#},"job_id":1064,"name":"my run é|日本 §1\\nsecond line","nodes":"c[1-2]","partition":"main","qos":\
"normal","required":{"CPUs":4,"memory_per_cpu":#,"memory_per_node":{"set":true,"infinite":false,"number":60}},\
"kill_request_user":"","restart_cnt":0,"stdout_expanded":"/shared/out/1064.out","stderr_expanded":"","stdout":\
"/shared/out/%j.out","stderr":"","state":{"current":["FAILED"],"reason":"None"},"steps":[{"time":{"elapsed":7,"end":\
{"set":true,"infinite":false,"number":1796051459},"start":{"set":true,"infinite":false,"number":1796051452}},\
"exit_code":{"status":["SIGNALED"],"return_code":#,"signal":{"id":{"set":true,"infinite":false,"number":11},"name":\
"11"}},"nodes":{"count":2,"range":"c[1-2]","list":["c1","c2"]},"tasks":{"count":4},"kill_request_user":"","state":\
["CANCELLED"],"step":{"id":"1064.0","name":"solver"},"tres":{"requested":{"max":[{"type":"mem","name":"","id":2,\
"count":524288,"task":3,"node":"c2"}]}}}],"submit_line":"sbatch -N2","tres":{"requested":[{"type":"mem","name":"",\
"id":2,"count":120}]},"user":"user1","working_directory":"/shared"}"""
).replace("#", NONE)


def read(text: str | bytes, slurm: str | None = None, name: str = "sacct.json") -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({name: data, "manifest.toml": f'slurm = "{slurm}"'.encode() if slurm else b""})
    (file,) = (f for f in case.files if f.name == name)
    return list(sacct_json.parse(file, Context(case.clock, case.manifest)))


def only(events: list[Event], kind: type[T]) -> T:
    (found,) = (e for e in events if isinstance(e, kind))
    return found


def wrap(*jobs: str, meta: str = META_24) -> str:
    return f'{{"jobs":[{",".join(jobs)}],{meta}}}'


def changed(**values: Any) -> str:
    job = json.loads(JOB_24)
    for key, value in values.items():
        job[key] = {**job[key], **value} if isinstance(value, dict) and isinstance(job.get(key), dict) else value
    return json.dumps(job)


def test_24_11() -> None:
    job, step = read(wrap(JOB_24))
    assert isinstance(job, JobRecord) and isinstance(step, StepRecord)
    assert (job.job, job.shown_id, job.array_id, job.het_id) == ("1064", "1064", None, None)
    assert job.name == "my run é|日本 §1\nsecond line"
    assert (job.state, job.flags, job.cancelled_by, job.reason) == ("FAILED", (), None, None)
    assert job.exit == ShownExit(139, 0, False) and job.derived == ShownExit(0, 11, False)
    assert job.start and job.start.lo == 1796051451 and job.start.zoned and job.end and job.submit
    assert (job.elapsed, job.suspended, job.time_limit) == (8.0, 0.0, math.inf)
    assert (job.nodes, job.n_nodes, job.req_mem, job.req_mem_per) == ("c[1-2]", 2, 120 << 20, None)
    assert (job.stdout, job.stderr, job.work_dir) == ("/shared/out/1064.out", None, "/shared")
    assert (job.restarts, job.failed_node, job.submit_line) == (0, None, "sbatch -N2")
    assert job.started is True and job.final is True
    assert (step.job, step.step, step.name, step.state) == ("1064", "0", "solver", "CANCELLED")
    assert step.exit == ShownExit(0, 11, False)
    assert (step.max_rss, step.max_rss_task, step.max_rss_node, step.n_tasks) == (524288, 3, "c2", 4)
    assert step.cancelled_by is None and step.final is True
    assert job.cite.line == 1 and job.cite.text == wrap(JOB_24)[:1000]


@pytest.mark.parametrize("meta", [META_22, '"errors":[]'])
def test_22_05_has_no_true_exit_codes_but_true_signals(meta: str) -> None:
    job, step = read(wrap(JOB_22, meta=meta))
    assert isinstance(job, JobRecord) and isinstance(step, StepRecord)
    assert job.exit is None
    assert job.derived == ShownExit(0, 11, False)
    assert step.exit == ShownExit(0, 11, False)
    assert (step.job, step.step, step.max_rss, step.max_rss_task) == ("1075", "0", 106496, 1)
    assert (job.state, job.req_mem, job.time_limit, job.final) == ("FAILED", 120 << 20, None, True)


@pytest.mark.parametrize(("slurm", "trusted"), [("23.02.7", False), ("23.11.1", True), (None, True)])
def test_without_meta_the_manifest_and_then_the_shape_decide(slurm: str | None, trusted: bool) -> None:
    job = only(read(wrap(JOB_24, meta='"errors":[]'), slurm), JobRecord)
    assert (job.exit is not None) is trusted


def test_the_files_own_version_outranks_the_manifest() -> None:
    assert only(read(wrap(JOB_22, meta=META_22), "24.11.5"), JobRecord).exit is None


def test_who_cancelled() -> None:
    job = only(read(wrap(changed(kill_request_user="root", state={"current": ["CANCELLED"]}))), JobRecord)
    assert job.cancelled_by == "root" and job.state == "CANCELLED"


@pytest.mark.parametrize(
    ("states", "state", "flags", "final"),
    [
        (["FAILED"], "FAILED", (), True),
        (["PENDING", "REQUEUED"], "REQUEUED", ("REQUEUED",), None),
        (["FAILED", "COMPLETING"], "FAILED", ("COMPLETING",), False),
        (["RUNNING"], "RUNNING", (), False),
        ("TIMEOUT", "TIMEOUT", (), True),
        ([], None, (), None),
        ([7, None], None, (), None),
        ({}, None, (), None),
    ],
)
def test_states(states: Any, state: str | None, flags: tuple[str, ...], final: bool | None) -> None:
    job = only(read(wrap(changed(state={"current": states}))), JobRecord)
    assert (job.state, job.flags, job.final) == (state, flags, final)


def test_a_requeued_attempt_is_final_when_the_next_follows() -> None:
    first, second = (
        e for e in read(wrap(changed(state={"current": ["PENDING", "REQUEUED"]}), JOB_24)) if isinstance(e, JobRecord)
    )
    assert first.final is True and second.final is True and first.job == second.job


def test_asked_in_a_hook() -> None:
    assert only(read(wrap(JOB_24), name="sacct_at_epilogslurmctld.json"), JobRecord).final is False


def test_running_and_never_started() -> None:
    running = only(read(wrap(changed(state={"current": ["RUNNING"]}, time={"end": 0}))), JobRecord)
    assert running.end is None and running.final is False and running.started is True
    never = only(
        read(wrap(changed(state={"current": ["CANCELLED"]}, nodes="None assigned", time={"elapsed": 0}))), JobRecord
    )
    assert never.started is False and never.start is None and never.nodes is None


def test_array_and_het() -> None:
    set_2 = {"set": True, "infinite": False, "number": 2}
    array = only(read(wrap(changed(array={"job_id": 1001, "task_id": set_2}))), JobRecord)
    assert (array.job, array.shown_id, array.array_id, array.array_task) == ("1064", "1001_2", "1001", "2")
    waiting = only(read(wrap(changed(array={"job_id": 1001, "task": "5-9"}))), JobRecord)
    assert (waiting.shown_id, waiting.array_task) == ("1001_[5-9]", "[5-9]")
    het = only(read(wrap(changed(het={"job_id": 1063, "job_offset": set_2}))), JobRecord)
    assert (het.shown_id, het.het_id, het.het_offset) == ("1063+2", "1063", "2")


def test_the_line_of_pretty_printed_json() -> None:
    text = json.dumps(json.loads(wrap(JOB_24, JOB_24)), indent=1)
    lines = text.split("\n")
    cites = [e.cite for e in read(text) if isinstance(e, JobRecord)]
    assert len(cites) == 2 and cites[0].line < cites[1].line
    assert all(lines[c.line - 1] == c.text for c in cites)


def test_a_cut_file_gives_the_jobs_before_the_cut() -> None:
    events = read(wrap(JOB_24, JOB_24)[: len(JOB_24) + 400])
    assert only(events, JobRecord).job == "1064"
    assert "cut" in only(events, Unreadable).why


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"jobs":',
        '{"jobs":[',
        '{"jobs":[nonsense',
        '{"jobs":[' + "[" * 200_000,
        '{"jobs":[{"a":' * 50_000,
        '{"jobs":[{"job_id":' + "9" * 10_000 + "}]}",
        '{"jobs":[{"job_id":NaN}]}',
        '{"jobs":[{"job_id":-1}]}',
        '{"jobs":[7,null]}',
    ],
)
def test_broken_json_is_unreadable(text: str) -> None:
    events = read(text)
    assert events and all(isinstance(e, Unreadable) and e.why for e in events)


def test_one_bad_job_or_step_stops_no_other() -> None:
    events = read(wrap("7", '{"job_id":"x"}', changed(steps=[3, {}, {"step": {"id": "1064.batch"}}]), JOB_24))
    assert sum(isinstance(e, Unreadable) for e in events) == 4
    assert sum(isinstance(e, JobRecord) for e in events) == 2
    assert [e.step for e in events if isinstance(e, StepRecord)] == ["batch", "0"]


def test_text_in_a_name_is_not_taken_for_structure() -> None:
    name = '"jobs":[{"job_id":1}],"meta":{"slurm":{"version":{"major":"22","minor":"05"}}}'
    job = only(read('{"a":' + json.dumps(name) + "," + wrap(changed(name=name))[1:]), JobRecord)
    assert job.name == name and job.job == "1064" and job.exit == ShownExit(139, 0, False)


@pytest.mark.parametrize("key", sorted(json.loads(JOB_24)))
@pytest.mark.parametrize("value", [None, 7, -3, "x", [], [[]], {}, {"set": True, "number": "x"}, True, 1e300])
def test_odd_values_never_raise(key: str, value: Any) -> None:
    job = json.loads(JOB_24)
    job[key] = value
    events = read(wrap(json.dumps(job)))
    assert isinstance(events[0], Unreadable if key == "job_id" and value != 7 else JobRecord)


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        (wrap(JOB_24), True),
        (wrap(JOB_22, meta=META_22), True),
        ('{"jobs":[{"job_state":["FAILED"],"batch_host":"c1","association":1}]}', False),
        ('{"config": {}}', False),
        ("JobID|State", False),
        ("", False),
    ],
)
def test_recognise(text: str, sure: bool) -> None:
    assert (sacct_json.recognise("x.json", text.split("\n")) > 0.9) is sure


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    assert all(isinstance(e, Unreadable) for e in read(data))
    assert all(e.cite.line >= 1 for e in read(b'{"jobs":[' + data))


@given(st.integers(1, len(JOB_24)), st.binary(max_size=3))
@settings(max_examples=100, deadline=None)
def test_damaged_json_never_raises(at: int, data: bytes) -> None:
    text = JOB_24.encode()
    events = read(b'{"jobs":[' + text[:at] + data + text[at + 1 :])
    assert events and all(isinstance(e, (JobRecord, StepRecord, Unreadable)) for e in events)


def test_many_jobs_take_linear_time() -> None:
    start = time.perf_counter()
    text = json.dumps({"jobs": [json.loads(JOB_24)] * 2000}, indent=1)
    assert len(read(text)) == 4000
    assert time.perf_counter() - start < 10


def test_sluid_of_the_run_and_of_the_record() -> None:
    """As recorded on 26.05.5; other numbers where the job was resized; 0 from before SLUIDs."""
    job = only(read(wrap(changed(original_sluid="s0AHM8PEX3RE00", sluid="s0AHM8PEX3RE00"))), JobRecord)
    assert (job.sluid, job.record_sluid) == ("s0AHM8PEX3RE00", "s0AHM8PEX3RE00")
    job = only(read(wrap(changed(original_sluid="s0AHM8PEX3RE00", sluid="s0AHM8PEXBCJ00"))), JobRecord)
    assert (job.sluid, job.record_sluid) == ("s0AHM8PEX3RE00", "s0AHM8PEXBCJ00")
    job = only(read(wrap(changed(original_sluid="", sluid="s00000000001A7"))), JobRecord)
    assert (job.sluid, job.record_sluid) == (None, None)
    assert only(read(wrap(JOB_24)), JobRecord).sluid is None
