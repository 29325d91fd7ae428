"""What the scheduler did to the attempt: preemption, time limit, deadline, requeue, suspension."""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.limits import Limits
from slurm_triage.facts.log import Log
from slurm_triage.model import Cite, Fact, Sign, Stamp

GRACE_STATE_SINCE = (24, 5)
"""From this version a job that ends by itself in its grace time is PREEMPTED; before it keeps its own end as state."""
AFTER_PAUSE = 30
"""Seconds after a resume within which a failure is put down to the pause. SuspendTime is the last suspend or resume."""
OTHER_ENDS = ("CANCELLED", "TIMEOUT", "NODE_FAIL", "DEADLINE", "BOOT_FAIL")


class Scheduling:
    """Acts of slurmctld on the attempt."""

    def __init__(self, attempt: Attempt, accounting: Accounting, limits: Limits, log: Log) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.limits = limits
        self.log = log

    # ------------------------------------------------------------------------------------------ preemption

    @once
    def preempted(self) -> Fact:
        """Slurm preempted this attempt."""
        says = "Slurm preempted the job"
        cites: list[Cite | Sign] = [c for word, c in self.accounting.states if word == "PREEMPTED"]
        if cites and self.preempted_by_mistake.holds:
            return false(says, self.preempted_by_mistake.says, self.preempted_by_mistake.cites)
        if cites and self.preempted_by_mistake.holds is None:
            return unknown(says, "the state may be left over from the earlier attempt", self.preempted_by_mistake.how)
        cites += self.log.of("ctld_preempted", "ctld_preempt_grace")
        cites += [s for s in self.log.of("slurmd_cancelled") if "DUE TO PREEMPTION" in s.cite.text]
        if not (self.limits.suspends and self.suspended.holds):  # a gang's pause sets PreemptTime, too
            cites += [v.cites.get("PreemptTime", v.cite) for v in self.accounting.views if v.preempt_time is not None]
        printed = self.log.of("slurm_preempted")
        if cites or (printed and self.accounting.final is None):
            return true(says, [*cites, *printed])
        final = self.accounting.final
        if final is not None and final.state in OTHER_ENDS:
            return false(says, f"accounting says {final.state}", [final])
        if final is not None and self.attempt.version is not None and self.attempt.version >= GRACE_STATE_SINCE:
            return false(says, f"accounting says {final.state}, and this version marks every preempted job", [final])
        off = self.limits.cannot_be_preempted
        if off is not None:
            return false(says, "preemption is off for the job's partition", [off])
        if self.accounting.views and final is not None and self._views_after_end:
            view = self.accounting.views[0]
            return false(
                says, "slurmctld's PreemptTime is not set", [view.cites.get("PreemptTime", view.cite), final.cite]
            )
        return unknown(
            says,
            "before 24.05 a job that ends in its grace time keeps its own end as state",
            f"scontrol show job {self.attempt.job_id or 'JOBID'} (PreemptTime) while slurmctld still knows the job",
        )

    @property
    def _views_after_end(self) -> bool:
        return any(
            "PreemptTime" in v.values and v.preempt_time is None and v.end is not None for v in self.accounting.views
        )

    @once
    def preempted_by_mistake(self) -> Fact:
        """PREEMPTED for a later attempt that ended well while slurmctld logged no preemption (recorded on 24.11.5)."""
        says = "the state PREEMPTED is left over from the earlier attempt: this one ended well and nothing preempted it"
        batch = self.accounting.step("batch")
        ended_well = batch is not None and batch.state == "COMPLETED" and self._all_steps_fine
        if self.attempt.number == 1 or not ended_well or self.accounting.state != "PREEMPTED" or batch is None:
            return false(says, "not such an attempt")
        if self.log.of("ctld_preempted", "slurm_preempted", "ctld_preempt_grace"):
            return false(says, "slurmctld logged a preemption", self.log.of("ctld_preempted")[:1])
        if self.log.of("ctld_start", "ctld_complete"):
            return true(says, [batch])
        return unknown(says, "slurmctld's log was not seen", "read slurmctld's log for `preempted JobId=`")

    @property
    def _all_steps_fine(self) -> bool:
        return all(
            s.state == "COMPLETED" and (s.exit is None or s.exit.code == 0 == s.exit.signal)
            for s in self.accounting.steps
        )

    @property
    def preemptor(self) -> tuple[str, Cite] | None:
        """The job for which this one had to go, where slurmctld's log names it."""
        for sign in self.log.of("ctld_preempted", "ctld_preempt_grace"):
            if sign.fields.get("by"):
                return sign.fields["by"], sign.cite
        return None

    # ------------------------------------------------------------------------------------------ limits

    @once
    def time_limit(self) -> Fact:
        """Slurm ended the job, or one of its steps, at its time limit."""
        says = "Slurm ended the job at its time limit"
        cites: list[Cite | Sign] = [c for word, c in self.accounting.states if word == "TIMEOUT"]
        printed = self.log.of("slurm_time_limit")
        of_step = [s for s in printed if s.fields.get("kind", "").upper() == "STEP"]
        cites += self.log.of("ctld_time_limit")
        last = [s for s in of_step if s.step is None or s.step == self.accounting.last_app_step]
        if cites or (printed and self.accounting.final is None):
            return true(says, [*cites, *printed])
        if last and self.accounting.final is not None and not self._ended_by_itself:
            return true(says, last)
        final = self.accounting.final
        if final is not None:
            return false(says, f"accounting says {final.state}", [final])
        return unknown(says, "the final state was not seen", self.accounting.how)

    @property
    def _ended_by_itself(self) -> bool:
        """The job's own record shows an end that a signal to its last step does not give."""
        final = self.accounting.final
        shown = final.exit if final is not None else None
        signalled = (9, 15, 128 + 9, 128 + 15)
        return shown is not None and shown.signal == 0 and shown.code not in signalled

    @once
    def deadline(self) -> Fact:
        """Slurm removed the job because of --deadline."""
        fact = self.accounting.state_is("DEADLINE", says="Slurm removed the job at its --deadline")
        signs = self.log.of("ctld_deadline")
        return true(fact.says, [*fact.cites, *signs]) if signs else fact

    @once
    def requeued(self) -> Fact:
        """The attempt ended with a requeue (of whatever reason)."""
        says = "Slurm put the job back into the queue"
        cites: list[Cite | Sign] = [
            c for w, c in self.accounting.states if w in ("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
        ]
        cites += self.log.of("slurm_requeue", "ctld_requeue_user")
        if cites:
            return true(says, cites)
        final = self.accounting.final
        if final is not None:
            return false(says, f"accounting says {final.state}", [final])
        return unknown(says, "the final state was not seen", self.accounting.how)

    @once
    def requeue_said(self) -> Fact:
        """A daemon or slurmstepd says in so many words that a requeue ended the attempt."""
        says = "slurmstepd or slurmctld says that a requeue ended the attempt"
        lines = self.log.of("slurm_requeue", "ctld_requeue_user")
        lines += tuple(s for s in self.log.of("slurmd_cancelled") if "REQUEUE" in s.cite.text)
        if lines:
            return true(says, lines)
        return unknown(says, "no such line was seen (the next attempt truncates the output)", "read slurmd's log")

    # ------------------------------------------------------------------------------------------ dependency

    @property
    def dependency(self) -> str | None:
        """The dependency as slurmctld shows it (`afterok:1015(failed)`)."""
        for view in self.accounting.all_views:
            word = view.values.get("Dependency", "")
            if word and word != "(null)":
                return word
        return None

    @once
    def dependency_never(self) -> Fact:
        """The job never started because its dependency can never be met."""
        says = "the job's dependency can never be met"
        cites: list[Cite | Sign] = [
            v.cites.get("Reason", v.cite)
            for v in self.accounting.all_views
            if v.values.get("Reason", "").startswith("DependencyNeverSatisfied")
        ]
        cites += [r.cite for r in self.accounting.records if (r.reason or "").startswith("DependencyNeverSatisfied")]
        cites += self.log.of("ctld_dependency_never")
        if cites and self.attempt.started is not True:
            return true(says, cites)
        if self.attempt.started is not False:
            final = self.accounting.final
            started = [r.cite for r in self.accounting.records if r.start is not None]
            if started or final is not None:
                return false(says, "the job started", started or ([final] if final else []))
        reasons = [v.cites.get("Reason", v.cite) for v in self.accounting.all_views if v.values.get("Reason")]
        if reasons:
            return false(says, "slurmctld gives another reason", reasons[:1])
        return unknown(
            says,
            "the job's Reason was not seen",
            f"scontrol show job {self.attempt.job_id or 'JOBID'} (Reason, Dependency)",
        )

    # ------------------------------------------------------------------------------------------ suspension

    @once
    def suspended(self) -> Fact:
        """The job was suspended for some time (by an administrator, by preemption, or by gang scheduling)."""
        says = "the job was suspended for a while"
        cites: list[Cite | Sign] = [r.cite for r in self.accounting.records if _sane_pause(r.suspended)]
        cites += [v.cites.get("SuspendTime", v.cite) for v in self.accounting.views if v.suspend_time is not None]
        cites += self.log.of("ctld_suspend")
        if cites:
            return true(says, cites)
        final = self.accounting.final
        if final is not None and final.suspended is not None:
            return false(says, "accounting counts no suspended time", [final])
        return unknown(says, "the suspended time was not seen", self.accounting.how)

    @once
    def failed_right_after_pause(self) -> Fact:
        """The job ended within seconds of going on after a pause."""
        says = f"the job ended within {AFTER_PAUSE} s of being resumed"
        for view in self.accounting.views:
            end = self.attempt.end or view.end
            if view.suspend_time is None or end is None:
                continue
            gap = end.seconds_since(view.suspend_time)
            cite = view.cites.get("SuspendTime", view.cite)
            if gap is not None and -1.0 <= gap <= AFTER_PAUSE:
                return true(says, [cite])
            if gap is not None:
                return false(says, f"it ran on for {gap:.0f} s", [cite])
        return unknown(
            says, "when it was resumed was not seen", "scontrol show job (SuspendTime) while slurmctld knows it"
        )

    @property
    def failed_after_pause(self) -> Fact:
        """As `failed_right_after_pause`; False for a job that was not suspended as far as the evidence shows."""
        if self.suspended.holds:
            return self.failed_right_after_pause
        return false("the job failed right after a pause", "no pause was seen", self.suspended.cites)

    # ------------------------------------------------------------------------------------------ windows

    @once
    def term_sent(self) -> tuple[Stamp, Cite] | None:
        """When Slurm first told the tasks to end (slurmstepd's CANCELLED line)."""
        ids = (
            "slurm_cancelled", "slurm_cancelled_signal", "slurm_preempted", "slurm_time_limit", "slurm_requeue",
            "slurm_node_failure", "slurmd_cancelled",
        )  # fmt: skip
        found = [(s.at, s.cite) for s in self.log.of(*ids) if s.at is not None]
        return min(found, key=lambda item: item[0].lo) if found else None


def _sane_pause(seconds: float | None) -> bool:
    """Accounting shows nonsense (tens of years) for some suspended steps and jobs (recorded, all versions)."""
    return seconds is not None and 0 < seconds < 366 * 86400
