"""The course of the attempt: dated lines of all witnesses on one clock."""

from __future__ import annotations

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Cite, Moment, OomKill, Sign, Stamp, TaskExit

SAID = {
    "ctld_preempted": "slurmctld preempts the job",
    "ctld_preempt_grace": "slurmctld starts the job's grace time",
    "ctld_kill_request": "slurmctld gets a kill request (scancel)",
    "ctld_time_limit": "slurmctld finds the time limit reached",
    "ctld_node_fail": "slurmctld gives up a node",
    "ctld_suspend": "slurmctld suspends the job",
    "ctld_requeue_user": "slurmctld requeues the job on request",
    "ctld_requeue": "slurmctld requeues the job",
    "slurm_cancelled": "slurmstepd: tasks told to end (SIGTERM)",
    "slurm_cancelled_signal": "slurmstepd: tasks told to end",
    "slurm_preempted": "slurmstepd: cancelled due to preemption",
    "slurm_time_limit": "slurmstepd: cancelled due to the time limit",
    "slurm_node_failure": "slurmstepd: cancelled due to node failure",
    "slurm_requeue": "slurmstepd: cancelled due to a requeue",
    "slurm_task_failure": "slurmstepd: step ended after a task failed",
    "slurmd_prolog_failed": "slurmd: the prolog failed",
    "slurmd_output_open": "slurmd: an output file could not be opened",
    "x86_segfault": "kernel: segmentation fault",
    "x86_trap": "kernel: trap in a program",
    "nvidia_xid": "kernel: NVIDIA Xid",
}
OF_PROGRAMS = ("x86_segfault", "x86_trap")
"""Lines about a program: what stands before the start was another's. A GPU may have been ill before."""
BEFORE_START = 5.0
"""Seconds by which clocks and rounding may put a line of the attempt before its start."""
MOST = 8


def timeline(job: Job) -> tuple[Moment, ...]:
    """At most eight moments, in time order: start, what struck, who told the tasks to end, how they ended, end."""
    found: list[tuple[int, Moment]] = []
    attempt = job.attempt
    record = attempt.records[0] if attempt.records else None
    if record is not None and record.submit is not None:
        found.append((2, Moment(record.submit, "submitted", record.cite)))
    if record is not None and attempt.start is not None:
        where = f" on {record.nodes}" if record.nodes else ""
        found.append((0, Moment(attempt.start, f"started{where}", record.cite)))
    for kill in job.memory.kills:
        found.append((0, Moment(kill.at, f"kernel kills {_victim(kill)}", kill.cite)))
    seen: set[tuple[str, int]] = set()
    for event in attempt.events:
        if isinstance(event, Sign) and event.id in SAID and event.at is not None and job.place.ours(event):
            if event.id in OF_PROGRAMS and _before(event.at, attempt.start):
                continue
            key = (event.id, int(event.at.lo))
            if key not in seen:
                seen.add(key)
                found.append((1, Moment(event.at, _says(event), event.cite)))
    found += [(1, m) for m in _ends(job.exits.tasks)]
    if record is not None and attempt.end is not None:
        found.append((0, Moment(attempt.end, f"ended: {record.state or 'state unknown'}", record.cite)))
    kept = sorted(enumerate(found), key=lambda item: item[1][0])[:MOST]
    return tuple(moment for _, (_, moment) in sorted(kept, key=lambda item: (*_when(item[1][1].at), item[0])))


def _before(at: Stamp, start: Stamp | None) -> bool:
    """Whether it was surely before the attempt: then another job's program."""
    apart = at.seconds_since(start) if start is not None else None
    return apart is not None and apart < -BEFORE_START


def _says(sign: Sign) -> str:
    text = SAID[sign.id]
    if sign.id == "ctld_preempted" and sign.fields.get("by"):
        return f"{text} for job {sign.fields['by']}"
    if sign.id == "ctld_kill_request" and sign.fields.get("uid"):
        return f"{text} of uid {sign.fields['uid']}"
    return text


def _victim(kill: OomKill) -> str:
    where = f" of step {kill.step}" if kill.step else ""
    return f"{kill.victim or 'a process'} (pid {kill.pid if kill.pid is not None else '?'}){where}: out of memory"


def _ends(tasks: tuple[TaskExit, ...]) -> list[Moment]:
    """Abnormal ends of tasks, equal ones within a second folded into one line."""
    groups: dict[tuple[str | None, int], list[TaskExit]] = {}
    for task in sorted(tasks, key=lambda t: t.at.lo if t.at else 0.0):
        if task.status:
            groups.setdefault((task.step, task.status), []).append(task)
    found = []
    for (step, _), members in groups.items():
        first = members[0]
        ranks = ",".join(map(str, sorted(t.rank for t in members)[:6])) + ("..." if len(members) > 6 else "")
        how = f"died of {signals.name(first.signal)}" if first.signal else f"exited with code {first.code}"
        who = "batch script" if step == "batch" else f"step {step} rank {ranks}"
        found.append(Moment(first.at, f"{who} {how}", first.cite))
    return found


def _when(at: Stamp | None) -> tuple[bool, float]:
    return (at is None, at.lo if at else 0.0)


def cites(moments: tuple[Moment, ...]) -> list[Cite]:
    """The lines behind a timeline."""
    return [m.cite for m in moments]
