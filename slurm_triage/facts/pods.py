"""Pods: what the kubelet did to a container, by kubectl's own output."""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.log import Log
from slurm_triage.model import Fact, Sign, Voice

HOW = "kubectl describe pod POD; kubectl get events"
ENDS = ("pod_evicted", "pod_killing_liveness", "pod_oomkilled", "pod_deadline", "pod_preempted")
"""Families that name why a pod or container was ended."""


class Pods:
    """Kubernetes' events of the attempt."""

    def __init__(self, attempt: Attempt, log: Log) -> None:
        self.attempt = attempt
        self.log = log

    def _of(self, *ids: str) -> tuple[Sign, ...]:
        return tuple(s for s in self.log.of(*ids) if s.voice is Voice.KUBERNETES)

    def said(self, says: str, *ids: str) -> Fact:
        """Whether kubectl's output holds such a line."""
        found = self._of(*ids)
        return true(says, found[:4]) if found else unknown(says, "no such event was seen", HOW)

    @once
    def only_end(self) -> Fact:
        """All events that name an end name the same one, and no Slurm record tells of another."""
        says = "Kubernetes names one reason for the end, and only one"
        kinds = {s.id for s in self._of(*ENDS)}
        lines = self._of(*ENDS)
        if len(kinds) == 1 and not self.attempt.records:
            return true(says, lines[:2])
        why = "the events name several reasons" if len(kinds) > 1 else "Slurm's records tell of the job's end too"
        return unknown(says, why if kinds else "no such event was seen", HOW)

    def proves(self, says: str, *ids: str) -> Fact:
        """The kubelet's own event, and nothing that tells of another end."""
        return all_of(says, self.said(says, *ids), self.only_end)

    @once
    def killed_for_probe(self) -> Fact:
        """The kubelet killed the container for its probe, and no OOM kill could have come before it."""
        says = "the kubelet killed the container for its probe"
        if self._of("pod_oomkilled"):
            return unknown(says, "a process of it was killed for want of memory too: which came first is open", HOW)
        return self.said(says, "pod_killing_liveness")

    @property
    def over_request(self) -> bool:
        """The event says that the container used more than it had asked for: its owner acts, not the administrator."""
        return any("exceeds its request" in s.cite.text for s in self._of("pod_evicted"))
