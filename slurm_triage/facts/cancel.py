"""Who ended or signalled the job through Slurm: scancel by the owner, by root, of a step, with a signal of its own."""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.log import Log
from slurm_triage.facts.ranks import Ranks
from slurm_triage.model import Cite, Fact, Sign

CTLD_HOW = "read slurmctld's log for REQUEST_KILL_JOB and the uid behind it"


class Cancel:
    """Cancellations of the attempt."""

    def __init__(self, attempt: Attempt, accounting: Accounting, exits: Exits, ranks: Ranks, log: Log) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.exits = exits
        self.ranks = ranks
        self.log = log

    @once
    def requests(self) -> tuple[Sign, ...]:
        """slurmctld's lines about a kill request (scancel in any form) that was granted while the attempt lived.

        slurmctld logs a request before it checks the right to make it; a denied one is followed by a security line.
        """
        done = min((s.at.lo for s in self.log.of("ctld_complete") if s.at is not None), default=None)
        denied = {(s.cite.file, s.fields.get("uid", "")) for s in self.log.of("ctld_denied")}
        found = []
        for sign in self.log.of("ctld_kill_request"):
            late = done is not None and sign.at is not None and sign.at.lo > done
            if not late and (sign.cite.file, sign.fields.get("uid", "")) not in denied and self._before_end(sign):
                found.append(sign)
        return tuple(found)

    def _before_end(self, sign: Sign) -> bool:
        end = self.attempt.end
        return sign.at is None or end is None or sign.at.zoned != end.zoned or sign.at.lo <= end.hi + 1.0

    @once
    def _ended_by_signal(self) -> bool:
        """Whether the end can be the work of a signal that scancel sends: by state, status or exit code."""
        if any(word == "CANCELLED" for word, _ in self.accounting.states):
            return True
        info, cite = self.exits.job_exit
        if cite is None:
            return self.accounting.final is None
        return bool(info.signal) or any(128 < code <= 192 for code in self.exits.possible_codes)

    @once
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

    @once
    def request_logged(self) -> Fact:
        """slurmctld logged a kill request for the job while it lived, and the job's end fits it."""
        says = "slurmctld logged a kill request (scancel) for the job, and its end fits"
        if self.requests and self._ended_by_signal:
            return true(says, self.requests)
        if self.requests:
            return false(says, "the job did not end by a signal", self.requests)
        covering = self.log.of("ctld_complete", "ctld_start")
        if self.log.of("ctld_start") and self.log.of("ctld_complete"):
            return false(says, "slurmctld's log of the job's life holds none", covering[-1:])
        return unknown(says, "slurmctld's log of the job's life was not seen", CTLD_HOW)

    @once
    def step_cancelled(self) -> Fact:
        """The deciding step was cancelled by somebody: `.0 CANCELLED by <uid>`.

        A helper step may be cancelled on purpose; it decides only as the last step, with an end of the job that fits.
        """
        says = "the job's last step was cancelled with scancel"
        steps = [s for s in self.accounting.steps if s.state == "CANCELLED" and s.cancelled_by]
        last = [s for s in steps if s.step == self.exits.last_step]
        if last and any("application called MPI_Abort" in s.cite.text for s in self.log.of("mpi_abort")):
            return unknown(says, "MPI_Abort makes Slurm's PMI-2 cancel the step in the user's name", CTLD_HOW)
        fits = self._ended_by_signal or self.accounting.state == "COMPLETED"
        if last and fits:
            return true(says, last)
        if steps:
            return false(says, "the job went on after it or ended by itself", steps)
        if self.accounting.steps_known:
            return false(says, "no step line says CANCELLED by somebody", [s.cite for s in self.accounting.steps[:2]])
        return unknown(says, "the step lines were not seen", self.accounting.how)

    @once
    def cancel_message(self) -> Fact:
        """slurmstepd printed a plain CANCELLED line (scancel, the start of a grace time, or srun's own teardown)."""
        says = "slurmstepd printed CANCELLED AT without a reason"
        lines = self.log.of("slurm_cancelled", "slurm_cancelled_signal")
        job_lines = [s for s in lines if s.fields.get("kind", "").upper() == "JOB"]
        if job_lines:
            return true(says, job_lines)
        teardown = self.log.of("srun_terminating", "slurm_task_failure", "mpi_abort")
        final = self.accounting.final is not None
        if lines and not teardown and not self.ranks.failed and (self._ended_by_signal or not final):
            return true(says, lines)
        if lines:
            return false(says, "srun tore the step down, or the job ended by itself", [*teardown[:1], *lines[:1]])
        return self.log.has(says, "slurm_cancelled", "slurm_cancelled_signal")

    @once
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
