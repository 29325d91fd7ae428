"""The service on the controller, as SlurmUser: one sweep after all scenarios, and what the history holds of them then."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from tests.cluster.machine import Cluster
from tests.cluster.scenarios import Scenario

FOLDER = "/tmp/service"
SETTINGS = f'[service]\nhistory = "{FOLDER}/history.sqlite"\nstate = "{FOLDER}"\nlookback = 7200\n'
SETTLE = 21.0
"""Seconds after which accounting of a job that has just ended is taken as final: KillWait of the mini cluster, 15, and some."""
SWEEP = (
    f"rm -rf {FOLDER}; install -d -o slurm -g slurm -m 0750 {FOLDER}; printf '%s' \"$SETTINGS\" >{FOLDER}/service.toml\n"
    f"setpriv --reuid slurm --regid slurm --init-groups slurm-triage service sweep --config {FOLDER}/service.toml"
)


def sweep(cluster: Cluster) -> dict[str, list[tuple[str, str]]]:
    """(cause, strength) of the attempts in the history by raw id, after one sweep. Raises `ClusterError`."""
    time.sleep(SETTLE)
    cluster.tell("ctl", SWEEP, environment={"SETTINGS": SETTINGS})
    said = cluster.tell("ctl", f"sdiag-history list -n 10000 --json --db {FOLDER}/history.sqlite")
    found: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads(said):
        found.setdefault(str(row["job_id"]), []).append((row["cause"], row["strength"] or ""))
    return found


def uncounted(cluster: Cluster) -> list[str]:
    """What is wrong with the runs that ended well, after `sweep` of a cluster that had some: that none was counted."""
    said = cluster.tell("ctl", f"sdiag-history nodes --json -n 0 --db {FOLDER}/history.sqlite 2>&1")
    return ["service: no run that ended well was counted"] if b"nothing to compare with" in said else []


def judge(rows: dict[str, list[tuple[str, str]]], jobs: Iterable[tuple[Scenario, Sequence[str], bool]]) -> list[str]:
    """What is wrong with the history, by scenario and raw ids: a bad job without a row, a clean one with a row, a cause that must not be confirmed.

    The third of a job says whether accounting lists it as anything but completed with 0: on 22.05 it does not list a job
    that exited 0 within its grace time. The service sees accounting and slurmctld only, so it need not find the cause; it must not be sure of a wrong one.
    """
    wrong = []
    for scenario, ids, listed in jobs:
        told = [row for job in ids for row in rows.get(job, [])]
        if listed != bool(told):
            wrong.append(f"service: job {ids[0]}, {scenario.name}: {told or 'no row'}")
        bad = [cause for cause, strength in told if strength == "confirmed" and cause in scenario.expect.never]
        wrong += [f"service: job {ids[0]}, {scenario.name}: {cause} is confirmed" for cause in bad]
    return wrong
