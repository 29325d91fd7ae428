"""How a job took being told to end: what was seen, beside KillWait and GraceTime."""

from __future__ import annotations

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts.numbers import seen_window, span

PACE = 2.0
"""Seconds of rounding in the lines that the interval is taken from."""


def after_term(job: Job) -> str:
    """`it outlived SIGTERM and was killed 5 s later (KillWait 4 s)`; empty when nothing of it was seen."""
    seen, wait = seen_window(job), job.limits.kill_wait
    limit = f"KillWait {span(wait[0]) if wait else 'n/a'}"
    later = f" {span(seen)} later" if seen is not None else ""
    exact = ("status", "accounting")
    if job.exits.killed_by(signals.SIGKILL, witnesses=exact).holds:
        if seen is not None and wait is not None and seen + PACE >= wait[0]:
            return f"it outlived SIGTERM and was killed{later} ({limit})"
        return "its end was SIGKILL"
    if job.exits.killed_by(signals.SIGTERM, witnesses=exact).holds:
        return f"it died of SIGTERM ({limit} was not needed)"
    info = job.exits.job_exit[0]
    if info.code is not None and info.raw is not None:
        return f"it handled the signal and ended by itself with exit code {info.code}"
    return ""


def grace_window(job: Job) -> str:
    """The time that a preempted job had, against GraceTime and KillWait."""
    grace, wait = job.limits.grace_time, job.limits.kill_wait
    seen = seen_window(job)
    limits = f"GraceTime {span(grace[0]) if grace else 'n/a'}, KillWait {span(wait[0]) if wait else 'n/a'}"
    if seen is None:
        return f"how long it was given was not seen ({limits})"
    text = f"from the first SIGTERM to its end {span(seen)} passed ({limits})"
    if grace is None or wait is None:
        return text
    if grace[0] > 0 and seen + PACE < grace[0]:
        return text + ": it ended inside its grace time"
    if seen > grace[0] + wait[0] + PACE:
        return text + ": the scheduler ends a grace time at its own pace"
    return text
