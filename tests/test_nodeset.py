"""Node list notation."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.nodeset import expand, fold


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("c1", ("c1",)),
        ("c[1-2]", ("c1", "c2")),
        ("node[001-003,203]", ("node001", "node002", "node003", "node203")),
        ("n[8-11]", ("n8", "n9", "n10", "n11")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("a1,b[2,4],gpu-x.cluster", ("a1", "b2", "b4", "gpu-x.cluster")),
        ("r[0-1]n[0-1]", ("r0n0", "r0n1", "r1n0", "r1n1")),
        ("c[1-2]-ib", ("c1-ib", "c2-ib")),
        ("c1,c1,c[1-2]", ("c1", "c2")),
    ],
)
def test_expand(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "None assigned",
        "(null)",
        "c[1-2",
        "c1]",
        "c[[1]]",
        "c[2-1]",
        "c[]",
        "c[a-b]",
        "a,,b",
        "c[1-2],",
        "c[0-100000]",
        "r[0-999]n[0-999]",
        "c[0-999999999999999999]",
        "c[" + "9" * 5000 + "]",
        "n;rm",
        "c\x00",
    ],
)
def test_not_a_node_list(text: str) -> None:
    assert expand(text) is None


def test_the_limit_counts_all_parts_together() -> None:
    assert expand("a[0-59999],b[0-59999]") is None
    assert len(expand("a[0-49999],b[0-49999]") or ()) == 100_000


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["c2", "c1"], "c[1-2]"),
        (["c1"], "c1"),
        (["n10", "n09", "n08", "n12"], "n[08-10,12]"),
        (["n9", "n10"], "n[9-10]"),
        (["x1", "c3", "c1", "login"], "c[1,3],login,x1"),
        (["c1-ib", "c2-ib"], "c[1-2]-ib"),
        ([], ""),
    ],
)
def test_fold(names: list[str], text: str) -> None:
    assert fold(names) == text


@given(st.sets(st.from_regex(r"[a-z]{1,3}(0{0,2}[0-9]{1,3})?(-[a-z])?", fullmatch=True), min_size=1, max_size=30))
def test_fold_then_expand_gives_the_same_names(names: set[str]) -> None:
    assert set(expand(fold(names)) or ()) == names


@given(st.text(max_size=60))
def test_expand_never_raises(text: str) -> None:
    names = expand(text)
    assert names is None or (len(names) == len(set(names)) and all(names))


def test_long_odd_lists_are_refused_in_linear_time() -> None:
    start = time.perf_counter()
    for text in ("[" * 200_000, "c[1-2]" * 30_000, "," * 200_000, "c[" + "1," * 100_000 + "1]", "x" * 1_000_000):
        expand(text)
    assert time.perf_counter() - start < 5
