"""CSV that a spreadsheet may open: RFC 4180, no control characters, and no text that would be run as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from slurm_triage.report.table import printable


def csv_text(names: Sequence[str], rows: Iterable[Iterable[object]], header: bool) -> str:
    """Rows under the names of their columns. None is an empty cell, yes/no is 1/0."""
    text = io.StringIO()
    writer = csv.writer(text)  # its default dialect is that of RFC 4180: CRLF, quotes doubled
    if header:
        writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")) else text
