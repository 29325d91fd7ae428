"""The agent as a whole, against a service of its own: nothing lost, nothing twice, and never anything for clean jobs."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.log import Log
from slurm_triage.node import agent as agents
from slurm_triage.node.agent import Agent, AnotherAgent, alone
from slurm_triage.node.collect import Budget, Collected
from slurm_triage.node.config import ConfigError, Settings, read
from slurm_triage.node.deliver import Delivered
from slurm_triage.node.drawer import Drawer, DrawerError, Limits
from slurm_triage.node.job import Job
from slurm_triage.node.target import AGAIN, MOST_TRIES, Target
from slurm_triage.node.target import read as read_target
from slurm_triage.sections import Section
from slurm_triage.service.admit import TAKEN
from slurm_triage.service.answering import Answering
from slurm_triage.service.intake import Intake
from slurm_triage.service.listener import Listener
from slurm_triage.service.texts import NONE, Text, Texts
from slurm_triage.transport import message
from slurm_triage.transport.key import Key
from tests.spool import writers

KEY = b"k" * 40
ME = os.geteuid()
START = 1796051442
SECTION = {"job_name": "1004", "cluster": "mini", "submit": "x", "start": "y", "text": "VERDICT\n"}


class Node:
    """A node with a spool, an agent and a service; what would be written is kept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spool = writers.make(root / "spool")
        (root / "key").write_bytes(KEY)
        (root / "key").chmod(0o600)
        (root / "service").mkdir()
        self.intake, self.texts = Intake(root / "service"), Texts(root / "service")
        self.check: Callable[..., str] = lambda *_: TAKEN
        self.port = 0
        self.listener: Listener | None = None
        self.up()
        self.lines: list[str] = []
        self.written: list[tuple[str, str, Section]] = []
        self.came = Delivered("/shared/out/1004.diagnosis.txt", True)
        self.settings = Settings(
            servers=(f"127.0.0.1:{self.port}",), auth="key", key=str(root / "key"), service_users=(str(ME),),
            spools=(str(self.spool),), state=str(root / "state"), settle=0.0, linger=3.0,
        )  # fmt: skip

    def up(self) -> None:
        log = Log(lambda line: None)
        way = Key(KEY)
        answering = Answering(way, self.intake, self.texts, lambda *a: self.check(*a), log)
        self.listener = Listener(("127.0.0.1", self.port), answering)
        self.listener.start()
        self.port = self.listener.address[1]

    def down(self) -> None:
        assert self.listener is not None
        self.listener.stop()

    def agent(self, **more: Any) -> Agent:
        one = Agent(replace(self.settings, **more), Log(self.lines.append))

        def write(job: Job, name: str, section: Section, seconds: float, **_: object) -> Delivered:
            self.written.append((job.job, name, section))
            return self.came

        one.exchange._write = write
        return one

    def leave(self, job: str = "1004", node: str = "c1", nodes: str = "c1", **more: str) -> None:
        data = writers.epilog(
            job, node, START, SLURM_JOB_GID="1001", SLURM_JOB_NODELIST=nodes, SLURM_JOB_WORK_DIR="/shared", **more
        )
        path = self.spool / "new" / f"{job}.1001.{START + 9}.77.epilog"
        path.write_bytes(data)
        path.chmod(0o600)

    def say(self, job: str = "1004", **more: Any) -> None:
        text = Text(job, float(START), "c[1-2]", "a", f"{job}.diagnosis.txt", {**SECTION, "job_name": job})
        self.texts.publish([replace(text, **more)], time.time())
        if self.listener is not None:
            self.listener.published([job])

    def lying(self) -> Mapping[str, int]:
        folders = {"new": self.spool / "new", "work": self.spool / "work", "done": self.spool / "done"}
        folders |= {name: self.root / "state" / name for name in ("outbox", "targets")}
        return {name: len(list(folder.glob("[!.]*"))) if folder.is_dir() else 0 for name, folder in folders.items()}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(agents, "all_collectors", lambda: {"kernel_log": _kernel_log, "broken": _broken})
    monkeypatch.setattr(agents, "PAUSE", (0.2, 0.4))
    monkeypatch.setattr(agents, "NAP", 0.05)
    (tmp_path / "state").mkdir(mode=0o700)
    one = Node(tmp_path)
    yield one
    one.down()


