"""Which evidence belongs to which attempt, and who is not believed."""

from __future__ import annotations

import time

import pytest

from slurm_triage.service.assemble import assemble, everybody_spoke
from slurm_triage.service.glance import Glance, glance
from slurm_triage.service.patience import PROMPT, patience
from tests.service.test_intake import told

HEAD = "JobIDRaw|JobID|UID|Start|End|NodeList|State"
ONE = f"""{HEAD}
1001|1001|1001|2026-11-30T10:00:00|2026-11-30T10:01:00|c[1-2]|FAILED
1001.batch|1001.batch||2026-11-30T10:00:00|2026-11-30T10:01:05|c1|FAILED
""".encode()
TWO = f"""{HEAD}
1001|7_4|1001|2026-11-30T10:00:00|2026-11-30T10:01:00|c1|NODE_FAIL
1001|7_4|1001|2026-11-30T10:10:00|2026-11-30T10:11:00|c2|FAILED
""".encode()
START = 1796032800
LATER = START + 600


def look(table: bytes) -> Glance:
    return glance(table)


def test_a_glance_at_accounting() -> None:
    found = look(ONE)
    assert [(a.start, a.end, a.nodes, a.uid) for a in found.attempts] == [(START, START + 60, "c[1-2]", 1001)]
    assert (found.shown, found.running, found.end) == ("1001", False, START + 65)
    assert look(TWO).shown == "7_4" and len(look(TWO).attempts) == 2


@pytest.mark.parametrize(
    ("line", "running"),
    [
        (b"1001.0|1001.0||2026-11-30T10:00:00|Unknown|c1|RUNNING\n", True),
        (b"1001|1001|1001|Unknown|Unknown|None assigned|PENDING\n", False),
        (b"1001|1001|1001|2026-11-30T10:00:00|Unknown|c1|REQUEUED\n", False),
        (b"torn|line\n", False),
    ],
)
def test_a_line_without_an_end(line: bytes, running: bool) -> None:
    assert look(ONE + line).running is running


def test_nothing_is_a_glance_too() -> None:
    for table in (b"", HEAD.encode(), b"\xff\xfe", b"Sacct|what\n1|2\n"):
        found = look(table)
        assert found.attempts == () and found.end is None


def test_evidence_of_one_attempt_keeps_its_names() -> None:
    found = assemble(look(ONE), [told(start=START), told(node="c2", start=START, files={"kmsg.c2.txt": b"x\n"})])
    assert set(found.files) == {"kmsg.c1.txt", "kmsg.c2.txt"} and not found.foreign
    assert everybody_spoke(look(ONE), found)


def test_a_node_that_sent_nothing_is_said() -> None:
    found = assemble(look(ONE), [told(start=START)])
    assert not everybody_spoke(look(ONE), found)
    assert any("c2 sent nothing" in text for text in found.not_seen)


def test_evidence_of_two_attempts_says_of_which_it_is() -> None:
    out = {"job.out": b"first\n", "env.epilog.c1.txt": b"A=1\0"}
    cases = [
        told(start=START, files=out, manifest={"line_ranges": {"job.out": [[1, 1]]}, "boot_epoch": {"c1": 5.0}}),
        told(start=LATER + 1, node="c2", files={"job.out": b"second\n"}, manifest={"boot_epoch": {"c2": 6.0}}),
    ]
    found = assemble(look(TWO), cases)
    assert found.files["job.attempt1.out"] == b"first\n" and found.files["job.attempt2.out"] == b"second\n"
    assert found.manifest["line_ranges"] == {"job.attempt1.out": [[1, 1]]}
    assert found.manifest["boot_epoch"] == {"c1": 5.0, "c2": 6.0}
    assert found.heard == {"c2"}


def test_without_a_start_the_end_tells_the_attempt() -> None:
    found = assemble(look(TWO), [told(start=None, ended=START + 90.0)])
    assert list(found.files) == ["kmsg.attempt1.c1.txt"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"node": "c9"}, "did not have"),
        ({"uid": 1002}, "uid 1002"),
        ({"start": START + 300}, "accounting does not have"),
        ({"start": None, "ended": float(START - 100)}, "accounting does not have"),
    ],
)
def test_who_has_no_say_in_the_job_is_not_believed(more: dict[str, object], why: str) -> None:
    found = assemble(look(ONE), [told("1001", **{"start": START, **more})])
    assert not found.files and not found.heard and why in found.foreign[0]


