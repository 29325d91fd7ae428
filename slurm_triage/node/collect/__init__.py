"""Collectors: one file for each kind of evidence that a node has about a job. Adding one is adding one file.

A collector is a module in this folder with a function `collect(job, budget)`; it is found by listing the folder.
Modules whose name starts with `_` are helpers. A collector never raises: what it could not look at is a sentence in
`not_seen`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slurm_triage.node.job import Job


@dataclass(frozen=True)
class Budget:
    """What one collector may take: bytes of evidence, and seconds of waiting. `now` is the epoch of the round.

    What is of the node and not of a job is read once for each `now`; 0 reads it anew. `state` is a folder of root on a
    local disk, for what must outlive a round (baselines of counters, the GPUs seen at boot); it need not exist.
    `first_uid` as in `as_user.run`.
    """

    size: int = 256 * 1024
    seconds: float = 10.0
    now: float = 0.0
    state: str = "/var/spool/slurm-triage"
    first_uid: int | None = None


@dataclass
class Collected:
    """Evidence of one job: file name (docs/reference/evidence-folder.md) to bytes; keys for the case's manifest.

    `manifest` holds JSON values (`boot_epoch` by node, `page_size`, `line_ranges` by file); tables are merged by key.
    `not_seen` says, as `what: why`, what could not be looked at.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    not_seen: list[str] = field(default_factory=list)


Collector = Callable[[Job, Budget], Collected]


def all_collectors() -> dict[str, Collector]:
    """Name of the module to its `collect`, by name: from this folder, or from the archive that it lies in."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").collect for name in names}
