"""The lines of a job's output by which it may be told why the job ended; all others stay where they are.

First lines, last lines, lines that hold a known word with their neighbours, and whole Python tracebacks. Of a word that
stands everywhere only the first and the last lines are taken. Secrets are masked before anything leaves.

A log repeats itself: the same line with other numbers. So only shapes (lines in small letters, without digits) that are
new are looked at, and in them only words that are new: 8 MiB of progress lines cost what one of them costs.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from dataclasses import dataclass, field

from slurm_triage.node.collect._output_words import WORDS
from slurm_triage.report import mask

FIRST, LAST = 20, 60
"""Lines that are taken from the ends, blank ones at the very end not counted."""
BEFORE, BEHIND = 2, 3
"""Lines that are taken around one that holds a known word."""
OF_WORD = 40
"""Lines that are taken for the sake of one word: so many of the first, and so many of the last."""
OF_TRACEBACK = 200
"""Most lines of one traceback before its last one."""
TRACEBACKS = 64
"""Tracebacks that may be open at once: one for each rank that prints."""
LINE = 4 * 1024
"""Bytes that are taken of a line."""
CHUNK = 256 * 1024
"""Bytes that are looked at together."""
REMEMBERED = 40_000
"""Shapes, and words of lines, that are remembered."""
MOST_LINES = 400_000
"""Most lines that are looked at, the last ones."""
SEEN = 64 * 1024
"""Bytes of a line that are looked at, the last ones."""
OF_KEY = 200
"""Most lines of a private key."""

_DIGITS = b"0123456789"
_HEADER = b"Traceback (most recent call last)"
_KEY = re.compile(rb"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY-----")


@dataclass(frozen=True)
class Excerpt:
    """Whole lines, and which they are: (first, last) numbers of each run of lines that followed each other.

    `skipped` lines at the start were not looked at.
    """

    data: bytes
    ranges: list[tuple[int, int]]
    skipped: int = 0


def excerpt(data: bytes, size: int) -> Excerpt:
    """The telling lines of `data`, at most `size` bytes; of more than that the first and the last of them."""
    skipped = 0
    while (count := data.count(b"\n")) > MOST_LINES:
        data = data[data.find(b"\n", len(data) // 2) + 1 :]
        skipped += count - data.count(b"\n")
    lines = _Lines(data)
    wanted = sorted(_wanted(lines))
    secret = _in_keys(lines)
    texts: dict[int, bytes] = {}
    room = size
    for back, (indices, share) in enumerate(((wanted, size // 2), (wanted[::-1], size))):
        left = share if not back else room
        for index in indices:
            if index in texts:
                break
            text = b"***" if index in secret else _shown(lines[index])
            left -= len(text) + 1
            if left < 0:
                break
            texts[index] = text
            room -= len(text) + 1
    chosen = sorted(texts)
    return Excerpt(b"".join(texts[index] + b"\n" for index in chosen), _runs(chosen, skipped), skipped)


class _Lines:
    """The lines of a text by index, without a copy of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.starts = array("L", [0])
        at = data.find(b"\n")
        while at >= 0:
            self.starts.append(at + 1)
            at = data.find(b"\n", at + 1)
        if self.starts[-1] == len(data):
            self.starts.pop()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.data)
        return self.data[self.starts[index] : end].rstrip(b"\n")

    def chunks(self) -> list[tuple[int, int, int]]:
        """(index of the first line, start, end) of pieces of about `CHUNK` bytes that end with a line."""
        found = []
        first = 0
        for index, start in enumerate(self.starts):
            if start - self.starts[first] >= CHUNK:
                found.append((first, self.starts[first], start))
                first = index
        if self.starts:
            found.append((first, self.starts[first], len(self.data)))
        return found


# ------------------------------------------------------------------------------------------------ which lines


def _wanted(lines: _Lines) -> set[int]:
    count = len(lines)
    last = count
    while last and not lines[last - 1].strip():
        last -= 1
    wanted = set(range(min(FIRST, count))) | set(range(max(0, last - LAST), last))
    for index in _marked(lines):
        wanted.update(range(max(0, index - BEFORE), min(count, index + BEHIND + 1)))
    return wanted | _tracebacks(lines)


@dataclass
class _OfWord:
    """Lines with one word: the first ones, and the last ones."""

    first: list[int] = field(default_factory=list)
    last: deque[int] = field(default_factory=lambda: deque(maxlen=OF_WORD))

    def add(self, index: int) -> None:
        if len(self.first) < OF_WORD:
            self.first.append(index)
        else:
            self.last.append(index)


def _marked(lines: _Lines) -> set[int]:
    """Lines that hold a known word."""
    finder = _Finder()
    found: dict[bytes, _OfWord] = {}
    for first, start, end in lines.chunks():
        shapes = lines.data[start:end].lower().translate(None, _DIGITS).split(b"\n")
        if end - start > CHUNK:  # a long line in it
            shapes = [shape[-SEEN:] for shape in shapes]
        words = finder.words(shapes)
        for index, shape in enumerate(shapes, first):
            for word in words.get(shape, ()):
                found.setdefault(word, _OfWord()).add(index)
    return {index for lines_of in found.values() for index in (*lines_of.first, *lines_of.last)}