def test_the_controller_is_believed_and_is_no_node() -> None:
    found = assemble(
        look(ONE), [told(start=START, node="", role="controller", files={"env.epilog_slurmctld.txt": b"A=1\0"})]
    )
    assert "env.epilog_slurmctld.txt" in found.files and not found.heard


def test_what_is_told_twice_is_there_once_and_records_are_never_lost() -> None:
    first = told(start=START, files={"tasks.c1.txt": b"a\n", "kmsg.c1.txt": b"1\n"}, received=1.0)
    again = told(start=START, files={"tasks.c1.txt": b"a\n", "kmsg.c1.txt": b"1\n2\n"}, received=2.0)
    more = told(start=START, files={"tasks.c1.txt": b"b\n"}, received=3.0)
    found = assemble(look(ONE), [again, more, first])
    assert found.files["kmsg.c1.txt"] == b"1\n2\n"
    assert sorted(data for name, data in found.files.items() if name.startswith("tasks.")) == [b"a\n", b"b\n"]


def test_a_clock_that_is_minutes_off_is_set_right() -> None:
    found = assemble(look(ONE), [told(start=START, offset=180.0, manifest={"boot_epoch": {"c1": 1000.0}})])
    assert found.manifest["boot_epoch"] == {"c1": 1180.0}
    exact = assemble(look(ONE), [told(start=START, offset=0.4, manifest={"boot_epoch": {"c1": 1000.0}})])
    assert exact.manifest["boot_epoch"] == {"c1": 1000.0}


def test_when_accounting_is_believed() -> None:
    patient = patience({"scontrol-config.txt": b"KillWait                = 4 sec\nUnkillableStepTimeout   = 60 sec\n"})
    both = [told(start=START, ended=START + 66.0), told(node="c2", start=START, ended=START + 70.0)]
    for cases, due in ((both, START + 70 + PROMPT), (both[:1], START + 65 + 19.0), ([], START + 65 + 19.0)):
        assert patient.due(look(ONE), assemble(look(ONE), cases), START + 60.0) == due
    running = look(ONE + b"1001.0|1001.0||2026-11-30T10:00:00|Unknown|c1|RUNNING\n")
    assert patient.due(running, assemble(running, both), START + 60.0) == START + 60 + 4 + 60 + 120
    assert patience({}).settle == 45.0


def test_a_job_of_thousands_of_nodes_takes_a_moment() -> None:
    """Each of them says what it could not look at, in words of its own; of all that people get some."""
    nodes = [f"c{number}" for number in range(1, 6001)]
    table = ONE.replace(b"c[1-2]", b"c[1-6000]")
    cases = [
        told(node=n, start=START, not_seen=tuple(f"kmsg.{n}.txt: {k}" for k in range(5)), files={f"env.spank.{n}.txt": n.encode()})
        for n in nodes
    ]  # fmt: skip
    began = time.monotonic()
    found = assemble(look(table), cases)
    assert time.monotonic() - began < 10
    assert len(found.files) == 6000 and everybody_spoke(look(table), found) and not found.foreign
    assert len(found.not_seen) == 301 and found.not_seen[-1].startswith("nodes: 29700 more")


def test_a_second_look_does_not_take_away_what_the_first_one_saw() -> None:
    first = {"kmsg.c1.txt": b"1\n2\n3\n", "node.c1.json": b"{ }", "slurmd.c1.log": b"x\n"}
    second = {"kmsg.c1.txt": b"lost\n", "node.c1.json": b"{}", "slurmd.c1.log": b"x\ny\n"}
    found = assemble(
        look(ONE), [told(start=START, files=first, received=1.0), told(start=START, files=second, received=2.0)]
    )
    assert found.files == {**first, "node.c1.json": b"{}", "slurmd.c1.log": b"x\ny\n"}


def test_no_case_is_changed_by_putting_them_together() -> None:
    cases = [told(node=f"c{n}", start=START, manifest={"boot_epoch": {f"c{n}": float(n)}}) for n in (1, 2)]
    for _ in range(2):
        assert assemble(look(ONE), cases).manifest == {"boot_epoch": {"c1": 1.0, "c2": 2.0}}
    assert [case.manifest for case in cases] == [{"boot_epoch": {"c1": 1.0}}, {"boot_epoch": {"c2": 2.0}}]
