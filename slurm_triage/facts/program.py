"""The program's own part in its end: crashes, errors it named, exit codes nobody forced on it."""

from __future__ import annotations

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._errors import NAMED
from slurm_triage.facts._logic import all_of, any_of, false, negation, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.cancel import Cancel
from slurm_triage.facts.exits import Death, Exits
from slurm_triage.facts.log import Log
from slurm_triage.facts.ranks import Ranks
from slurm_triage.model import Fact, Sign

KERNEL_LINE = {
    signals.SIGSEGV: ("x86_segfault", "arm64_fault", "x86_trap"),
    signals.SIGILL: ("x86_trap", "arm64_fault"),
    signals.SIGFPE: ("x86_trap",),
    signals.SIGTRAP: ("x86_trap",),
}
TRAP_WORD = {
    signals.SIGILL: "invalid opcode",
    signals.SIGFPE: "divide error",
    signals.SIGSEGV: "general protection",
    signals.SIGTRAP: "int3",
}
OWN_FAULT = (
    signals.SIGABRT,
    signals.SIGFPE,
    signals.SIGPIPE,
    signals.SIGXCPU,
    signals.SIGXFSZ,
    signals.SIGSYS,
    signals.SIGTRAP,
)
SIGNAL_CODES = range(129, 160)
"""128 + n for the signals that kernel, Slurm and people send; real-time signals (34 and more) are none of these."""
BAD_INPUT = (64, 65, 66, 78)
"""EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_CONFIG of sysexits.h: the program's own word that what it was given is wrong."""
AFTER_END = 5.0
"""Seconds after the end of the job in which a kernel line may still be about it."""
SENT = (signals.SIGHUP, signals.SIGINT, signals.SIGQUIT, signals.SIGUSR1, signals.SIGUSR2, signals.SIGALRM)
ERROR_LINES = (
    "python_exception", "python_traceback", "usage_error", "file_not_found", "glibc_abort", "assertion_failed",
    "fortran_runtime", "module_not_found", "shared_library_missing", "glibc_not_found", "workflow_error", "mpi_abort",
    "cuda_no_kernel_image", "cuda_error_other", "torchrun_root_cause", "license_error", "conda_error", "runtime_panic",
    "language_error", *NAMED,
)  # fmt: skip
"""Signatures of lines in which a program or runtime names its own error."""


