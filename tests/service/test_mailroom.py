"""The shared folder: answered as the port does, whatever else anybody puts there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_triage.log import Log
from slurm_triage.node import agent as agents
from slurm_triage.node.config import Settings as AgentSettings
from slurm_triage.node.deliver import Delivered
from slurm_triage.sections import Section
from slurm_triage.service import admit, mailbox, mailroom
from slurm_triage.service.answering import Answering
from slurm_triage.service.config import ConfigError, Settings, read
from slurm_triage.service.intake import Intake
from slurm_triage.service.loop import Service, StartError
from slurm_triage.service.mailbox import BoxError, Mailbox
from slurm_triage.service.mailroom import Mailroom, by_origin
from slurm_triage.service.peers import Peers
from slurm_triage.service.texts import Text, Texts
from slurm_triage.transport import client, shared_folder
from slurm_triage.transport.auth import Auth, digest
from slurm_triage.transport.client import Client, Refused, Unreachable
from slurm_triage.transport.key import Key
from slurm_triage.transport.message import Message, pack
from slurm_triage.transport.munge import Munge
from slurm_triage.transport.shared_folder import IN_MODE, OUT_MODE, ROLE, new_name
from slurm_triage.transport.wire import line
from tests.spool import writers
from tests.transport.munged import Munged, running

KEY = b"k" * 40
ME = os.geteuid()
USER = 1001
NODES = (
    "NodeName=c1 Arch=x86_64 NodeAddr=192.0.2.1 NodeHostName=c1 Version=24.11\n"
    "NodeName=c2 Arch=x86_64 NodeAddr=192.0.2.2 NodeHostName=c2 Version=24.11\n"
)
CONFIG = "SlurmctldHost[0]        = ctl(192.0.2.9)\n"
SECTION = {"job_name": "1001", "cluster": "mini", "submit": "x", "start": "y", "text": "VERDICT\n"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


class Site:
    """A mailroom with its stores, and clients of it."""

    def __init__(self, root: Path, way: Auth, believing: bool) -> None:
        self.state, self.folder, self.way = root / "state", root / "shared", way
        self.state.mkdir()
        self.folder.mkdir(mode=0o711)
        self.folder.chmod(0o711)
        self.intake, self.texts = Intake(self.state), Texts(self.state)
        self.lines: list[str] = []
        self.heard = threading.Event()
        peers = Peers(lambda: NODES, lambda: CONFIG, lambda name: frozenset((name,)))

        def check(node: str, role: str, uid: int, at: str) -> str:
            # Whoever runs the tests is root to the service, as on a node.
            return admit.check(node, role, 0 if uid == ME else uid, at, None if believing else peers, -1)

        self.check = check if believing else by_origin(check)
        self.room: Mailroom | None = None
        self.up()

    def up(self) -> None:
        answering = Answering(
            self.way, self.intake, self.texts, self.check, Log(self.lines.append), self.heard.set,
            welcome=lambda uid: uid == ME,
        )  # fmt: skip
        self.room = Mailroom(self.folder, answering, (0.02, 0.02))
        self.room.start()

    def down(self) -> None:
        if self.room is not None:
            self.room.stop()
        self.room = None

    def counts(self) -> Counter[str]:
        assert self.room is not None
        return self.room.counts

    def client(self, way: Auth | None = None) -> Client:
        return Client([f"dir:{self.folder}"], way or self.way, [ME])

    def put(self, data: bytes, name: str | None = None) -> Path:
        path = self.folder / "in" / (name or f"{new_name()}.question")
        path.write_bytes(data)
        return path

    def answers(self) -> list[Path]:
        return list((self.folder / "out").glob("*.answer"))


def until(what: Callable[[], object]) -> None:
    """Waits for it, ten seconds at most."""
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_folder, "LOOK", 0.02)
    monkeypatch.setattr(client, "CONNECT", 0.5)
    monkeypatch.setattr(client, "ANSWER", 10.0)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Munged]:
    with running("192.0.2.1") as one:
        yield one


@pytest.fixture(params=["munge", "key"])
def site(request: pytest.FixtureRequest, tmp_path: Path, daemon: Munged) -> Iterator[Site]:
    munge = request.param == "munge"
    one = Site(tmp_path, Munge(daemon.socket) if munge else Key(KEY), believing=not munge)
    yield one
    one.down()


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Site]:
    one = Site(tmp_path, Key(KEY), believing=True)
    yield one
    one.down()


def case(job: str = "1001", node: str = "c1") -> dict[str, object]:
    return {
        "job": job, "start": 100, "node": node, "role": "node", "uid": USER, "array": None, "batch_host": True,
        "ended": time.time(), "now": time.time(), "manifest": {}, "not_seen": [],
    }  # fmt: skip


def evidence(*cases: dict[str, object]) -> Message:
    return Message("evidence", {"now": time.time(), "cases": list(cases)}, {"0/kmsg.c1.txt": b"line\n"})


def asking(*jobs: str, wait: float = 0.0) -> Message:
    asked = [
        {"job": job, "start": 100, "ended": 200.0, "node": "c1", "batch_host": True, "revision": 0} for job in jobs
    ]
    return Message("texts", {"asked": asked, "wait": wait, "done": []})


def say(site: Site, *jobs: str, text: str = "VERDICT\n") -> None:
    section = {**SECTION, "text": text}
    site.texts.publish(
        [Text(job, 100.0, "c1", "a", f"{job}.diagnosis.txt", {**section, "job_name": job}) for job in jobs], time.time()
    )
    assert site.room is not None
    site.room.published(jobs)


def question(way: Auth, asked: Message, name: str) -> bytes:
    body = pack(asked)
    credential = way.sign(digest(ROLE, body, name.encode()))
    return line(credential, body) + credential + body


# ------------------------------------------------------------------------------------------------ as the port does


def test_what_is_taken_is_on_disk(site: Site) -> None:
    assert site.client().ask(evidence(case())).head["cases"] == ["taken"] and site.heard.is_set()
    (told,) = Intake(site.state).of(["1001"])["1001"]
    assert told.files == {"kmsg.c1.txt": b"line\n"}
    assert list((site.folder / "in").iterdir()) == []


def test_who_waits_gets_it_when_it_is_said(site: Site) -> None:
    began = time.monotonic()
    threading.Timer(0.3, say, (site, "1001")).start()
    (item,) = site.client().ask(asking("1001", wait=20.0), 20.0).head["texts"]
    assert (item["state"], item["section"]) == ("text", SECTION) and 0.25 < time.monotonic() - began < 10


def test_a_wait_has_an_end(site: Site) -> None:
    assert site.client().ask(asking("1001", wait=0.3), 0.3).head["texts"] == []


def test_what_is_no_question_is_refused_for_good(site: Site) -> None:
    with pytest.raises(Refused, match="gossip"):
        site.client().ask(Message("gossip"))


def test_munge_says_which_node_speaks(tmp_path: Path, daemon: Munged) -> None:
    site = Site(tmp_path, Munge(daemon.socket), believing=False)
    try:
        (state,) = site.client().ask(evidence(case("1002", "c2"))).head["cases"]
        assert "refused: at 192.0.2.1 is not node c2" in state
        assert site.client().ask(evidence(case())).head["cases"] == ["taken"]
    finally:
        site.down()


@pytest.mark.parametrize("origin", ["127.0.0.1", "127.0.1.1"])
def test_an_address_that_any_host_has_is_none(tmp_path: Path, origin: str) -> None:
    with running(origin) as other:
        site = Site(tmp_path, Munge(other.socket), believing=False)
        try:
            (state,) = site.client().ask(evidence(case())).head["cases"]
        finally:
            site.down()
    assert state.startswith("refused: munged") and origin in state and "--origin" in state
    assert site.intake.waiting() == 0


@as_root
@pytest.mark.parametrize("site", ["munge"], indirect=True)
def test_the_word_of_an_ordinary_user_is_not_taken(site: Site, daemon: Munged) -> None:
    name = new_name()
    body = pack(evidence(case()))
    about = digest(ROLE, body, name.encode())
    credential = as_user(
        f"sys.stdout.buffer.write(Munge({daemon.socket!r}).sign(bytes.fromhex({about.hex()!r})))"
    ).stdout
    path = site.put(line(credential, body) + credential + body, f"{name}.question")
    until(lambda: not path.exists())
    until(lambda: any(f"uid {USER} is not root" in text for text in site.lines))
    assert site.intake.waiting() == 0 and site.answers() == []


def as_user(code: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs code as somebody, with `data` on its standard input."""
    before = "import sys, os; from slurm_triage.transport.munge import Munge\n"
    become = f"os.setgroups([]); os.setgid({USER}); os.setuid({USER})\n"
    argv = [sys.executable, "-c", before + become + code]
    return subprocess.run(argv, input=data, capture_output=True, check=True, timeout=60)


