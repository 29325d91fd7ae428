"""Nodes of the attempt: lost, drained, rebooted."""

from __future__ import annotations

from functools import cached_property

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import any_of, false, true, unknown
from slurm_triage.facts.accounting import Accounting
from slurm_triage.model import Cite, Fact, Sign


class NodeFacts:
    """What happened to the nodes."""

    def __init__(self, attempt: Attempt, accounting: Accounting) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.signs = tuple(e for e in attempt.events if isinstance(e, Sign))

    def _of(self, *ids: str) -> list[Sign]:
        return [s for s in self.signs if s.id in ids]

    @cached_property
    def lost(self) -> Fact:
        """Slurm lost a node of the job."""
        says = "Slurm lost a node of the job"
        state = self.accounting.state_is("NODE_FAIL", says=says)
        lines = self._of("slurm_node_failure", "srun_node_failure", "ctld_node_fail")
        named = [r.cite for r in self.accounting.records if r.failed_node]
        if lines or named:
            return true(says, [*state.cites, *named, *lines] if state.holds else [*named, *lines])
        return state

    @property
    def names(self) -> list[str]:
        """The nodes that failed, as far as a line names them."""
        found = [r.failed_node for r in self.accounting.records if r.failed_node]
        found += [s.fields["node"] for s in self._of("srun_node_failure", "ctld_node_fail") if s.fields.get("node")]
        return list(dict.fromkeys(n for n in found if n))

    @cached_property
    def reason_down(self) -> Fact:
        """The node's own record gives a reason for being down or drained."""
        says = "the node's record gives a reason for being down or drained"
        lines = self._of("node_reason", "ctld_drain")
        return true(says, lines) if lines else unknown(says, "sinfo -R was not seen", "sinfo -R, or scontrol show node")

    @cached_property
    def went_down(self) -> Fact:
        """The reason is a loss of the node (unexpected reboot, not responding), not an administrator's word."""
        says = "the node rebooted unexpectedly or stopped responding"
        words = ("unexpectedly rebooted", "not responding", "node failure")
        lines = [s for s in self._of("node_reason", "ctld_drain") if any(w in s.cite.text.lower() for w in words)]
        if lines:
            return true(says, lines)
        return unknown(says, "no such reason was seen", "sinfo -R, or scontrol show node")

    @cached_property
    def unkillable(self) -> Fact:
        """Processes of the job did not die after SIGKILL."""
        says = "processes of the job did not die after SIGKILL"
        lines = self._of("slurm_stepd_terminated", "slurmd_stepd_terminated")
        lines = [s for s in lines if "NOT ENDING WITH SIGNALS" in s.cite.text]
        reason = [s for s in self._of("node_reason", "ctld_drain") if "kill task failed" in s.cite.text.lower()]
        if lines or reason:
            return true(says, [*lines, *reason])
        return unknown(says, "no such line was seen", "sinfo -R; slurmd's log for `NOT ENDING WITH SIGNALS`")

    @cached_property
    def stepd_gave_up(self) -> Fact:
        """slurmstepd itself says that it gave up waiting for the processes to die."""
        says = "slurmstepd gave up waiting for the job's processes to die"
        lines = self._of("slurm_stepd_terminated", "slurmd_stepd_terminated")
        lines = [s for s in lines if "NOT ENDING WITH SIGNALS" in s.cite.text]
        return true(says, lines) if lines else unknown(says, "no such line was seen", "read slurmd's log on the node")

    @cached_property
    def boot_failed(self) -> Fact:
        """A node did not come up for the job."""
        says = "a node did not boot for the job"
        state = self.accounting.state_is("BOOT_FAIL", says=says)
        lines = self._of("srun_boot_failed")
        return true(says, [*state.cites, *lines]) if lines else state

    @cached_property
    def trouble(self) -> Fact:
        """Any of the above."""
        return any_of("a node of the job was in trouble", self.lost, self.went_down, self.unkillable, self.boot_failed)

    def cites(self) -> list[Cite]:
        """Lines that name a lost node."""
        return list(self.lost.cites)

    @property
    def none_lost(self) -> Fact:
        """No node was lost, as far as final accounting can tell."""
        if self.lost.holds is False:
            return true("no node was lost", self.lost.cites)
        if self.lost.holds:
            return false("no node was lost", "a node was lost", self.lost.cites)
        return unknown("no node was lost", self.lost.because, self.lost.how)