def _kernel_log(job: Job, budget: Budget) -> Collected:
    return Collected({f"kmsg.{job.node}.txt": b"line\n"}, {"boot_epoch": {job.node: 5.0}})


def _broken(job: Job, budget: Budget) -> Collected:
    raise RuntimeError("a collector that fails")


# ------------------------------------------------------------------------------------------------ evidence


def test_a_job_goes_from_the_spool_to_the_service_and_its_text_to_the_user(node: Node) -> None:
    node.leave()
    threading.Timer(0.5, node.say).start()
    node.agent().run()
    (told,) = node.intake.of(["1004"])["1004"]
    assert set(told.files) == {"env.epilog.c1.txt", "kmsg.c1.txt"} and told.start == START and told.uid == 1001
    assert told.not_seen == ("broken: could not be looked at: RuntimeError: a collector that fails",)
    assert [(job, name, section.text) for job, name, section in node.written] == [
        ("1004", "1004.diagnosis.txt", "VERDICT\n")
    ]
    assert node.lying() == {"new": 0, "work": 0, "done": 1, "outbox": 0, "targets": 1}
    assert node.texts.counts(time.time())["written"] == 1


def test_an_empty_spool_is_left_at_once(node: Node) -> None:
    began = time.monotonic()
    node.agent().run()
    assert time.monotonic() - began < 1 and not node.lines


def test_while_no_service_can_be_reached_nothing_is_lost_and_nothing_spins(node: Node) -> None:
    node.down()
    node.leave()
    began = time.monotonic()
    node.agent().run()
    assert time.monotonic() - began < 2
    assert node.lying() == {"new": 0, "work": 0, "done": 1, "outbox": 1, "targets": 1}
    assert sum("unreachable" in line for line in node.lines) == 1
    node.up()
    node.agent(linger=0.0).run()
    assert node.lying()["outbox"] == 0 and node.intake.waiting() == 1


def test_evidence_that_was_taken_but_not_said_to_be_is_sent_again_and_is_the_same(node: Node) -> None:
    node.leave()
    agent = node.agent()
    agent._gather()
    (entry,) = agent.outbox.entries()
    data = agent.outbox.read(entry.name)
    assert data is not None
    agent.exchange.send()
    agent.outbox.put(entry.name, data)
    agent.exchange.send()
    assert len(node.intake.of(["1004"])["1004"]) == 1 and node.lying()["outbox"] == 0


def test_a_killed_agent_leaves_records_that_the_next_one_takes(node: Node) -> None:
    node.leave()
    child = os.fork()
    if child == 0:
        agent = node.agent()
        agent.outbox.put = lambda name, data: os._exit(9)  # type: ignore[method-assign]
        agent.run()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert node.lying()["work"] == 1
    node.agent(linger=0.0).run()
    assert node.intake.waiting() == 1 and node.lying()["work"] == 0


