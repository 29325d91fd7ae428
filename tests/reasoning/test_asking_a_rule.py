"""How a rule is asked: its conditions come first, and only of a cause that something speaks for is more wanted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slurm_triage.attempts import Attempt
from slurm_triage.facts import Job
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.model import Cite, Fact, Owner, Strength
from slurm_triage.rules import Item, Rule, action, all_rules, confirm, judge, owner, refute, require, summary

LINE = Cite("job_log", "job.out", 1, "it failed")
TRUE, FALSE = true("it failed", [LINE]), false("it failed", "it did not")
UNKNOWN = unknown("it failed", "no log", "read the log")


def rule(*conditions: Item, asked: list[str]) -> Rule:
    def said(_: Job) -> Iterator[Item]:
        yield from conditions
        yield owner(Owner.USER)
        asked.append("summary")
        yield summary("The program failed.")
        yield action("Mend it.")

    return Rule("app_error", said, (), "")


@pytest.mark.parametrize(("fact", "strength"), [(UNKNOWN, Strength.SILENT), (FALSE, Strength.RULED_OUT)])
def test_a_cause_that_nothing_speaks_for_is_not_asked_what_to_do(fact: Fact, strength: Strength) -> None:
    asked: list[str] = []
    verdict = judge(rule(require(fact), asked=asked), Job(Attempt()))
    assert verdict.strength is strength
    assert verdict.conditions and not asked
    assert not verdict.summary and not verdict.actions and verdict.owner is Owner.UNKNOWN


def test_one_that_something_speaks_for_is() -> None:
    asked: list[str] = []
    verdict = judge(rule(require(TRUE), confirm(UNKNOWN), asked=asked), Job(Attempt()))
    assert verdict.strength is Strength.POSSIBLE
    assert verdict.owner is Owner.USER and verdict.summary and verdict.actions and asked


def test_a_condition_after_the_owner_is_a_mistake_and_not_overlooked() -> None:
    def late(_: Job) -> Iterator[Item]:
        yield require(TRUE)
        yield owner(Owner.USER)
        yield refute(TRUE)

    with pytest.raises(TypeError, match="app_error yields a condition after its owner"):
        judge(Rule("app_error", late, (), ""), Job(Attempt()))


@pytest.mark.parametrize("known", all_rules(), ids=lambda one: one.cause)
def test_no_rule_has_a_condition_after_its_owner(known: Rule) -> None:
    after = False
    for item in known.judge(Job(Attempt())):
        after = after or isinstance(item, Owner)
        assert not (after and hasattr(item, "role")), item
