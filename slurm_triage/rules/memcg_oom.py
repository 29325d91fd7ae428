"""Rule: the job reached its own memory limit."""

from slurm_triage.facts import Job
from slurm_triage.facts.shortage import outer_limit
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, refute, require, rule, summary, support, when
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._memory import OOM_ECHOES, ask, caveats, first_kill, own_limit_advice, use_and_limit, victim


@rule("memcg_oom", supersedes=OOM_ECHOES)
def memcg_oom(job: Job) -> Said:
    """The job reached its own memory limit and the kernel killed a process of it.

    What happened: the memory cgroup of the job (or of a pod or container around it) was full, and the kernel's OOM
    killer took one of its processes. srun, the batch script and the other ranks only saw a SIGKILL.

    Who acts: the user, who asked for less memory than the job needs.

    Hardware or software: software. A limit was reached that somebody set; no memory is broken. A memory error of the
    hardware leaves EDAC, machine check or `Memory failure` lines instead, and never a line with `oom_memcg=`.

    First check: compare what was asked for with the highest use of each step. The use is sampled, so that a peak well
    below the limit does not speak against it.

        sacct -j JOBID -o JobID,State,ExitCode,ReqMem,MaxRSS,MaxRSSNode,MaxRSSTask

    As an administrator: the kernel's line names the cgroup whose limit it was (`oom_memcg=`) and the process that was
    killed.

        journalctl -k --since "1 hour ago" | grep -E "oom-kill:|Memory cgroup out of memory"

    What to do: compare the limit with the peak, find out whether the use grows without bound, then ask for more with
    --mem or use less per rank.

    What this is not: a node out of memory (the kernel then says CONSTRAINT_NONE and global_oom), and not a kill by a
    person. OUT_OF_MEMORY or an oom_kill count alone does not say whose limit was hit.

    Check next: `mem_leak_growth` if the use crept up over hours; `memcg_oom_child_only` if the script went on after it;
    `global_oom` if the peak was far below the limit; `shm_exhausted` if the program died by a bus error, for files in
    /dev/shm count as well.

    Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html, https://slurm.schedmd.com/cgroup.conf.html,
    https://slurm.schedmd.com/sacct.html
    """
    yield require(job.memory.oom_killed)
    yield confirm(job.memory.own_limit_hit)
    if job.memory.pod_limit_hit.holds:
        yield confirm(job.memory.pod_limit_hit)
    around = outer_limit(job)
    if around.holds:
        yield support(around)  # the kernel's word, but not that of the job's own limit
    yield support(job.memory.some_cgroup_limit)
    yield support(job.memory.slurm_counted_kill)
    yield support(job.memory.peak_at_limit)
    yield refute(job.memory.elsewhere_only)
    if not job.memory.pod_limit_hit.holds and not around.holds:  # else it was killed below its own limit, at one around
        yield refute(job.memory.killed_below_limit)
    others = around.holds and "/uid_" not in around.cites[0].text
    yield owner(Owner.ADMIN if _at_the_pods(job) or others else Owner.USER)
    yield when(first_kill(job, "MEMCG"))
    if _at_the_pods(job):
        yield summary(
            f"The pod around the job reached its memory limit and {victim(job)} of the job was killed for it."
        )
        yield action(
            "Give the pod what Slurm gives its jobs: its limit is below the node's RealMemory, or helpers use it."
        )
        yield action("Compare the pod's limit with RealMemory.", "kubectl describe pod POD; scontrol show node NODE")
        return
    if around.holds:
        yield summary(f"A memory limit that the job shares with others was hit, and {victim(job)} was killed for it.")
        yield action("More --mem does not help: see what else runs below that cgroup.", ask(job))
        yield note(around.cites[0].text)
        return
    sure = "reached its memory limit" if job.memory.own_limit_hit.holds else "very likely reached a memory limit"
    yield summary(f"The job {sure} and {victim(job)} was killed for it ({use_and_limit(job)}).")
    yield from own_limit_advice(job)
    yield from caveats(job)
    yield from fitting_advice(job, "host_memory")


def _at_the_pods(job: Job) -> bool:
    """Whether only the limit of the pod around the job was hit, which its owner did not ask for."""
    return bool(job.memory.pod_limit_hit.holds) and not job.memory.own_limit_hit.holds
