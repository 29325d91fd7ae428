"""Pages of signals: who sends one in a job, and how its numbers are printed by Slurm, shells, Python and MPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slurm_triage import signals
from slurm_triage.explain._entry import Entry, Part, page_parts, sentence
from slurm_triage.knowledge import table

SHELL_BASE = 128
_CORE = 0x80


def signal(word: str) -> Iterator[Entry]:
    """The page of a signal: `SIGBUS`, `BUS`, `Bus error`, `7`."""
    number = signals.number_of(word)
    if number is not None and number in signals.NAMES:
        yield _entry(number)


def all_signals() -> Iterator[Entry]:
    """The pages of all signals that have a name, by number."""
    return (_entry(number) for number in signals.NAMES)


def page(number: int) -> dict[str, Any]:
    """The table of a signal; what is not said of it is that of any signal."""
    facts: Mapping[str, Any] = table("signals")
    return {**facts["default"], **facts.get(str(number), {})}


def text(number: int) -> str:
    """What a signal means, as a sentence; empty for one of which nothing more is known."""
    return sentence(str(table("signals").get(str(number), {}).get("meaning", "")))


def _entry(number: int) -> Entry:
    facts, entry, name = table("signals"), page(number), signals.name(number)
    parts = [Part("", sentence(entry["meaning"])), Part("Who sends it", sentence(entry["sent_by"]))]
    if default := entry.get("default"):
        parts.append(Part("Without a handler", sentence(default)))
    parts += page_parts(entry)
    parts.append(Part("How it shows", _forms(number)))
    code = SHELL_BASE + number
    see = (str(code), f"0:{number}")
    title = f"signal {number}"
    return Entry("signal", name, title, tuple(parts), see, tuple(facts["sources"]), facts["since"])


def _forms(number: int) -> str:
    """How programs print a death by this signal."""
    words = [word for word, value in signals.STRSIGNAL.items() if value == number]
    word = words[0] if words else signals.name(number)
    code = SHELL_BASE + number
    core = f", with a core {number + _CORE}" if "core" in page(number).get("default", "") else ""
    return (
        f"sacct: 0:{number} where the process itself died of it, {code}:0 where a shell below the job reports it "
        f"({number}:0 in its text up to 25.05). srun: `task N: {word}`, and it ends with {code} itself. bash: "
        f"`{word}`, $? is {code}. Python and torchrun: -{number}. As a raw wait status: {number}{core}."
    )
