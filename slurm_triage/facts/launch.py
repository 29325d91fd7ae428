"""Setting up and starting: prolog, output files, working directory, program files."""

from __future__ import annotations

import re

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import any_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.log import Log
from slurm_triage.model import Cite, ControllerJob, Fact, JobRecord, Sign, StepRecord

IO_ERROR, PROLOG_FAILED = 53, 54
ENOENT, EACCES, ENOEXEC = "No such file or directory", "Permission denied", "Exec format error"

CUT_INTERPRETER = "bad interpreter("
"""Where the first line of a script ends in CR LF, slurmstepd's message is cut before its error text."""


BATCH_SCRIPT = re.compile(r"/job\d{1,10}/slurm_script$")
"""Slurm's own copy of the batch script, in slurmd's spool (slurmstepd's _make_batch_script in mgr.c)."""


class Launch:
    """Whether Slurm could start what it was told to start."""

    def __init__(self, attempt: Attempt, accounting: Accounting, exits: Exits, log: Log, place: Place) -> None:
        self.place = place
        self.attempt = attempt
        self.accounting = accounting
        self.exits = exits
        self.log = log

    def _status(self, number: int) -> list[Cite]:
        """Lines that show Slurm's own status `number` in place of a signal."""
        rows: list[JobRecord | StepRecord] = [*self.accounting.records, *self.accounting.steps]
        found = [r.cite for r in rows if r.exit is not None and r.exit.signal == number]
        found += [r.cite for r in self.accounting.records if r.derived is not None and r.derived.signal == number]
        for hook in self.accounting.hooks:
            text = hook.values.get("SLURM_JOB_EXIT_CODE", "")
            if text.isascii() and text.isdigit() and int(text) & 0x7F == number:
                found.append(hook.cites["SLURM_JOB_EXIT_CODE"])
        return found

    # ------------------------------------------------------------------------------------------ output and directory

    @once
    def output_status(self) -> Fact:
        """Slurm's status 53 (ESLURMD_IO_ERROR): the job's input or output could not be set up."""
        return self._by_status("Slurm ended the job with its I/O error status 0:53", IO_ERROR)

    def _by_status(self, says: str, number: int) -> Fact:
        cites = self._status(number)
        if cites:
            return true(says, cites)
        final = self.accounting.final
        if final is not None:
            shown = f"{final.exit.code}:{final.exit.signal}" if final.exit else "no exit code"
            return false(says, f"accounting says {final.state} {shown}", [final])
        return unknown(says, "the final exit code was not seen", self.accounting.how)

    @once
    def output_refused(self) -> Fact:
        """slurmstepd says that it could not open the output file."""
        says = "slurmstepd could not open the job's output file"
        lines = self.log.of("slurmd_output_open", "slurm_output_open")
        if lines:
            return true(says, lines)
        return unknown(
            says, "slurmd's log was not seen", "read slurmd's log on the batch host for `Could not open std`"
        )

    @once
    def chdir_failed(self) -> Fact:
        """The working directory did not exist on the node."""
        says = "the job's working directory could not be entered"
        return self.log.has(says, "slurm_chdir", "slurmd_chdir")

    # ------------------------------------------------------------------------------------------ prolog

    @once
    def prolog_status(self) -> Fact:
        """Slurm's status 54 (ESLURMD_PROLOG_FAILED)."""
        return self._by_status("Slurm ended the job with its prolog status 0:54", PROLOG_FAILED)

    @once
    def prolog_message(self) -> Fact:
        """A daemon or srun says that the prolog failed."""
        says = "Slurm says that the prolog failed"
        lines = self.log.of("slurm_prolog_failed", "slurmd_prolog_failed")
        lines += tuple(s for s in self.log.of("ctld_prolog_fail") if s.job is not None)
        if self.never_ran.holds or self.attempt.job_id is None:
            reasons = self.log.of("node_reason", "ctld_drain", "ctld_prolog_fail")
            lines += tuple(s for s in reasons if "prolog" in s.cite.text.lower() and self.place.ours(s))
        if lines:
            return true(says, lines)
        return unknown(says, "no daemon's log with the prolog's failure was seen", "sinfo -R; slurmd's log on the node")

    @once
    def held_after_launch(self) -> Fact:
        """The job sits in the queue with Reason launch_failed_requeued_held."""
        says = "Slurm holds the job because its launch failed"
        words = ("launch_failed_requeued_held", "launch failed requeued held", "job_hold_max_requeue")
        cites = [
            view.cites.get("Reason", view.cite)
            for view in self._all_views()
            if any(w in view.values.get("Reason", "").lower() for w in words)
        ]
        cites += [r.cite for r in self.accounting.records if any(w in (r.reason or "").lower() for w in words)]
        if cites:
            return true(says, cites)
        return unknown(says, "the job's Reason was not seen while it waited", "squeue -j JOBID -o '%T %r'")

    def _all_views(self) -> list[ControllerJob]:
        return [e for e in self.attempt.events if isinstance(e, ControllerJob)]

    @once
    def never_ran(self) -> Fact:
        """No task of the job ever started although it had nodes."""
        says = "no task of the job ever started"
        if self.exits.tasks or self.log.of("task_start"):  # tasks that ended with 0 may have left no record
            return false(says, "a task started", [e.cite for e in self.exits.tasks[:1]])
        batch = self.accounting.step("batch")
        if batch is not None and batch.exit is None and batch.state == "CANCELLED":
            return true(says, [batch])
        empty = [r for r in self.accounting.records if r.state == "REQUEUED" and r.elapsed == 0]
        if empty:
            return true(says, empty)
        return unknown(says, "the steps' records were not seen", self.accounting.how)

    # ------------------------------------------------------------------------------------------ program files

    def execve(self, error: str) -> tuple[Sign, ...]:
        """slurmstepd's execve() lines with this error text, but for a lost copy of the batch script."""
        lines = (s for s in self.log.of("slurm_execve", "slurmd_execve") if s not in self.script_lost)
        return tuple(s for s in lines if error in s.cite.text or (error == ENOENT and CUT_INTERPRETER in s.cite.text))

    @once
    def script_lost(self) -> tuple[Sign, ...]:
        """Lines that say that Slurm's copy of the batch script was not there when it was to be started.

        That the script's interpreter is missing is told in other words (`bad interpreter`, task.c of slurmstepd), so
        this is the spool of the node: it was cleared, is shared by several nodes, or is no local disk.
        """
        lines = self.log.of("slurm_execve", "slurmd_execve")
        return tuple(s for s in lines if ENOENT in s.cite.text and BATCH_SCRIPT.search(s.fields.get("path") or ""))

    def _program(self, says: str, error: str, *ids: str) -> Fact:
        by_stepd = self.execve(error)
        stepd = (
            true(says, by_stepd) if by_stepd else unknown(says, "no execve() line of slurmstepd was seen", self.log.how)
        )
        return any_of(says, stepd, self.log.has(says, *ids))

    @once
    def not_found(self) -> Fact:
        """A program, an interpreter or a module that the script calls does not exist."""
        says = "a program or its interpreter does not exist on the node"
        return self._program(says, ENOENT, "command_not_found", "no_such_interpreter")

    @once
    def not_executable(self) -> Fact:
        """A file may not be executed by the user."""
        says = "a file may not be executed by the user"
        return self._program(says, EACCES, "permission_denied_exec")

    @once
    def wrong_format(self) -> Fact:
        """A file is no program for this machine."""
        says = "a file is not a program for this machine (wrong architecture, or not a program)"
        return self._program(says, ENOEXEC, "exec_format_error")