# ------------------------------------------------------------------------------------------------ who may read what


@as_root
@pytest.mark.parametrize("site", ["munge"], indirect=True)
def test_an_answer_of_munge_says_nothing_to_others(site: Site, daemon: Munged) -> None:
    say(site, "1001")
    site.client().ask(asking("1001"))
    (path,) = site.answers()
    assert b"VERDICT" not in path.read_bytes()
    code = (
        f"try: Munge({daemon.socket!r}).unseal(sys.stdin.buffer.read(), b'x' * 32)\n"
        "except Exception as error: print(error)"
    )
    done = as_user(code, path.read_bytes())
    assert b"Unauthorized" in done.stdout


@as_root
def test_users_can_put_something_there_and_look_at_nothing(keyed: Site) -> None:
    for above in (keyed.folder, *keyed.folder.parents):
        if above in (Path("/tmp"), Path("/")):
            break
        above.chmod(0o711)
    say(keyed, "1001")
    keyed.client().ask(asking("1001"))
    (answer,) = keyed.answers()
    code = f"""
for work in (lambda: os.listdir({str(keyed.folder)!r}), lambda: os.listdir({str(keyed.folder)!r} + '/in'),
             lambda: os.listdir({str(keyed.folder)!r} + '/out'), lambda: open({str(keyed.folder)!r} + '/out/x', 'w'),
             lambda: os.rename({str(answer)!r}, {str(keyed.folder)!r} + '/in/x'), lambda: os.unlink({str(answer)!r})):
    try: print(work())
    except PermissionError: print('no')
open({str(keyed.folder)!r} + '/in/x', 'w')
"""
    done = as_user(code)
    assert done.stdout.split() == [b"no"] * 6
    # Who has been told the name can read: so does an agent whose root is nobody there.
    assert as_user(f"print(len(open({str(answer)!r}, 'rb').read()))").stdout.strip().isdigit()


