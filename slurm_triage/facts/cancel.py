"""Who ended or signalled the job through Slurm: scancel by the owner, by root, of a step, with a signal of its own."""

from __future__ import annotations

from functools import cached_property

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.log import Log
from slurm_triage.facts.ranks import Ranks
from slurm_triage.facts.scheduling import Scheduling
from slurm_triage.model import Cite, Fact, Sign

CTLD_HOW = "read slurmctld's log for REQUEST_KILL_JOB and the uid behind it"


class Cancel:
    """Cancellations of the attempt."""

    def __init__(
        self, attempt: Attempt, accounting: Accounting, scheduling: Scheduling, ranks: Ranks, log: Log
    ) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.scheduling = scheduling
        self.ranks = ranks
        self.log = log

    @cached_property
    def requests(self) -> tuple[Sign, ...]:
        """slurmctld's lines about a kill request (scancel in any form) while the attempt lived."""
        end = self.attempt.end
        return tuple(
            s
            for s in self.log.of("ctld_kill_request")
            if s.at is None or end is None or s.at.zoned != end.zoned or s.at.lo <= end.hi + 1.0
        )

    @cached_property
    def by_state(self) -> Fact:
        """Accounting names who cancelled the job: `CANCELLED by <uid>`."""
        says = "accounting says who cancelled the job"
        cites = [r.cite for r in self.accounting.records if r.state == "CANCELLED" and r.cancelled_by is not None]
        if cites:
            return true(says, cites)
        final = self.accounting.final
        if final is not None and final.state != "CANCELLED":
            return false(says, f"accounting says {final.state}", [final])
        return unknown(says, "no record says CANCELLED by somebody", self.accounting.how)

    @cached_property
    def request_logged(self) -> Fact:
        """slurmctld logged a kill request for the job while it lived."""
        says = "slurmctld logged a kill request (scancel) for the job"
        if self.requests:
            return true(says, self.requests)
        covering = self.log.of("ctld_complete", "ctld_start")
        if self.log.of("ctld_start") and self.log.of("ctld_complete"):
            return false(says, "slurmctld's log of the job's life holds none", covering[-1:])
        return unknown(says, "slurmctld's log of the job's life was not seen", CTLD_HOW)

    @cached_property
    def step_cancelled(self) -> Fact:
        """A step was cancelled by somebody: `.0 CANCELLED by <uid>`."""
        says = "a step of the job was cancelled with scancel"
        cites = [s.cite for s in self.accounting.steps if s.state == "CANCELLED" and s.cancelled_by]
        if cites:
            return true(says, cites)
        if self.accounting.steps_known:
            return false(says, "no step line says CANCELLED by somebody", [s.cite for s in self.accounting.steps[:2]])
        return unknown(says, "the step lines were not seen", self.accounting.how)

    @cached_property
    def cancel_message(self) -> Fact:
        """slurmstepd printed a plain CANCELLED line (scancel, the start of a grace time, or srun's own teardown)."""
        says = "slurmstepd printed CANCELLED AT without a reason"
        lines = self.log.of("slurm_cancelled", "slurm_cancelled_signal")
        job_lines = [s for s in lines if s.fields.get("kind", "").upper() == "JOB"]
        if job_lines:
            return true(says, job_lines)
        teardown = self.log.of("srun_terminating", "slurm_task_failure", "mpi_abort")
        if lines and not teardown and not self.ranks.failed:
            return true(says, lines)
        if lines:
            return false(says, "srun tore the step down after a task had failed", [*teardown[:1], *lines[:1]])
        return self.log.has(says, "slurm_cancelled", "slurm_cancelled_signal")

    @cached_property
    def state_cancelled(self) -> Fact:
        """The state is CANCELLED, with or without a name."""
        return self.accounting.state_is("CANCELLED")

    @property
    def who(self) -> tuple[str, Cite] | None:
        """The uid or user name behind the cancellation, and the line that says so. A record made before a restart of
        slurmctld may still name it when the final one does not."""
        for record in self.accounting.records:
            if record.state == "CANCELLED" and record.cancelled_by:
                return record.cancelled_by, record.cite
        for sign in self.requests:
            if sign.fields.get("uid"):
                return sign.fields["uid"], sign.cite
        for step in self.accounting.steps:
            if step.state == "CANCELLED" and step.cancelled_by:
                return step.cancelled_by, step.cite
        return None

    @property
    def by_owner(self) -> bool | None:
        """True: the job's owner; False: root or somebody else; None: not known."""
        found = self.who
        if found is None:
            return None
        if found[0] in ("0", "root"):
            return bool(self.accounting.owner_names & {"0", "root"})
        names = self.accounting.owner_names
        return found[0] in names if names else None
