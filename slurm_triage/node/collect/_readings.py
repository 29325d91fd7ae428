"""Readings: what was measured on the node after the job's end, a line for each thing.

    # slurm-triage readings 1 node=c1 at=1796051466.587
    file_system path="/tmp" type=ext4 size=... free=... files=... files_free=...

Values with anything but plain characters are JSON strings. Read by `slurm_triage/sources/node_readings.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

_PLAIN = re.compile(r"[A-Za-z0-9_.:+@-]{1,200}")

Value = object
Line = tuple[str, Mapping[str, Value]]
"""What was read (`file_system`, `counter`, `gpu`) and its values; a value that is None is left out."""


def written(node: str, at: float, lines: Iterable[Line]) -> bytes:
    """The file."""
    head = f"# slurm-triage readings 1 node={_value(node)} at={at:.3f}"
    return "".join(f"{line}\n" for line in (head, *(_line(what, values) for what, values in lines))).encode("ascii")


def _line(what: str, values: Mapping[str, Value]) -> str:
    said = (f"{key}={_value(str(value))}" for key, value in values.items() if value is not None)
    return " ".join((what, *said))


def _value(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text[:1000])