class _Finder:
    """Which of the words are in a shape. A word of several words is looked for by the longest of them."""

    def __init__(self) -> None:
        self._pieces: dict[bytes, list[bytes]] = {}
        for word in WORDS:
            self._pieces.setdefault(max(word.split(), key=len), []).append(word)
        self._shapes: dict[bytes, tuple[bytes, ...]] = {}
        self._cold: set[bytes] = set()
        self._hot: dict[bytes, list[bytes]] = {}

    def words(self, shapes: list[bytes]) -> dict[bytes, tuple[bytes, ...]]:
        """The words of each of the shapes that holds any."""
        if len(self._shapes) > REMEMBERED:
            self._shapes.clear()
        fresh = set(shapes) - self._shapes.keys()
        self._learn({token for shape in fresh for token in shape.split()})
        for shape in fresh:
            tokens = self._hot.keys() & shape.split()
            self._shapes[shape] = tuple(
                {w for token in tokens for w in self._hot[token] if b" " not in w or w in shape}
            )
        return {shape: words for shape in set(shapes) if (words := self._shapes[shape])}

    def _learn(self, tokens: set[bytes]) -> None:
        """Sorts tokens not seen before into hot ones, that hold a word or the longest piece of one, and cold ones."""
        if len(self._hot) + len(self._cold) > REMEMBERED:
            self._hot.clear()
            self._cold.clear()
        fresh = list(tokens - self._cold - self._hot.keys())
        joined = b"\n".join(fresh)
        starts = array("L", [0])
        for token in fresh:
            starts.append(starts[-1] + len(token) + 1)
        hot: dict[int, list[bytes]] = {}
        for piece, words in self._pieces.items():
            at, index = joined.find(piece), 0
            while at >= 0:
                index = _token_at(starts, at, index)
                hot.setdefault(index, []).extend(words)
                at = joined.find(piece, starts[index + 1])
        self._hot.update((fresh[index], words) for index, words in hot.items())
        self._cold.update(token for index, token in enumerate(fresh) if index not in hot)


def _token_at(starts: array[int], at: int, low: int) -> int:
    """The token that the position lies in."""
    high = len(starts) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= at:
            low = middle
        else:
            high = middle
    return low


def _tracebacks(lines: _Lines) -> set[int]:
    """Lines of Python tracebacks, also of several ranks through each other: told apart by what stands before them."""
    found: set[int] = set()
    open_: dict[bytes, int] = {}
    at = lines.data.find(_HEADER)
    index = -1
    while at >= 0:
        index = max(index, _token_at(lines.starts, at, max(index, 0)) if len(lines) > 1 else 0)
        end = index
        while end < len(lines):
            line = lines[end]
            _follow(line, end, open_, found)
            end += 1
            if not open_:
                break
        index = end
        if end >= len(lines):
            break
        at = lines.data.find(_HEADER, lines.starts[end])
    return found


def _follow(line: bytes, index: int, open_: dict[bytes, int], found: set[int]) -> None:
    """What a line is to the tracebacks that are open; it may open one."""
    header = line.find(_HEADER)
    if header >= 0:
        label = line[:header].rstrip(b" +|")
        if len(open_) < TRACEBACKS:
            open_[label] = OF_TRACEBACK
            found.add(index)
        return
    for label in sorted(open_, key=len, reverse=True):
        if not line.startswith(label):
            continue
        rest = line[len(label) :]
        inside = not rest.strip() or rest[:1] in (b" ", b"\t", b"|", b"+")
        if inside and open_[label] > -10 * OF_TRACEBACK:
            if open_[label] > 0:
                found.add(index)
            open_[label] -= 1
        else:
            found.add(index)
            del open_[label]
        return


def _in_keys(lines: _Lines) -> set[int]:
    """Lines between the first and the last line of a private key."""
    found: set[int] = set()
    last = -1
    for match in _KEY.finditer(lines.data):
        if match[1] == b"BEGIN":
            index = _token_at(lines.starts, match.start(), 0) if len(lines) > 1 else 0
            if index == last:  # a line with thousands of them is looked behind once
                continue
            last = index
            for inside in range(index + 1, min(len(lines), index + OF_KEY)):
                if b"PRIVATE KEY-----" in lines[inside]:
                    break
                found.add(inside)
    return found


# ------------------------------------------------------------------------------------------------ showing them


def _shown(line: bytes) -> bytes:
    """The line without secrets, at most `LINE` bytes: of one with carriage returns what a terminal shows in the end."""
    if len(line) > LINE:
        if b"\r" in line.rstrip(b"\r"):
            line = line.rstrip(b"\r")[-LINE:].split(b"\r", 1)[-1]
        line = line[:LINE]
    text = line.decode("utf-8", "surrogateescape")
    return mask.secrets(text).encode("utf-8", "surrogateescape")


def _runs(indices: list[int], skipped: int) -> list[tuple[int, int]]:
    """Numbers from 1 as runs (first, last), behind the lines that were skipped."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        number = skipped + index + 1
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
