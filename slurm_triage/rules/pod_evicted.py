"""Rule: the pod was evicted."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support
from slurm_triage.rules._told import ECHOES, outlived

LINES = ("pod_evicted", "pod_preempted")


@rule("pod_evicted", supersedes=(*ECHOES, "node_fail"))
def pod_evicted(job: Job) -> Said:
    """Kubernetes evicted, preempted or deleted the pod.

    What happened: its node ran short of a resource or was taken out of service, a pod of higher priority needed the
    place, or the pod used more local storage than it may. Pods that use more than they asked for go first. Or somebody
    deleted it: a person, or the controller that owns it (scaling in, a rolling update).

    Who acts: the user where the pod used more than its request or its limit of local storage; else the administrator.

    Hardware or software: software, mostly: the node ran short of memory, disk or process numbers, or was cordoned. It
    was cordoned for its hardware if the reason or the taints say so.

    First check: reason and message of the pod's status.

        kubectl get pod POD -o jsonpath='{.status.reason}: {.status.message}'
        kubectl get events --field-selector involvedObject.name=POD

    As an administrator: conditions and taints of the node at that time.

        kubectl describe node NODE | sed -n '/Taints/p;/Conditions/,/Addresses/p'

    What to do: set requests that match the real use; look at the node's conditions.

    What this is not: a kill at the container's own memory limit (that one is OOMKilled), and not a cordon: a node that
    takes no new pods, or a Slurm node that is drained (`k8s: cordon`), lets those it has run on.

    Check next: `liveness_probe_kill` if a probe failed; `memcg_oom` if the reason is OOMKilled; `node_fail` if Slurm
    lost the node too; `preempted` if a pod of higher priority took the place.

    Sources: https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/,
    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/
    """
    yield require(job.pods.evicted)
    yield confirm(job.pods.proves("Kubernetes evicted the pod", *LINES))
    yield support(job.pods.said("Kubernetes evicted the pod", *LINES))
    yield support(job.pods.pod_of_node_gone)
    yield from outlived(job, job.pods.evicted)
    yield owner(Owner.USER if job.pods.over_request else Owner.ADMIN)
    yield summary(_what(job))
    if job.pods.over_request:
        yield action("Set the pod's requests and limits to what it really uses.", "kubectl top pod POD")
    else:
        yield action("Look at the node's conditions and at what was taken from it.", "kubectl describe node NODE")


def _what(job: Job) -> str:
    if job.pods.said("", *LINES).holds:
        why = job.pods.why_evicted
        return f"Kubernetes evicted the pod because {why}." if why else "Kubernetes evicted the pod."
    if job.pods.pod_of_node_gone.holds:
        return "Kubernetes took away the pod that was a node of the job, and Slurm lost that node."
    return "The pod was deleted; by whom, and what came before, is not known."
