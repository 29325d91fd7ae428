"""Whether a regular expression stays fast on lines that somebody chose to make it slow.

Users print what they like, and a pattern that tries every way to cut a line takes hours for one of 64 KiB. Lines made
of a form's own examples find that: whole pieces of them repeated, each kind of character drawn out, with an end that
does not fit. Every search is stopped when its time is up.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from slurm_triage.case import LINE_LIMIT
from slurm_triage.site.stop import TookTooLong, stopped_after

LIMIT = 0.1
"""Seconds of processor time for one line of the longest length; forms that are linear take a few milliseconds."""
MOST_PLACES = 24
"""Places of an example at which its characters are drawn out."""
NO_END = "\x00~"
"""An end that fits nothing, so that every other way to match is tried."""


def slow_line(pattern: re.Pattern[str], examples: Sequence[str], hints: Sequence[str]) -> str | None:
    """The beginning of a line on which the pattern takes too long, None if none of those tried is one."""
    for line in dict.fromkeys(_lines(examples, hints)):
        if not _fast(pattern, line):
            return line[:60]
    return None


def _fast(pattern: re.Pattern[str], line: str) -> bool:
    """Whether one of three searches is in time: another process may take the core in between."""
    for _ in range(3):
        began = time.process_time()
        try:
            with stopped_after(4 * LIMIT):
                pattern.search(line)
        except TookTooLong:
            return False
        if time.process_time() - began < LIMIT:
            return True
    return False


def _lines(examples: Sequence[str], hints: Sequence[str]) -> Iterator[str]:
    for short in (30, LINE_LIMIT):  # what doubles with each character shows on short lines already
        for letter in ("a", " ", "1", "/", "\ufffd", "a "):
            yield _filled(letter, short)
        for hint in hints:
            yield _filled(hint, short)
            yield from (hint + _filled(letter, short) for letter in ("a", " ", "1", "a "))
        for example in examples[:3]:
            yield from _drawn_out(example, short)


def _filled(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size] + NO_END


def _drawn_out(example: str, size: int) -> Iterator[str]:
    """The example, its halves and its words again and again, and its characters drawn out at several places."""
    half = example[: max(1, len(example) // 2)]
    for piece in (example, example[:-1], half, example[len(half) :]):
        if piece:
            yield _filled(piece, size)
            yield example + _filled(piece, size)
    step = max(1, len(example) // MOST_PLACES)
    for at in range(0, len(example), step):
        yield example[:at] + _filled(example[at], size)
        yield example[:at] + _filled(example[at] + " ", size)
        word = re.match(r"\w+\W?", example[at:])
        if word:
            yield example[:at] + _filled(word[0], size)
