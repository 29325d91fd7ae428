"""Pods: what the kubelet and the control plane did to a container, by kubectl's own output.

A pod has several containers, and only one of them is the program. Slurm in Kubernetes (SUNK, Slinky, soperator) runs
slurmd as a container of that name, with helpers beside it: what happens to a helper does not end a job. A job's memory
is charged to Slurm's own cgroup; the pod's limit is another one, around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import all_of, any_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place
from slurm_triage.facts.log import Log
from slurm_triage.facts.node import NodeFacts
from slurm_triage.facts.telling import ERRORS
from slurm_triage.model import Fact, Sign, Voice

HOW = "kubectl describe pod POD; kubectl get events"
ENDS = ("pod_evicted", "pod_killing_liveness", "pod_oomkilled", "pod_deadline", "pod_preempted")
"""Families that name why a pod or container was ended."""
DAEMON = "slurmd"
"""The container that runs jobs, in pods of SUNK, Slinky's slurm-operator and soperator."""
KILLED = frozenset({"137", "143"})
"""Exit codes of a container that died of SIGKILL or SIGTERM."""
FROM_KUBERNETES = ("k8s:", "slurm-operator:", "slurm-bridge:")
"""With this begins a drain reason that was written for Kubernetes: by SUNK's Syncer (docs.coreweave.com, SUNK, Syncer),
by Slinky's slurm-operator and slurm-bridge (nodeReasonPrefix in internal/controller)."""
GONE = ("delet", "evict", "terminat", "not ready", "notready", "unready", "preempt", "shutdown", "scale")
"""Words of such a reason that say that the pod itself goes or does not answer. A cordon alone stops no pod."""


_BY_CONTROL = {
    "EvictionByEvictionAPI": "its node was drained, or something else asked for it through the eviction API",
    "DeletionByTaintManager": "its node got a taint that it does not tolerate (not ready, unreachable, or set by hand)",
    "TaintManagerEviction": "its node got a taint that it does not tolerate (not ready, unreachable, or set by hand)",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "the kubelet ended it: its node was short of something, or was shut down",
}
"""Reasons of the condition DisruptionTarget and of events, in words."""


@dataclass
class _Container:
    """What is said of one container: its exit codes, whether it was OOM-killed, what kind it is."""

    codes: set[str] = field(default_factory=set)
    killed_for_memory: bool = False
    kind: str = ""


class _Containers:
    """The containers that kubectl's output names, by file and pod."""

    def __init__(self, signs: Iterable[Sign]) -> None:
        self._pods: dict[tuple[str, str], dict[str, _Container]] = {}
        for sign in signs:
            name = sign.fields.get("container")
            if name is None or sign.voice is not Voice.KUBERNETES:
                continue
            one = self._of(sign).setdefault(name, _Container())
            one.kind = one.kind or sign.fields.get("kind", "")
            if sign.id == "pod_exit_code":
                one.codes.add(sign.fields.get("code", ""))
            one.killed_for_memory |= sign.id == "pod_oomkilled"

    def _of(self, sign: Sign) -> dict[str, _Container]:
        return self._pods.setdefault((sign.cite.file, sign.fields.get("pod", "")), {})

    def aside(self, sign: Sign) -> bool:
        """Whether a line is about a container that is surely not the program: a helper beside slurmd, a container for
        debugging, or one that was started again (or only prepares) while another one of its pod ended by itself."""
        name = sign.fields.get("container")
        mates = self._of(sign)
        if name is None or name not in mates:
            return False
        if name != DAEMON and DAEMON in mates:
            return True
        if mates[name].kind == "debug":
            return True
        if sign.fields.get("state") != "last" and mates[name].kind != "init":
            return False
        others = (one for other, one in mates.items() if other != name and not one.kind)
        return any(one.codes - {"0"} and not one.killed_for_memory for one in others)


