"""Credentials: what is signed is believed once, for a few minutes, and about nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_triage.transport import wire
from slurm_triage.transport.auth import AuthError, digest
from slurm_triage.transport.key import GOOD_FOR, Key, read_key
from slurm_triage.transport.munge import Munge
from tests.transport.munged import Munged, running

KEY = b"k" * 40
ABOUT = digest(wire.QUESTION, b"evidence")


@pytest.fixture(scope="module")
def daemon() -> Iterator[Munged]:
    with running() as one:
        yield one


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_munge_says_who_signed(daemon: Munged) -> None:
    way = Munge(daemon.socket)
    sender = way.check(way.sign(ABOUT), ABOUT)
    assert (sender.uid, sender.gid) == (os.geteuid(), os.getegid())


def test_munge_takes_a_credential_once(daemon: Munged) -> None:
    way = Munge(daemon.socket)
    credential = way.sign(ABOUT)
    way.check(credential, ABOUT)
    with pytest.raises(AuthError, match="Replayed"):
        way.check(credential, ABOUT)


@pytest.mark.parametrize("about", [digest(wire.QUESTION, b"other"), digest(wire.ANSWER, b"evidence"), b""])
def test_munge_does_not_take_a_credential_about_something_else(daemon: Munged, about: bytes) -> None:
    way = Munge(daemon.socket)
    with pytest.raises(AuthError, match="something else"):
        way.check(way.sign(ABOUT), about)


@pytest.mark.parametrize("forged", [b"", b"MUNGE:AwQDAAA=:", b"MUNGE:" + b"A" * 300 + b":", b"\0", b"\xff" * 70])
def test_munge_does_not_take_a_forged_credential(daemon: Munged, forged: bytes) -> None:
    with pytest.raises(AuthError) as caught:
        Munge(daemon.socket).check(forged, ABOUT)
    assert not caught.value.later


def test_without_munged_it_is_later_not_never(daemon: Munged) -> None:
    way = Munge(daemon.socket)
    credential = way.sign(ABOUT)
    daemon.stop()
    try:
        for work in (lambda: way.check(credential, ABOUT), lambda: way.sign(ABOUT)):
            with pytest.raises(AuthError) as caught:
                work()
            assert caught.value.later
    finally:
        daemon.start()
    assert way.check(way.sign(ABOUT), ABOUT).uid == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_munge_tells_a_user_from_root(daemon: Munged) -> None:
    code = (
        "import sys, os; from slurm_triage.transport.munge import Munge; os.setgid(1001); os.setuid(1001); "
        f"sys.stdout.buffer.write(Munge({daemon.socket!r}).sign(bytes.fromhex({ABOUT.hex()!r})))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert Munge(daemon.socket).check(made.stdout, ABOUT).uid == 1001


def test_a_key_says_who_signed_and_once() -> None:
    clock = Clock()
    way = Key(KEY, clock)
    credential = way.sign(ABOUT)
    assert way.check(credential, ABOUT).uid == os.geteuid()
    with pytest.raises(AuthError, match="repeated"):
        way.check(credential, ABOUT)
    clock.now += 2 * GOOD_FOR + 1
    with pytest.raises(AuthError, match="clock differs"):
        way.check(credential, ABOUT)


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_key_does_not_bridge_clocks_that_differ(minutes: int) -> None:
    clock = Clock()
    credential = Key(KEY, clock).sign(ABOUT)
    clock.now += 60 * minutes
    with pytest.raises(AuthError, match=f"clock differs by {60 * minutes} s"):
        Key(KEY, clock).check(credential, ABOUT)


def test_a_key_does_not_take_what_another_key_signed_or_what_was_changed() -> None:
    good = Key(KEY).sign(ABOUT)
    uid = good.split(b" ")
    changed = b" ".join([uid[0], b"0" if uid[1] != b"0" else b"7", *uid[2:]])
    for credential, about in (
        (Key(b"x" * 40).sign(ABOUT), ABOUT),
        (changed, ABOUT),
        (good, b"other" * 6),
        (b"", ABOUT),
    ):
        with pytest.raises(AuthError):
            Key(KEY).check(credential, about)


def test_what_was_repeated_long_ago_is_forgotten_and_what_is_recent_is_not() -> None:
    clock = Clock()
    way = Key(KEY, clock)
    first = way.sign(ABOUT)
    way.check(first, ABOUT)
    clock.now += 200
    for _ in range(50):
        way.check(way.sign(ABOUT), ABOUT)
    with pytest.raises(AuthError, match="repeated"):
        way.check(first, ABOUT)
    clock.now += 3 * GOOD_FOR
    for _ in range(60):
        way.check(way.sign(ABOUT), ABOUT)
    assert len(way._seen) < 70


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\n")
    path.chmod(0o640)
    assert read_key(str(path)) == KEY
    path.chmod(0o644)
    with pytest.raises(AuthError, match="mode 0640"):
        read_key(str(path))
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(AuthError, match="32 bytes"):
        read_key(str(path))
    link = tmp_path / "link"
    link.symlink_to(path)
    for wrong in (link, tmp_path / "none", tmp_path):
        with pytest.raises(AuthError):
            read_key(str(wrong))


# ------------------------------------------------------------------------------------------------ sealed answers


def test_munge_tells_a_sealed_answer_to_the_one_uid_only(daemon: Munged) -> None:
    way = Munge(daemon.socket)
    sealed = way.seal(b"diagnosis of a user", ABOUT, os.geteuid())
    assert b"diagnosis" not in sealed
    sender, body = way.unseal(sealed, ABOUT)
    assert (sender.uid, body) == (os.geteuid(), b"diagnosis of a user")
    for_another = way.seal(b"diagnosis of a user", ABOUT, os.geteuid() + 1)
    with pytest.raises(AuthError, match="Unauthorized"):
        way.unseal(for_another, ABOUT)


def test_munge_seals_as_much_as_it_says(daemon: Munged) -> None:
    way = Munge(daemon.socket)
    body = os.urandom(way.holds)
    assert way.unseal(way.seal(body, ABOUT, os.geteuid()), ABOUT)[1] == body
    with pytest.raises(AuthError, match="length"):
        way.seal(os.urandom(1 << 20), ABOUT, os.geteuid())


def test_munge_says_from_which_address(daemon: Munged) -> None:
    with running("192.0.2.7") as other:
        way = Munge(other.socket)
        assert way.check(way.sign(ABOUT), ABOUT).address == "192.0.2.7"
    way = Munge(daemon.socket)
    assert way.check(way.sign(ABOUT), ABOUT).address == "127.0.0.1"


def test_a_key_seals_without_hiding() -> None:
    way = Key(KEY)
    sender, body = way.unseal(way.seal(b"x" * 1000, ABOUT, 0), ABOUT)
    assert (sender.uid, body, sender.address) == (os.geteuid(), b"x" * 1000, "")


@pytest.mark.parametrize("kind", ["munge", "key"])
def test_a_sealed_answer_is_about_its_question_and_as_it_was(daemon: Munged, kind: str) -> None:
    way = Munge(daemon.socket) if kind == "munge" else Key(KEY)
    sealed = way.seal(b"answer", ABOUT, os.geteuid())
    other = digest(wire.QUESTION, b"another question")
    # What was signed to be sent, and what was sealed, are not taken for each other.
    signed = way.sign(digest(wire.ANSWER, b"answer", ABOUT))
    for wrong, about in ((sealed, other), (sealed[:-1], ABOUT), (sealed[:-9] + sealed[-8:], ABOUT), (signed, ABOUT)):
        with pytest.raises(AuthError):
            way.unseal(wrong, about)
