"""Figures and misses as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.accuracy import Figures

COLUMNS = (
    ("n", "n"),
    ("macro_f1", "F1"),
    ("accuracy", "acc"),
    ("strict", "strict"),
    ("owner", "owner"),
    ("wrong_confirmed", "wrong-conf"),
    ("confirmed_recall", "conf-recall"),
    ("false_hardware", "false-hw"),
    ("hardware_recall", "hw-recall"),
    ("unknown", "unknown"),
    ("citation_hits", "cite-hit"),
    ("citations", "cites"),
    ("false_citations", "false"),
    ("failures", "failed"),
)


def table(rows: Sequence[Figures]) -> str:
    """The figures for people."""
    lines = [["corpus", *(title for _, title in COLUMNS)]]
    for row in rows:
        cells = [row.corpus]
        for name, _ in COLUMNS:
            value = getattr(row, name)
            cells.append("-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value))
        lines.append(cells)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        line[0].ljust(widths[0]) + "".join("  " + c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))
        for line in lines
    )


def miss_text(miss: Mapping[str, Any]) -> str:
    """One miss of `tests.accuracy.misses`."""
    marks = "" if miss["derivable"] else "  [not derivable, not counted]"
    if miss["got"] not in miss["expected"] and miss["strength"] == "confirmed":
        marks += "  [WRONG CONFIRMED]"
    lines = [
        f"{miss['id']}{marks}",
        f"    cause  {'|'.join(miss['expected'])}  got {miss['got']} ({miss['strength']})",
        f"    owner  {'|'.join(miss['owner_expected'])}  got {miss['owner_got']}",
    ]
    if miss["also"]:
        lines.append(f"    also   {', '.join(miss['also'])}")
    lines.extend(f"    FALSE  {problem}" for problem in miss["false_citations"][:3])
    if miss["error"]:
        lines.append("    FAILED " + miss["error"].strip().replace("\n", "\n           "))
    return "\n".join(lines)
