"""Rules: one file per cause, found by listing this folder.

A rule is a generator function over the facts of one attempt. It yields conditions and, decided from the same facts,
who has to act, a summary and actions:

    @rule("memcg_oom", supersedes=("external_signal",))
    def memcg_oom(job: Job) -> Said:
        '''docstring sections: What happened / Who acts / What to do / What this is not'''
        yield require(job.memory.oom_killed)
        yield confirm(job.memory.own_limit_hit)
        yield refute(job.memory.node_ran_out)
        yield owner(Owner.USER)
        yield summary("...")

The conditions become a strength by one truth table (`strength_of`):

=========================================================================================  ==========
a require is false, a refute is true, or all confirms and supports are false               ruled out
all requires true and a confirm true                                                       confirmed
a confirm true but a require unknown; or requires true and no confirm, or a support, true  likely
something true, the rest unknown                                                           possible
nothing true                                                                               silent
=========================================================================================  ==========

A *support* is evidence that makes the cause likely but can never confirm it (Slurm's oom_kill count for "the job's own
limit"). Turning an unknown in a rule's favour never weakens it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from slurm_triage.model import Action, Condition, Fact, Owner, Role, Stamp, Strength, Verdict, quick

if TYPE_CHECKING:
    from slurm_triage.facts import Job


_REQUIRE, _CONFIRM, _SUPPORT, _REFUTE = Role.REQUIRE, Role.CONFIRM, Role.SUPPORT, Role.REFUTE
"""By name: looking a member up in its enum takes longer than what is done with it here (Python 3.11)."""


@quick
@dataclass(frozen=True, slots=True)
class _Text:
    summary: str


@quick
@dataclass(frozen=True, slots=True)
class _When:
    at: Stamp | None


@quick
@dataclass(frozen=True, slots=True)
class _Note:
    text: str


Item = Condition | Owner | Action | _Text | _When | _Note
Said = Iterator[Item]


def require(fact: Fact) -> Condition:
    """Without this the cause is impossible."""
    return Condition(_REQUIRE, fact)


def confirm(fact: Fact) -> Condition:
    """This proves the cause, given the requires."""
    return Condition(_CONFIRM, fact)


def support(fact: Fact) -> Condition:
    """This makes the cause likely, given the requires, but proves nothing."""
    return Condition(_SUPPORT, fact)


def refute(fact: Fact) -> Condition:
    """With this the cause is impossible."""
    return Condition(_REFUTE, fact)


def owner(who: Owner) -> Owner:
    """Who has to act."""
    return who


def summary(text: str) -> _Text:
    """What happened, in one sentence."""
    return _Text(text)


def action(text: str, command: str | None = None) -> Action:
    """One thing to do; the first action said is the most important one."""
    return Action(text, command)


def when(at: Stamp | None) -> _When:
    """When the cause struck: orders several causes in time."""
    return _When(at)


def note(text: str) -> _Note:
    """One more thing worth knowing about this cause in this job."""
    return _Note(text)


@dataclass(frozen=True, slots=True)
class Rule:
    """A cause's rule. `supersedes` names causes that this one explains away when it is at least as strong."""

    cause: str
    judge: Callable[[Job], Said]
    supersedes: tuple[str, ...]
    doc: str


_REGISTRY_ATTRIBUTE = "__slurm_triage_rule__"


def rule(cause: str, supersedes: tuple[str, ...] = ()) -> Callable[[Callable[[Job], Said]], Callable[[Job], Said]]:
    """Mark a generator function as the rule of `cause`."""

    def mark(function: Callable[[Job], Said]) -> Callable[[Job], Said]:
        setattr(function, _REGISTRY_ATTRIBUTE, Rule(cause, function, supersedes, function.__doc__ or ""))
        return function

    return mark


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of this folder, by cause."""
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            entry = getattr(value, _REGISTRY_ATTRIBUTE, None)
            if isinstance(entry, Rule):
                found[entry.cause] = entry
    return tuple(found[cause] for cause in sorted(found))


def strength_of(conditions: tuple[Condition, ...]) -> Strength:
    """The truth table."""
    requires: list[bool | None] = []
    confirms: list[bool | None] = []
    supports: list[bool | None] = []
    refutes: list[bool | None] = []
    for condition in conditions:
        role, holds = condition.role, condition.fact.holds
        if role is _REQUIRE:
            requires.append(holds)
        elif role is _CONFIRM:
            confirms.append(holds)
        elif role is _SUPPORT:
            supports.append(holds)
        else:
            refutes.append(holds)
    grounds = confirms + supports
    if False in requires or True in refutes or (grounds and all(ground is False for ground in grounds)):
        return Strength.RULED_OUT
    if True in confirms:
        return Strength.CONFIRMED if all(requires) else Strength.LIKELY
    if requires and all(requires) and (not grounds or True in supports):
        return Strength.LIKELY
    if True in requires or True in supports:
        return Strength.POSSIBLE
    return Strength.SILENT


def judge(rule_: Rule, job: Job) -> Verdict:
    """Run one rule over the facts of one attempt."""
    conditions: list[Condition] = []
    actions: list[Action] = []
    notes: list[str] = []
    who, text, at = Owner.UNKNOWN, "", None
    for item in rule_.judge(job):
        if isinstance(item, Condition):
            conditions.append(item)
        elif isinstance(item, _Text):
            text = item.summary
        elif isinstance(item, Action):
            actions.append(item)
        elif isinstance(item, Owner):
            who = item
        elif isinstance(item, _When):
            at = item.at
        else:
            notes.append(item.text)
    final = tuple(conditions)
    return Verdict(rule_.cause, strength_of(final), final, who, text, tuple(actions), at, tuple(notes))
