"""Finding the few lines that a catalog may know in files of any size.

The hot path is a log of gigabytes with hardly a known line in it. Two searches find the same lines:

* the finder's own, which looks only at what it has not seen before (see `Finder`);
* a *scanner* that the caller brings, for long files (`Scan`): this module starts no process itself.

What a line may mean is then asked of these lines alone, so that the number of signatures hardly matters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from slurm_triage.case import Block, EvidenceFile, text_of
from slurm_triage.extension import cached
from slurm_triage.sources._catalog import Signature, load
from slurm_triage.sources._literals import Literals

REMEMBERED = 16 * 1024 * 1024
"""Bytes of line shapes, and of words, that are remembered as holding no hint."""

FIRST = 16 * 1024
"""Bytes in which each hint is searched by itself, before the search for all at once is made: that takes 20 ms."""

LONG = 16 * 1024 * 1024
"""Bytes from which a file is given to the scanner."""

_DIGITS = b"0123456789"

Found = tuple[Block, list[tuple[int, bytes]]]
"""A block, and which of its lines hold one of the literals: how many lines stand before each, and its bytes."""

Scan = Callable[[EvidenceFile, Sequence[bytes]], Iterator[Found]]
"""Searches a file for literals. Yields all its blocks, in order; a line too many is no harm."""


class Chunk:
    """Consecutive lines of a file: number of the first one, and which families each may belong to.

    `marked` maps the index of a line that holds a hint to the families of that hint, in the order of the catalogs.
    """

    def __init__(self, block: Block, marked: dict[int, list[Signature]], lines: dict[int, bytes]) -> None:
        """`lines` are the bytes of the marked lines."""
        self.first = block.first
        self.data = block.data
        self.count = block.count
        self.marked = marked
        self._lines = lines

    @cached_property
    def texts(self) -> list[str]:
        """All lines."""
        return [text_of(raw) for raw in self.data.split(b"\n")]

    def text(self, index: int) -> str:
        """One line."""
        raw = self._lines.get(index)
        return self.texts[index] if raw is None else text_of(raw)

    def last(self, wanted: int) -> list[tuple[int, str]]:
        """(number, text) of the last lines that are not empty, at most so many, in order."""
        found: list[tuple[int, str]] = []
        data, end, number = self.data, len(self.data), self.first + self.count - 1
        while len(found) < wanted and (stop := _end_of_text(data, end)):
            number -= data.count(b"\n", stop, end)
            begin, close = data.rfind(b"\n", 0, stop) + 1, data.find(b"\n", stop, end)
            text = text_of(data[begin : close if close >= 0 else end])
            if text.strip():
                found.append((number, text))
            end, number = begin - 1, number - 1
        return found[::-1]


def _end_of_text(data: bytes, end: int) -> int:
    """Where the last byte before `end` that is not white space ends; 0 if there is none."""
    while end > 0:
        begin = max(0, end - 64 * 1024)
        length = len(data[begin:end].rstrip())
        if length:
            return begin + length
        end = begin
    return 0


def fragment_of(hint: str) -> bytes:
    """The longest word of a hint, without its digits. Raises `ValueError` for a hint that has none."""
    words = hint.encode().translate(None, _DIGITS).split()
    if not words:
        raise ValueError(f"a hint without a letter or sign: {hint!r}")
    return max(words, key=len)


class Finder:
    """Which lines hold a hint.

    Logs repeat themselves: the same line with other numbers, the same words in other lines. So only shapes (lines
    without their digits) not seen before are looked at, and in them only words not seen before. That is sound: if a
    hint is in a line, the longest word of the hint, without digits, is in a word of the line's shape.
    """

    def __init__(self, folders: Iterable[str], extra: Iterable[str] = ()) -> None:
        self._families: dict[bytes, list[Signature]] = {hint.encode(): [] for hint in extra}
        self._rank: dict[str, int] = {}
        for signature in (s for folder in folders for s in load(folder).signatures):
            self._rank[signature.id] = len(self._rank)
            for hint in signature.hints:
                self._families.setdefault(hint.encode(), []).append(signature)
        self._plain = _Memory()
        self._cold = _Memory()
        self._hot: dict[bytes, list[tuple[bytes, bytes]]] = {}
        self._searched = 0

    @cached_property
    def hints(self) -> Literals:
        """The hints of all families."""
        return Literals(self._families)

    @cached_property
    def _fragments(self) -> tuple[Literals, dict[bytes, list[tuple[bytes, bytes]]]]:
        """The fragments of all hints; by fragment, the hints without digits and as they are."""
        found: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for hint in sorted(self._families):
            found.setdefault(fragment_of(hint.decode()), []).append((hint.translate(None, _DIGITS), hint))
        return Literals(found), found

    def chunks(self, file: EvidenceFile, scan: Scan | None = None) -> Iterator[Chunk]:
        """The file in chunks; a long one is searched by `scan`. A line longer than 64 KiB is cut by the reader."""
        if scan is not None and file.size() >= LONG:
            for block, lines in scan(file, self.hints.tails):
                hints_of = ((index, self.hints.within(raw)) for index, raw in lines)
                marked = {index: self._of(hints) for index, hints in hints_of if hints}
                yield Chunk(block, marked, dict(lines))
            return
        for block in file.blocks():
            lines_of = self._search(block.data)
            marked = {index: self._of(hints) for index, (_, hints) in lines_of.items()}
            yield Chunk(block, marked, {index: raw for index, (raw, _) in lines_of.items()})

    def marked(self, texts: list[str]) -> dict[int, list[Signature]]:
        """The lines that hold a hint, by index, and the families that they may belong to."""
        found = self._search("\n".join(texts).encode("utf-8", "replace")) if texts else {}
        return {index: self._of(hints) for index, (_, hints) in found.items()}

    def _of(self, hints: Iterable[bytes]) -> list[Signature]:
        families = {family.id: family for hint in hints for family in self._families[hint]}
        return sorted(families.values(), key=lambda family: self._rank[family.id])

    def _search(self, data: bytes) -> dict[int, tuple[bytes, list[bytes]]]:
        """By index the lines that hold hints: their bytes and these hints."""
        self._searched += len(data)
        if self._searched <= FIRST:
            hints = [hint for hint in self._families if hint in data]
            if not hints:
                return {}
            pairs = ((raw, [hint for hint in hints if hint in raw]) for raw in data.split(b"\n"))
            return {index: pair for index, pair in enumerate(pairs) if pair[1]}
        shapes = data.translate(None, _DIGITS).split(b"\n")
        fresh = set(shapes) - self._plain.items
        found = self._with_hints(fresh) if fresh else {}
        if not found:
            return {}
        raw_lines = data.split(b"\n")
        pairs_of = {}
        for index, shape in enumerate(shapes):
            if shape in found:
                raw = raw_lines[index]
                if hints := [hint for hint in found[shape] if hint in raw]:
                    pairs_of[index] = raw, hints
        return pairs_of

    def _with_hints(self, fresh: set[bytes]) -> dict[bytes, set[bytes]]:
        """Which of the shapes hold hints without their digits, and the hints."""
        self._learn({word for shape in fresh for word in shape.split()})
        found: dict[bytes, set[bytes]] = {}
        for shape in fresh:
            for word in self._hot.keys() & shape.split():
                for bare, hint in self._hot[word]:
                    if bare in shape:
                        found.setdefault(shape, set()).add(hint)
        self._plain.add(shape for shape in fresh if shape not in found)
        return found

    def _learn(self, words: set[bytes]) -> None:
        """Sort words not seen before into hot ones, that hold a fragment of a hint, and cold ones."""
        if len(self._hot) > REMEMBERED // 256:
            self._hot.clear()
        fragments, hints_of = self._fragments
        fresh = list(words - self._cold.items - self._hot.keys())
        starts = [0, *accumulate(len(word) + 1 for word in fresh)]
        for index in {bisect_right(starts, at) - 1 for at in fragments.places(b"\n".join(fresh))}:
            hints = [pair for fragment in fragments.within(fresh[index]) for pair in hints_of[fragment]]
            if hints:
                self._hot[fresh[index]] = hints
        self._cold.add(word for word in fresh if word not in self._hot)


@cached
def finder(folders: tuple[str, ...], extra: tuple[str, ...] = ()) -> Finder:
    """The finder of these catalogs: what it learns of words and shapes in one file is true of all."""
    return Finder(folders, extra)


class _Memory:
    """A set of byte strings that forgets everything when it has grown too large."""

    def __init__(self) -> None:
        self.items: set[bytes] = set()
        self._size = 0

    def add(self, items: Iterable[bytes]) -> None:
        if self._size > REMEMBERED:
            self.items.clear()
            self._size = 0
        for item in items:
            self.items.add(item)
            self._size += len(item) + 64
