"""Tables of the field as data: exit codes, signals, job states, Slurm's and the kernel's terms, NVIDIA's numbers.

Every table names its date and its sources. In the NVIDIA tables what the vendor says (`nvidia_immediate`,
`nvidia_investigatory`, `fm_guide_class`, `driver_class`) stands apart from this project's reading of it
(`likely_owner`, `job_effect`, `advice`, `severity`).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@cache
def table(name: str) -> Mapping[str, Any]:
    """`<name>.toml` of this folder. Raises `FileNotFoundError` for a table that does not exist."""
    found: dict[str, Any] = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))
    return found


@cache
def rows(name: str) -> tuple[Mapping[str, str], ...]:
    """The rows of `<name>.csv` by column name. Raises `FileNotFoundError` for a table that does not exist."""
    text = (Path(__file__).parent / f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))
