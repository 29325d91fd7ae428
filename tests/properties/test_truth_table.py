"""The truth table: every row, and that knowing more in favour of a cause never makes it weaker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.engine import rank
from slurm_triage.model import Condition, Fact, Role, Stamp, Strength, Verdict
from slurm_triage.rules import all_rules, strength_of

ORDER = (Strength.RULED_OUT, Strength.SILENT, Strength.POSSIBLE, Strength.LIKELY, Strength.CONFIRMED)
"""From the weakest to the strongest."""
IN_FAVOUR = {Role.REQUIRE: True, Role.CONFIRM: True, Role.SUPPORT: True, Role.REFUTE: False}
WORD = {"T": True, "F": False, "?": None}
ROLE = {"require": Role.REQUIRE, "confirm": Role.CONFIRM, "support": Role.SUPPORT, "refute": Role.REFUTE}

conditions = st.lists(st.tuples(st.sampled_from(Role), st.sampled_from((True, False, None))), max_size=8)


def _strength(pairs: list[tuple[Role, bool | None]]) -> Strength:
    return strength_of(tuple(Condition(role, Fact("it holds", holds)) for role, holds in pairs))


def _pairs(text: str) -> list[tuple[Role, bool | None]]:
    """`require T?, confirm F` as pairs of role and truth."""
    found = []
    for part in filter(None, text.split(", ")):
        role, _, letters = part.partition(" ")
        found += [(ROLE[role], WORD[letter]) for letter in letters]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a require is false
        ("require F", Strength.RULED_OUT),
        ("require TF, confirm T", Strength.RULED_OUT),
        ("require ?F, confirm T, support T", Strength.RULED_OUT),
        # a refute is true
        ("refute T", Strength.RULED_OUT),
        ("require T, confirm T, refute T", Strength.RULED_OUT),
        ("require T, confirm T, refute FT", Strength.RULED_OUT),
        # there are confirms and all of them are false
        ("require T, confirm F", Strength.RULED_OUT),
        ("require T, confirm FF", Strength.RULED_OUT),
        ("require ?, confirm F", Strength.RULED_OUT),
        ("confirm F", Strength.RULED_OUT),
        # all requires true and a confirm true
        ("require T, confirm T", Strength.CONFIRMED),
        ("require TT, confirm ?T", Strength.CONFIRMED),
        ("require T, confirm FT", Strength.CONFIRMED),
        ("require T, confirm T, refute F", Strength.CONFIRMED),
        ("require T, confirm T, refute ?", Strength.CONFIRMED),
        ("require T, confirm T, support F", Strength.CONFIRMED),
        ("confirm T", Strength.CONFIRMED),
        # a confirm true but a require unknown
        ("require ?, confirm T", Strength.LIKELY),
        ("require T?, confirm T", Strength.LIKELY),
        # requires true and no confirm
        ("require T", Strength.LIKELY),
        ("require TT, refute ?", Strength.LIKELY),
        # requires true and a support true
        ("require T, confirm ?, support T", Strength.LIKELY),
        ("require T, support T", Strength.LIKELY),
        ("require T, support F?T", Strength.LIKELY),
        # something true, the rest unknown
        ("require T, confirm ?", Strength.POSSIBLE),
        ("require T?", Strength.POSSIBLE),
        ("require ?, support T", Strength.POSSIBLE),
        ("require ?, confirm ?, support T", Strength.POSSIBLE),
        # nothing true
        ("require ?", Strength.SILENT),
        ("require ?, confirm ?", Strength.SILENT),
        ("require ?, confirm ?, support ?, refute ?", Strength.SILENT),
        ("support ?", Strength.SILENT),
        ("refute F", Strength.SILENT),
        ("", Strength.SILENT),
    ],
)
def test_every_row_of_the_table(text: str, expected: Strength) -> None:
    assert _strength(_pairs(text)) is expected


@given(conditions, st.data())
def test_an_unknown_turned_in_favour_never_weakens(pairs: list[tuple[Role, bool | None]], data: st.DataObject) -> None:
    open_ = [i for i, (_, holds) in enumerate(pairs) if holds is None]
    turned = data.draw(st.sets(st.sampled_from(open_))) if open_ else set()
    better = [(role, IN_FAVOUR[role] if i in turned else holds) for i, (role, holds) in enumerate(pairs)]
    assert ORDER.index(_strength(better)) >= ORDER.index(_strength(pairs))


@given(conditions, st.data())
def test_an_unknown_turned_against_never_strengthens(
    pairs: list[tuple[Role, bool | None]], data: st.DataObject
) -> None:
    open_ = [i for i, (_, holds) in enumerate(pairs) if holds is None]
    turned = data.draw(st.sets(st.sampled_from(open_))) if open_ else set()
    worse = [(role, not IN_FAVOUR[role] if i in turned else holds) for i, (role, holds) in enumerate(pairs)]
    assert ORDER.index(_strength(worse)) <= ORDER.index(_strength(pairs))


@given(conditions, st.randoms(use_true_random=False))
def test_the_order_of_conditions_changes_nothing(pairs: list[tuple[Role, bool | None]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert _strength(shuffled) is _strength(pairs)


@given(conditions)
def test_without_a_true_confirm_nothing_is_confirmed(pairs: list[tuple[Role, bool | None]]) -> None:
    if _strength(pairs) is Strength.CONFIRMED:
        assert (Role.CONFIRM, True) in pairs
        assert not any(role is Role.REQUIRE and holds is not True for role, holds in pairs)
        assert (Role.REFUTE, True) not in pairs


# ------------------------------------------------------------------------------------------------ competition


def _verdict(cause: str, strength: Strength, at: float | None = None) -> Verdict:
    return Verdict(cause, strength, (), at=None if at is None else Stamp(at, at))


CAUSES = tuple(rule.cause for rule in all_rules())
verdicts = st.lists(
    st.builds(
        _verdict,
        st.sampled_from(CAUSES),
        st.sampled_from(Strength),
        st.none() | st.floats(0, 2e9),
    ),
    unique_by=lambda v: v.cause,
    max_size=len(CAUSES),
)


@given(verdicts)
def test_where_there_are_candidates_one_is_left(all_: list[Verdict]) -> None:
    """Rules that supersede each other must not both vanish."""
    kept = rank(all_)
    assert bool(kept) is any(v.strength.rank for v in all_)
    if kept:
        assert kept[0].strength.rank == max(v.strength.rank for v in all_)


@given(verdicts, st.randoms(use_true_random=False))
def test_the_order_of_rules_changes_nothing(all_: list[Verdict], random: object) -> None:
    shuffled = list(all_)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rank(shuffled) == rank(all_)


def test_no_two_rules_supersede_each_other() -> None:
    """Directly or in a ring: then none of them could be the answer."""
    above = {rule.cause: set(rule.supersedes) for rule in all_rules()}
    for cause in above:
        reached: set[str] = set()
        todo = list(above[cause])
        while todo:
            lower = todo.pop()
            if lower not in reached:
                reached.add(lower)
                todo += above.get(lower, ())
        assert cause not in reached, f"{cause} supersedes itself by way of {sorted(reached)}"


def test_rules_supersede_only_causes_that_exist() -> None:
    from slurm_triage.causes import all_causes

    for rule in all_rules():
        assert rule.cause in all_causes()
        assert set(rule.supersedes) <= set(all_causes()), rule.cause
