"""The port: whose word is taken, what is on disk before it is said to be taken, and who gets which text."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.log import Log
from slurm_triage.service import admit
from slurm_triage.service.intake import Intake, IntakeError, Told
from slurm_triage.service.listener import Listener, ListenError
from slurm_triage.service.peers import Peers
from slurm_triage.service.texts import NONE, Text, Texts
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
        peers = Peers(self._nodes, lambda: CONFIG, lambda name: frozenset((name,)))
        # Whoever runs the tests is root to the service, as on a node.
        self.root = ME
        self.listener = Listener(
            ("127.0.0.1", 0),
            Key(KEY),
            self.intake,
            self.texts,
            lambda node, role, uid, at: admit.check(node, role, 0 if uid == self.root else uid, at, peers, SLURM),
            Log(self.lines.append),
            self.heard.set,
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


@pytest.mark.parametrize(
    "question",
    [Message("gossip"), Message("evidence", {"cases": [], "now": 0}), Message("evidence"), asking({"job": 1})],
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
    second = Listener(site.listener.address, Key(KEY), site.intake, site.texts, lambda *_: "", Log(site.lines.append))
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
    texts.done([{**target(node="c2"), "revision": 1, "written": True, "last": True, "path": "/x", "why": ""}])
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
    texts.done([{**target("10"), "revision": 1, "written": True, "last": True, "path": "/x", "why": ""}])
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