def test_modes_that_somebody_changed_are_put_right(keyed: Site) -> None:
    for name, mode in (("in", IN_MODE), ("out", OUT_MODE)):
        folder = keyed.folder / name
        folder.chmod(0o777)
        until(lambda folder=folder, mode=mode: folder.stat().st_mode & 0o7777 == mode)  # type: ignore[misc]


@pytest.mark.parametrize("mode", [0o777, 0o731, 0o700])
def test_a_folder_that_is_not_the_services_own_is_a_sentence(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(BoxError, match=r"others|entered"):
        Mailbox(tmp_path, lambda *_: None).prepare()
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o711)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in").symlink_to("elsewhere")
    with pytest.raises(BoxError, match="in has to be a folder"):
        Mailbox(tmp_path, lambda *_: None).prepare()
    with pytest.raises(BoxError, match="No such file"):
        Mailbox(tmp_path / "gone", lambda *_: None).prepare()


# ------------------------------------------------------------------------------------------------ attacks


def link(site: Site) -> Path:
    secret = site.folder.parent / "secret"
    secret.write_bytes(b"SLTR1 1 1\nsecret")
    path = site.folder / "in" / f"{new_name()}.question"
    path.symlink_to(secret)
    return path


def dangling(site: Site) -> Path:
    path = site.folder / "in" / f"{new_name()}.question"
    path.symlink_to("/nowhere")
    return path


