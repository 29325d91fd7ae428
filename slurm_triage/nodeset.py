"""Slurm's node list notation: `node[001-100,203],login1` to names and back.

Notation: slurm.conf(5), NodeName; scontrol(1), `show hostnames` and `show hostlist`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

NODE_LIMIT = 100_000
"""Most nodes that are expanded; a longer list is refused, so that a forged list cannot fill the memory."""

TEXT_LIMIT = 256 * 1024
"""Longest notation that is looked at, in characters."""

_NAME = re.compile(r"[A-Za-z0-9_.\-]*")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def _split(text: str) -> list[str] | None:
    """Parts between commas that stand outside brackets; None when the brackets do not match."""
    parts: list[str] = []
    start, inside = 0, False
    for index, char in enumerate(text):
        if char == "[":
            if inside:
                return None
            inside = True
        elif char == "]":
            if not inside:
                return None
            inside = False
        elif char == "," and not inside:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return None if inside else parts


def _numbers(inner: str, limit: int) -> list[str] | None:
    """The numbers of one bracket, zero-padded as printed; None if it is not a list of ranges or exceeds `limit`."""
    found: list[str] = []
    for piece in inner.split(","):
        match = _RANGE.fullmatch(piece)
        if not match:
            return None
        low, high = match[1], match[2] or match[1]
        first, last = int(low), int(high)
        if last < first or len(found) + last - first + 1 > limit:
            return None
        found.extend(str(number).zfill(len(low)) for number in range(first, last + 1))
    return found


def _one(part: str, limit: int) -> list[str] | None:
    """The names of one part without outer commas; several brackets multiply (`rack[0-1]n[0-3]`)."""
    names = [""]
    rest = part
    while rest:
        head, bracket, rest = rest.partition("[")
        if not _NAME.fullmatch(head):
            return None
        names = [name + head for name in names]
        if bracket:
            inner, _, rest = rest.partition("]")
            numbers = _numbers(inner, limit // len(names))
            if numbers is None:
                return None
            names = [name + number for name in names for number in numbers]
    return names


def expand(text: str, limit: int = NODE_LIMIT) -> tuple[str, ...] | None:
    """The node names of `text` in the order written, each once.

    None when `text` is not a node list (`None assigned`, `(null)`, unmatched brackets, a falling range, odd characters,
    nothing at all) or names more than `limit` nodes. Never raises.
    """
    text = text.strip()
    if not text or len(text) > TEXT_LIMIT:
        return None
    parts = _split(text)
    if parts is None:
        return None
    found: dict[str, None] = {}
    total = 0
    for part in parts:
        names = _one(part, limit) if part else None
        if not names:
            return None
        total += len(names)
        if total > limit:
            return None
        found.update(dict.fromkeys(names))
    return tuple(found)


def fold(names: Iterable[str]) -> str:
    """Node names in Slurm's notation: `c1`, `c2`, `c3`, `x1` become `c[1-3],x1`.

    Sorted by name and number; the last number of a name is the one that is folded, and zero padding is kept
    (`n09`, `n10` become `n[09-10]`). `expand` of the result gives the same set of names.
    """
    plain: set[str] = set()
    groups: dict[tuple[str, int, str], set[int]] = {}
    for name in names:
        match = re.fullmatch(r"(.*?)(\d{1,18})([^\d]*)", name, re.DOTALL)
        if not match:
            plain.add(name)
            continue
        digits = match[2]
        # a number that starts with 0 has a fixed width; others have none, so that 9 and 10 fold together
        width = len(digits) if digits[0] == "0" and len(digits) > 1 else 0
        groups.setdefault((match[1], width, match[3]), set()).add(int(digits))
    _join_padded(groups)
    parts = [(name, 0, name) for name in plain]
    for (head, width, tail), numbers in groups.items():
        ranges = _ranges(sorted(numbers), width)
        single = len(numbers) == 1
        parts.append((head, min(numbers), f"{head}{ranges if single else f'[{ranges}]'}{tail}"))
    return ",".join(text for _, _, text in sorted(parts))


def _join_padded(groups: dict[tuple[str, int, str], set[int]]) -> None:
    """Move `10` to the group of `09`: a number that fills the padded width looks the same with and without padding."""
    for head, width, tail in sorted(key for key in groups if key[1] > 1):
        loose = groups.get((head, 0, tail), set())
        fitting = {number for number in loose if len(str(number)) == width}
        groups[head, width, tail] |= fitting
        loose -= fitting
        if (head, 0, tail) in groups and not loose:
            del groups[head, 0, tail]


def _ranges(numbers: list[int], width: int) -> str:
    pieces: list[str] = []
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == previous + 1:
            previous = number
            continue
        first, last = str(start).zfill(width), str(previous).zfill(width)
        pieces.append(first if start == previous else f"{first}-{last}")
        if number is not None:
            start = previous = number
    return ",".join(pieces)
