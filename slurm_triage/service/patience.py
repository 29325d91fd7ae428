"""When accounting of a job is believed: when all its nodes have spoken, else after the time that Slurm may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slurm_triage.service.assemble import Assembled, everybody_spoke
from slurm_triage.service.glance import Glance
from slurm_triage.sources.scontrol_config import seconds

KILL_WAIT, UNKILLABLE = 30.0, 60.0
"""Slurm's defaults of KillWait and UnkillableStepTimeout in seconds (slurm.conf(5)), for when they cannot be asked."""
MARGIN = 15.0
"""Seconds that accounting may be behind slurmctld when nothing is wrong (recorded: up to 4 s, 19 s after a restart)."""
PROMPT = 3.0
"""The same once the last node's Epilog has run: what the job's end still owes to accounting is its last messages."""
_SETTING = re.compile(rb"^(KillWait|UnkillableStepTimeout)\s*=\s*(.{1,40})$", re.MULTILINE)


@dataclass(frozen=True)
class Patience:
    """Seconds: `settle` after the last end before accounting is believed, `deadline` after which it is taken as it is.

    While Slurm ends a job, its steps stand in accounting with a made-up exit for up to KillWait (recorded: up to 55 s).
    """

    settle: float
    deadline: float

    def due(self, glance: Glance, told: Assembled, since: float) -> float:
        """Epoch from which on the job may be judged, as accounting stands; `since` is when it was first looked at."""
        latest = since + self.deadline
        if glance.running or glance.end is None:
            return latest
        if everybody_spoke(glance, told):
            return min(max(glance.end, told.last) + PROMPT, latest)
        return min(glance.end + self.settle, latest)


def patience(settings: Mapping[str, bytes]) -> Patience:
    """The patience that the configuration asks for (`scontrol show config`)."""
    config = settings.get("scontrol-config.txt", b"")
    told = {key.decode(): seconds(value.decode("ascii", "replace").strip()) for key, value in _SETTING.findall(config)}
    kill_wait = told.get("KillWait") or KILL_WAIT
    unkillable = told.get("UnkillableStepTimeout") or UNKILLABLE
    return Patience(kill_wait + MARGIN, kill_wait + unkillable + 120.0)