def ooms(log: Log, place: Place) -> tuple[Sign, ...]:
    """Containers that were killed for want of memory, without those that are surely not the program, or of surely
    another time."""
    found = log.of("pod_oomkilled")
    if not found:
        return ()
    containers = _Containers(log.signs)
    return tuple(s for s in found if not containers.aside(s) and place.in_time(s) is not False)


class Pods:
    """Kubernetes' events of the attempt."""

    def __init__(self, attempt: Attempt, log: Log, place: Place, node: NodeFacts) -> None:
        self.attempt = attempt
        self.log = log
        self.place = place
        self.node = node

    @once
    def _containers(self) -> _Containers:
        return _Containers(self.log.signs)

    def _of(self, *ids: str) -> tuple[Sign, ...]:
        """Lines of these families, without those about containers that are surely not the program, or of surely another
        time. Names of nodes tell nothing: to Slurm a pod is a node, to Kubernetes a machine."""
        found = (s for s in self.log.of(*ids) if s.voice is Voice.KUBERNETES and self.place.in_time(s) is not False)
        return tuple(s for s in found if not self._containers.aside(s))

    def said(self, says: str, *ids: str) -> Fact:
        """Whether kubectl's output holds such a line."""
        found = self._of(*ids)
        return true(says, found[:4]) if found else unknown(says, "no such event was seen", HOW)

    @once
    def only_end(self) -> Fact:
        """All events that name an end name the same one; neither Slurm's records nor the program tell of another."""
        says = "Kubernetes names one reason for the end, and only one"
        lines = self._of(*ENDS)
        errors = self.log.of(*ERRORS)
        if lines and errors:
            why = f"the program names an error of its own ({errors[0].cite.file} line {errors[0].cite.line})"
            return unknown(says, why, self.log.how)
        kinds = {s.id for s in lines}
        if len(kinds) == 1 and not self.attempt.records:
            return true(says, lines[:2])
        why = "the events name several reasons" if len(kinds) > 1 else "Slurm's records tell of the job's end too"
        return unknown(says, why if kinds else "no such event was seen", HOW)

    def proves(self, says: str, *ids: str) -> Fact:
        """The kubelet's own event, and nothing that tells of another end."""
        return all_of(says, self.said(says, *ids), self.only_end)

    # ------------------------------------------------------------------------------------------ probes

    @once
    def killed_for_probe(self) -> Fact:
        """The kubelet killed the container for its probe, and no OOM kill could have come before it."""
        says = "the kubelet killed the container for its probe"
        if self._of("pod_oomkilled"):
            return unknown(says, "a process of it was killed for want of memory too: which came first is open", HOW)
        return self.said(says, "pod_killing_liveness")

    @once
    def died_after_probe(self) -> Fact:
        """A liveness or startup probe failed, and the container died of SIGTERM or SIGKILL without an OOM kill.

        Older kubelets and cut event lists lack the line that names the kill.
        """
        says = "a probe failed, and the container died of SIGTERM or SIGKILL"
        codes = [s for s in self._of("pod_exit_code") if s.fields.get("code") in KILLED]
        others = [s for s in self._of(*ENDS) if s.id != "pod_killing_liveness"]
        if not codes or others:
            why = "other events name another end" if others else "no container is known to have died of a signal"
            return unknown(says, why, HOW)
        probes = self.said(says, "pod_liveness_failed")
        return true(says, [*probes.cites, *codes]) if probes.holds else probes

    @once
    def probes_survived(self) -> Fact:
        """Probes failed, but every container is known never to have ended nor to have been started again."""
        says = "no container was ended for it: none was ever started again"
        restarts = self._of("pod_restarts")
        ends = self._of(*ENDS, "pod_exit_code", "pod_killing", "pod_backoff")
        if ends or any(s.fields.get("count") != "0" for s in restarts):
            return false(says, "a container ended or was started again", [*ends[:2], *restarts[:2]])
        if restarts:
            return true(says, restarts[:2])
        return unknown(says, "how often the container was started was not seen", "kubectl describe pod POD")

    @property
    def probe_of_daemon(self) -> bool:
        """The probe was that of slurmd's own container: whoever runs the cluster has set it, not the job's owner."""
        return any(s.fields.get("container") == DAEMON for s in self._of("pod_killing_liveness"))

    # ------------------------------------------------------------------------------------------ eviction, deletion

    @once
    def deleted(self) -> Fact:
        """The pod was deleted, and its containers are not known to have ended by themselves before."""
        says = "the pod was deleted"
        own = [s for s in self._of("pod_exit_code") if s.fields.get("code") not in KILLED]
        if own:
            return unknown(says, f"a container had ended by itself (exit code {own[0].fields.get('code')})", HOW)
        return self.said(says, "pod_deleted")

    @once
    def drained_for_kubernetes(self) -> tuple[Sign, ...]:
        """Reasons of nodes of the job that were written for Kubernetes."""
        lines = (s for s in self.log.of("node_reason") if s.job is not None or self.place.ours(s))
        return tuple(s for s in lines if s.fields.get("reason", "").lower().startswith(FROM_KUBERNETES))

    @once
    def pod_of_node_gone(self) -> Fact:
        """Slurm lost a node of the job, and its reason says that the pod of that node went away."""
        says = "the pod of a node of the job went away, and Slurm lost the node"
        lines = [s for s in self.drained_for_kubernetes if any(w in s.fields["reason"].lower() for w in GONE)]
        if not lines:
            return unknown(says, "no such reason was seen", "sinfo -R; kubectl get events")
        return all_of(says, true(says, lines[:2]), self.node.lost)

    @once
    def evicted(self) -> Fact:
        """Evicted, preempted, deleted, or gone from under Slurm: any of them."""
        return any_of(
            "Kubernetes took the pod away",
            self.said("Kubernetes evicted the pod", "pod_evicted", "pod_preempted"),
            self.deleted,
            self.pod_of_node_gone,
        )

    @property
    def why_evicted(self) -> str:
        """Why the pod was taken away, in words that follow "because"; empty where the events do not say it."""
        signs = self._of("pod_evicted", "pod_preempted")
        for words in (_own_reason(s) for s in signs):
            if words:
                return words
        return next((_BY_CONTROL[r] for s in signs if (r := s.fields.get("reason", "")) in _BY_CONTROL), "")

    @once
    def fewer_than_wanted(self) -> Fact:
        """A set has fewer pods than it wants, or a pod found no place: not all that was asked for ran when asked."""
        says = "fewer pods ran than were asked for"
        short = [s for s in self._of("pod_set_count") if _short(s)]
        found = [*short, *self._of("pod_failed_scheduling"), *self._of("pod_pending")]
        return true(says, found[:4]) if found else unknown(says, "no such line was seen", "kubectl get pods,events")

    @property
    def over_request(self) -> bool:
        """The event says that the container used more than it had asked for, or than it may: its owner acts."""
        return any("over" in s.fields or "own_limit" in s.fields for s in self._of("pod_evicted"))


def _short(sign: Sign) -> bool:
    """Whether a set has fewer pods than it wants."""
    ready, wanted, waiting = (int(sign.fields.get(key, "0")) for key in ("ready", "wanted", "waiting"))
    return waiting > 0 or ready < wanted


def _own_reason(sign: Sign) -> str:
    """What one line says about the reason, empty if it gives none."""
    fields = sign.fields
    if sign.id == "pod_preempted":
        return "a pod of higher priority needed the place"
    if "resource" in fields:
        used = f", and it used {fields['used']}, more than it had asked for" if "over" in fields else ""
        return f"its node was low on {fields['resource']}{used}"
    if "own_limit" in fields:
        return "it used more local storage than it may"
    if "shutdown" in fields:
        return "its node was shut down"
    condition = fields.get("condition", "DisruptionTarget")
    return f"its node had the condition {condition}" if condition != "DisruptionTarget" else ""
