"""Whose a SLUID is: from Slurm 26.05 on the kernel log names a job by it, not by its number.

There slurmstepd names the job's folder on cgroup v2 by the SLUID, unless cgroup.conf says CgroupJobIdPaths=yes. A job
gets its SLUID when it is submitted and another one at every requeue; a resize leaves it, but gives accounting's next
record one of its own (SchedMD/slurm src/plugins/cgroup/v2/cgroup_v2.c, src/common/job_record.c and sacct(1) of 26.05;
requeued jobs recorded on 26.05.5).

A SLUID that nothing in the evidence ascribes to a job, or that is ascribed to two, stays the only name of its job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from slurm_triage.model import ControllerJob, Event, HookEnv, JobRecord, OomKill, Sign, StepInfo
from slurm_triage.sources import _sluid

DAEMONS = frozenset({"slurmctld_log", "slurmd_log"})
"""Sources whose lines name a job and its SLUID side by side."""
KERNEL = "kernel_log"


def is_sluid(name: str) -> bool:
    """Whether the name of a job is a SLUID."""
    return _sluid.read(name) is not None


def of_cgroup(event: Event) -> str | None:
    """The SLUID that names the cgroups of the event's job, as the event says; None if it says none."""
    if isinstance(event, (JobRecord, StepInfo)):
        return event.sluid
    if isinstance(event, HookEnv):
        return _sluid.read(event.values.get("SLURM_JOB_SLUID"))
    if isinstance(event, ControllerJob):
        # scontrol prints it with -d only, as it does this key: else such a line can only be a part of the job's name
        return _sluid.read(event.values.get("SLUID")) if "DerivedExitCode" in event.values else None
    if isinstance(event, Sign) and event.cite.source in DAEMONS:
        return event.fields.get("sluid")
    return None


def said_by(event: Event) -> tuple[str, ...]:
    """All SLUIDs that the event gives its job."""
    names = (of_cgroup(event), event.record_sluid if isinstance(event, JobRecord) else None)
    return tuple(name for name in names if name is not None)


def in_path(event: Event) -> str | None:
    """The SLUID by which a line of the kernel names a job, None if it names none so."""
    if isinstance(event, OomKill):
        return event.sluid
    if isinstance(event, Sign) and event.cite.source == KERNEL:
        return event.fields.get("sluid")
    return None


def jobs(events: Iterable[Event]) -> dict[str, str]:
    """The raw job id of every SLUID that is ascribed to one job, and to one only."""
    found: dict[str, set[str]] = {}
    for event in events:
        if event.job is not None:
            for name in said_by(event):
                found.setdefault(name, set()).add(event.job)
    return {name: ids.pop() for name, ids in found.items() if len(ids) == 1}


def resolved(events: Iterable[Event], known: Mapping[str, str]) -> list[Event]:
    """The events, with the raw id in the place of each SLUID that is known."""
    found = []
    for event in events:
        raw = known.get(in_path(event) or "")
        found.append(event if raw is None else replace(event, job=raw))
    return found
