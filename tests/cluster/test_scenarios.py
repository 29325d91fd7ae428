"""The scenarios are well formed, the expectations can fail, and the recorder keeps the right lines. Needs no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from slurm_triage import causes
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis
from tests.cluster.machine import ClusterError, streams
from tests.cluster.record import kernel_lines, lines_of, names_job, rows, span
from tests.cluster.scenarios import Expect, ScenarioError, choose, judge, judge_live, judge_other, load

SACCT = (
    b"JobIDRaw|JobID|JobName|User|UID|State|ExitCode|Submit|Start|End|NodeList\n"
    b"1016|1016|eval|user1|1001|CANCELLED by 1001|0:0|2026-11-30T15:10:41|2026-11-30T15:10:43|2026-11-30T15:10:49|c1\n"
    b"1016.batch|1016.batch|batch|||CANCELLED|0:15|2026-11-30T15:10:43|2026-11-30T15:10:43|2026-11-30T15:10:51|c1\n"
)
CTLD = b"""\
[2026-11-30T15:10:41.896] _slurm_rpc_submit_batch_job: JobId=1016 InitPrio=1 usec=967
[2026-11-30T15:10:43.102] sched: Allocate JobId=1016 NodeList=c1 #CPUs=1 Partition=main
[2026-11-30T15:10:44.102] sched: Allocate JobId=10160 NodeList=c1 #CPUs=1 Partition=main
[2026-11-30T15:10:45.000] _slurm_rpc_submit_batch_job: JobId=1017 InitPrio=1 usec=1016
[2026-11-30T15:10:46.000] error: Nodes c1 not responding, setting DOWN
[2026-11-30T15:10:47.000] error: Nodes c12 not responding, setting DOWN
[2026-11-30T15:10:49.659] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1016 uid 1001
[2026-11-30T15:30:00.000] error: Nodes c1 not responding, setting DOWN
"""
SLURMD = b"""\
[2026-11-30T15:10:43.120] Launching batch job 1016 for UID 1001
[2026-11-30T15:10:43.339] [1016.batch] error: *** JOB 1016 ON c1 CANCELLED AT 2026-11-30T15:10:49 ***
[2026-11-30T15:10:44.339] [10160.batch] done with step
[2026-11-30T15:10:44.500] launch task StepId=1017.0 request from UID:1016 GID:1001 HOST:10.0.0.7 PORT:1016
"""


@pytest.fixture(scope="module")
def cancelled() -> Diagnosis:
    return diagnose(from_files({"sacct.psv": SACCT, "manifest.toml": b'slurm = "24.11.5"'}))


def expect(cause: str = "cancelled_by_user", owner: Sequence[str] = ("user",), **more: object) -> Expect:
    return Expect(cause, tuple(owner), **more)  # type: ignore[arg-type]


def test_every_scenario_names_known_causes() -> None:
    known = causes.all_causes()
    for scenario in load():
        named = {scenario.expect.cause, *scenario.expect.accept, *scenario.expect.never}
        assert named <= set(known), f"{scenario.name}: {named - set(known)}"
        assert scenario.expect.owner, scenario.name
        allowed = {scenario.expect.cause, *scenario.expect.accept}
        assert scenario.expect.cause not in scenario.expect.never, scenario.name
        assert allowed, scenario.name


def test_there_are_enough() -> None:
    every = load()
    assert len(every) >= 40
    assert 12 <= len(choose(every, core=True)) <= 20


def test_scenarios_that_are_killed_by_the_kernel_do_not_overlap() -> None:
    kernel = ("oom-kill", "CONSTRAINT", "segfault", "invalid opcode")
    for scenario in load():
        if any(word in text for text in scenario.expect.cite for word in kernel):
            assert "kernel" in scenario.lock, scenario.name


def test_nodes_that_are_named_are_locked() -> None:
    for scenario in load():
        for node in ("p1", "p2", "p3", "p4"):
            if f"-w {node}" in scenario.options:
                assert node in scenario.lock, scenario.name


def test_a_scenario_that_touches_the_controller_runs_alone() -> None:
    for scenario in load():
        if any(action.on in ("ctl", "dbd", "db") for action in scenario.actions):
            assert scenario.alone, scenario.name


def test_meeting_scenarios_come_together() -> None:
    every = load()
    assert {s.name for s in choose(every, only=["node_fail_requeue"])} > {"node_fail"}
    with pytest.raises(ScenarioError, match="no such scenario"):
        choose(every, only=["nothing"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[scenario]]\nname = "a"\nnotes = ""\nscript = "x"\nbanana = 1\n', "banana"),
        ('[[scenario]]\nname = "a"\nnotes = ""\nclient = "y"\nscript = "x"\n', "either a script or a client"),
        (
            '[[scenario]]\nname = "a"\nnotes = ""\nscript = "x"\n[[scenario.action]]\nwhen = "never"\nrun = "x"\n',
            "never",
        ),
        (
            '[[scenario]]\nname = "a"\nnotes = ""\nscript = "x"\n[[scenario.action]]\nafter = 1\n',
            "either run or docker",
        ),
        ('[[scenario]]\nname = "a"\nnotes = ""\nscript = "x"\nasks = "root"\n', "root is no user"),
        ('[[scenario]]\nname = "a"\nnotes = ""\nscript = "x"\nasks = "user2"\n', "unseen is for a user"),
    ],
)
def test_a_misspelt_scenario_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "scenarios.toml"
    file.write_text(text + '[scenario.expect]\ncause = "memcg_oom"\nowner = ["user"]\n')
    with pytest.raises(ScenarioError, match=why):
        load(file)
    twice = '[[scenario]]\nname = "a"\nnotes = ""\nscript = "x"\n[scenario.expect]\ncause = "x"\nowner = ["user"]\n'
    file.write_text(twice + twice)
    with pytest.raises(ScenarioError, match="two scenarios"):
        load(file)


def test_the_right_diagnosis_passes(cancelled: Diagnosis) -> None:
    asked = expect(strength="confirmed", cite=("CANCELLED by 1001",), never=("preempted",))
    assert judge(asked, cancelled) == []
    assert judge(expect("preempted", accept=("cancelled_by_user",)), cancelled) == []


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (expect("preempted"), "cause cancelled_by_user, not preempted"),
        (expect(owner=["admin"]), "owner user, not admin"),
        (expect(strength="possible"), "confirmed, not possible"),
        (expect(cite=("DUE TO PREEMPTION",)), "no cited line has 'DUE TO PREEMPTION'"),
        (expect(never=("cancelled_by_user",)), "cancelled_by_user is confirmed"),
    ],
)
def test_a_wrong_diagnosis_fails(cancelled: Diagnosis, asked: Expect, why: str) -> None:
    assert judge(asked, cancelled) == [why]


def test_only_lines_of_the_job_and_of_its_nodes_in_its_time_are_kept() -> None:
    window = span(rows(SACCT.decode()), "+00:00")
    kept = lines_of(CTLD, names_job(["1016"]), ["c1"], window).decode().splitlines()
    assert [line[12:20] for line in kept] == ["15:10:41", "15:10:43", "15:10:46", "15:10:49"]
    kept = lines_of(SLURMD, names_job(["1016"]), (), window).decode().splitlines()
    assert [line[12:20] for line in kept] == ["15:10:43", "15:10:43"]


def test_forms_that_name_an_array_task_count() -> None:
    pattern = names_job(["1017", "1014"])
    for line in ("sched: Allocate JobId=1014_2(1017) NodeList=c1", "[1017.0] done with step", "*** STEP 1017.0 ON c1"):
        assert pattern.search(line), line
    for line in ("usec=1017", "JobId=10171", "pid 1017", "2026-11-30T15:10:17.1017"):
        assert not pattern.search(line), line


def test_span_is_from_the_first_start_to_the_last_end() -> None:
    start, end = span(rows(SACCT.decode()), "+00:00")
    assert end - start == 8
    assert span(rows(SACCT.decode()), "+02:00") == (start - 7200, end - 7200)


def test_kernel_lines_are_those_of_the_window() -> None:
    log = b"[    9.500000] early\n[   10.500000] first\nno stamp\n[   11.000000] last \xff\n[   13.000000] late\n"
    assert kernel_lines(log, 1000.0, (1010.0, 1012.0)) == b"[   10.500000] first\n[   11.000000] last \xff\n"


def test_a_record_broken_by_its_name_does_not_stop_the_others() -> None:
    assert [r["JobID"] for r in rows("JobID|JobName\n1|a\n2|b|c\nd\n3|e\n")] == ["1", "3"]


def test_streams_of_a_command() -> None:
    out, err = b"\x01\0\0\0\0\0\0\x03abc", b"\x02\0\0\0\0\0\0\x01x"
    assert streams(out + err + out) == (b"abcabc", b"x")
    assert streams(b"") == (b"", b"")
    for cut in (out[:-1], b"\x07" + out[1:], out + b"7"):
        with pytest.raises(ClusterError):
            streams(cut)


def test_the_answer_to_the_owner_is_compared_too() -> None:
    part: dict[str, object] = {
        "cause": "no_failure",
        "owner": "nobody",
        "strength": "confirmed",
        "also": [],
        "parts": [],
    }
    also = [{"cause": "preempted", "strength": "confirmed"}]
    said = {**part, "cause": "cancelled_by_user", "owner": "user", "strength": "likely", "parts": [part]}
    assert judge_live(expect(never=("preempted",)), said) == []
    assert judge_live(expect("preempted"), said) == ["cause cancelled_by_user, not preempted"]
    assert judge_live(expect(owner=["admin"]), said) == ["owner user, not admin"]
    assert judge_live(expect(never=("preempted",)), {**said, "also": also}) == ["preempted is confirmed"]
    assert judge_live(expect(never=("no_failure",)), said) == ["no_failure is confirmed"]


def test_the_answer_to_somebody_else_has_to_be_modest_and_say_what_was_not_seen() -> None:
    asked = expect("malloc_failure", unseen=("/shared/out/user1/", "Permission denied"))
    seen = {"file": "sacct.psv", "kind": "sacct", "note": "/shared/out/user1/ Permission denied"}
    output = {"file": "/shared/out/user1/1021.out", "kind": None, "note": "could not be read: Permission denied"}
    said: dict[str, object] = {
        "cause": "app_error",
        "owner": "user",
        "strength": "likely",
        "also": [],
        "parts": [],
        "coverage": [seen, output],
    }
    assert judge_other(asked, said) == []
    assert judge_other(asked, {**said, "cause": "malloc_failure", "strength": "confirmed"}) == []
    assert judge_other(asked, {**said, "strength": "confirmed"}) == ["app_error is confirmed"]
    also = [{"cause": "memcg_oom", "strength": "confirmed"}]
    assert judge_other(asked, {**said, "also": also}) == ["memcg_oom is confirmed"]
    assert judge_other(asked, {**said, "coverage": [seen]}) == [
        "nothing that could not be seen is said with '/shared/out/user1/'",
        "nothing that could not be seen is said with 'Permission denied'",
    ]
