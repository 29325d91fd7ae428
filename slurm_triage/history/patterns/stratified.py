"""Whether one member of a group fails more often than the others *for the same kind of work*: a stratified exact test.

Runs are compared only within a stratum (the same work at the same time). Given how many of its runs failed in all, and
if the member is like the others, the failures among the member's runs follow the hypergeometric distribution; over the
strata they add up. A stratum where all runs failed, or none, tells nothing and weighs nothing: a broken program blames
nobody. (The conditional test of Cochran, Mantel and Haenszel, exact where that is cheap; Agresti, Categorical Data
Analysis, 3rd ed., 7.3.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

EXACT = 400
"""Runs of the member up to which the distribution is exact; above it a normal one with its skew corrected."""


RATE = 0.045
"""Of tables without any bad member at most this share is to blame somebody: 5 %, less what mid-p takes too much."""


class Stratum(NamedTuple):
    """Runs of the same work: of all members, and of the member in question; and how many of each failed."""

    runs: int
    failed: int
    own_runs: int
    own_failed: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a test says of a member: its runs that could be compared, its failures, and the failures to be expected.

    `p` is the probability of so many failures or more, half of that of exactly so many (mid-p), if it is like the
    others; `least_p` is what it would be if all its runs had failed: where even that is not small, there are too few
    runs to tell.
    """

    runs: int
    failed: int
    expected: float
    p: float
    least_p: float


def comparison(strata: Iterable[Stratum]) -> Comparison:
    """Tests one member. Strata that tell nothing are left out of all counts."""
    telling = [s for s in strata if 0 < s.failed < s.runs and 0 < s.own_runs < s.runs]
    runs = sum(s.own_runs for s in telling)
    failed = sum(s.own_failed for s in telling)
    expected = sum(s.own_runs * s.failed / s.runs for s in telling)
    most = sum(min(s.own_runs, s.failed) for s in telling)
    if not telling:
        return Comparison(0, 0, 0.0, 1.0, 1.0)
    if runs <= EXACT:
        chances = _distribution(telling)
        return Comparison(runs, failed, expected, _mid_p(chances, failed), _mid_p(chances, most))
    spread = _moments(telling)
    return Comparison(runs, failed, expected, _tail(failed, expected, *spread), _tail(most, expected, *spread))


def _mid_p(chances: Sequence[float], count: int) -> float:
    low = _lowest(chances)
    return min(1.0, 0.5 * chances[count] + math.fsum(chances[count + 1 :])) if count >= low else 1.0


def _lowest(chances: Sequence[float]) -> int:
    return next((count for count, chance in enumerate(chances) if chance > 0.0), 0)


def _distribution(strata: Sequence[Stratum]) -> list[float]:
    """Chance of each number of own failures, from 0."""
    chances = [1.0]
    for stratum in strata:
        ways = _hypergeometric(stratum)
        found = [0.0] * (len(chances) + len(ways) - 1)
        for i, chance in enumerate(chances):
            if chance > 0.0:
                for j, way in enumerate(ways):
                    found[i + j] += chance * way
        chances = found
    return chances


def _hypergeometric(stratum: Stratum) -> list[float]:
    """Chance of each number of own failures in one stratum, from 0 to the most there can be."""
    total, failed, own = stratum.runs, stratum.failed, stratum.own_runs
    if own == 1:
        return [1.0 - failed / total, failed / total]
    ways = math.comb(total, own)
    return [
        math.comb(failed, k) * math.comb(total - failed, own - k) / ways if own - k <= total - failed else 0.0
        for k in range(min(own, failed) + 1)
    ]


def _moments(strata: Sequence[Stratum]) -> tuple[float, float]:
    """Variance and third central moment of the sum."""
    variance = third = 0.0
    for s in strata:
        share = s.failed / s.runs
        one = s.own_runs * share * (1 - share) * (s.runs - s.own_runs) / (s.runs - 1)
        variance += one
        if s.runs > 2:
            third += one * (1 - 2 * share) * (s.runs - 2 * s.own_runs) / (s.runs - 2)
    return variance, third


def _tail(count: int, mean: float, variance: float, third: float) -> float:
    """Mid-p of `count` or more, by the first term of Edgeworth's expansion."""
    if variance <= 0.0:
        return 1.0
    z = (count - mean) / math.sqrt(variance)
    skew = third / math.pow(variance, 1.5)
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    p = 0.5 * math.erfc(z / math.sqrt(2)) + density * skew * (z * z - 1) / 6
    return min(1.0, max(p, 0.0))


def blamed(tested: Sequence[Comparison], rate: float = RATE) -> list[bool | None]:
    """Of each member whether it stands out; None where there are too few runs to tell.

    Benjamini and Hochberg's procedure at `rate`, over the members that could stand out at all: one whose p could not be
    small enough whatever happened costs the others nothing (Tarone, Biometrics 46, 1990).
    """
    able = _able(tested, rate)
    order = sorted(able, key=lambda i: tested[i].p)
    last = max((rank for rank, i in enumerate(order, 1) if tested[i].p <= rate * rank / len(able)), default=0)
    out: list[bool | None] = [None] * len(tested)
    for i in able:
        out[i] = False
    for i in order[:last]:
        out[i] = True
    return out


def _able(tested: Sequence[Comparison], rate: float) -> list[int]:
    """The members that could stand out among so many: the largest set whose every least p is small enough for it."""
    order = sorted(range(len(tested)), key=lambda i: tested[i].least_p)
    for size in range(len(order), 0, -1):
        if tested[order[size - 1]].least_p <= rate / size:
            return order[:size]
    return []


def interval(failed: int, runs: int) -> tuple[float, float]:
    """95 % confidence interval of a share (Wilson). Raises `ValueError` without runs."""
    if runs < 1:
        raise ValueError("a share of no runs has no interval")
    z = 1.959964
    share, spread = failed / runs, z * z / runs
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / runs + spread / (4 * runs)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)
