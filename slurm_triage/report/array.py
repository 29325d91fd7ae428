"""The one text about many failed tasks of an array: what happened to how many, where, and an example of each."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_triage.causes import title
from slurm_triage.nodeset import fold
from slurm_triage.report.mask import plain

MOST_KINDS = 12
MOST_CHARACTERS = 60
"""Characters of a list of tasks or nodes before it is cut."""
COLUMNS = 79


@dataclass(frozen=True)
class Task:
    """A failed task of an array: its number, what was said of it, and the nodes that it had (folded)."""

    task: str
    cause: str
    strength: str
    owner: str
    nodes: tuple[str, ...] = ()
    summary: str = ""


def array_text(array: str, tasks: Sequence[Task]) -> str:
    """The text. `tasks` are all failed ones that are known, those with a file of their own among them."""
    kinds: dict[tuple[str, str, str], list[Task]] = {}
    for task in tasks:
        kinds.setdefault((task.cause, task.strength, task.owner), []).append(task)
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    (cause, strength, owner), most = ordered[0]
    verdict = f"VERDICT {len(tasks)} tasks of array {array} failed, {len(most)}: {cause} ({strength}), owner: {owner}"
    lines = [
        *textwrap.wrap(plain(verdict), COLUMNS, subsequent_indent="  "),
        "",
        "Only some of them have a file of their own. What was found:",
        "",
    ]
    for (cause, strength, owner), some in ordered[:MOST_KINDS]:
        lines += _kind(cause, strength, owner, some)
    if len(ordered) > MOST_KINDS:
        rest = sum(len(some) for _, some in ordered[MOST_KINDS:])
        lines += [f"  and {rest} tasks of {len(ordered) - MOST_KINDS} other kinds", ""]
    lines += _where(tasks)
    lines += [
        "Of one task:   sdiag-history show " + f"{array}_{most[0].task}",
        f"Of all:        sdiag-history list --job {array}",
    ]
    return "\n".join(plain(line)[:COLUMNS] for line in lines) + "\n"


def _kind(cause: str, strength: str, owner: str, some: Sequence[Task]) -> list[str]:
    numbers = _numbers(task.task for task in some)
    nodes = Counter(node for task in some for node in task.nodes)
    found = [
        f"  {len(some):6}  {title(cause)} [{cause}], {strength}; acts: {owner}",
        f"          tasks {numbers}",
    ]
    if nodes:
        found.append(f"          on {_cut(fold(nodes))}")
    if some[0].summary:
        example = plain(f"for example {some[0].task}: {some[0].summary}")
        found += textwrap.wrap(example, COLUMNS, initial_indent=" " * 10, subsequent_indent=" " * 12, max_lines=3)
    return [*found, ""]


def _where(tasks: Sequence[Task]) -> list[str]:
    """A sentence if all failed on one node of several, which speaks for the node."""
    nodes = Counter(node for task in tasks for node in task.nodes)
    if len(nodes) == 1 and len(tasks) > 2:
        return [f"All of them ran on {next(iter(nodes))}.", ""]
    return []


def _numbers(numbers: Iterable[str]) -> str:
    """`1-17,19`: ranges of task numbers."""
    known = sorted({int(number) for number in numbers if number.isdigit()})
    ranges: list[list[int]] = []
    for number in known:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return _cut(",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 4] + " ..."
