"""Rule: a step or batch script could not be launched."""

import re

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._told import proven

REQUEST = re.compile(
    r"More processors requested than permitted|Requested node configuration is not available"
    r"|Memory required by task is not available|Invalid (?:generic resource|Trackable RESource)"
    r"|(?:Task|Node) count (?:specified|specification) invalid|Requested (?:node|nodes) not in job",
    re.IGNORECASE,
)
"""Errors of a step that compare its request with the job's own allocation (Slurm src/common/slurm_errno.c)."""


@rule("launch_failed", supersedes=("admin_requeue",))
def launch_failed(job: Job) -> Said:
    """Slurm could not launch the batch script or a step.

    What happened: slurmd or srun could not start the job's step: the job is requeued and held, or srun waits for or
    fails at the launch.

    Who acts: the administrator for a held job; the user where srun waits for resources that its own job step holds.

    Hardware or software: software. Daemons and settings; a node that fails each launch needs a look at its disk and
    memory.

    First check: what srun said, and why the job waits if it was requeued and held.

        scontrol show job JOBID | grep -E "JobState|Reason|Restarts|BatchHost"
        squeue --steps -j JOBID

    As an administrator: slurmd's log of the batch host; release the job after the repair.

        grep -E "JOBID|launch" /var/log/slurm/slurmd.log | tail -30
        scontrol release JOBID

    What to do: slurmd's log on the batch host says why; a nested srun needs --overlap or resources of its own.

    What this is not: a failure of the program, which never ran.

    Check next: `prolog_failed` if a prolog is named; `node_misconfigured` if a plugin, mount or user look-up is named;
    `output_path_unwritable` if the exit is `0:53`; `incomplete_launch` if only some ranks came.

    Sources: https://slurm.schedmd.com/job_launch.html, https://slurm.schedmd.com/troubleshoot.html,
    https://slurm.schedmd.com/srun.html
    """
    busy = job.log.has("srun waits because the job's own steps hold the resources", "srun_step_busy")
    said = job.log.has("srun could not launch the step", "srun_launch_failed")
    any_ = any_of("the launch failed", job.launch.held_after_launch, busy, said)
    yield require(any_)
    asked = [s for s in job.log.of("srun_launch_failed") if REQUEST.search(s.fields.get("error", ""))]
    yield from proven(job, "srun says that the step asks for what the job does not have", asked)
    yield support(any_)
    yield owner(Owner.USER if busy.holds or asked else Owner.ADMIN)
    yield summary("Slurm could not launch the job or a step of it.")
    if busy.holds:
        yield action("Use `srun --overlap` for a step in a step, or start fewer at a time.")
    elif asked:
        yield action(
            "Ask for no more per step than the job has (nodes, tasks, CPUs, memory, GPUs).", "scontrol show job JOBID"
        )
    else:
        yield action("Read slurmd's log on the batch host for the time of the launch.", "sinfo -R")
