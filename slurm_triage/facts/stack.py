"""Which software stack the job ran: by lines of its output, its commands, and names in the kernel log.

It decides no cause: only which advice fits. A stack that an import alone names (TensorBoard imports TensorFlow) is not
taken for the one that does the work. What tells a stack is data: `sources/catalog/stack` and `knowledge/stacks.toml`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.log import Log
from slurm_triage.facts.memory import Memory
from slurm_triage.facts.program import Program
from slurm_triage.knowledge import table
from slurm_triage.model import Cite, Fact, JobRecord, Sign, StackLine, StepRecord

FAULTS = ("x86_segfault", "x86_trap", "general_protection", "arm64_fault")
SIGNALS = (signals.SIGSEGV, signals.SIGILL, signals.SIGFPE)
ALONE = frozenset({"pty", "exclusive", "overlap", "unbuffered", "label", "exact", "verbose", "quiet", "no-kill"})
"""Long options of srun that take no value. Of a short one the next word is taken for its value: better to miss a
command than to take the name of a job for one."""


@cache
def stacks() -> Mapping[str, Mapping[str, Any]]:
    """The stacks by name, the most specific first."""
    found: Mapping[str, Mapping[str, Any]] = table("stacks")["stack"]
    return found


def title(name: str) -> str:
    """How the stack is called in a report."""
    return str(stacks()[name]["title"])


def chain(name: str) -> tuple[str, ...]:
    """The stack and what it is built on."""
    over = stacks()[name].get("over")
    return (name, *chain(over)) if over else (name,)


def is_last(name: str) -> bool:
    """Whether other stacks use this one, too, so that it counts only where none of them is seen."""
    return bool(stacks()[name].get("last"))


@dataclass
class _Seen:
    """What tells a stack. `sure` is False while only an import does; `last` is the last sure line of each file."""

    cites: list[Cite] = field(default_factory=list)
    sure: bool = False
    last: dict[str, int] = field(default_factory=dict)

    def add(self, cite: Cite, sure: bool = True) -> None:
        """One more line. The sure ones are cited first."""
        self.cites.insert(0 if sure and not self.sure else len(self.cites), cite)
        self.sure = self.sure or sure
        if sure:
            self.last[cite.file] = max(cite.line, self.last.get(cite.file, 0))


class Stack:
    """The software stacks of the attempt."""

    def __init__(self, attempt: Attempt, accounting: Accounting, log: Log, memory: Memory, program: Program) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.log = log
        self.memory = memory
        self.program = program

    @once
    def _lines(self) -> tuple[StackLine, ...]:
        return tuple(e for e in self.attempt.events if isinstance(e, StackLine))

    @once
    def _found(self) -> dict[str, _Seen]:
        found: dict[str, _Seen] = {}
        for name, cite, sure in self._evidence():
            found.setdefault(name, _Seen()).add(cite, sure)
            if not sure and len(chain(name)) > 1:  # whatever imports it is built on the same
                found.setdefault(chain(name)[-1], _Seen()).add(cite)
        return found

    def _evidence(self) -> Iterator[tuple[str, Cite, bool]]:
        """(stack, line, whether it shows more than an import) of everything that tells one."""
        for line in self._lines:
            if line.stack in stacks():
                yield line.stack, line.cite, not line.banner
        rows: list[JobRecord | StepRecord] = [*self.accounting.records, *self.accounting.steps]
        for record in rows:
            for name, sure in _of_command(record.submit_line or ""):
                yield name, record.cite, sure
        for kill in self.memory.kills:
            for name in _named(kill.victim or "", "processes"):
                yield name, (kill.cites or (kill.cite,))[0], True
        for fault in self._faults():
            lib, comm = fault.fields.get("lib", ""), fault.fields.get("comm", "")
            for name in (*_named(lib, "libraries"), *_named(comm, "processes")):
                yield name, fault.cite, True

    def _faults(self) -> Iterator[Sign]:
        """Lines of the kernel about faults of the job's own processes."""
        logged = self.log.of(*FAULTS)
        if logged:
            mine = {(c.file, c.line) for number in SIGNALS for c in self.program.kernel_fault(number).cites}
            yield from (s for s in logged if (s.cite.file, s.cite.line) in mine)

    @once
    def seen(self) -> tuple[str, ...]:
        """The stacks that do the job's work, the one that fits best first.

        One that is built on another goes before it. Of two that have nothing to do with each other, the one that spoke
        last in the output goes first. Those that others use (a launcher of MPI has always the last word) go last.
        """
        order = list(stacks())
        names = sorted((n for n, seen in self._found.items() if seen.sure), key=order.index)
        roots = list(dict.fromkeys(chain(n)[-1] for n in names))
        roots.sort(key=lambda root: (is_last(root), 0 if is_last(root) else -self._last(root), order.index(root)))
        return tuple(n for root in roots for n in names if chain(n)[-1] == root)

    def _last(self, root: str) -> int:
        """The last line of the stacks on this root, in the one file of the output; 0 where there are several files."""
        seen = [s for name, s in self._found.items() if chain(name)[-1] == root]
        files = {file for s in self._found.values() for file in s.last if s.sure}
        return max((line for s in seen for line in s.last.values()), default=0) if len(files) == 1 else 0

    @once
    def known(self) -> Fact:
        """The software stack that does the work is known."""
        says = "the software stack of the job is known"
        if self.seen:
            return self.is_(self.seen[0])
        why = "no line names one for sure" if self.log.read else self.log.unread
        return unknown(says, why, self.log.how)

    def is_(self, name: str) -> Fact:
        """The job's work is done with this stack. Raises `KeyError` for a name that is not in the table."""
        says = f"the job runs {title(name)}"
        if name in self.seen:
            return true(says, self._found[name].cites[:3])
        return unknown(says, "no line shows it", self.log.how)

    @once
    def wrote_checkpoint(self) -> Fact:
        """The program told of a checkpoint that it wrote."""
        says = "the program wrote a checkpoint"
        lines = [line for line in self._lines if line.checkpoint]
        return true(says, lines[-1:]) if lines else unknown(says, "no line tells of one", self.log.how)

    def may_host(self, name: str, process: str) -> bool:
        """Whether the stack's work may be done in a process of this name (as the kernel shows it)."""
        hosts = stacks()[name]["hosts"]
        return not hosts or _begins(process, hosts)


