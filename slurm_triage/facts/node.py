"""Nodes of the attempt: lost, drained, rebooted.

Slurm's state NODE_FAIL, FailedNode and lines that name the job prove a loss. A line that names only a node is about the
job when the node is the job's and the time fits, and even then nodes go down after jobs, too.
"""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import any_of, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place
from slurm_triage.facts.accounting import Accounting
from slurm_triage.model import Fact, Sign
from slurm_triage.nodeset import expand

SINFO = "sinfo -R, or scontrol show node"
WENT_DOWN = ("unexpectedly rebooted", "not responding", "node failure")
STUCK = ("kill task failed", "batch job complete failure", "not responding")
"""Reasons that Slurm itself gives where processes did not end or a node is stuck (slurm_errno.c, slurmctld)."""


class NodeFacts:
    """What happened to the nodes."""

    def __init__(self, attempt: Attempt, accounting: Accounting, place: Place) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.place = place
        self.signs = tuple(e for e in attempt.events if isinstance(e, Sign))

    def _of(self, *ids: str) -> list[Sign]:
        return [s for s in self.signs if s.id in ids]

    def _near(self, *ids: str) -> list[Sign]:
        """Lines without a job that are not surely about other nodes or another time."""
        return [s for s in self._of(*ids) if s.job is not None or self.place.ours(s)]

    @once
    def lost(self) -> Fact:
        """Slurm lost a node of the job, and says so of this job."""
        says = "Slurm lost a node of the job"
        state = self.accounting.state_is("NODE_FAIL", says=says)
        lines = self._of("slurm_node_failure") + [s for s in self._of("ctld_node_fail") if s.job is not None]
        named = [r.cite for r in self.accounting.records if r.failed_node]
        if self.accounting.final is None or self.attempt.job_id is None:
            lines += self._near("srun_node_failure")
        if lines or named:
            return true(says, [*state.cites, *named, *lines] if state.holds else [*named, *lines])
        return state

    @once
    def said_lost(self) -> Fact:
        """srun says that a node of the job failed; a job that may go on without it (--no-kill) need not end of that."""
        says = "srun says that a node of the job failed"
        lines = self._near("srun_node_failure")
        return true(says, lines) if lines else unknown(says, "srun says nothing of it", SINFO)

    @property
    def names(self) -> list[str]:
        """The nodes that failed, as far as a line names them."""
        found = [r.failed_node for r in self.accounting.records if r.failed_node]
        for sign in self._near("srun_node_failure", "ctld_node_fail"):
            text = sign.fields.get("node") or sign.fields.get("nodes") or ""
            found += [n for n in expand(text) or () if not self.place.nodes or n.split(".")[0] in self.place.nodes]
        return list(dict.fromkeys(n for n in found if n))

    @once
    def reason_down(self) -> Fact:
        """The record of a node of the job names a stuck or lost node; an upgrade says nothing of a job."""
        says = "the node's record gives a failure as the reason for being down or drained"
        lines = [s for s in self._near("node_reason", "ctld_drain") if any(w in s.cite.text.lower() for w in STUCK)]
        return true(says, lines) if lines else unknown(says, "sinfo -R was not seen", SINFO)

    @once
    def went_down(self) -> Fact:
        """A node of the job rebooted or stopped responding in its time; no line ties that to the job itself."""
        says = "a node of the job rebooted unexpectedly or stopped responding"
        lines = [s for s in self._of("node_reason", "ctld_drain", "ctld_node_fail") if s.job is None]
        lines = [s for s in lines if any(w in s.cite.text.lower() for w in WENT_DOWN) and self.place.surely_ours(s)]
        return true(says, lines) if lines else unknown(says, "no such reason was seen", SINFO)

    @once
    def unkillable(self) -> Fact:
        """Processes of the job did not die after SIGKILL."""
        says = "processes of the job did not die after SIGKILL"
        lines = list(self.stepd_gave_up.cites)
        reason = self._near("node_reason", "ctld_drain")
        lines += [s.cite for s in reason if "kill task failed" in s.cite.text.lower()]
        if lines:
            return true(says, lines)
        return unknown(says, "no such line was seen", "sinfo -R; slurmd's log for `NOT ENDING WITH SIGNALS`")

    @once
    def stepd_gave_up(self) -> Fact:
        """slurmstepd itself says that it gave up waiting for the processes to die."""
        says = "slurmstepd gave up waiting for the job's processes to die"
        lines = self._of("slurm_stepd_terminated", "slurmd_stepd_terminated")
        lines = [s for s in lines if "NOT ENDING WITH SIGNALS" in s.cite.text]
        return true(says, lines) if lines else unknown(says, "no such line was seen", "read slurmd's log on the node")

    @once
    def boot_failed(self) -> Fact:
        """A node did not come up for the job."""
        says = "a node did not boot for the job"
        state = self.accounting.state_is("BOOT_FAIL", says=says)
        lines = self._of("srun_boot_failed")
        return true(says, [*state.cites, *lines]) if lines else state

    @once
    def trouble(self) -> Fact:
        """A loss in any words."""
        return any_of("a node of the job was lost", self.lost, self.said_lost, self.went_down)
