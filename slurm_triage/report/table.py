"""Plain text tables for terminals: numbers on the right, no wider than the terminal, node lists folded, nothing unsafe.

Imports nothing but the standard library's smallest modules: `sdiag-history list` has to be quick.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

UNKNOWN = "n/a"
"""What an unknown value is printed as."""

CUT = "+"
"""Last character of a cell that was cut, as in sacct and squeue."""

GAP = "  "


def printable(text: str) -> str:
    """The text on one line and safe on a terminal, as `mask.clean` makes it."""
    if text.isascii() and text.isprintable():
        return text  # nearly always: spares the import
    from slurm_triage.report.mask import clean

    return clean(text)


def width_of(text: str) -> int:
    """Columns that printable text takes: East Asian wide characters two, combining marks none (Unicode, UAX #11)."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits with a `+` behind it."""
    if width_of(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += _columns(char)
        if used > width - len(CUT):
            break
        kept.append(char)
    return "".join(kept) + CUT


class Column:
    """A column: its heading, whether it is right-aligned, how narrow it may be made (None: never cut).

    `spare` columns are left out of a table that would be too wide even with everything cut, the last one first.
    """

    __slots__ = ("least", "name", "right", "spare")

    def __init__(self, name: str, *, right: bool = False, least: int | None = None, spare: bool = False) -> None:
        """A column; `least` counts terminal columns."""
        self.name = name
        self.right = right
        self.least = least
        self.spare = spare


def cell(value: object) -> str:
    """One value as text: None is `n/a`, a list of node names is folded (`c[1-3]`)."""
    if value is None:
        return UNKNOWN
    if isinstance(value, (list, tuple)):
        from slurm_triage.nodeset import fold

        return printable(fold(str(item) for item in value)) or UNKNOWN
    return printable(str(value))


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], *, width: int | None = None, header: bool = True
) -> list[str]:
    """The lines of the table.

    When it is wider than `width` columns, spare columns are left out as far as needed and the widest cells that may be
    cut are made narrower; what may not be cut stays whole, even if a line is then too long. None: no limit (a file, a
    pipe).
    """
    cells = [[cell(value) for value in row] for row in rows]
    if header:
        cells.insert(0, [column.name for column in columns])
    sizes = [max((width_of(row[i]) for row in cells), default=0) for i in range(len(columns))]
    kept = list(range(len(columns)))
    if width is not None:
        kept = _fitting(columns, sizes, width)
        _narrow(columns, sizes, kept, width)
    lines = []
    for row in cells:
        parts = []
        for i in kept:
            text = cut(row[i], sizes[i])
            space = " " * (sizes[i] - width_of(text))
            parts.append(space + text if columns[i].right else text + space)
        lines.append(GAP.join(parts).rstrip())
    return lines


def _fitting(columns: Sequence[Column], sizes: Sequence[int], width: int) -> list[int]:
    """The columns that fit when everything is cut as far as it may be."""
    kept = list(range(len(columns)))
    for i in reversed(range(len(columns))):
        least = sum(min(sizes[k], columns[k].least or sizes[k]) for k in kept) + len(GAP) * (len(kept) - 1)
        if least <= width:
            break
        if columns[i].spare:
            kept.remove(i)
    return kept


def _narrow(columns: Sequence[Column], sizes: list[int], kept: Sequence[int], width: int) -> None:
    """Takes columns from the widest cells until the line fits or nothing more can be taken."""
    excess = sum(sizes[i] for i in kept) + len(GAP) * (len(kept) - 1) - width
    while excess > 0:
        able = [i for i in kept if sizes[i] > (columns[i].least or sizes[i])]
        if not able:
            return
        sizes[max(able, key=lambda i: sizes[i])] -= 1
        excess -= 1
