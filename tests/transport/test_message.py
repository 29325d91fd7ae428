"""Messages: what goes in comes out, and nothing that comes from somewhere else is believed to be one."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.transport import message, wire
from slurm_triage.transport.client import place
from slurm_triage.transport.message import Malformed, Message, pack, unpack

NAMES = st.from_regex(message.NAME, fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.text(max_size=20), st.dictionaries(st.text(), JSON, max_size=4), st.dictionaries(NAMES, st.binary(), max_size=5)
)
def test_what_goes_in_comes_out(kind: str, head: Mapping[str, object], files: Mapping[str, bytes]) -> None:
    assert unpack(pack(Message(kind, head, files))) == Message(kind, head, files)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(data)


@given(st.binary(max_size=200))
def test_other_bytes_that_are_compressed_are_no_message(data: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(zlib.compress(data))


def _made(files: object, rest: bytes = b"", **more: object) -> bytes:
    head = {"kind": "x", "head": {}, "files": files, **more}
    return zlib.compress(json.dumps(head).encode() + b"\n" + rest)


@pytest.mark.parametrize(
    "data",
    [
        _made([["../a", 1]], b"1"),
        _made([["/etc/passwd", 1]], b"1"),
        _made([["a/b/c", 1]], b"1"),
        _made([[".hidden", 1]], b"1"),
        _made([["a\nb", 1]], b"1"),
        _made([["a", 2]], b"1"),
        _made([["a", -1]], b""),
        _made([["a", True]], b"1"),
        _made([["a", 1], ["a", 1]], b"12"),
        _made([["a", 1]], b"12"),
        _made([["a"]]),
        _made(["a"]),
        _made({}),
        _made([], head=[]),
        _made([], kind=7),
        _made([[f"n{i}", 0] for i in range(message.MOST_FILES + 1)]),
        pack(Message("x"))[:-1],
        pack(Message("x")) + b"more",
    ],
)
def test_what_would_lead_elsewhere_is_no_message(data: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(data)


def test_a_few_bytes_do_not_become_gigabytes() -> None:
    bomb = zlib.compress(b"0" * (message.MOST + 1))
    assert len(bomb) < 200_000
    with pytest.raises(Malformed, match="too large"):
        unpack(bomb)
    deep = b'{"kind":' + b"[" * 100_000
    with pytest.raises(Malformed):
        unpack(zlib.compress(deep))


def test_names_are_checked_on_the_way_out_too() -> None:
    with pytest.raises(Malformed, match="cannot be called"):
        pack(Message("x", {}, {"../a": b""}))


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"GET / HTTP/1.1\n", b"SLTR1 1 -1\n", b"SLTR1 1 999999999\n", b"SLTR1 70000 1\n"]
)
def test_a_first_line_of_something_else(line: bytes) -> None:
    with pytest.raises(Malformed):
        wire.sizes(line)


def test_a_first_line_says_two_sizes() -> None:
    assert wire.sizes(wire.line(b"abc", b"defgh")) == (3, 5)
    assert len(wire.line(b"a" * wire.MOST_CREDENTIAL, b"")) <= wire.LONGEST_LINE


def test_places_of_services() -> None:
    assert place("ctl") == ("ctl", wire.PORT) and place("ctl:70") == ("ctl", 70)
    assert place("[fd00::1]:70") == ("fd00::1", 70) and place("fd00::1") == ("fd00::1", wire.PORT)
    for wrong in ("", ":70", "ctl:", "ctl:x", "ctl:0", "ctl:70000"):
        if wrong == "ctl:":
            assert place(wrong) == ("ctl", wire.PORT)
            continue
        with pytest.raises(ValueError, match="HOST"):
            place(wrong)


def test_a_header_that_would_fill_the_memory_is_not_parsed() -> None:
    bomb = zlib.compress(b'{"kind":"x","files":[],"head":{"a":[' + b"{}," * (message.MOST_HEAD // 3) + b"0]}}\n")
    assert len(bomb) < 100_000
    with pytest.raises(Malformed, match="header of"):
        unpack(bomb)
    with pytest.raises(Malformed, match="too much"):
        pack(Message("x", {"a": "x" * message.MOST_HEAD}))
