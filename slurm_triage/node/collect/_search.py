"""Which of many lines hold one of some words, without a look at each line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence


def holding(lines: Sequence[bytes], words: Iterable[bytes]) -> set[int]:
    """The indices of the lines that one of the words (in small letters) is in; one search a word for all lines."""
    text = b"\n".join(lines).lower()
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found: set[int] = set()
    for word in words:
        at = text.find(word)
        while at >= 0:
            index = bisect_right(starts, at) - 1
            found.add(index)
            at = text.find(word, starts[index + 1])
    return found