def test_a_full_disk_keeps_records_in_the_spool(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.leave()
    agent = node.agent()

    def full(name: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(agent.outbox, "put", full)
    agent.run()
    assert node.lying()["new"] == 1 and any("No space left" in line for line in node.lines)
    monkeypatch.undo()
    monkeypatch.setattr(agents, "all_collectors", lambda: {})
    node.agent(linger=0.0).run()
    assert node.intake.waiting() == 1


def test_a_refused_case_is_gone_and_the_others_are_not(node: Node) -> None:
    node.leave("1004")
    node.leave("1005")
    node.check = lambda name, *_: TAKEN if not node.lines or name == "c1" else "refused: no"
    node.leave("1006", node="c9", nodes="c9")
    node.agent(linger=0.0).run()
    assert set(node.intake.of(["1004", "1005", "1006"])) == {"1004", "1005"}
    assert node.lying()["outbox"] == 0 and any("refused" in line and "1006" in line for line in node.lines)


def test_a_service_that_cannot_tell_yet_gets_it_later(node: Node) -> None:
    node.leave()
    node.check = lambda *_: "later"
    node.agent(linger=0.0).run()
    assert node.lying()["outbox"] == 1
    node.check = lambda *_: TAKEN
    node.agent(linger=0.0).run()
    assert node.lying()["outbox"] == 0


def test_records_of_nobody_are_evidence_and_have_no_target(node: Node) -> None:
    path = node.spool / "new" / f"1004.1001.{START}.77.epilog"
    path.write_bytes(writers.epilog("1004"))  # no group
    path.chmod(0o600)
    node.agent(linger=0.0).run()
    (told,) = node.intake.of(["1004"])["1004"]
    assert told.uid == -1 and node.lying()["targets"] == 0


def test_system_users_and_switched_off_files_have_no_target(node: Node) -> None:
    node.leave()
    node.agent(linger=0.0, first_uid=5000).run()
    node.leave("1005")
    node.agent(linger=0.0, files=False).run()
    assert node.lying()["targets"] == 0 and node.intake.waiting() == 2


def test_young_records_wait_a_moment(node: Node) -> None:
    node.leave()
    began = time.monotonic()
    node.agent(settle=1.0, linger=0.0).run()
    assert time.monotonic() - began > 0.5 and node.intake.waiting() == 1


def test_task_records_wait_for_their_ticket(node: Node) -> None:
    """They are moved into the spool a moment before it, with the time of their last line."""
    now = time.time()
    path = node.spool / "new" / f"1004.1001.{int(now)}.77.tasks"
    path.write_bytes(writers.TASKS)
    path.chmod(0o600)
    os.utime(path, (now - 600, now - 600))
    agent = node.agent(settle=3.0)
    assert agent._gather() == (0, True) and node.lying()["new"] == 1
    agent.gatherer.clock = lambda: now + 10
    assert agent._gather() == (1, False)


def test_targets_go_when_they_are_old_though_nothing_comes(node: Node) -> None:
    node.leave()
    node.agent(linger=0.0).run()
    (target,) = (node.root / "state" / "targets").iterdir()
    os.utime(target, (1, 1))
    node.agent(linger=0.0).run()
    assert node.lying()["targets"] == 0


def test_one_agent_at_a_time(node: Node) -> None:
    with alone(node.settings.state), pytest.raises(AnotherAgent):
        node.agent().run()


# ------------------------------------------------------------------------------------------------ texts


def test_without_a_text_the_target_stays_for_the_timer(node: Node) -> None:
    node.leave()
    node.agent(linger=0.3).run()
    assert node.lying()["targets"] == 1 and not node.written
    node.say()
    node.agent().run()
    assert len(node.written) == 1


def test_that_there_will_be_no_file_ends_the_waiting(node: Node) -> None:
    node.leave()
    node.say(state=NONE, why="nothing went wrong")
    began = time.monotonic()
    node.agent(linger=60.0).run()
    assert not node.written and time.monotonic() - began < 20


def test_what_cannot_be_written_is_tried_some_times_and_then_said_to_be_lost(node: Node) -> None:
    node.leave()
    node.say()
    node.came = Delivered("", False, "Disk quota exceeded")
    for _ in range(MOST_TRIES + 3):
        node.agent(linger=0.0).run()
    assert len(node.written) == MOST_TRIES and node.texts.counts(time.time())["failed"] == 1


def test_another_verdict_is_written_again_and_the_same_is_not(node: Node) -> None:
    node.leave()
    node.say()
    node.agent().run()
    node.agent().run()
    assert len(node.written) == 1
    node.say(verdict="another")
    node.agent().run()
    assert len(node.written) == 2


@pytest.mark.parametrize(
    "item",
    [
        {"index": 0, "state": "text", "revision": 1, "name": "x", "section": {"job_name": 7}},
        {"index": 0, "state": "text", "revision": 1, "name": "x", "section": {**SECTION, "uid": "0"}},
        {"index": 0, "state": "text", "revision": 1, "name": "x"},
        {"index": 9, "state": "text", "revision": 1, "name": "x", "section": SECTION},
        {"index": True, "state": "text", "revision": 1, "name": "x", "section": SECTION},
        {"index": 0, "state": "text", "revision": "1", "name": "x", "section": SECTION},
        {"index": 0, "state": "text", "revision": 10**400, "name": "x", "section": SECTION},
        {"index": 0, "state": "text", "revision": -1, "name": "x", "section": SECTION},
        {"index": 0, "state": "obey", "path": "/etc/shadow"},
        "text",
    ],
)
def test_nonsense_of_a_service_writes_nothing(node: Node, item: object) -> None:
    node.leave()
    agent = node.agent()
    agent._gather()
    (target,) = agent.exchange.listed()
    if isinstance(item, dict) and item.get("index") == 0:
        agent.exchange._said(target, item)
    assert not node.written


def test_who_and_where_are_not_the_services_business(node: Node) -> None:
    """Whatever a service says, the job that is written for is the one of this node's own records."""
    node.leave(SLURM_JOB_STDOUT="/shared/out/%j.out")
    evil = {**SECTION, "text": "VERDICT\n"}
    node.say(name="../../etc/cron.d/x", section=evil)
    node.agent().run()
    ((job, name, _),) = node.written
    assert job == "1004" and name == "../../etc/cron.d/x"  # which `deliver` refuses: tests/node/test_deliver.py
    agent = node.agent()
    (target,) = agent.exchange.listed()
    assert (target.job.uid, target.job.stdout) == (1001, "/shared/out/%j.out")


def test_a_service_that_is_somebody_else_is_not_believed(node: Node) -> None:
    node.leave()
    node.say()
    node.agent(service_users=("4242",)).run()
    assert not node.written and node.lying()["outbox"] == 1


def test_a_service_that_hangs_costs_a_while(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_triage.transport import client

    monkeypatch.setattr(client, "ANSWER", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        node.leave()
        began = time.monotonic()
        node.agent(servers=(f"127.0.0.1:{mute.getsockname()[1]}",), linger=0.0).run()
        assert time.monotonic() - began < 10 and node.lying()["outbox"] == 1
        node.agent(servers=(f"127.0.0.1:{mute.getsockname()[1]}", f"127.0.0.1:{node.port}"), linger=0.0).run()
        assert node.lying()["outbox"] == 0


# ------------------------------------------------------------------------------------------------ drawers, settings


def test_a_drawer_keeps_within_its_limits(tmp_path: Path) -> None:
    clock = [1000.0]
    drawer = Drawer(str(tmp_path / "d"), Limits(3, 1000, 100.0), lambda: clock[0])
    for number in range(6):
        drawer.put(str(number), b"x")
        os.utime(tmp_path / "d" / str(number), (900 + number, 900 + number))
    clock[0] = 1001.5  # 0 and 1 are too old; of the others one is too much
    assert drawer.trim() == 3 and [entry.name for entry in drawer.entries()] == ["3", "4", "5"]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_drawer_that_others_get_into_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d").chmod(mode)
    with pytest.raises(DrawerError, match="closed to others"):
        Drawer(str(tmp_path / "d"), Limits(3, 1000, 100.0))
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(DrawerError):
        Drawer(str(tmp_path / "link"), Limits(3, 1000, 100.0))


def test_what_is_made_for_a_drawer_is_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        Drawer(str(tmp_path / "state" / "outbox"), Limits(3, 1000, 100.0))
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("state", "state/outbox")] == [0o700, 0o700]
    with pytest.raises(DrawerError, match="No such file"):
        Drawer(str(tmp_path / "not" / "there" / "outbox"), Limits(3, 1000, 100.0))


def test_a_drawer_never_holds_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawer = Drawer(str(tmp_path / "d"), Limits(3, 1000, 100.0))
    drawer.put("a", b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="No space"):
        drawer.put("a", b"new")
    assert drawer.read("a") == b"old" and [p.name for p in (tmp_path / "d").iterdir()] == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        {"ended": None}, {"ended": float("nan")}, {"ended": "x"}, {"revision": "1"}, {"tries": None}, {"more": 1}, {"job": 7},
        {"job": {"job": "1", "node": "c1", "uid": "0", "gid": 0}}, {"job": {"job": 1, "node": "c1", "uid": 5, "gid": 5}},
        {"job": {"job": "1", "node": None, "uid": 5, "gid": 5, "groups": 3, "array": None}},
    ],
)  # fmt: skip
def test_a_target_that_is_damaged_goes_and_stops_nothing(node: Node, change: dict[str, object]) -> None:
    node.leave()
    agent = node.agent()
    agent._gather()
    (target,) = agent.exchange.listed()
    agent.targets.put("9.9.c1", json.dumps({**json.loads(target.data()), **change}).encode())
    assert [one.name for one in agent.exchange.listed()] == [target.name]
    assert node.lying()["targets"] == 1


def test_targets_come_back_as_they_were() -> None:
    job = Job("1004", "c1", 1001, 1001, start=5, groups=(1, 2), array=("1000", "4"), nodes="c[1-2]", batch_host=True)
    target = Target(job, 1.0, 2.0, revision=3, tries=1, trouble="no", closed=False)
    assert read_target(target.data()) == target
    assert read_target(Target(Job("1", "", 1, 1), 1.0, 2.0).data()) is not None
    for wrong in (b"", b"{}", b"[]", b'{"job": 7}', b'{"job": {"job": "1"}, "since": 1}', b"\xff"):
        assert read_target(wrong) is None


def test_settings_of_the_agent() -> None:
    text = """
    # the agent of a node
    [agent]
    servers = ["ctl", "[fd00::1]:7000"]  # two
    auth = "key"
    key = "/etc/slurm-triage/a#key"
    settle = 1.5
    files = false
    first_uid = 500
    """
    found = read(text, "agent.toml")
    assert found.servers == ("ctl", "[fd00::1]:7000") and found.key == "/etc/slurm-triage/a#key" and not found.files
    assert found.settle == 1.5 and found.first_uid == 500 and isinstance(found.first_uid, int)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("server = []", "not known; known are"),
        ("servers = 'ctl'", "a list of strings"),
        ('servers = ["ctl:x"]', "HOST"),
        ('auth = "none"', "one of munge, key"),
        ('key = "key"', "absolute path"),
        ("files = 1", "true or false"),
        ("settle = 900", "from 0 to 60"),
        ("settle = true", "a number"),
        ("[service]", "line 1"),
        ("servers = [\n", "on one line"),
        ('state = "/x\\u0000y"', "a string"),
        ('servers = ["a\\u0000b"]', "a list of strings"),
        ('spools = ["spool"]', "absolute paths"),
        ("first_uid = 1.5", "a number"),
        ("settle = NaN", "a number"),
        ("servers = " + "[" * 100_000, "a list of strings"),
    ],
)
def test_a_wrong_setting_is_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r"agent\.toml line 1: .*" + why.replace("[", r"\[") + "|" + why):
        read(text, "agent.toml")


