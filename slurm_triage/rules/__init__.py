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

Conditions come before the owner: what comes after it is asked only of a rule that something speaks for.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from slurm_triage.extension import cached, current
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
    """A cause's rule. `supersedes` names causes that this one explains away when it is at least as strong.

    `file` is where a rule of the site stands, below the folder of its knowledge; empty for the program's own.
    """

    cause: str
    judge: Callable[[Job], Said]
    supersedes: tuple[str, ...]
    doc: str
    file: str = ""


_REGISTRY_ATTRIBUTE = "__slurm_triage_rule__"


def rule(cause: str, supersedes: tuple[str, ...] = ()) -> Callable[[Callable[[Job], Said]], Callable[[Job], Said]]:
    """Mark a generator function as the rule of `cause`."""

    def mark(function: Callable[[Job], Said]) -> Callable[[Job], Said]:
        setattr(function, _REGISTRY_ATTRIBUTE, Rule(cause, function, supersedes, function.__doc__ or ""))
        return function

    return mark


def rules_of(module: ModuleType) -> Iterator[Rule]:
    """The rules that a module marks, in the order in which they stand there; not those that it imports."""
    for value in vars(module).values():
        entry = getattr(value, _REGISTRY_ATTRIBUTE, None)
        if isinstance(entry, Rule) and getattr(value, "__module__", None) == module.__name__:
            yield entry


@cached
def all_rules() -> tuple[Rule, ...]:
    """Every rule of this folder, by cause, then those of the site."""
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(__path__):
        for entry in rules_of(importlib.import_module(f"{__name__}.{info.name}")):
            found[entry.cause] = entry
    return (*(found[cause] for cause in sorted(found)), *current().rules)


def strength_of(conditions: Sequence[Condition]) -> Strength:
    """The truth table."""
    required = ruled_out = unseen = confirmed = supported = False
    grounds = unfounded = 0
    for condition in conditions:
        role, holds = condition.role, condition.fact.holds
        if role is _REQUIRE:
            required = required or holds is True
            ruled_out = ruled_out or holds is False
            unseen = unseen or holds is None
        elif role is _REFUTE:
            ruled_out = ruled_out or holds is True
        else:
            grounds += 1
            unfounded += holds is False
            confirmed = confirmed or (role is _CONFIRM and holds is True)
            supported = supported or (role is _SUPPORT and holds is True)
    if ruled_out or (grounds and unfounded == grounds):
        return Strength.RULED_OUT
    if confirmed:
        return Strength.LIKELY if unseen else Strength.CONFIRMED
    if required and not unseen and (supported or not grounds):
        return Strength.LIKELY
    if required or supported:
        return Strength.POSSIBLE
    return Strength.SILENT


def judge(rule_: Rule, job: Job) -> Verdict:
    """Run one rule over the facts of one attempt.

    Of a cause that is ruled out or that nothing speaks for, the rule is not asked what it would have said: that is most
    of the work of most rules, and nobody reads it. Raises `TypeError` for a rule with a condition after its owner.
    """
    conditions: list[Condition] = []
    actions: list[Action] = []
    notes: list[str] = []
    who, text, at = Owner.UNKNOWN, "", None
    strength = None
    for item in rule_.judge(job):
        kind = type(item)
        if kind is Condition:
            if strength is not None:
                raise TypeError(f"the rule of {rule_.cause} yields a condition after its owner")
            conditions.append(item)  # type: ignore[arg-type]
        elif kind is Owner:
            who = item  # type: ignore[assignment]
            strength = strength_of(conditions)
            if not strength.rank:
                return Verdict(rule_.cause, strength, tuple(conditions), Owner.UNKNOWN, "")
        elif kind is _Text:
            text = item.summary  # type: ignore[union-attr]
        elif kind is Action:
            actions.append(item)  # type: ignore[arg-type]
        elif kind is _When:
            at = item.at  # type: ignore[union-attr]
        else:
            notes.append(item.text)  # type: ignore[union-attr]
    strength = strength or strength_of(conditions)
    return Verdict(rule_.cause, strength, tuple(conditions), who, text, tuple(actions), at, tuple(notes))
