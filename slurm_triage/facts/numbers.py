"""Numbers for people: use beside limit, seen interval beside configured one. `n/a` is unknown, never 0."""

from __future__ import annotations

import math

from slurm_triage.facts import Job


def size(value: float | None) -> str:
    """Bytes as `102.0 MiB`; `n/a` for None."""
    if value is None:
        return "n/a"
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(number) < 1024 or unit == "TiB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return "n/a"


def span(seconds: float | None) -> str:
    """Seconds as `22 s`, `4 min 10 s`, `3 h 05 min`; `unlimited` for inf, `n/a` for None."""
    if seconds is None or math.isnan(seconds):
        return "n/a"
    if math.isinf(seconds):
        return "unlimited"
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def numbers(job: Job) -> tuple[tuple[str, str], ...]:
    """(label, value) pairs that matter for this attempt."""
    found: list[tuple[str, str]] = []
    if job.memory.oom_killed.holds or job.memory.peak is not None:
        found.append(("memory limit of the job", size(job.memory.limit)))
        found.append(("highest use measured", size(job.memory.peak)))
        found.append(("MaxRSS sampled by Slurm", size(job.memory.max_rss)))
    elapsed = job.accounting.first(lambda r: r.elapsed)
    found.append(("run time / time limit", f"{span(elapsed)} / {span(job.limits.time_limit)}"))
    killed_by_slurm = job.scheduling.preempted.holds or job.scheduling.time_limit.holds or job.cancel.who is not None
    if killed_by_slurm:
        wait = job.limits.kill_wait
        found.append(("KillWait, SIGTERM to SIGKILL", span(wait[0]) if wait else "n/a"))
    if job.scheduling.preempted.holds:
        grace = job.limits.grace_time
        found.append(("GraceTime of partition or QOS", span(grace[0]) if grace else "n/a"))
    if killed_by_slurm:
        found.append(("seen from SIGTERM to the last end", span(seen_window(job))))
    return tuple(found)


def seen_window(job: Job) -> float | None:
    """Seconds from slurmstepd's first CANCELLED line to the last known end of a task; None if either is not known."""
    sent = job.scheduling.term_sent
    if sent is None:
        return None
    ends = [t.at for t in job.exits.tasks if t.at is not None]
    if not ends or job.exits.records.selective:  # the last one may have ended with 0, which leaves no record
        ends += [s.end for s in job.accounting.steps if s.end is not None and s.step != "extern"]
    gaps = [gap for end in ends if (gap := end.seconds_since(sent[0])) is not None and gap >= -1.0]
    return max(max(gaps), 0.0) if gaps else None