class Program:
    """Whether the program failed by itself, and how."""

    def __init__(
        self, attempt: Attempt, accounting: Accounting, exits: Exits, ranks: Ranks, cancel: Cancel, log: Log
    ) -> None:
        self.attempt = attempt
        self.accounting = accounting
        self.exits = exits
        self.ranks = ranks
        self.cancel = cancel
        self.log = log

    # ------------------------------------------------------------------------------------------ crashes

    def crashed(self, number: int) -> Fact:
        """A process of the job died of this fault signal: by its status, by srun's or the shell's message."""
        return self.exits.ended_by(number)

    def may_have_crashed(self, number: int, *log_ids: str) -> Fact:
        """As `crashed`, or the exit code 128 + n, a kernel line or a handler's own message suggests it."""
        says = f"a process of the job died of {signals.name(number)}"
        return any_of(
            says,
            self.exits.may_have_died_of(number),
            self.kernel_fault(number),
            self._said(says, *log_ids),
        )

    def _said(self, says: str, *ids: str) -> Fact:
        found = self.log.of(*ids)
        return true(says, found[:3]) if found else unknown(says, "no such line was seen", self.log.how)

    def kernel_fault(self, number: int) -> Fact:
        """The kernel logged the fault. No line proves nothing: handlers, rate limits and arm64's default hide it."""
        says = f"the kernel logged a fault that ends in {signals.name(number)}"
        word = TRAP_WORD.get(number, "")
        logged = self.log.of(*KERNEL_LINE.get(number, ()))
        lines = [s for s in logged if (s.id != "x86_trap" or word in s.cite.text) and self._is_ours(s, number)]
        if lines:
            return true(says, lines[:3])
        return unknown(
            says,
            "no such kernel line was seen (none is printed when the program handles the signal)",
            "read the node's kernel log around the end of the job",
        )

    @once
    def full_shared_memory(self) -> Fact:
        """A process died of SIGBUS and a program of the job says that shared memory is too small."""
        says = "a process died of SIGBUS and the program names shared memory"
        return all_of(says, self.crashed(signals.SIGBUS), self._said(says, "shm_too_small"))

    def faulting_library(self, number: int) -> str | None:
        """The library or program that the kernel names in the fault line of this job."""
        for line in self.log.of(*KERNEL_LINE.get(number, ())):
            if line.fields.get("lib") and self._is_ours(line, number):
                return line.fields["lib"]
        return None

    def _is_ours(self, line: Sign, number: int) -> bool:
        """Whether a kernel fault line speaks of a process of this job: other jobs' faults stand in the same log.

        Known by the pid; else by time together with another witness of the same signal in this job. An excerpt that
        names no job at all is taken to be about the job in question.
        """
        if self.attempt.job_id is None:
            return True
        if self.exits.place.on_our_node(line) is False:
            return False
        pids = {str(t.pid) for t in self.exits.tasks if t.pid is not None}
        pids |= {s.fields["pid"] for s in self.log.of("shell_signal") if s.fields.get("pid")}
        deaths = [d for d in self.exits.deaths if d.signal == number]
        if not any(self.exits.fits_end(d) for d in deaths):
            return False
        if line.fields.get("pid") in pids:
            return True
        if all(d.witness == "convention" for d in deaths):
            return False
        start, end = self.attempt.start, self.attempt.end
        if line.at is None or start is None or not (line.at.zoned and start.zoned):
            return line.at is None
        return line.at.hi >= start.lo and (end is None or line.at.lo <= end.hi + AFTER_END)

    # ------------------------------------------------------------------------------------------ plain errors

    @once
    def named_error(self) -> Fact:
        """A line of the output in which the program names its error."""
        says = "the program names its error in the job's output"
        found = self.log.of(*ERROR_LINES)
        if found:
            return true(says, [found[-1], *found[:1]])
        return self.log.has(says, *ERROR_LINES)

    @once
    def last_error(self) -> Sign | None:
        """The last line that names an exception or error."""
        found = self.log.of(*ERROR_LINES)
        exceptions = [s for s in found if s.id != "python_traceback"]
        return exceptions[-1] if exceptions else (found[-1] if found else None)

    @once
    def died_of_own_fault(self) -> Fact:
        """It died of a signal that a program brings upon itself: abort, arithmetic fault, closed pipe, ulimit.

        Unknown where the job's own end does not show it: a script may start what aborts, and go on.
        """
        died = self.exits.may_have_died_of(*OWN_FAULT)
        fitting = [d for d in self.exits.deaths if d.signal in OWN_FAULT and self.exits.fits_end(d)]
        if died.holds and not fitting:
            return unknown(died.says, "such a death was seen, but the job's own end does not show it", self.log.how)
        return died

    @once
    def says_bad_input(self) -> Fact:
        """The exit code is one of sysexits.h for wrong usage or input, and can stand for no signal."""
        says = "the exit code says that usage, input or configuration is wrong (sysexits.h)"
        info, cite = self.exits.job_exit
        codes = self.exits.possible_codes
        if cite is not None and any(c in BAD_INPUT for c in codes) and not any(c in SIGNAL_CODES for c in codes):
            return true(says, [cite])
        return unknown(says, f"the job {info.meaning}" if info.meaning else "no exit code was seen", self.log.how)

    @once
    def code_points_elsewhere(self) -> Fact:
        """The exit code is one that shells and launchers give for something finer (126, 127, 128 + n), unwitnessed."""
        says = "the exit code stands for a missing program or a signal, and nothing says which"
        info, cite = self.exits.job_exit
        codes = [c for c in self.exits.possible_codes if c in (126, 127) or c in SIGNAL_CODES]
        own = [d for d in self.exits.deaths if d.signal in OWN_FAULT and d.witness != "convention"]
        if codes and cite is not None and not any(self.exits.fits_end(d) for d in own):
            return true(says, [cite])
        return false(says, f"the job {info.meaning}")

    @once
    def killed_first(self) -> Fact:
        """A task got SIGKILL or SIGTERM before any other failed: what the others say after it are echoes."""
        says = "a task was killed before any other failed"
        first = self.ranks.failed[:1]
        if first and first[0].signal in (signals.SIGKILL, signals.SIGTERM):
            return true(says, [first[0].cite])
        if self.ranks.unplaced_kill is not None:
            why = "by its node's clock one was, but that clock may be behind"
            return unknown(says, why, "compare srun's first message, and the clocks of the nodes")
        return false(says, "no such death was seen")

    @once
    def failed_by_itself(self) -> Fact:
        """A positive exit code, or a signal of its own making."""
        says = "the program ended with an error of its own"
        return any_of(says, self.exits.exited_with_code, self.died_of_own_fault)

    @once
    def ended_by_kill_signal(self) -> Fact:
        """The end itself was SIGKILL or SIGTERM: the status, or an exit code 128 + n that a message confirms."""
        says = "the end itself was SIGKILL or SIGTERM"
        kill = (signals.SIGKILL, signals.SIGTERM)
        info, cite = self.exits.job_exit
        if self.killed_first.holds:
            return true(says, self.killed_first.cites)
        if info.signal in kill and cite is not None:
            return true(says, [cite])
        codes = {code - 128 for code in self.exits.possible_codes} & set(kill)
        if not self.exits.possible_codes and not info.signal:
            seen = [d for d in self.exits.deaths if d.signal in kill and d.witness in ("status", "slurm", "shell")]
            if seen and not self.ranks.failed:
                return true(says, [d.cite for d in seen])
            return unknown(says, "the job's exit code was not seen", self.accounting.how)
        deaths = [
            d for d in self.exits.deaths if d.signal in kill and d.witness != "convention" and self.exits.fits_end(d)
        ]
        if deaths and not self.ranks.failed:
            return true(says, [d.cite for d in deaths])
        if codes:
            return unknown(
                says,
                "only the exit code suggests it",
                "look for the tasks' wait statuses (SPANK task_exit) and for the shell's own messages",
            )
        return false(says, f"the job {info.meaning}", [cite] if cite else [])

    @once
    def foreign_signal(self) -> Fact:
        """A task or the script died of a signal that somebody sends (HUP, INT, QUIT, USR1, USR2, ALRM): no fault."""
        return self.exits.killed_by(*SENT)

    @once
    def nothing_else_seen(self) -> Fact:
        """The exit is exact, the output was read, and neither a signal nor a cancel message stands in the way."""
        says = "the exit was the program's own: exact code, output read, no signal and no cancellation"
        exact = self.exits.possible_codes
        code = (
            true("the exit code is known exactly", [c for c in (self.exits.job_exit[1],) if c])
            if len(exact) == 1 or self.died_of_own_fault.holds
            else unknown("the exit code is known exactly", "only cut or no exit codes were seen", self.accounting.how)
        )
        read = (
            true("the job's output was read", self.log.ends[:1])
            if self.log.read
            else unknown("the job's output was read", "this attempt's output was not read", self.log.how)
        )
        steps = (
            true("the steps' records were read", [s.cite for s in self.accounting.steps[:1]])
            if self.accounting.steps_known
            else unknown("the steps' records were read", "no final step lines were seen", self.accounting.how)
        )
        return all_of(
            says,
            code,
            read,
            steps,
            negation("no SIGKILL or SIGTERM ended it", self.ended_by_kill_signal),
            negation("nobody sent it another signal", self.foreign_signal),
            negation("no task was killed before the others failed", self.killed_first),
            negation("the exit code stands for nothing finer", self.code_points_elsewhere),
            negation("slurmstepd printed no cancellation", self.cancel.cancel_message),
        )

    @once
    def step_failed_unseen(self) -> Fact:
        """A step failed, yet the job is COMPLETED with exit code 0: the script went on and hid it."""
        says = "a step failed although the job counts as COMPLETED"
        completed = self.accounting.state_is("COMPLETED")
        bad = [
            s.cite
            for s in self.accounting.app_steps()
            if s.exit is not None
            and (s.exit.code or s.exit.signal)
            and not s.cancelled_by
            and s.exit.signal not in (*SENT, signals.SIGTERM, signals.SIGKILL)
        ]
        lines = [d.cite for d in self.exits.deaths if d.witness == "slurm" or self._failed_by_status(d)]
        failed = self.log.of("slurm_task_failure", "srun_force_terminated")
        if completed.holds and (bad or lines or failed):
            return true(says, [*completed.cites[:1], *bad, *lines[:2], *failed[:1]])
        if completed.holds is False:
            return false(says, completed.because, completed.cites)
        if completed.holds and self.accounting.steps_known:
            return false(says, "every step ended well", [s.cite for s in self.accounting.steps[:2]])
        return unknown(says, "the job's and its steps' final records were not all seen", self.accounting.how)

    def _failed_by_status(self, death: Death) -> bool:
        """A task that failed by itself. A signal that is sent may be how the script ends a helper step on purpose."""
        sent = (*SENT, signals.SIGTERM, signals.SIGKILL)
        return death.witness == "status" and death.step != "batch" and death.signal not in sent
