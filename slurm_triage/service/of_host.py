"""What a host may tell of: itself, under the names that its agent gives to files, and in numbers that are some.

Root of one node is nobody on another one: a kernel log of node c2 from node c1 is left out, whatever the job.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from slurm_triage.spool_evidence import names

LATEST = 1e11
"""The largest epoch that is taken for a time."""
MOST_RUNS = 20_000
"""Most runs of lines that are taken of one file."""

_AGAIN = r"((?:\.b{1,99})?\.(?:txt|log|json))"
_OF_NODE = r"(?:env\.spank|env\.epilog|kmsg|slurmd|counters|gpu|filesystems|node)"
_OUTPUT = re.compile(r"job\.(?:out|err)")
_TASKS = re.compile(rf"tasks(?:\.[0-9A-Za-z][0-9A-Za-z._-]{{0,63}}?)??{_AGAIN}")
_OF_CONTROLLER = re.compile(rf"env\.epilog_slurmctld{_AGAIN}")
_CLUSTER = re.compile(r"[0-9A-Za-z_.-]{1,80}")


def number(value: object) -> float | None:
    """A number that is no NaN, not infinite, and fits; None for anything else that JSON can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Compared first: a large integer has no float.
    return float(value) if -LATEST <= value <= LATEST and math.isfinite(value) else None


def files(node: str, sent: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that are about the node itself; with an empty `node` those that the controller's host may tell.

    Task records carry the host's own name, which may be another than the node's: they get the node's.
    """
    own = re.compile(rf"{_OF_NODE}(?:\.{re.escape(node)})?{_AGAIN}")
    found: dict[str, bytes] = {}
    for name, data in sent.items():
        tasks = _TASKS.fullmatch(name) if node else None
        if tasks:
            found[next(free for free in names(f"tasks.{node}{tasks[1]}") if free not in found)] = data
        elif _OF_CONTROLLER.fullmatch(name) if not node else own.fullmatch(name) or _OUTPUT.fullmatch(name):
            found[name] = data
    return found


def manifest(node: str, said: Mapping[str, Any], taken: Mapping[str, bytes]) -> dict[str, Any]:
    """The values of a manifest that are what they have to be; `taken` are the files that it can speak of."""
    found: dict[str, Any] = {}
    boots = said.get("boot_epoch")
    boot = number(boots.get(node)) if node and isinstance(boots, dict) else None
    if boot is not None:
        found["boot_epoch"] = {node: boot}
    page = said.get("page_size")
    if type(page) is int and 1 << 9 <= page <= 1 << 30:
        found["page_size"] = page
    ranges = said.get("line_ranges")
    if isinstance(ranges, dict):
        found["line_ranges"] = {
            name: runs for name, runs in ranges.items() if name in taken and _are_runs(runs)
        }  # fmt: skip
    if said.get("env_format") == "nul":
        found["env_format"] = "nul"
    cluster = said.get("cluster")
    if isinstance(cluster, str) and _CLUSTER.fullmatch(cluster):
        found["cluster"] = cluster
    return found


def _are_runs(said: object) -> bool:
    """Whether it has the form of runs of lines; whether they are in order is looked at where they are used."""
    return (
        isinstance(said, list)
        and len(said) <= MOST_RUNS
        and all(isinstance(run, list) and len(run) == 2 and all(number(one) is not None for one in run) for run in said)
    )
