"""Shortage of memory that is told by others than the kernel's OOM lines of the job: daemons that kill early, and what a
node said before it was lost."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from slurm_triage.facts._kernel import CLOSE, Witness
from slurm_triage.facts._logic import true, unknown
from slurm_triage.facts.host_hardware import SLURMD_TIMEOUT
from slurm_triage.facts.memory import KERNEL_HOW
from slurm_triage.model import Cite, Fact, Sign, Voice

if TYPE_CHECKING:
    from slurm_triage.facts import Job

DAEMONS = ("systemd_oomd", "earlyoom")
"""Killers in user space: neither the kernel's log nor a cgroup's counters show what they do."""
HOW = "journalctl -u systemd-oomd -u earlyoom of that time on the node"
ENDS_NODE = ("oom_killed", "oom_summary", "oom_other", "page_allocation_failure")
"""Kernel lines of a node that has no memory left, whoever is killed for it."""
STATS = 80
"""Lines within which the kernel prints the statistics of one cgroup."""


def daemon_killed(job: Job) -> Fact:
    """A daemon of the node killed a process of the job for want of memory, and names it: its cgroup or its number."""
    says = "a daemon of the node killed a process of the job because memory was short"
    found = [w.sign for w in job.kernel.of(*DAEMONS) if w.place == "inside" and _names(job, w.sign)]
    if found:
        return true(says, found[:3])
    return unknown(says, "no line of such a daemon names a process of the job", HOW)


def daemon_may_have_killed(job: Job) -> Fact:
    """A daemon of the node killed a process of the job's owner while it ran, or the job's output quotes such a line."""
    says = "a daemon of the node killed a process of the job's owner because memory was short"
    owners = job.accounting.owner_names
    found: list[Sign] = [w.sign for w in job.kernel.of(*DAEMONS) if _likely(w, owners)]
    found += job.log.of("earlyoom_kill")
    if found:
        return true(says, found[:3])
    return unknown(says, "no line of such a daemon was seen", HOW)


def _likely(witness: Witness, owners: frozenset[str]) -> bool:
    return witness.place == "alone" or (witness.place == "inside" and witness.sign.fields.get("uid") in owners)


def _names(job: Job, sign: Sign) -> bool:
    pids = {str(task.pid) for task in job.exits.tasks if task.pid}
    pids |= {s.fields["pid"] for s in job.log.of("shell_signal") if s.fields.get("pid")}
    all_jobs = sign.fields.get("victim", "").endswith(("slurmstepd.scope", "/slurm"))
    return all_jobs or (sign.job is not None and sign.job in job.attempt.ids) or sign.fields.get("pid") in pids


def node_was_short(job: Job) -> Fact:
    """The kernel of a node of the job ran out of memory shortly before Slurm lost that node.

    A node that swaps or kills without end does not answer slurmctld; it is set down after SlurmdTimeout.
    """
    says = "a node of the job was out of memory before it was lost"
    end = job.attempt.end
    within = CLOSE + SLURMD_TIMEOUT
    found = []
    for witness in job.kernel.of(*ENDS_NODE):
        at = witness.sign.at
        limit = witness.sign.fields.get("constraint") == "CONSTRAINT_MEMCG" or "emory cgroup" in witness.sign.cite.text
        near = at is None or end is None or at.zoned != end.zoned or end.lo - at.hi <= within
        if witness.sign.voice is Voice.KERNEL and witness.place == "inside" and near and not limit:
            found.append(witness.sign)
    if found:
        return true(says, [found[0], found[-1]])
    return unknown(says, "no such kernel line was seen", "the node's kernel log and console before it was lost")


def outer_limit(job: Job) -> Fact:
    """The limit of a cgroup around the job's was hit, which may hold other jobs too: that killed a process of this one.

    cgroup v1 has one for each user (`/slurm/uid_U`), v2 slurmstepd.scope; an administrator may limit any of them.
    """
    says = "the memory limit of a cgroup around the job's was hit"
    found: list[Cite] = []
    for kill in job.memory.kills:
        above = (kill.oom_memcg or "").rstrip("/")
        inside = bool(above) and (kill.task_memcg or "").startswith(f"{above}/")
        own = job.memory.own_limit_hit.holds or (kill.job is not None and f"job_{kill.job}" in above)
        if kill.constraint == "MEMCG" and kill.job is not None and inside and not own and "kubepods" not in above:
            found += kill.cites[:2]
    if found:
        return true(says, found)
    return unknown(says, "no kernel line names such a limit and a process of the job", KERNEL_HOW)


def shared_memory(job: Job) -> tuple[int, Cite] | None:
    """Bytes of shared memory and tmpfs files in the job's cgroup when its limit was hit, and the line that says so."""
    best: tuple[int, Cite] | None = None
    below: dict[str, list[Sign]] = {}
    for sign in sorted(job.log.of("oom_memcg_shmem"), key=lambda s: s.cite.line):
        below.setdefault(sign.cite.file, []).append(sign)
    for head in job.log.of("oom_memcg_limit"):
        if "memcg" not in head.fields or head.job not in job.attempt.ids:
            continue
        found = None
        if inline := re.search(r"\bshmem:(\d{1,15})KB", head.fields.get("stats") or ""):
            found = (int(inline[1]) * 1024, head.cite)
        signs = below.get(head.cite.file, [])
        at = bisect_right(signs, head.cite.line, key=lambda s: s.cite.line)
        if at < len(signs) and signs[at].cite.line - head.cite.line <= STATS:
            found = (int(signs[at].fields["bytes"]), signs[at].cite)
        if found and (best is None or found[0] > best[0]):
            best = found
    return best
