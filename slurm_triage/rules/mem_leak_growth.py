"""Rule: memory that grew until the limit."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary
from slurm_triage.rules._advice import fitting_advice

SLOW = 1000
"""Failed charges before the kill from which the use crept up on the limit (a single jump leaves a few)."""


@rule("mem_leak_growth")
def mem_leak_growth(job: Job) -> Said:
    """Host memory of the job grew step by step until a limit was hit.

    What happened: the kernel had to reclaim memory at the limit again and again before it killed: the use crept up.

    Who acts: the user.

    Hardware or software: software. Something keeps what it should give back.

    First check: the use over time, while the next one runs: steady growth, or one step to a plateau.

        while sleep 60; do date; sstat -a -j JOBID -o JobID,MaxRSS,AveRSS -n; done
        srun --jobid=JOBID --overlap ps -u $USER -o pid,rss,comm --sort=-rss

    What to do: sample the use over time (sstat, or the cgroup's memory.current); look for what is kept between steps.

    What this is not: a job that just needs more memory; more of it would only delay the kill.

    Check next: `memcg_oom` if the use came up at once; `global_oom` if the node was full; `shm_exhausted` if files in
    /dev/shm grew.

    Sources: https://slurm.schedmd.com/sstat.html, https://docs.kernel.org/admin-guide/cgroup-v2.html,
    https://docs.python.org/3/library/tracemalloc.html
    """
    yield require(all_of("a kill after a slow climb", job.memory.oom_killed, _crept_up(job)))
    how = "sstat -j JOBID -o MaxRSS, repeated while such a job runs"
    yield confirm(unknown("the use grew from start to end", "no samples over time were seen", how))
    yield owner(Owner.USER)
    yield summary("The memory's use crept up to the limit before the kill; it may be a leak.")
    yield action("Sample the memory's use over time before asking for more.", "sstat -j JOBID -o JobID,MaxRSS")
    yield from fitting_advice(job, "memory_growth")


def _crept_up(job: Job) -> Fact:
    says = "the limit was hit many times before the kill"
    hits = [s for s in job.log.of("oom_memcg_limit") if s.fields.get("what") == "memory"]
    slow = [s for s in hits if len(s.fields.get("failcnt", "")) < 19 and int(s.fields.get("failcnt", "0")) >= SLOW]
    if slow:
        return true(says, slow)
    return unknown(says, "the kernel's failcnt was not seen or is small", "memory.failcnt of the job's cgroup")