# ------------------------------------------------------------------------------------------------ trouble


def _past(end: float) -> bool:
    return time.monotonic() >= end


@pytest.mark.parametrize(
    "item", [{"state": "postponed"}, {"state": "text", "revision": "1"}, {"state": "text", "revision": 1}]
)
def test_a_service_that_says_nonsense_at_once_is_not_asked_at_once(node: Node, item: dict[str, object]) -> None:
    """A newer service, or one that was taken over, must not make all nodes of a cluster ask as fast as they can."""
    node.leave()

    def answer(asked: Sequence[object], now: float) -> list[dict[str, Any]]:
        return [{"index": n, **item} for n, _ in enumerate(asked)]

    node.texts.answer = answer  # type: ignore[method-assign]
    assert node.listener is not None
    for go in ("run", "watch"):
        before = node.listener.counts["texts-messages"]
        end = time.monotonic() + 3
        agent = node.agent(linger=3.0)
        agent.stop = partial(_past, end)
        getattr(agent, go)()
        assert time.monotonic() - end < 2
        assert 1 <= node.listener.counts["texts-messages"] - before <= 8
    assert not node.written


def test_one_answer_writes_a_text_once(node: Node) -> None:
    node.leave()
    node.say()
    plain = node.texts.answer

    def many(asked: Any, now: float) -> list[dict[str, Any]]:
        return [{**item, "revision": number} for item in plain(asked, now) for number in range(1, 200)]

    node.texts.answer = many  # type: ignore[method-assign]
    node.agent(linger=0.0).run()
    assert len(node.written) == 1


