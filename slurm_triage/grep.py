"""Long files searched by `grep -F`, where there is one: it finds literals several times faster than Python can.

This is an edge: the sources get it handed in as a function (`Scan`) and start no process. grep gets block after block,
so that both see the same bytes, no line is longer than the reader allows, and memory stays the same however long the
file or one of its lines is. A block is searched while the one before is judged. Where there is no such grep, or one
fails, the lines are searched here.
"""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress

from slurm_triage.case import Block, EvidenceFile
from slurm_triage.sources._finder import Found
from slurm_triage.sources._literals import Literals

BLOCK = 8 * 1024 * 1024
"""Bytes that one grep is given: to start it takes 3 ms, the search some 20."""

SECONDS = 60.0
"""Longest that one block may take: a thousand times what it takes."""

LONGEST = 100_000
"""Bytes of literals that are given to grep; Linux allows 128 KiB for one argument."""

COMMAND = "grep"


def scan(file: EvidenceFile, literals: Sequence[bytes]) -> Iterator[Found]:
    """All blocks of a file with the lines that hold one of the literals. Raises `OSError` as reading the file does."""
    greps = _Greps(literals)
    begun: _Search | None = None
    try:
        for block in file.blocks(BLOCK):
            done, begun = begun, _Search(block, greps)
            if done is not None:
                yield done.block, done.lines()
        if begun is not None:
            yield begun.block, begun.lines()
    finally:
        if begun is not None:
            begun.end()
        greps.close()


class _Greps:
    """Starts greps for some literals, as long as they do what they are known for."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        """Tries one first."""
        self.literals = Literals(literals)
        self.work = True
        self._pattern = b"\n".join(literals)
        self._free: list[io.FileIO] = []
        if not literals or len(self._pattern) > LONGEST or b"\0" in self._pattern or not self._as_known(literals[0]):
            self.work = False

    def _as_known(self, literal: bytes) -> bool:
        """Whether this grep takes bytes as they are: some stop at NUL, or say only that a file is binary."""
        lines = (b"\0" + literal, b"\xff", b"\xff" + literal + b"\r", b"", literal)
        found = _Search(Block(1, b"\n".join(lines)), self).lines()
        return self.work and found == [(i, line) for i, line in enumerate(lines) if literal in line]

    def start(self, data: bytes) -> tuple[subprocess.Popen[bytes], io.FileIO]:
        """A grep over `data`, and the memory that holds it, to be handed back. Raises `OSError`, `AttributeError`."""
        held = self._free.pop() if self._free else io.FileIO(os.memfd_create("slurm-triage"), "w+")
        try:
            held.seek(0)
            view = memoryview(data)
            while view:
                view = view[held.write(view) or 0 :]
            held.truncate()
            held.seek(0)
            return self._begin(held), held
        except BaseException:
            held.close()
            raise

    def _begin(self, held: io.FileIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [COMMAND, "-a", "-n", "-F", "-e", self._pattern],
            stdin=held,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        )

    def back(self, held: io.FileIO) -> None:
        """Memory that is not needed any more: the next block needs as much."""
        self._free.append(held)

    def close(self) -> None:
        """Gives all memory back."""
        for held in self._free:
            held.close()


class _Search:
    """One block and the process that searches it."""

    def __init__(self, block: Block, greps: _Greps) -> None:
        """Starts it, unless grep is known not to work."""
        self.block = block
        self._greps = greps
        self._grep: subprocess.Popen[bytes] | None = None
        if greps.work:
            try:
                self._grep, self._held = greps.start(block.data)
            except (OSError, AttributeError):  # no grep, no memfd_create
                greps.work = False

    def lines(self) -> list[tuple[int, bytes]]:
        """Index and bytes of the lines that hold a literal."""
        if self._grep is not None:
            try:
                told, _ = self._grep.communicate(timeout=SECONDS)
                if self._grep.returncode in (0, 1):
                    return [(int(number) - 1, raw) for number, raw in _numbered(told)]
            except (subprocess.TimeoutExpired, OSError, ValueError):
                pass
            finally:
                self.end()
            self._greps.work = False
        within = self._greps.literals.within
        return [(i, raw) for i, raw in enumerate(self.block.data.split(b"\n")) if within(raw)]

    def end(self) -> None:
        """Stops the process, if it still runs."""
        if self._grep is None:
            return
        with suppress(OSError):
            self._grep.kill()
        self._grep.wait()
        if self._grep.stdout is not None:
            self._grep.stdout.close()
        self._grep = None
        self._greps.back(self._held)


def _numbered(told: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Number and bytes of each line of grep's answer."""
    for line in told.split(b"\n")[:-1]:
        number, _, raw = line.partition(b":")
        yield number, raw
