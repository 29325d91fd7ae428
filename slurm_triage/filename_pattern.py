"""Slurm's filename patterns: `%A_%a.out`, `%x-%8j`, and a backslash that turns them off.

Source: sbatch(1), "filename pattern", and what slurmstepd does (fname_create of its fname.c, later expand_stdio_fields
of print_fields.c). The agent on nodes imports this: standard library only, Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

NUMBERS = frozenset("AabJjnst")
"""Letters that stand for a number: these are padded with zeros to the width, the others ignore it."""

WIDEST = 10
"""The largest width; sbatch takes every larger one for it."""

MOST_TEXTS = 64
"""Most texts that one pattern is taken to stand for."""

MOST_LETTERS = 32
"""A pattern with more letters than that is not filled in."""

PATTERN = re.compile(r"%(?:%|(?P<width>[0-9]*)(?P<letter>[A-Za-z])|[0-9]*(?P<digit>[0-9]))")
"""`%%`, a letter with or without a width, or a width without a letter, of which Slurm leaves the last digit."""


def fill(pattern: str, names: Mapping[str, str]) -> str | None:
    """The path that a filename pattern stands for, `names` giving each letter; None if it has a letter without name.

    None also where the releases of Slurm differ: of two backslashes some keep one.
    """
    found = fill_all(pattern, lambda letter, width: [padded(letter, names[letter], width)] if letter in names else [])
    return found[0] if found else None


def fill_all(
    pattern: str, said: Callable[[str, int], Sequence[str]], plain: Callable[[str], str] = lambda text: text
) -> list[str]:
    """The pattern with all that `said` gives for a letter and a width (0 = none), at most `MOST_TEXTS` of them.

    `plain` is applied to the text between the letters. Nothing if a letter has no value, or of too many letters.
    """
    if "\\" in pattern:
        return [] if "\\\\" in pattern else [plain(pattern.replace("\\", ""))]
    matches = list(PATTERN.finditer(pattern))
    if len(matches) > MOST_LETTERS:
        return []
    found, end = [""], 0
    for match in matches:
        before = plain(pattern[end : match.start()])
        end = match.end()
        letter = match["letter"]
        values = said(letter, _width(match["width"])) if letter else [plain(match["digit"] or "%")]
        found = [text + before + value for text in found for value in values][:MOST_TEXTS]
    return [text + plain(pattern[end:]) for text in found]


def padded(letter: str, value: str, width: int) -> str:
    """What stands in the place of a letter: a number with leading zeros up to the width, anything else as it is."""
    return value.zfill(width) if letter in NUMBERS and value.isdigit() else value


def _width(digits: str) -> int:
    return min(int(digits[:20]), WIDEST) if digits else 0
