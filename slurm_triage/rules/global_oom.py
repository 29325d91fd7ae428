"""Rule: the whole node was out of memory."""

from slurm_triage.facts import Job
from slurm_triage.facts.numbers import size
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support, when
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._memory import OOM_ECHOES, ask, first_kill, victim


@rule("global_oom", supersedes=OOM_ECHOES)
def global_oom(job: Job) -> Said:
    """The whole node ran out of memory and the kernel killed a process of this job.

    What happened: no memory limit of the job was involved (CONSTRAINT_NONE, global_oom). The kernel picks a victim on
    the whole node: the job that was killed need not be the one that used the memory. Slurm shows OUT_OF_MEMORY as for
    a job over its own limit.

    Who acts: the user if this job's processes held most of the memory; the administrator if others did, or if jobs may
    use more than they were given (no ConstrainRAMSpace, memory not a consumable resource).

    Hardware or software: software. The node's memory was given out twice, or used by something outside of jobs. Only if
    the node shows less memory than it was bought with has it lost a module.

    First check: see how far below its own limit the job was.

        sacct -j JOBID -o JobID,State,ReqMem,MaxRSS,NodeList

    As an administrator: the table of tasks in the kernel's message says who held what (rss, in pages); then look
    whether memory is a consumable resource and whether cgroups limit it.

        journalctl -k --since "1 hour ago" | grep -B60 "global_oom" | grep -E "rss|oom-kill"
        scontrol show config | grep -E "SelectTypeParameters|TaskPlugin"
        grep ConstrainRAMSpace /etc/slurm/cgroup.conf

    What to do: user: ask for the memory that is really used. Administrator: look at the kernel's task list for the
    process that held most, and make memory a constrained, consumable resource.

    What this is not: a reason to raise --mem for a victim that was far below its own limit.

    Check next: `memcg_oom` if the kernel's line says CONSTRAINT_MEMCG; `oom_numa_cpuset` if it says CONSTRAINT_CPUSET
    or CONSTRAINT_MEMORY_POLICY; `node_fail` if the node was lost in the same minute.

    Sources: https://docs.kernel.org/admin-guide/sysctl/vm.html, https://slurm.schedmd.com/cgroup.conf.html,
    https://slurm.schedmd.com/slurm.conf.html
    """
    memory = job.memory
    yield require(memory.oom_killed)
    yield confirm(memory.node_ran_out)
    yield support(memory.killed_below_limit)
    yield support(memory.killed_outside_cgroups)
    yield refute(memory.node_had_memory)
    innocent = memory.other_user_filled_node.holds
    below = memory.killed_below_limit.holds and memory.peak is not None and memory.limit is not None
    far_below = below and (memory.peak or 0) < 0.8 * (memory.limit or 0)
    yield when(first_kill(job, "NONE"))
    known = memory.peak is not None
    use = f"it held {size(memory.peak)} of its own {size(memory.limit)}" if known else f"own limit {size(memory.limit)}"
    if innocent:
        yield owner(Owner.ADMIN)
        yield summary(
            f"The whole node was out of memory and the kernel killed {victim(job)} of this job ({use}); "
            "another user's processes held most of the memory."
        )
        yield action("Find the process that filled the node; constrain memory per job.")
        yield action("ConstrainRAMSpace=yes in cgroup.conf and memory as a consumable resource keep jobs apart.")
        yield action("As the job's owner: submit again, the job itself did nothing wrong.", ask(job))
    elif innocent is False:
        yield owner(Owner.USER)
        yield summary(f"The whole node was out of memory; this job's own user held the most ({use}).")
        yield action("Use less memory, or more nodes: this node has no more.", ask(job))
        yield from fitting_advice(job, "host_memory")
    else:
        yield owner(Owner.ADMIN if far_below else Owner.UNKNOWN)
        yield summary(f"The whole node was out of memory and the kernel killed {victim(job)} of this job ({use}).")
        yield action("See in the kernel's task list who held the memory: they have to act.", ask(job))
