"""The statistics of `sdiag-history nodes`: exact where that can be computed by hand, honest where there is little."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.history.patterns.nodes import Placements, compare, work
from slurm_triage.history.patterns.stratified import EXACT, Comparison, Stratum, blamed, comparison, interval
from tests.history import simulate


def by_counting(strata: list[Stratum]) -> tuple[float, float]:
    """Mid-p and expectation, by listing which of the runs in each stratum may be one's own."""
    chances = {0: 1.0}
    for s in strata:
        failed = [True] * s.failed + [False] * (s.runs - s.failed)
        ways = [sum(pick) for pick in itertools.combinations(failed, s.own_runs)]
        chances = {
            total + more: sum(
                chance * ways.count(k) / len(ways)
                for before, chance in chances.items()
                for k in set(ways)
                if before + k == total + more
            )
            for total in chances
            for more in set(ways)
        }
    seen = sum(s.own_failed for s in strata)
    p = sum(chance for count, chance in chances.items() if count > seen) + chances.get(seen, 0.0) / 2
    return p, sum(count * chance for count, chance in chances.items())


@st.composite
def strata(draw: st.DrawFn) -> Stratum:
    runs = draw(st.integers(2, 8))
    failed = draw(st.integers(1, runs - 1))
    own = draw(st.integers(1, runs - 1))
    low, high = max(0, own - (runs - failed)), min(own, failed)
    return Stratum(runs, failed, own, draw(st.integers(low, high)))


@given(st.lists(strata(), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_the_probability_is_that_of_counting(some: list[Stratum]) -> None:
    found = comparison(some)
    p, expected = by_counting(some)
    assert math.isclose(found.p, p, abs_tol=1e-9)
    assert math.isclose(found.expected, expected, abs_tol=1e-9)
    assert found.least_p <= found.p + 1e-12


def test_fisher_by_hand() -> None:
    """4 runs, 2 failed, both among the 2 own ones: one way of six."""
    found = comparison([Stratum(4, 2, 2, 2)])
    assert math.isclose(found.p, 1 / 12)
    assert found.expected == 1.0 and (found.runs, found.failed) == (2, 2)


@pytest.mark.parametrize("stratum", [Stratum(9, 9, 5, 5), Stratum(9, 0, 5, 0), Stratum(5, 2, 5, 2)])
def test_what_tells_nothing_weighs_nothing(stratum: Stratum) -> None:
    assert comparison([stratum]) == Comparison(0, 0, 0.0, 1.0, 1.0)
    one = Stratum(4, 2, 2, 2)
    assert comparison([stratum, one]) == comparison([one])


def test_many_runs_are_approximated_closely() -> None:
    def of(runs: int, failed: int) -> Comparison:
        return comparison([Stratum(runs * 10, runs * 2, runs, failed)])

    exact, more = of(EXACT, 110), of(EXACT + 1, 110)
    assert exact.p < 0.001 and 0.6 < more.p / exact.p < 1.6
    assert of(EXACT + 1, 80).p == pytest.approx(0.5, abs=0.05)


def test_several_that_stand_out_and_one_that_cannot() -> None:
    def one(p: float, least: float = 0.0) -> Comparison:
        return Comparison(10, 5, 2.0, p, least)

    assert blamed([one(0.001), one(0.6), one(0.02), one(0.001, 0.2)], 0.05) == [True, False, True, None]
    assert blamed([one(0.02), one(0.6), one(0.6)], 0.05) == [False, False, False]
    assert blamed([], 0.05) == []
    # Who could not stand out costs the others nothing: 0.04 is small enough for one, not for three.
    assert blamed([one(0.04), one(0.04, 0.9), one(0.04, 0.9)], 0.05) == [True, None, None]


def test_an_interval() -> None:
    low, high = interval(11, 20)
    assert (round(low, 3), round(high, 3)) == (0.342, 0.742)  # Wilson 1927, as any table of it
    assert interval(0, 5)[0] == 0.0 and interval(5, 5)[1] == 1.0
    with pytest.raises(ValueError, match="no runs"):
        interval(0, 0)


# ------------------------------------------------------------------------------------------------ nodes


def test_a_bad_node_stands_out() -> None:
    placements = Placements()
    for number in range(10):
        placements.add(f"n{number}", work(1, 1), 30, 18 if number == 7 else 6)
    first, *others = compare(placements)
    assert first.node == "n7" and first.stands_out and (first.runs, first.failed) == (30, 18)
    assert not any(other.stands_out for other in others)
    assert first.low is not None and first.low < 0.6 < (first.high or 0)


def test_a_program_that_is_broken_blames_no_node() -> None:
    """One node had it most of the time, and it failed everywhere that day."""
    placements = Placements()
    for number in range(10):
        placements.add(f"n{number}", work(1, 1), 40, 2)
    placements.add("n0", work(2, 1), 60, 60)
    placements.add("n1", work(2, 1), 3, 3)
    assert not any(rate.stands_out for rate in compare(placements))


def test_a_program_that_was_mended_blames_no_node() -> None:
    placements = Placements()
    for number in range(10):
        placements.add(f"n{number}", work(1, 1), 40, 2)
        placements.add(f"n{number}", work(2, 2), 6 if number else 1)  # after it was mended, on the others
    placements.add("n0", work(2, 1), 40, 40)
    placements.add("n1", work(2, 1), 2, 2)
    assert not any(rate.stands_out for rate in compare(placements))


def test_too_few_is_not_innocent() -> None:
    placements = Placements()
    for number in range(5):
        placements.add(f"n{number}", work(1, 1), 2, 1)
    placements.add("lone", work(3, 1), 50, 40)
    found = {rate.node: rate for rate in compare(placements)}
    assert {rate.stands_out for rate in found.values()} == {None}
    assert found["lone"].runs == 0 and found["lone"].rate is None  # nobody else did that work


def test_a_failure_of_many_nodes_counts_where_it_began() -> None:
    placements = Placements()
    placements.attempt(["a", "b", "c"], work(1, 1), "b")
    assert placements.failed == {"b": {work(1, 1): 1}}
    assert all(placements.runs[node][work(1, 1)] == 1 for node in "abc")
    placements.attempt(["a", "b"], work(1, 1), None)
    placements.attempt(["a", "b"], work(1, 1), "elsewhere")
    assert placements.failed["a"][work(1, 1)] == 2


# ------------------------------------------------------------------------------------------------ simulations


@pytest.mark.parametrize("nodes", simulate.SIZES)
def test_innocent_nodes_are_seldom_blamed(nodes: int) -> None:
    assert simulate.blamed(nodes, 30, 400) <= simulate.MOST_BLAMED


@pytest.mark.parametrize("nodes", simulate.SIZES)
@pytest.mark.parametrize(("runs", "wanted"), list(zip(simulate.RUNS, simulate.WANTED_POWER, strict=True)))
def test_a_bad_node_is_found(nodes: int, runs: int, wanted: float) -> None:
    assert simulate.found(nodes, runs, 300) >= wanted
