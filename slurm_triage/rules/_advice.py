"""Advice that fits the software stack of the job: one thing to try, one measuring call, the cheapest run that tells.

A rule yields it after its own first action: `yield from fitting_advice(job, "host_memory")`. What is advised is data
(`slurm_triage/advice`); here is only which of it fits this job.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from slurm_triage import advice
from slurm_triage.facts import Job
from slurm_triage.facts.numbers import size, span
from slurm_triage.facts.stack import FAULTS, chain, is_last, stacks, title
from slurm_triage.model import Strength
from slurm_triage.rules import Item, action, all_rules, judge, note

OF_PROCESS = {"host_memory": "kills", "memory_growth": "kills", "segfault": "faults", "illegal_instruction": "faults"}
"""Families about one process, which the kernel may name: advice for a stack that it is not of would be wrong."""
EARLY = 15
"""Minutes before a limit at which a program should stop by itself."""


def fitting_advice(job: Job, family: str) -> Iterator[Item]:
    """At most three actions: what to try (with how to write it), what to measure, the cheapest run to confirm.

    Of the stack that fits best and has advice for the family; without one only the last two, for any program. A note
    says which line shows the stack.
    """
    found = advice.find(_fitting(job, family), _finer(job, family))
    if found is None:
        return
    if found.step and not job.log.of(*found.unless):
        text = f"{title(found.stack)}: {found.step}: {found.paste}"
        yield action(_of_job(job, text), _of_job(job, found.paste) if found.lang == "shell" else None)
    command = found.measure if found.measure_lang == "shell" else None
    measure = f"Measure {found.measure_when}: {found.measure}"
    yield action(_of_job(job, measure), _of_job(job, command) if command else None)
    yield action(_of_job(job, f"{_numbers(job, found.numbers)}Cheapest check: {found.confirm}"))
    shown = job.stack.is_(found.stack) if found.step else job.stack.known
    if shown.holds:
        yield note(f"{shown.says}: {shown.cites[0].file}:{shown.cites[0].line}")
    else:
        yield note(f"The software stack of the job is not known: {shown.because} ({shown.how})")


def _fitting(job: Job, family: str) -> tuple[str, ...]:
    """The stacks of the job, best first, without those that the process in question does not belong to."""
    names = job.stack.seen
    if names and not is_last(names[0]):
        names = tuple(name for name in names if not is_last(name))
    names = tuple(name for name in names if name == names[0] or _lent(names[0], name, family))
    kind = OF_PROCESS.get(family)
    processes: set[str] = set()
    if kind == "kills":
        processes = {k.victim for k in job.memory.kills if k.victim}
    elif kind == "faults":
        processes = {s.fields["comm"] for s in job.log.of(*FAULTS) if s.fields.get("comm")}
    if not processes:
        return names
    return tuple(n for n in names if any(job.stack.may_host(n, process) for process in processes))


def _lent(name: str, other: str, family: str) -> bool:
    """Whether advice of the other stack fits a job of this one. A server borrows none about training."""
    borrows = stacks()[name].get("borrows")
    return borrows is None or other not in chain(name) or family in borrows


def _finer(job: Job, family: str) -> str:
    """The family that the facts of this job allow, where they say more."""
    if family == "host_memory" and _grew(job):
        return "memory_growth"
    if family == "gpu_memory" and job.gpu_memory.oversized.holds:
        return "gpu_memory_oversized"
    if family == "gpu_memory" and job.gpu_memory.fragmented.holds:
        return "gpu_memory_fragmented"
    if family == "time_limit" and job.stack.wrote_checkpoint.holds:
        return "time_limit_with_checkpoint"
    return family


def _grew(job: Job) -> bool:
    """Whether the memory's growth is at least likely: then less of everything only delays the end."""
    rule = next((rule for rule in all_rules() if rule.cause == "mem_leak_growth"), None)
    return rule is not None and judge(rule, job).strength.rank >= Strength.LIKELY.rank


def _numbers(job: Job, sentence: str) -> str:
    """The sentence with the job's numbers and a blank; empty where one of them is not known."""
    try:
        return f"{sentence.format_map(_known(job))} " if sentence else ""
    except KeyError:
        return ""


def _known(job: Job) -> dict[str, str]:
    """The numbers that a sentence may name, as text. Shares of a limit only where it counted, for tasks on one node."""
    known: dict[str, str] = {}
    limit, tasks = job.memory.limit, _tasks(job)
    if limit and tasks and not job.memory.node_ran_out.holds:
        known |= {"tasks": str(tasks), "limit": size(limit), "share": size(limit / tasks)}
    time_limit = job.limits.time_limit
    if time_limit and math.isfinite(time_limit):
        known["time_limit"] = span(time_limit)
        minutes = int(time_limit // 60) - EARLY
        if minutes > EARLY:
            known["minutes"] = str(minutes)
    return known


def _tasks(job: Job) -> int | None:
    """Tasks of the largest step, if there are several and all ran on one node."""
    nodes = job.accounting.first(lambda r: r.n_nodes)
    counts = [s.n_tasks for s in job.accounting.app_steps() if s.n_tasks]
    most = max(counts, default=0)
    return most if nodes == 1 and most > 1 else None


def _of_job(job: Job, text: str) -> str:
    """With the job's id where it is known; it is the only word of a job that enters a command."""
    id = job.attempt.job_id or ""
    return text.replace("JOBID", id) if id.isascii() and id.isdigit() else text
