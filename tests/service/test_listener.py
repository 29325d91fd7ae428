"""The port: whose word is taken, what is on disk before it is said to be taken, and who gets which text."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.log import Log, Sparing
from slurm_triage.service import admit
from slurm_triage.service.answering import Answering
from slurm_triage.service.gate import Full, Gate
from slurm_triage.service.intake import Intake, IntakeError, Told
from slurm_triage.service.listener import Listener, ListenError
from slurm_triage.service.peers import Peers
from slurm_triage.service.quota import Quota
from slurm_triage.service.texts import NONE, Asked, Outcome, Text, Texts
from slurm_triage.transport import auth, message, wire
from slurm_triage.transport.client import Abandoned, Client, Refused, Unreachable
from slurm_triage.transport.key import Key
from slurm_triage.transport.message import Message

KEY = b"k" * 40
ME = os.geteuid()
SLURM = 64030
NODES = "NodeName=c1 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=c1 Version=24.11\nNodeName=c2 x NodeAddr=192.0.2.7 NodeHostName=c2 V\n"
CONFIG = "SlurmctldHost[0]        = ctl(127.0.0.1)\n"
SECTION = {"job_name": "1001", "cluster": "mini", "submit": "x", "start": "y", "text": "VERDICT\n"}


class Site:
    """A listener with its stores, and clients of it."""

    def __init__(self, root: Path) -> None:
        self.intake, self.texts = Intake(root), Texts(root)
        self.lines: list[str] = []
        self.heard = threading.Event()
        self.slurm = ""
        # Time flies, so that slurmctld is asked again whenever somebody is not where he says.
        ticks = itertools.count(0.0, 100.0)
        peers = Peers(self._nodes, lambda: CONFIG, lambda name: frozenset((name,)), lambda: next(ticks))
        # Whoever runs the tests is root to the service, as on a node.
        self.root = ME
        self.listener = Listener(
            ("127.0.0.1", 0),
            Answering(
                Key(KEY),
                self.intake,
                self.texts,
                lambda node, role, uid, at: admit.check(node, role, 0 if uid == self.root else uid, at, peers, SLURM),
                Log(self.lines.append),
                self.heard.set,
            ),
        )
        self.listener.start()

    def _nodes(self) -> str:
        if self.slurm:
            raise RuntimeError(self.slurm)
        return NODES

    def client(self, key: bytes = KEY, trusted: int = ME) -> Client:
        host, port = self.listener.address
        return Client([f"{host}:{port}"], Key(key), [trusted])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    one = Site(tmp_path)
    yield one
    one.listener.stop()


def case(job: object = "1001", node: object = "c1", **more: object) -> dict[str, object]:
    return {
        "job": job, "start": 100, "node": node, "role": "node", "uid": 1001, "array": None, "batch_host": True,
        "ended": time.time(), "now": time.time(), "manifest": {"boot_epoch": {"c1": 1.0}, "utc_offset": "+09:00"},
        "not_seen": [], **more,
    }  # fmt: skip


def evidence(*cases: dict[str, object], files: dict[str, bytes] | None = None) -> Message:
    return Message("evidence", {"now": time.time(), "cases": list(cases)}, files or {"0/kmsg.c1.txt": b"line\n"})


def target(job: str = "1001", node: str = "c1", **more: object) -> dict[str, object]:
    return {"job": job, "start": 100, "ended": 200.0, "node": node, "batch_host": True, "revision": 0, **more}


def asking(*targets: dict[str, object], wait: float = 0.0, done: object = None) -> Message:
    return Message("texts", {"asked": list(targets), "wait": wait, "done": done or []})


def outcomes(one: dict[str, object], **more: object) -> list[Outcome]:
    said = {**one, "revision": 1, "written": True, "last": True, "path": "/x", "why": "", **more}
    return admit.outcomes_of(asking(done=[said]), 1000.0)


def raw(question: Message, key: bytes = KEY) -> bytes:
    """A question as it travels."""
    body = message.pack(question)
    credential = Key(key).sign(auth.digest(wire.QUESTION, body))
    return wire.line(credential, body) + credential + body


def say(site: Site, **more: object) -> None:
    text = Text(job="1001", start=100.0, nodes="c[1-2]", verdict="a", name="1001.diagnosis.txt", section=SECTION)
    site.texts.publish([replace(text, **more)], time.time())  # type: ignore[arg-type]
    site.listener.published(["1001"])


# ------------------------------------------------------------------------------------------------ evidence


def test_what_is_taken_is_on_disk(site: Site, tmp_path: Path) -> None:
    answer = site.client().ask(evidence(case()))
    assert answer.head["cases"] == ["taken"] and site.heard.is_set()
    (told,) = Intake(tmp_path).of(["1001"])["1001"]
    assert told.files == {"kmsg.c1.txt": b"line\n"} and told.manifest == {"boot_epoch": {"c1": 1.0}}


def test_a_node_does_not_tell_what_accounting_says(site: Site) -> None:
    files = {"0/sacct.psv": b"JobIDRaw|State\n", "0/scontrol-config.txt": b"KillWait = 0\n", "0/kmsg.c1.txt": b"x\n"}
    site.client().ask(evidence(case(), files=files))
    (told,) = site.intake.of(["1001"])["1001"]
    assert set(told.files) == {"kmsg.c1.txt"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"node": "c2"}, "not node c2"),
        ({"node": "c9"}, "not node c9"),
        ({"node": "../c1"}, "no name of a node"),
        ({"job": "1; drop"}, "no job id"),
        ({"job": 7}, "no job id"),
        ({"uid": "0"}, "no uid"),
        ({"start": "yesterday"}, "no time"),
        ({"start": 10**400}, "no time"),
        ({"start": -5}, "no time"),
        ({"ended": float("nan")}, "no time"),
        ({"ended": 10**400}, "no time"),
        ({"uid": -2}, "no uid"),
        ({"uid": 2**64}, "no uid"),
        ({"role": "king"}, "no name of a node"),
        ({"manifest": []}, "no manifest"),
    ],
)
def test_who_is_not_where_he_says_is_refused_and_the_others_are_not(
    site: Site, more: dict[str, object], why: str
) -> None:
    states = site.client().ask(evidence(case("1002"), case(**more))).head["cases"]
    assert states[0] == "taken" and states[1].startswith("refused: ") and why in states[1]
    assert set(site.intake.of(["1001", "1002"])) == {"1002"}


def test_an_ordinary_user_is_refused() -> None:
    peers = Peers(lambda: NODES, lambda: CONFIG, lambda name: frozenset((name,)))
    for role, uid, taken in (
        ("node", 1001, False),
        ("node", SLURM, False),
        ("controller", SLURM, True),
        ("controller", 7, False),
    ):
        assert (admit.check("c1", role, uid, "127.0.0.1", peers, SLURM) == admit.TAKEN) is taken


def test_while_slurmctld_is_down_evidence_stays_with_its_node(site: Site) -> None:
    site.slurm = "slurmctld does not answer"
    assert site.client().ask(evidence(case())).head["cases"] == ["later"]
    assert site.intake.waiting() == 0


def test_a_full_disk_takes_nothing_and_says_later(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(cases: object, now: float) -> None:
        raise IntakeError("database or disk is full")

    monkeypatch.setattr(site.intake, "put", full)
    with pytest.raises(Unreachable, match="cannot keep it now"):
        site.client().ask(evidence(case()))
    assert any("disk is full" in line for line in site.lines)
    monkeypatch.undo()
    assert site.client().ask(evidence(case())).head["cases"] == ["taken"]


def test_a_node_that_brings_too_much_is_told_to_come_later(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.listener._answering, "_quota", Quota(most=100, seconds=1e9))
    many = [evidence(case(str(1000 + n)), files={"0/kmsg.c1.txt": b"x" * 60}) for n in range(3)]
    states = [site.client().ask(one).head["cases"] for one in many]
    assert states == [["taken"], ["later"], ["later"]]
    assert site.intake.waiting() == 1
    assert site.listener.counts["over-quota"] == 2
    assert any("over-quota" in line and "c1" in line for line in site.lines)


@pytest.mark.parametrize(
    "question",
    [
        asking(target(ended=float("inf"))),
        asking(target(start=10**400)),
        asking(target(revision=float("nan"))),
        asking(target(revision=10**400)),
        Message("evidence", {"cases": [case()], "now": float("nan")}),
        Message("gossip"),
        Message("evidence", {"cases": [], "now": 0}),
        Message("evidence"),
        asking({"job": 1}),
    ],
)
def test_what_is_no_question_is_refused_for_good(site: Site, question: Message) -> None:
    with pytest.raises(Refused):
        site.client().ask(question)


def test_forged_credentials_get_no_answer(site: Site) -> None:
    with pytest.raises(Unreachable):
        site.client(b"x" * 40).ask(evidence(case()))
    assert site.intake.waiting() == 0 and any("forged" in line for line in site.lines)


def test_a_message_that_was_recorded_and_sent_again_is_refused(site: Site) -> None:
    body = message.pack(evidence(case()))
    about = auth.digest(wire.QUESTION, body)
    credential = Key(KEY).sign(about)

    def send(data: bytes) -> bytes:
        with socket.create_connection(site.listener.address, 10) as stream:
            stream.sendall(data)
            stream.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: stream.recv(65536), b""))

    whole = wire.line(credential, body) + credential + body
    assert send(whole)
    assert send(whole) == b"" and any("repeated" in line for line in site.lines)
    other = message.pack(evidence(case("1002")))
    fresh = Key(KEY).sign(about)
    assert send(wire.line(fresh, other) + fresh + other) == b""  # a good credential about another message


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1\r\n\r\n", b"SLTR1 9 99999999999\n", b"SLTR1 5 5\nab", b"\xff" * 3000, b"x" * 100_000]
)
def test_noise_ends_nothing(site: Site, data: bytes) -> None:
    with socket.create_connection(site.listener.address, 10) as stream:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        assert stream.recv(100) == b""
    assert site.client().ask(evidence(case())).head["cases"] == ["taken"]


def test_an_answer_of_somebody_else_is_not_believed(site: Site) -> None:
    with pytest.raises(Unreachable, match="not the service's"):
        site.client(trusted=ME + 1).ask(evidence(case()))


def test_many_senders_at_once_are_all_taken(site: Site) -> None:
    answers: list[object] = []

    def send(number: int) -> None:
        for turn in range(10):
            answers.extend(site.client().ask(evidence(case(str(1000 + number * 10 + turn)))).head["cases"])

    threads = [threading.Thread(target=send, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["taken"] * 200 and site.intake.waiting() == 200


def test_a_port_that_is_taken_is_a_sentence(site: Site, tmp_path: Path) -> None:
    answering = Answering(Key(KEY), site.intake, site.texts, lambda *_: "", Log(site.lines.append))
    second = Listener(site.listener.address, answering)
    with pytest.raises(ListenError, match="cannot listen"):
        second.start()


# ------------------------------------------------------------------------------------------------ texts


def test_the_batch_host_gets_the_text(site: Site) -> None:
    client = site.client()
    assert client.ask(asking(target())).head["texts"] == []
    say(site)
    (item,) = client.ask(asking(target("7"), target())).head["texts"]
    assert (item["index"], item["state"], item["revision"], item["name"]) == (1, "text", 1, "1001.diagnosis.txt")
    assert item["section"] == SECTION


def test_who_waits_gets_it_when_it_is_said(site: Site) -> None:
    began = time.monotonic()
    threading.Timer(0.3, say, (site,)).start()
    (item,) = site.client().ask(asking(target(), wait=20.0), 20.0).head["texts"]
    assert item["state"] == "text" and 0.25 < time.monotonic() - began < 10


def test_who_waits_can_give_it_up(site: Site) -> None:
    began = time.monotonic()
    with pytest.raises(Abandoned):
        site.client().ask(asking(target(), wait=30.0), 30.0, lambda: True)
    assert time.monotonic() - began < 10


def test_a_wait_has_an_end(site: Site) -> None:
    assert site.client().ask(asking(target(), wait=0.3), 0.3).head["texts"] == []


def test_a_node_that_the_job_did_not_have_gets_nothing(site: Site) -> None:
    say(site, nodes="c2")
    assert site.client().ask(asking(target())).head["texts"] == []
    assert site.client().ask(asking(target(node="c2"))).head["texts"] == []  # and it is not there


def test_another_node_writes_it_only_if_the_batch_host_does_not(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    texts.publish([Text("1001", 100.0, "c[1-2]", "a", "1001.diagnosis.txt", SECTION)], 1000.0)
    other = admit.asked_of(asking(target(node="c2", batch_host=False)), 1000.0)
    assert texts.answer(other, 1060.0) == []
    (item,) = texts.answer(other, 1130.0)
    assert item["state"] == "text"
    assert texts.answer(other, 1150.0) == []  # it is on its way
    texts.done(outcomes(target(node="c2")))
    assert texts.answer(other, 1300.0) == [{"index": 0, "state": "forget"}]
    assert texts.counts(2000.0) == {"written": 1, "waiting": 0, "kept": 0, "failed": 0, "none": 0}


def test_a_verdict_that_changes_is_handed_out_again_and_one_that_does_not_is_not(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    text = Text("1001", 100.0, "c1", "memcg_oom likely", "1001.diagnosis.txt", SECTION)
    assert texts.publish([text], 1.0) == 1
    written = admit.asked_of(asking(target(revision=1)), 1.0)
    assert texts.answer(written, 2.0) == []
    assert texts.publish([replace(text, section={**SECTION, "text": "other words"})], 3.0) == 0
    assert texts.publish([replace(text, verdict="memcg_oom confirmed")], 4.0) == 1
    (item,) = texts.answer(written, 5.0)
    assert item["revision"] == 2


def test_that_there_will_be_none_is_said_too(site: Site) -> None:
    say(site, state=NONE, why="its owner cancelled it")
    (item,) = site.client().ask(asking(target())).head["texts"]
    assert item == {"index": 0, "state": "none", "why": "its owner cancelled it"}


def test_a_failed_write_is_known_and_somebody_else_may_try(site: Site) -> None:
    say(site)
    client = site.client()
    client.ask(asking(target()))
    news = {**target(), "revision": 1, "written": False, "last": True, "path": "", "why": "Disk quota exceeded"}
    client.ask(asking(done=[news, {"job": "nonsense"}, 7]))
    assert site.texts.counts(time.time())["failed"] == 1 and any("Disk quota" in line for line in site.lines)


def test_without_a_start_the_last_attempt_before_the_end_is_meant(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    for start in (100.0, 500.0):
        texts.publish([Text("1001", start, "c1", f"at {start}", "1001.diagnosis.txt", SECTION)], 1.0)
    for ended, revision in ((300.0, 1), (900.0, 1)):
        asked = admit.asked_of(asking(target(start=None, ended=ended)), 1000.0)
        assert texts.answer(asked, 1000.0)[0]["revision"] == revision
    assert texts.answer(admit.asked_of(asking(target(start=None, ended=50.0)), 1000.0), 1000.0) == []


def test_one_text_for_an_array_goes_to_one_of_its_tasks(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    tasks = [Text(str(n), 100.0, "c1", "x", array="7", state=NONE, why="many") for n in range(10, 13)]
    group = Text("array:7", 0.0, "", "3 tasks", "7.diagnosis.txt", {**SECTION, "job_name": "7"})
    texts.publish([*tasks, group], 1000.0)
    asked = admit.asked_of(asking(*(target(str(n)) for n in range(10, 13))), 1000.0)
    items = texts.answer(asked, 1001.0)
    assert [item["state"] for item in items] == ["text", "none", "none"] and items[0]["name"] == "7.diagnosis.txt"
    texts.done(outcomes(target("10")))
    assert [item["state"] for item in texts.answer(asked, 2000.0)] == ["none"] * 3
    texts.publish([replace(group, verdict="4 tasks")], 2000.0)
    assert [item["state"] for item in texts.answer(asked, 2001.0)] == ["text", "none", "none"]


def test_old_texts_go(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    texts.publish([Text("1001", 100.0, "c1", "x")], 1.0)
    texts.forget(2.0)
    assert sum(texts.counts(time.time()).values()) == 0


def test_told_has_what_was_said() -> None:
    (one,) = admit.cases_of(evidence(case(array=["1000", "4"], not_seen=["gpu: none", 7])), time.time() + 180)
    assert (
        isinstance(one, Told)
        and 179 < one.offset < 181
        and one.array == ("1000", "4")
        and one.not_seen == ("gpu: none",)
    )


# ------------------------------------------------------------------------------------------------ hostile hosts


def test_a_host_tells_of_itself_only() -> None:
    """Root of c1 says nothing of c2, and the controller's host nothing of any node's kernel."""
    files = {
        "kmsg.c1.txt": b"a", "kmsg.c2.txt": b"lie", "kmsg.c10.txt": b"lie", "slurmd.c1.log": b"b", "node.c1.json": b"c",
        "env.epilog_slurmctld.txt": b"lie", "env.spank.c1.txt": b"d", "env.spank.c1.b.txt": b"e", "job.out": b"f",
        "job.attempt2.out": b"lie", "tasks.host7.txt": b"g", "tasks.host7.b.txt": b"h", "tasks.txt": b"i", "kmsg.txt": b"j",
        "kmsg.c1.txt.b": b"lie", "sacct.psv": b"lie",
    }  # fmt: skip
    boots = {"c1": 5.0, "c2": 6.0}
    cases = [case(manifest={"boot_epoch": boots}), case(role="controller", manifest={"boot_epoch": boots})]
    sent = {f"{index}/{name}": data for index in range(2) for name, data in files.items()}
    node, controller = admit.cases_of(evidence(*cases, files=sent), time.time())
    assert isinstance(node, Told) and isinstance(controller, Told)
    assert node.manifest == {"boot_epoch": {"c1": 5.0}} and controller.manifest == {}
    assert b"lie" not in node.files.values() and sorted(node.files.values()) == [bytes([c]) for c in b"abcdefghij"]
    assert {name for name in node.files if name.startswith("tasks")} == {
        "tasks.c1.txt",
        "tasks.c1.b.txt",
        "tasks.c1.bb.txt",
    }
    assert set(controller.files) == {"env.epilog_slurmctld.txt"}


@pytest.mark.parametrize(
    "manifest",
    [
        {"boot_epoch": {"c1": float("nan")}},
        {"boot_epoch": {"c1": 10**400}},
        {"boot_epoch": {"c1": True}},
        {"boot_epoch": 5.0},
        {"page_size": 0},
        {"page_size": 2**70},
        {"page_size": True},
        {"line_ranges": {"job.out": "x"}},
        {"line_ranges": {"job.out": [[1, 10**400]]}},
        {"line_ranges": {"job.err": [[1, 2]]}},
        {"line_ranges": [1]},
        {"env_format": ["nul"]},
        {"cluster": "a b"},
        {"cluster": "\ud800"},
        {"utc_offset": "+09:00"},
    ],
)
def test_values_that_are_none_are_left_out(manifest: dict[str, object]) -> None:
    (one,) = admit.cases_of(evidence(case(manifest=manifest), files={"0/job.out": b"x\n"}), time.time())
    assert isinstance(one, Told)
    assert one.manifest in ({}, {"line_ranges": {}})


def test_a_wait_that_is_no_number_is_none(site: Site) -> None:
    """NaN would end no wait and would mix up the order of all timers."""
    for wait in (float("nan"), float("inf"), -5.0, 10**400, "x", True):
        began = time.monotonic()
        with socket.create_connection(site.listener.address, 10) as stream:
            stream.sendall(raw(asking(target(), wait=wait)))  # type: ignore[arg-type]
            assert stream.recv(100)
        assert time.monotonic() - began < 5


def test_ordinary_users_are_not_listened_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they send is not even unpacked: a few bytes can be made to fill the memory."""
    monkeypatch.setattr(message, "unpack", lambda data: pytest.fail("it was unpacked"))
    lines: list[str] = []
    answering = Answering(
        Key(KEY), Intake(tmp_path), Texts(tmp_path), lambda *_: admit.TAKEN, Log(lines.append),
        welcome=lambda uid: uid == ME + 1,
    )  # fmt: skip
    listener = Listener(("127.0.0.1", 0), answering)
    listener.start()
    try:
        with socket.create_connection(listener.address, 10) as stream:
            stream.sendall(raw(evidence(case())))
            assert stream.recv(100) == b""
        assert f"uid {ME} is not root" in lines[0]
    finally:
        listener.stop()


