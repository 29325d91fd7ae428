"""Rule: out of memory within a cpuset or NUMA policy."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, when
from slurm_triage.rules._memory import OOM_ECHOES, first_kill, victim


@rule("oom_numa_cpuset", supersedes=OOM_ECHOES)
def oom_numa_cpuset(job: Job) -> Said:
    """Memory ran out on the NUMA nodes that the process was bound to, while other memory may have been free.

    What happened: a cpuset or a memory policy (numactl --membind, set_mempolicy, mem-bind of srun or the site) allows
    only some NUMA nodes; those were full and the kernel killed a process.

    Who acts: the administrator where the site's binding causes it, the user where the program binds itself.

    Hardware or software: software. A binding leaves the process only some of the memory; the other NUMA nodes work. A
    module that is missing shows as a NUMA node that is too small in `numactl --hardware`.

    First check: see what a job with the same options may use, and how much of each node is free.

        srun -w NODE -n1 numactl --show
        numactl --hardware

    As an administrator: the kernel's line says which constraint and which nodes (`nodemask=`, `cpuset=`,
    `mems_allowed=`).

        journalctl -k --since "1 hour ago" | grep -E "CONSTRAINT_(CPUSET|MEMORY_POLICY)"

    What to do: look at who sets the binding; use preferred instead of strict binding, or spread over NUMA nodes.

    What this is not: the job's memory limit, and not a shortage of memory on the node as a whole.

    Check next: `memcg_oom` if the kernel's line says CONSTRAINT_MEMCG; `global_oom` if it says CONSTRAINT_NONE.

    Sources: https://docs.kernel.org/admin-guide/mm/numa_memory_policy.html,
    https://docs.kernel.org/admin-guide/sysctl/vm.html, https://slurm.schedmd.com/srun.html
    """
    yield require(job.memory.oom_killed)
    yield confirm(job.memory.numa_or_cpuset)
    yield owner(Owner.ADMIN)
    yield when(first_kill(job, "CPUSET", "MEMORY_POLICY"))
    kinds = sorted({k.constraint for k in job.memory.kills if k.constraint in ("CPUSET", "MEMORY_POLICY")})
    what = "CONSTRAINT_" + " and CONSTRAINT_".join(kinds) if kinds else "a NUMA or cpuset constraint"
    yield summary(
        f"Memory ran out within the NUMA nodes that the process may use ({what}); {victim(job)} was killed "
        "while other memory of the node may have been free."
    )
    yield action("Find what binds the memory (--mem-bind, numactl, cpuset); loosen it.")
    yield action("More --mem does not help here.", "numactl --hardware")
