"""Whether "COMPLETED 0:0" hides anything: which sources would show it, and were they read."""

from __future__ import annotations

from slurm_triage.facts._logic import all_of, false, negation, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.cancel import Cancel
from slurm_triage.facts.log import Log
from slurm_triage.facts.scheduling import Scheduling
from slurm_triage.model import Fact, StepRecord


class Outcome:
    """The other side of a good state."""

    def __init__(
        self,
        accounting: Accounting,
        scheduling: Scheduling,
        cancel: Cancel,
        log: Log,
    ) -> None:
        self.accounting = accounting
        self.scheduling = scheduling
        self.cancel = cancel
        self.log = log

    @once
    def ended_well(self) -> Fact:
        """The state is COMPLETED, or only a left-over PREEMPTED of the earlier attempt hides that it is."""
        mistake = self.scheduling.preempted_by_mistake
        if mistake.holds:
            return true("the attempt ended well", mistake.cites)
        return self.accounting.ended_well

    @once
    def all_steps_fine(self) -> Fact:
        """Every step that accounting lists is COMPLETED with 0."""
        says = "every step ended with 0"
        if not self.accounting.steps_known:
            return unknown(says, "the steps' final records were not seen", self.accounting.how)
        bad = [
            s.cite
            for s in self.accounting.steps
            if not self._stopped_helper(s)
            and (s.state not in (None, "COMPLETED") or (s.exit is not None and (s.exit.code or s.exit.signal)))
        ]
        if bad:
            return false(says, "a step did not", bad)
        return true(says, [s.cite for s in self.accounting.steps[:2]])

    def _stopped_helper(self, step: StepRecord) -> bool:
        """A step that somebody cancelled while others came after it: servers and monitors are stopped that way."""
        return bool(step.cancelled_by) and step.step != self.accounting.last_app_step

    @once
    def nothing_hidden(self) -> Fact:
        """The steps' records, the output and the scheduler's view were read, and none shows a failure."""
        says = "the sources that would show a hidden failure were read and show none"
        read = (
            true("the job's output was read", self.log.ends[:1])
            if self.log.read
            else unknown("the job's output was read", self.log.unread, self.log.how)
        )
        return all_of(
            says,
            self.all_steps_fine,
            read,
            negation("Slurm did not preempt it", self.scheduling.preempted),
            negation("no cancellation was printed", self.cancel.cancel_message),
        )
