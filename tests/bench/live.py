"""What one diagnosis costs a live cluster, measured on the login node of the mini cluster (tests/cluster/measure.py)."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LABELS = ("com.docker.compose.project=slurm-triage", "com.docker.compose.service=login")
"""What Compose writes on the login node of the mini cluster, whatever it names the container."""
MEASURE = Path(__file__).parents[1] / "cluster" / "measure.py"
QUERIES = re.compile(r"sacct .*-j|sacctmgr .*\bshow\b")
"""Calls that ask slurmdbd; `sacct --version` and `sacct --helpformat` answer by themselves."""


def login_node() -> str:
    """The id of the container of the running login node, "" if there is none, or no Docker."""
    filters = [word for label in LABELS for word in ("--filter", f"label={label}")]
    try:
        said = subprocess.run(["docker", "ps", "--quiet", *filters], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    return said.stdout.decode().partition("\n")[0] if said.returncode == 0 else ""


def bench_live(runs: int) -> Iterator[str]:
    """What measure.py measures on the login node, as its ordinary user user1."""
    node = login_node()
    if not node:
        yield "live: no mini cluster runs; make cluster"
        return
    home = "/shared/home/user1"
    command = ["docker", "exec", "-i", "-u", "user1", "-w", home, "-e", f"HOME={home}", node, "python3", "-", str(runs)]
    said = subprocess.run(command, input=MEASURE.read_bytes(), capture_output=True)
    if said.returncode:
        why = said.stderr.decode("utf-8", "replace").strip().splitlines()
        yield f"live: could not be measured: {why[-1] if why else f'exit status {said.returncode}'}"
        return
    yield from live_lines(json.loads(said.stdout))


def live_lines(measured: Mapping[str, Any]) -> Iterator[str]:
    """What measure.py printed, as lines for people."""
    job = measured["job"]
    base = statistics.median(measured["sacct"])
    for name, values in (
        (f"sacct -j {job}", measured["sacct"]),
        (f"slurm-triage diagnose {job} --format brief", measured["diagnose"]),
    ):
        median = statistics.median(values)
        yield f"{name:<52} median {median * 1000:7.1f} ms  best {min(values) * 1000:7.1f} ms  x{median / base:.1f}"
    clients = measured["clients"]
    queries = [call for call in clients if QUERIES.match(call)]
    sacct = sum(call.startswith("sacct ") for call in queries)
    yield f"one diagnosis: {measured['rpcs']} RPCs to slurmctld, {len(queries)} queries of slurmdbd ({sacct} by sacct)"
    types = ", ".join(f"{name} {count}" for name, count in sorted(measured["types"].items()))
    yield f"  slurmctld, of everybody meanwhile: {types or 'none'}"
    yield f"  calls of Slurm's clients: {len(clients)}"
    for call in clients:
        yield f"    {call if len(call) <= 100 else call[:97] + '...'}"
