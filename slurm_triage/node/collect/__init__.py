"""Collectors: one file for each kind of evidence that a node has about a job. Adding one is adding one file.

A collector is a module in this folder with a function `collect(job, budget)`; it is found by listing the folder. It
never raises: what it could not look at is a sentence in `not_seen`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Budget:
    """What one collector may take: bytes of evidence, and seconds of waiting. `now` is the epoch of the round."""

    size: int = 256 * 1024
    seconds: float = 10.0
    now: float = 0.0


@dataclass
class Collected:
    """Evidence of one job: file name (docs/reference/evidence-folder.md) to bytes; keys for the case's manifest.

    `manifest` holds JSON values (`boot_epoch` by node, `page_size`, `line_ranges` by file); tables are merged by key.
    `not_seen` says, as `what: why`, what could not be looked at.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    not_seen: list[str] = field(default_factory=list)
