"""Rule: the prolog failed."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, when


@rule("prolog_failed", supersedes=("cancelled_by_user", "launch_failed", "admin_requeue", "app_error"))
def prolog_failed(job: Job) -> Said:
    """A prolog failed, so the job could not start on the node.

    What happened: slurmd's Prolog (or PrologSlurmctld) returned non-zero. The node is drained, a batch job goes back
    into the queue and is held, an srun job ends (0:54; on 22.05 it may read `CANCELLED by 0`).

    Who acts: the administrator.

    Hardware or software: either. A prolog fails by a bug of its own, or because a check in it found something broken: a
    GPU, a mount, a full disk. Its log says which check.

    First check: the reason of the drained node.

        sinfo -R -n NODE
        sacct -j JOBID -o JobID,State,ExitCode,NodeList,Start,End

    As an administrator: run the prolog by hand as slurmd does, then resume and release.

        scontrol show config | grep -i prolog
        grep -iE "prolog|JOBID" /var/log/slurm/slurmd.log | tail -30
        scontrol update nodename=NODE state=resume
        scontrol release JOBID

    What to do: run the prolog by hand on that node, repair, resume the node, release the job.

    What this is not: a scancel by root, though it can look like one.

    Check next: `node_misconfigured` if the check found a mount or plugin; `gpu_ecc_uncorrectable` or
    `gpu_fallen_off_bus` if it found a GPU; `disk_full_node_local` if it found a disk.

    Sources: https://slurm.schedmd.com/prolog_epilog.html, https://slurm.schedmd.com/slurm.conf.html
    """
    launch = job.launch
    held = any_of("the job is held since its launch failed", launch.held_after_launch)
    yield require(any_of("the prolog or the launch failed", launch.prolog_status, launch.prolog_message, held))
    yield confirm(launch.prolog_status)
    yield confirm(launch.prolog_message)
    yield owner(Owner.ADMIN)
    yield when(job.attempt.start)
    yield summary("The prolog failed on the node, so the job could not start; it was not the job's fault.")
    job_id = job.attempt.job_id or "JOBID"
    yield action("Repair the prolog or the node, resume the node, then release the job.", "sinfo -R")
    yield action("As the job's owner: once it is repaired, release the held job.", f"scontrol release {job_id}")