def _named(text: str, key: str) -> Iterator[str]:
    return (name for name, entry in stacks().items() if _begins(text, entry[key]))


def _begins(text: str, beginnings: Iterable[str]) -> bool:
    """Whether a name begins with one of these; a single letter (R) is the whole name."""
    return any(text == begin or (len(begin) > 1 and text.startswith(begin)) for begin in beginnings)


def _of_command(line: str) -> Iterator[tuple[str, bool]]:
    """(stack, whether it runs for sure) of a line that submitted the job or started a step."""
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote: cut by accounting
        words = line.split()
    if words[:1] and words[0].rsplit("/", 1)[-1] == "sbatch":
        wrapped = [w.split("=", 1)[1] for w in words if w.startswith("--wrap=")]
        wrapped += [after for w, after in pairwise(words) if w == "--wrap"]
        words = wrapped[0].split() if wrapped else []
    elif words[:1] and words[0].rsplit("/", 1)[-1] == "srun":
        if any(w.startswith("--mpi=") and w != "--mpi=none" for w in words):
            yield "mpi", False
        words = _command(words[1:])
    if words and words[0].rsplit("/", 1)[-1] == "srun":
        words = _command(words[1:])
    if not words:
        return
    first = words[0].rsplit("/", 1)[-1]
    module = words[2] if first.startswith("python") and words[1:2] == ["-m"] and len(words) > 2 else ""
    for name, entry in stacks().items():
        if first in entry["programs"] or any(module and module.startswith(m) for m in entry["modules"]):
            yield name, True


def _command(words: list[str]) -> list[str]:
    """What srun starts: the words behind its options and their values."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        complete = "=" in word or (word[1:2] != "-" and len(word) > 2) or word[2:] in ALONE
        at += 1 if complete else 2
    return words[at:]