def pipe(site: Site) -> Path:
    path = site.folder / "in" / f"{new_name()}.question"
    os.mkfifo(path)
    return path


def empty_folder(site: Site) -> Path:
    path = site.folder / "in" / f"{new_name()}.question"
    path.mkdir()
    return path


def huge(site: Site) -> Path:
    path = site.folder.parent / "huge"
    path.touch()
    os.truncate(path, 1 << 40)
    return path.rename(site.folder / "in" / f"{new_name()}.question")


def noise(site: Site) -> Path:
    return site.put(os.urandom(1000))


def hostile_name(site: Site) -> Path:
    return site.put(b"x", "a\nerror forged=1\x1b[31m.question")


def undecodable_name(site: Site) -> Path:
    return site.put(b"x", os.fsdecode(b"\xff\xfe.question"))


def too_much(site: Site) -> Path:
    name = new_name()
    return site.put(question(site.way, asking("1001"), name) + b"x", f"{name}.question")


def other_key(site: Site) -> Path:
    name = new_name()
    return site.put(question(Key(b"x" * 40), asking("1001"), name), f"{name}.question")


def over_the_port(site: Site) -> Path:
    """What was recorded on the wire."""
    body = pack(asking("1001"))
    credential = site.way.sign(digest(b"question", body))
    return site.put(line(credential, body) + credential + body)


def copied(site: Site) -> Path:
    """A question of somebody else, so that its answer comes under a name that the copier knows."""
    return site.put(question(site.way, asking("1001"), new_name()))


PLANTS = [
    link, dangling, pipe, empty_folder, huge, noise, hostile_name, undecodable_name, too_much, other_key,
    over_the_port, copied,
]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_no_question_is_removed_and_counted_and_the_next_one_is_answered(
    keyed: Site, plant: Callable[[Site], Path]
) -> None:
    say(keyed, "1001")
    keyed.down()
    path = plant(keyed)
    keyed.up()
    assert keyed.client().ask(evidence(case())).head["cases"] == ["taken"]
    until(lambda: not os.path.lexists(path))
    until(lambda: keyed.counts()["junk"] == 1)
    until(lambda: any(text.startswith("error not-understood") and f"uid {ME}" in text for text in keyed.lines))
    assert len(keyed.answers()) == 1
    assert not any("secret" in text or "forged=1" in text or "\x1b" in text for text in keyed.lines)


def test_a_folder_that_is_full_of_something_stays_and_does_no_harm(keyed: Site) -> None:
    path = keyed.folder / "in" / f"{new_name()}.question"
    (path / "more").mkdir(parents=True)
    assert keyed.client().ask(evidence(case())).head["cases"] == ["taken"]
    assert path.exists() and keyed.counts()["junk"] == 0


def test_a_question_is_answered_once(site: Site) -> None:
    site.down()
    say_later = question(site.way, evidence(case()), name := new_name())
    path = site.put(say_later, f"{name}.question")
    site.up()
    until(lambda: not path.exists())
    until(site.answers)
    for answer in site.answers():
        answer.unlink()
    path.write_bytes(say_later)
    until(lambda: not path.exists())
    until(lambda: any("epeated" in text or "Replayed" in text for text in site.lines))
    assert site.answers() == [] and site.intake.waiting() == 1


def test_a_question_that_is_not_whole_yet_is_waited_for(keyed: Site) -> None:
    data = question(keyed.way, evidence(case()), name := new_name())
    path = keyed.put(data[:50], f"{name}.question")
    time.sleep(0.2)
    assert path.exists() and keyed.counts()["junk"] == 0
    with path.open("ab") as stream:
        stream.write(data[50:])
    until(keyed.answers)
    assert not path.exists()