def test_trouble_with_a_spool_is_said_once_and_makes_nobody_hurry(node: Node) -> None:
    node.leave()
    node.agent(linger=0.0).run()
    node.leave("1005")  # which cannot be taken
    node.spool.chmod(0o777)
    node.lines.clear()
    assert node.listener is not None
    before = node.listener.counts["texts-messages"]
    node.agent(linger=3.0).run()
    assert [line for line in node.lines if "spool" in line] == node.lines[:1] and "chmod go-w" in node.lines[0]
    assert node.listener.counts["texts-messages"] - before <= 3
    node.spool.chmod(0o700)
    node.agent(linger=0.0).run()
    assert set(node.intake.of(["1004", "1005"])) == {"1004", "1005"}


def test_records_that_come_late_replace_nothing(node: Node) -> None:
    """They say less than those before, which may wait for the service still."""
    node.down()
    node.leave(SLURM_ARRAY_JOB_ID="1000", SLURM_ARRAY_TASK_ID="4", SLURM_JOB_NAME="fit", SLURM_JOB_USER="eve")
    agent = node.agent(linger=0.0)
    agent.run()
    (target,) = agent.exchange.listed()
    target.revision, target.closed = 3, True
    agent.targets.put(target.name, target.data())
    late = node.spool / "new" / f"1004.1001.{START + 9}.99.spank"
    late.write_bytes(writers.epilog("1004", "c1", START, SLURM_JOB_GID="1001", SLURM_JOB_STDOUT="/shared/out"))
    late.chmod(0o600)
    agent = node.agent(linger=0.0)
    agent.run()
    (target,) = agent.exchange.listed()
    assert (target.job.array, target.job.name, target.job.user) == (("1000", "4"), "fit", "eve")
    assert (
        target.job.stdout == "/shared/out" and target.job.batch_host and (target.revision, target.closed) == (3, True)
    )
    node.up()
    node.agent(linger=0.0).run()
    cases = node.intake.of(["1004"])["1004"]
    assert sorted(name for case in cases for name in case.files if "env" in name) == [
        "env.epilog.c1.txt",
        "env.spank.c1.txt",
    ]


