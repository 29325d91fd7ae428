"""Rule: a liveness probe."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support
from slurm_triage.rules._told import ECHOES, outlived


@rule("liveness_probe_kill", supersedes=(*ECHOES, "benign_message"))
def liveness_probe_kill(job: Job) -> Said:
    """The kubelet killed the container because its liveness or startup probe failed.

    What happened: the probe asked, got no good answer often enough, and the kubelet ended the container (SIGTERM, then
    SIGKILL: exit 137). Slow starts and long computations look like that.

    Who acts: the user, who sets the probe.

    What to do: a startup probe with enough time, or a liveness probe that asks for life and not for readiness.

    What this is not: a lack of memory, though the exit code 137 is the same.
    """
    killed = job.pods.said("the kubelet killed the container for its probe", "pod_killing_liveness")
    failed = job.pods.said("the container's liveness or startup probe failed", "pod_liveness_failed")
    trouble = any_of("a probe failed", killed, failed)
    yield require(trouble)
    yield confirm(job.pods.proves("the kubelet killed the container for its probe", "pod_killing_liveness"))
    yield support(job.pods.killed_for_probe)
    yield from outlived(job, trouble)
    yield owner(Owner.USER)
    yield summary("The kubelet killed the container because its liveness or startup probe failed.")
    yield action("Give the container a startup probe or a longer failure time.", "kubectl describe pod POD")