def test_a_question_that_never_gets_whole_goes(tmp_path: Path) -> None:
    now = [0.0]
    told: list[tuple[int, str]] = []
    box = Mailbox(tmp_path, lambda *what: told.append(what), lambda: now[0])
    tmp_path.chmod(0o711)
    box.prepare()
    path = tmp_path / "in" / f"{new_name()}.question"
    path.write_bytes(b"SLTR1 5 5\nab")
    # Its owner may give it any time.
    os.utime(path, (0, 0))
    assert list(box.letters()) == [] and path.exists()
    now[0] = mailbox.WHOLE + 1
    os.utime(path, (1e10, 1e10))
    assert (
        list(box.letters()) == [] and not path.exists() and told == [(ME, "not whole, or not readable, after a while")]
    )


@as_root
def test_who_floods_the_folder_keeps_nobody_else_out(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    box = Mailbox(tmp_path, lambda *_: None)
    box.prepare()
    for number in range(500):
        path = tmp_path / "in" / f"{number:032x}.question"
        path.write_bytes(line(b"c", b"b") + b"cb")
        os.chown(path, USER, USER)
        os.utime(path, (0, 0))
    own = tmp_path / "in" / f"{new_name()}.question"
    own.write_bytes(line(b"c", b"b") + b"cb")
    letters = list(box.letters())
    assert len(letters) == mailbox.AT_ONCE
    assert own.name.removesuffix(".question") in [letter.name for letter in letters[:2]]


def test_a_folder_with_too_much_in_it_is_put_aside_and_cleared_bit_by_bit(
    keyed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed.down()
    monkeypatch.setattr(mailbox, "MOST_LISTED", 50)
    monkeypatch.setattr(mailbox, "REMOVED_AT_ONCE", 30)
    monkeypatch.setattr(mailroom, "SWEEP", 0.05)
    for _ in range(60):
        keyed.put(b"SLTR1 5 5\nab")
    (keyed.folder / "in" / "x" / "y").mkdir(parents=True)
    keyed.up()
    until(lambda: keyed.counts()["put-aside"] == 1)
    assert keyed.client().ask(evidence(case())).head["cases"] == ["taken"]
    (aside,) = keyed.folder.glob("old.*")
    assert aside.stat().st_mode & 0o777 == 0o700
    until(lambda: [path.name for path in aside.iterdir()] == ["x"])
    shutil.rmtree(aside / "x" / "y")
    keyed.down()
    keyed.up()
    until(lambda: not aside.exists())
    assert any("put aside" in text for text in keyed.lines)


def test_answers_do_not_stay(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    now = [0.0]
    box = Mailbox(tmp_path, lambda *_: None, lambda: now[0])
    box.prepare()
    box.put("a" * 32, b"old")
    box.sweep()
    now[0] = mailbox.ANSWERS_KEPT
    box.put("b" * 32, b"new")
    box.sweep()
    assert len(list((tmp_path / "out").iterdir())) == 2
    now[0] += 1
    box.sweep()
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"new"]


# ------------------------------------------------------------------------------------------------ bad days


def test_what_was_asked_while_the_service_was_away_is_answered(site: Site) -> None:
    site.down()
    threading.Timer(0.3, site.up).start()
    assert site.client().ask(evidence(case())).head["cases"] == ["taken"]


def test_who_waits_while_the_service_is_started_anew_asks_again(keyed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER", 0.5)
    threading.Timer(0.2, keyed.down).start()
    with pytest.raises(Unreachable, match="no answer in time"):
        keyed.client().ask(asking("1001", wait=0.5), 0.5)
    monkeypatch.setattr(client, "ANSWER", 10.0)
    keyed.up()
    say(keyed, "1001")
    assert keyed.client().ask(asking("1001")).head["texts"]


def test_a_folder_that_goes_and_comes_back(keyed: Site) -> None:
    away = keyed.folder.with_name("away")
    keyed.folder.rename(away)
    with pytest.raises(Unreachable, match="No such file"):
        keyed.client().ask(evidence(case()))
    until(lambda: any("error folder" in text and "No such file" in text for text in keyed.lines))
    shutil.rmtree(away)
    keyed.folder.mkdir()
    keyed.folder.chmod(0o711)
    until((keyed.folder / "in").exists)
    assert keyed.client().ask(evidence(case())).head["cases"] == ["taken"]
    assert sum("error folder" in text for text in keyed.lines) == 1
    assert any(text.startswith("info folder") for text in keyed.lines)


def test_without_munged_a_question_stays(tmp_path: Path) -> None:
    with running("192.0.2.1") as other:
        site = Site(tmp_path, Munge(other.socket), believing=False)
        try:
            site.down()
            name = new_name()
            path = site.put(question(site.way, evidence(case()), name), f"{name}.question")
            other.stop()
            site.up()
            until(lambda: any("error folder" in text and "MUNGE" in text for text in site.lines))
            assert path.exists()
            other.start()
            until(site.answers)
            assert not path.exists() and site.intake.waiting() == 1
        finally:
            site.down()


def test_what_does_not_fit_into_one_answer_comes_with_the_next(keyed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Key, "holds", 12_000)
    jobs = [str(number) for number in range(1001, 1009)]
    for job in jobs:
        say(keyed, job, text=os.urandom(2000).hex())
    came: set[str] = set()
    for _ in range(8):
        left = [job for job in jobs if job not in came]
        if left:
            items = keyed.client().ask(asking(*left)).head["texts"]
            assert 0 < len(items) < 8
            came |= {left[item["index"]] for item in items}
    assert came == set(jobs)


def test_many_at_once_are_all_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER", 20.0)
    names = [new_name() for _ in range(400)]
    site.down()
    for number, name in enumerate(names):
        site.put(question(site.way, evidence(case(str(number + 1))), name), f"{name}.question")
    site.up()
    until(lambda: len(site.answers()) == 400)
    assert site.intake.waiting() == 400
    until(lambda: site.room is not None and (site.room._open, site.room._bytes) == (0, 0))


@pytest.mark.parametrize(
    ("sent", "waited", "now"),
    [
        (980.0, float("inf"), 1000.0),  # it lay there while the service was away
        (998.0, 3.0, 1000.0),  # between two looks
        (900.0, 3.0, 903.0),  # another clock: no look is so long ago
        (1100.0, 3.0, 1100.0),  # a clock that is fast
    ],
)
def test_the_time_in_the_folder_is_not_taken_for_a_difference_of_clocks(sent: float, waited: float, now: float) -> None:
    asked = mailroom.as_if_just_sent(Message("evidence", {"now": sent, "cases": []}, {"a": b"b"}), waited, 1000.0)
    assert asked == Message("evidence", {"now": now, "cases": []}, {"a": b"b"})


def test_evidence_that_lay_there_has_its_nodes_times(keyed: Site) -> None:
    for job, ago in (("1001", 20.0), ("1002", -50.0)):
        keyed.down()
        asked = Message("evidence", {"now": time.time() - ago, "cases": [case(job)]}, {"0/kmsg.c1.txt": b"line\n"})
        name = new_name()
        keyed.put(question(keyed.way, asked, name), f"{name}.question")
        keyed.up()
        until(lambda: (keyed.folder / "out" / f"{name}.answer").exists())  # noqa: B023 (called at once)
    found = keyed.intake.of(["1001", "1002"])
    assert found["1001"][0].offset == pytest.approx(0.0, abs=1.0)
    assert found["1002"][0].offset == pytest.approx(-50.0, abs=5.0)
    keyed.client().ask(Message("evidence", {"now": time.time() - 20, "cases": [case("1003")]}))
    assert keyed.intake.of(["1003"])["1003"][0].offset == pytest.approx(20.0, abs=5.0)


# ------------------------------------------------------------------------------------------------ the agent


def test_an_agent_comes_this_way_from_the_spool_to_the_users_file(
    tmp_path: Path, keyed: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on with it the other way when there is another."""
    monkeypatch.setattr(agents, "all_collectors", dict)
    spool = writers.make(tmp_path / "spool")
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "agent").mkdir(mode=0o700)
    settings = AgentSettings(
        servers=("127.0.0.1:1", f"dir:{keyed.folder}"), auth="key", key=str(tmp_path / "key"),
        service_users=(str(ME),), spools=(str(spool),), state=str(tmp_path / "agent"), settle=0.0, linger=5.0,
    )  # fmt: skip
    data = writers.epilog(
        "1001", "c1", 100, SLURM_JOB_GID=str(USER), SLURM_JOB_NODELIST="c1", SLURM_JOB_WORK_DIR="/shared"
    )
    record = spool / "new" / f"1001.{USER}.109.77.epilog"
    record.write_bytes(data)
    record.chmod(0o600)
    agent = agents.Agent(settings, Log(keyed.lines.append))
    written: list[str] = []

    def write(job: object, name: str, section: Section, seconds: float, **_: object) -> Delivered:
        written.append(section.text)
        return Delivered("/shared/1001.diagnosis.txt", True)

    agent.exchange._write = write
    threading.Timer(0.5, say, (keyed, "1001")).start()
    agent.run()
    assert written == ["VERDICT\n"] and keyed.intake.waiting() == 1
    assert keyed.texts.counts(time.time())["written"] == 1
    assert not any("unreachable" in text for text in keyed.lines)


# ------------------------------------------------------------------------------------------------ the service


def test_a_key_says_nothing_of_the_host(tmp_path: Path) -> None:
    service = Service(Settings(state=tmp_path, folder=str(tmp_path), auth="key"), Log(lambda _: None))
    with pytest.raises(StartError, match="check_addresses = false"):
        service.open()
    service.close()
    with pytest.raises(ConfigError, match="folder has to be an absolute path"):
        read({"service": {"folder": "shared"}}, "x")


def test_a_folder_that_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "key").chmod(0o600)
    settings = Settings(
        state=tmp_path, folder=str(tmp_path / "none"), auth="key", key=tmp_path / "key", check_addresses=False
    )
    service = Service(settings, Log(lambda _: None))
    with pytest.raises(StartError, match="No such file"):
        service.open()
    service.close()


@as_root
@pytest.mark.parametrize("port", [False, True])
def test_the_service_answers_there_with_and_without_a_port(tmp_path: Path, port: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        listen = f"127.0.0.1:{one.getsockname()[1]}" if port else ""
    (tmp_path / "key").write_bytes(KEY)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "shared").mkdir(mode=0o711)
    settings = Settings(
        state=tmp_path, history=tmp_path / "h.sqlite", folder=str(tmp_path / "shared"), auth="key",
        key=tmp_path / "key", check_addresses=False, workers=0, listen=listen,
    )  # fmt: skip
    service = Service(settings, Log(lambda _: None))
    service.open()
    try:
        servers = [f"dir:{settings.folder}", *([settings.listen] if listen else [])]
        for server in servers:
            assert Client([server], Key(KEY), [ME]).ask(evidence(case())).head["cases"] == ["taken"]
        assert service.sweeper.told_something()
        publisher = service.sweeper.means.publisher
        assert publisher is not None
        texts = [Text("1001", 100.0, "c1", "a", "1001.diagnosis.txt", SECTION)]
        for wait, server in zip((20.0, 20.0), servers, strict=False):
            began = time.monotonic()

            def publish(texts: list[Text] = texts) -> None:
                publisher.texts.publish(texts, time.time())
                publisher._tell(iter(["1001"]))

            threading.Timer(0.3, publish).start()
            (item,) = Client([server], Key(KEY), [ME]).ask(asking("1001", wait=wait), wait).head["texts"]
            assert item["state"] == "text" and time.monotonic() - began < 10
            texts = [Text("1001", 100.0, "c1", "b", "1001.diagnosis.txt", SECTION)]
    finally:
        service.close()
