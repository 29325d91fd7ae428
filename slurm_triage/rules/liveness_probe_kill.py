"""Rule: a liveness probe."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support
from slurm_triage.rules._told import ECHOES, outlived


@rule("liveness_probe_kill", supersedes=(*ECHOES, "benign_message"))
def liveness_probe_kill(job: Job) -> Said:
    """The kubelet killed the container because its liveness or startup probe failed.

    What happened: the probe asked, got no good answer often enough, and the kubelet ended the container (SIGTERM, then
    SIGKILL: exit 137). Slow starts and long computations look like that.

    Who acts: the user, who sets the probe; of slurmd's own container the administrator.

    Hardware or software: software. A probe that was not answered in time. A container that does not answer because its
    node is in trouble shows as node conditions beside it.

    First check: what the events say: `Liveness probe failed`, then `Killing`.

        kubectl describe pod POD | sed -n '/Last State/,/Ready/p;/Events/,$p'

    As an administrator: the probe's settings against the time the program needs.

        kubectl get pod POD -o yaml | grep -A8 -E "livenessProbe|startupProbe"

    What to do: a startup probe with enough time, or a liveness probe that asks for life and not for readiness.

    What this is not: a lack of memory, though the exit code 137 is the same.

    Check next: `memcg_oom` if the reason is OOMKilled; `pod_evicted` if the pod was evicted; `external_signal` if no
    event tells.

    Sources: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/,
    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
    """
    killed = job.pods.said("the kubelet killed the container for its probe", "pod_killing_liveness")
    failed = job.pods.said("the container's liveness or startup probe failed", "pod_liveness_failed")
    trouble = any_of("a probe failed", killed, failed)
    yield require(trouble)
    yield confirm(job.pods.proves("the kubelet killed the container for its probe", "pod_killing_liveness"))
    yield support(job.pods.killed_for_probe)
    yield support(job.pods.died_after_probe)
    if trouble.holds:
        yield refute(job.pods.probes_survived)
    yield from outlived(job, trouble)
    yield owner(Owner.ADMIN if job.pods.probe_of_daemon else Owner.USER)
    if killed.holds:
        yield summary("The kubelet killed the container because its liveness or startup probe failed.")
    elif job.pods.died_after_probe.holds:
        yield summary(
            "A liveness or startup probe failed and the container died of SIGTERM or SIGKILL: very likely by it."
        )
    else:
        yield summary("A liveness or startup probe failed; whether the container was killed for it was not seen.")
    yield action("Give the container a startup probe or a longer failure time.", "kubectl describe pod POD")