def test_late_records_of_another_user_take_the_target_away(node: Node) -> None:
    node.leave()
    node.agent(linger=0.0).run()
    late = node.spool / "new" / f"1004.1002.{START + 9}.99.spank"
    late.write_bytes(
        writers.epilog("1004", "c1", START, SLURM_JOB_GID="1001").replace(b"SLURM_JOB_UID=1001", b"SLURM_JOB_UID=1002")
    )
    late.chmod(0o600)
    node.agent(linger=0.0).run()
    assert node.lying()["targets"] == 0 and any("another user" in line for line in node.lines)


def test_refused_evidence_takes_its_target_along_whatever_it_is_called(node: Node) -> None:
    node.down()
    node.leave()
    node.agent(linger=0.0).run()
    agent = node.agent()
    (entry,) = agent.outbox.entries()
    agent.outbox.put(entry.name + AGAIN + "2", agent.outbox.read(entry.name) or b"")
    agent.outbox.remove(entry.name)
    node.check = lambda *_: "refused: no"
    node.up()
    node.agent(linger=0.0).run()
    assert node.lying()["outbox"] == 0 == node.lying()["targets"]


def test_cases_that_are_too_large_together_are_sent_one_by_one(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        node.leave(str(1004 + number))
    agent = node.agent(linger=0.0)
    agent._gather()
    monkeypatch.setattr(message, "MOST_HEAD", 1000)
    agent.exchange.send()
    assert node.intake.waiting() == 5 and node.lying()["outbox"] == 0


def test_thousands_of_targets_are_read_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.leave()
    agent = node.agent()
    agent._gather()
    read: list[str] = []
    plain = agent.targets.read

    def counted(name: str) -> bytes | None:
        read.append(name)
        return plain(name)

    monkeypatch.setattr(agent.targets, "read", counted)
    first = agent.exchange.listed()
    assert agent.exchange.listed() == first and len(read) == 1
    changed = Target(**{**vars(first[0]), "revision": 7})
    agent.targets.put(changed.name, changed.data())
    assert agent.exchange.listed() == [changed] and len(read) == 2
    agent.targets.remove(changed.name)
    assert agent.exchange.listed() == []


def test_an_activation_ends_though_there_is_always_something_to_do(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "LONGEST", 1.0)
    agent = node.agent()
    monkeypatch.setattr(agent, "round", lambda wait: (True, True))
    began = time.monotonic()
    agent.run()
    assert 0.9 < time.monotonic() - began < 5


def test_an_answer_that_comes_byte_by_byte_is_given_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_triage.transport import client

    monkeypatch.setattr(client, "ANSWER", 0.5)
    monkeypatch.setattr(client, "CONNECT", 0.5)

    def drip(server: socket.socket, head: bytes) -> None:
        stream, _ = server.accept()
        with stream:
            stream.recv(1 << 20)
            try:
                stream.sendall(head)
                for _ in range(100):
                    stream.sendall(b"1")
                    time.sleep(0.1)
            except OSError:
                return

    for head in (b"", b"SLTR1 64000 10\n", b"SLTR1 1 64000\n"):
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=drip, args=(server, head), daemon=True)
            thread.start()
            way = client.Client([f"127.0.0.1:{server.getsockname()[1]}"], Key(KEY), [ME])
            began = time.monotonic()
            with pytest.raises(client.Unreachable):
                way.ask(message.Message("texts"))
            assert time.monotonic() - began < 5
            thread.join(15)
