"""What the verbs of `sdiag-history` share: the file, values of options, exit codes, how they speak. Imports little."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_triage.history import queries
from slurm_triage.report.table import printable

DEFAULT_DB = "/var/lib/slurm-triage/history.sqlite"
"""The history that is read when neither --db nor SDIAG_HISTORY names one."""

WINDOW = 90 * 86400.0
"""Seconds that patterns are looked for in without --since."""

OK, REFUSED, UNUSABLE = 0, 1, 3
"""Exit codes; argparse adds 2 for a usage error."""


def history_file(options: argparse.Namespace) -> Path:
    """The history that the command line or the environment names."""
    return Path(options.db or os.environ.get("SDIAG_HISTORY") or DEFAULT_DB)


def names(text: str) -> list[str]:
    """The parts of a comma-separated value."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise argparse.ArgumentTypeError("a name is needed")
    return found


def moment(text: str) -> float:
    """Epoch seconds of a time."""
    try:
        return queries.parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def window(options: argparse.Namespace, now: float) -> tuple[float, float]:
    """The time of --since and --until, where they are not given the last `WINDOW` seconds: two epochs."""
    until: float = now if options.until is None else options.until
    since: float = until - WINDOW if options.since is None else options.since
    return since, until


def count(text: str) -> int:
    """A whole number of rows."""
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no count; write 0 for no limit")
    return int(text)


def terminal_width() -> int | None:
    """Columns of the terminal, None if the answer goes to a file or a pipe."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def json_array(items: Sequence[Mapping[str, object]]) -> str:
    """One array, an object a line; ASCII only, so that nothing in it can reach the terminal unescaped."""
    import json

    return "[" + ",\n ".join(json.dumps(item) for item in items) + "]\n"


def out(text: str) -> None:
    """The answer."""
    sys.stdout.write(text)


def note(text: str) -> None:
    """A remark beside the answer."""
    sys.stderr.write(f"sdiag-history: {printable(text)}\n")
