"""What a word of the field means: causes, exit codes, signals, states, terms, signatures, NVIDIA's Xid and SXid.

Everything said comes from the rules' docstrings, `causes.toml`, the catalogs of signatures and the tables in
`knowledge/`. One word may mean several things (`7` is a signal and an exit code): then all of them are said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from slurm_triage import signals
from slurm_triage.causes import all_causes
from slurm_triage.explain import show
from slurm_triage.explain._causes import cause, causes
from slurm_triage.explain._entry import REQUIRED, Entry, Part
from slurm_triage.explain._exits import exit_codes, exits
from slurm_triage.explain._nvidia import NUMBER, nvidia, sxids, xids
from slurm_triage.explain._signals import all_signals, signal
from slurm_triage.explain._states import state, states
from slurm_triage.explain._words import signature, signatures, term
from slurm_triage.explain.show import COLUMNS, render
from slurm_triage.extension import cached
from slurm_triage.knowledge import rows, table

__all__ = [
    "COLUMNS", "PAGES", "REQUIRED", "WORD_LIMIT", "Entry", "Part", "ask", "document", "lookup", "render", "suggest",
]  # fmt: skip

WORD_LIMIT = 200
"""Characters of a word that are looked at."""

_READERS: tuple[Callable[[str], Iterator[Entry]], ...] = (nvidia, cause, state, exits, signal, term, signature)

PAGES: dict[str, Callable[[], Iterator[Entry]]] = {
    "cause": causes,
    "exit code": exit_codes,
    "signal": all_signals,
    "state": states,
    "Xid": xids,
    "SXid": sxids,
}
"""By kind, all pages of it: what docs/reference publishes."""


def lookup(word: str) -> tuple[Entry, ...]:
    """Every meaning of one word or phrase (`137`, `0:125`, `xid 79`, `Bus error`); empty if it is not known."""
    word = " ".join(word[:WORD_LIMIT].split())
    if NUMBER.fullmatch(word):
        return tuple(nvidia(word))  # a word of nobody else: the other tables stay unread
    return tuple(entry for reader in _READERS for entry in reader(word)) if word else ()


def ask(words: Sequence[str]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Meanings of what was typed, and the words that are not known.

    The words are taken together where that means something (`xid 79`, `CANCELLED by 1000`), else one by one, where
    `xid` and `sxid` take the number behind them.
    """
    if found := lookup(" ".join(words)):
        return found, ()
    entries: list[Entry] = []
    unknown: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if re.fullmatch(r"(?i)s?xid:?", word.strip()) and rest:
            word = f"{word} {rest.pop(0)}"
        meant = lookup(word)
        entries.extend(entry for entry in meant if entry not in entries)
        if not meant:
            unknown.append(word)
    return tuple(entries), tuple(unknown)


def suggest(word: str) -> tuple[str, ...]:
    """Known words that look like this one, the nearest first; at most three."""
    import difflib

    word = word[:WORD_LIMIT].strip()
    known = {name.lower(): name for name in _vocabulary()}
    near = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.6)
    return tuple(known[name] for name in near)


@cached
def _vocabulary() -> tuple[str, ...]:
    names: list[str] = [*all_causes(), *signals.NAMES.values(), *(name[3:] for name in signals.NAMES.values())]
    names += [entry["name"] for entry in table("slurm_states")["state"]]
    names += [name for name, entry in table("terms").items() if isinstance(entry, dict)]
    names += [id for id, _ in signatures()]
    names += [f"Xid {row['xid']}" for row in rows("nvidia_xid")]
    return tuple(dict.fromkeys(names))


def document(entries: Iterable[Entry], unknown: Iterable[str] = ()) -> dict[str, Any]:
    """The entries for programs, with what the unknown words may have meant: dict, list and str only."""
    return show.document(entries, [(word[:WORD_LIMIT], suggest(word)) for word in unknown])