def test_announcing_much_shuts_nobody_out(site: Site) -> None:
    idle = [socket.create_connection(site.listener.address, 10) for _ in range(20)]
    try:
        for stream in idle:
            stream.sendall(b"SLTR1 100 16777216\n" + b"x" * 100)
        assert site.client().ask(evidence(case())).head["cases"] == ["taken"]
    finally:
        for stream in idle:
            stream.close()


def test_one_address_takes_its_share_and_no_more() -> None:
    gate = Gate(4, most_connections=8, most_bytes=800)
    with gate.connection("a") as first, gate.connection("a"):
        with pytest.raises(Full), gate.connection("a"):
            pass
        with gate.connection("b") as other:
            first.add(200)
            with pytest.raises(Full):
                first.add(1)
            other.add(200)
    with gate.connection("a") as again, gate.connection("a"):
        again.add(200)
    assert not gate._of["bytes"] and not gate._of["connections"] and not any(gate._now.values())


def test_noise_does_not_fill_the_journal(site: Site) -> None:
    for _ in range(60):
        with socket.create_connection(site.listener.address, 10) as stream:
            stream.sendall(b"noise\n")
            assert stream.recv(10) == b""
    assert 10 <= len(site.lines) <= 25


def test_what_was_left_out_is_said_later() -> None:
    now = [0.0]
    sparing = Sparing(2, 60.0, lambda: now[0])
    assert [sparing("x") for _ in range(5)] == [0, 0, None, None, None] and sparing("y") == 0
    now[0] = 61.0
    assert [sparing("x") for _ in range(3)] == [3, 0, None]


def test_a_text_that_nobody_was_given_was_not_written(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    text = Text("1001", 100.0, "c[1-2]", "a", "1001.diagnosis.txt", SECTION)
    texts.publish([text], 1.0)
    texts.done(outcomes(target(), revision=2**30))
    texts.publish([replace(text, verdict="b")], 2.0)
    assert texts.counts(3.0)["written"] == 0
    assert outcomes(target(), revision=10**400) == [] == outcomes(target(start="x"))
    assert outcomes(target(), path="/\ud800", why=7) == [
        Outcome(Asked("1001", 100.0, 200.0, "c1", True, 1), True, True, "/?", "")
    ]


def test_more_texts_than_fit_into_an_answer_are_handed_out_one_after_the_other(tmp_path: Path) -> None:
    texts = Texts(tmp_path)
    long = {**SECTION, "text": "x" * 1_500_000}
    texts.publish([Text(str(n), 100.0, "c1", "a", f"{n}.diagnosis.txt", long) for n in range(20)], 1.0)
    asked = admit.asked_of(asking(*(target(str(n)) for n in range(20))), 1.0)
    said = texts.answer(asked, 2.0)
    assert [item["index"] for item in said] == [0, 1, 2]
    assert message.pack(Message("texts", {"texts": said}))
