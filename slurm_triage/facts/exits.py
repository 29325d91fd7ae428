"""Exit codes and deaths: of the batch script, the steps and the tasks.

Witnesses of one end, from best to worst: the raw wait status that slurmstepd saw (SPANK task_exit), the hooks'
SLURM_JOB_EXIT_CODE, slurmctld's WEXITSTATUS, `sacct --json` from 23.11 on, `sacct` text (which subtracts 128 up to
25.05), srun's and the shell's messages in the job's output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place
from slurm_triage.facts._tasks import Tasks
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.log import Log
from slurm_triage.model import Cite, ExitInfo, Fact, ShownExit, Sign, Stamp, TaskExit

SHELL_BASE = 128
SHELL_LINES = (
    "shell_signal", "shell_bare_signal", "torchrun_child_signal", "torchrun_signal", "mpirun_task_signal",
    "dataloader_worker_killed", "python_child_signal",
)  # fmt: skip
"""Families in which a shell, a launcher or a parent says that a process below it died of a signal."""
PARENTS = ("torchrun_child_signal", "dataloader_worker_killed", "python_child_signal")
"""Of these, parents in Python, which end with the exit code 1 whatever their worker died of."""
TEARDOWN = (signals.SIGTERM, signals.SIGKILL)
UNCUT = ("sacct_json", "scontrol_job")
"""Sources that print exit codes of 128 and more as they are, whatever the version."""
NO_EXIT = ("NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REQUEUED")
"""States whose exit code (1:0, 0:1, 0:0 by version and witness) Slurm made up: no program ended with it."""


@dataclass(frozen=True, slots=True)
class Death:
    """One abnormal end. Exactly one of `code` and `signal` is set.

    `witness` says how it is known: `status` (wait status), `accounting`, `slurm` (a message of srun or slurmd),
    `kernel`, `shell` (the message of the shell or launcher above the process), `convention` (an exit code of 128 + n:
    a program below may have died). `task` is the record of a `status`. `wrapped`: its parent ends with 1 of it.
    """

    signal: int | None
    code: int | None
    witness: str
    cite: Cite
    step: str | None = None
    ranks: str | None = None
    node: str | None = None
    at: Stamp | None = None
    task: TaskExit | None = None
    wrapped: bool = False


class Exits:
    """Every end that the evidence shows for the attempt."""

    def __init__(self, attempt: Attempt, accounting: Accounting, log: Log, place: Place) -> None:
        self.place = place
        self.attempt = attempt
        self.accounting = accounting
        self.log = log
        self.records = Tasks(attempt, accounting)
        self.tasks = self.records.ends

    # ------------------------------------------------------------------------------------------ the job's exit

    @once
    def job_exit(self) -> tuple[ExitInfo, Cite | None]:
        """The exit of the job (batch script, or the command of srun or salloc) as best known, and the line for it."""
        shown = self._shown()
        text = f"{shown.code}:{shown.signal}" if shown else None
        for code, signal, raw, core, cite in self._exact():
            return ExitInfo(code, signal, core, raw, text, signals.meaning(code, signal)), cite
        if shown is None:
            return ExitInfo(shown_by_sacct=text), None
        cite = next(r.cite for r in self.accounting.records if r.exit is not None)
        if self.accounting.state in NO_EXIT or (self._ended_by_slurm and shown.code == 0 == shown.signal):
            return ExitInfo(shown_by_sacct=text, meaning="says nothing: Slurm itself ended the job"), None
        if shown.signal:
            return ExitInfo(0, shown.signal, None, None, text, signals.meaning(0, shown.signal)), cite
        if shown.code == 0 or shown.minus_128 is False:
            return ExitInfo(shown.code, 0, None, None, text, signals.meaning(shown.code, 0)), cite
        both = f"exit {shown.code} or {shown.code + SHELL_BASE}: sacct up to 25.05 subtracts 128"
        return ExitInfo(None, 0, None, None, text, both), cite

    @once
    def told(self) -> ExitInfo:
        """The exit for people: a status that Slurm made up (0:125, 0:53) gives way to the script's own, if known."""
        info, _ = self.job_exit
        if info.signal not in signals.PSEUDO:
            return info
        for code, signal, raw, core, _ in self._batch_ends():
            if signal not in signals.PSEUDO:
                meaning = f"{signals.meaning(code, signal)}; {signals.meaning(0, info.signal)}"
                return ExitInfo(code, signal, core, raw, info.shown_by_sacct, meaning)
        return ExitInfo(
            None, None, None, info.raw, info.shown_by_sacct, f"no signal: {signals.meaning(0, info.signal)}"
        )

    @once
    def possible_codes(self) -> tuple[int, ...]:
        """The exit codes that the evidence allows: one when exact, two when only old sacct text was seen, else none."""
        info, _ = self.job_exit
        if info.signal:
            return ()
        if info.code is not None:
            return (info.code,)
        shown = self._shown()
        return (shown.code, shown.code + SHELL_BASE) if shown and not shown.signal else ()

    def _shown(self) -> ShownExit | None:
        records = [r for r in self.accounting.records if r.exit is not None and r.cite.source != "scontrol_job"]
        text = [r for r in records if r.cite.source != "sacct_json"]
        record = next(iter(text), None) or next(iter(records), None)
        return record.exit if record else None

    def _exact(self) -> list[tuple[int, int, int | None, bool | None, Cite]]:
        """(code, signal, raw, core, cite) by witnesses that cannot lose 128, best first."""
        found: list[tuple[int, int, int | None, bool | None, Cite]] = []
        quiet = self._ended_by_slurm
        hooks = () if self.accounting.state in NO_EXIT else self.accounting.hooks
        for hook in hooks:
            text = hook.values.get("SLURM_JOB_EXIT_CODE", "")
            if text.isascii() and text.isdigit():
                raw = int(text)
                if raw == 0 and quiet:
                    continue  # what slurmctld knew when it sent the kill, not how the script ended
                signal = raw & 0x7F
                core = bool(raw & 0x80) if signal and signal not in signals.PSEUDO else None
                found.append((0 if signal else (raw >> 8) & 0xFF, signal, raw, core, hook.cites["SLURM_JOB_EXIT_CODE"]))
        for sign in self.log.of("ctld_complete"):
            code, term = sign.fields.get("code"), sign.fields.get("signal")
            if code and code.isascii() and code.isdigit() and int(code) < 256:
                found.append((int(code), 0, None, None, sign.cite))
            elif term and term.isascii() and term.isdigit() and 0 < int(term) < 65:
                found.append((0, int(term), None, None, sign.cite))
        if not quiet:
            found += self._fitting_ends()
        for record in self.accounting.records:
            if record.exit is not None and record.cite.source in UNCUT and not (quiet and record.exit.code == 0):
                found.append((record.exit.code, record.exit.signal, None, None, record.cite))
        if quiet:
            found += self._batch_ends()
        return found

    @once
    def _ended_by_slurm(self) -> bool:
        """The job line of such a job says 0:0 in all versions; how the script ended is in its own step only."""
        return self.accounting.state in ("CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "DEADLINE", "REQUEUED")

    def _fitting_ends(self) -> list[tuple[int, int, int | None, bool | None, Cite]]:
        """The wait statuses that can be behind the job's exit as accounting shows it: 137 behind `9:0`, 9 as well.

        Of the batch script, or of the tasks of the only step where there was no script. One that cannot be behind it
        is not the job's exit (Slurm set another one, such as 0:125), and if two can, nothing is decided.
        """
        shown = self._shown() or self.accounting.first(lambda r: r.exit)
        steps = {s.step for s in self.accounting.steps if s.step != "extern"}
        script = "batch" in steps or any(t.step == "batch" for t in self.tasks)
        if script:
            tasks = self.records.of("batch")
        else:
            only = len(steps) == 1 and self.accounting.steps_known
            tasks = self.records.of(next(iter(steps))) if only and shown is not None else ()
        fits = {(t.code, t.signal): t for t in reversed(tasks) if shown is None or _can_show(t, shown)}
        if len(fits) != 1:
            return []
        task = next(iter(fits.values()))
        return [(task.code, task.signal, task.status, task.core_dumped if task.signal else None, task.cite)]

    def _batch_ends(self) -> list[tuple[int, int, int | None, bool | None, Cite]]:
        """How the batch script itself ended: its wait status, else the .batch line of accounting."""
        found: list[tuple[int, int, int | None, bool | None, Cite]] = []
        for task in self.tasks:
            if task.step == "batch":
                core = task.core_dumped if task.signal else None
                found.append((task.code, task.signal, task.status, core, task.cite))
        batch = self.accounting.step("batch")
        if batch is not None and batch.exit is not None and (batch.exit.signal or batch.exit.minus_128 is False):
            found.append((batch.exit.code, batch.exit.signal, None, None, batch.cite))
        return found

    # ------------------------------------------------------------------------------------------ deaths

    @once
    def deaths(self) -> tuple[Death, ...]:
        """All abnormal ends, in the order of the witnesses' quality."""
        found = [*self._by_status(), *self._by_accounting(), *self._by_slurm(), *self._by_shell(), *self._by_code()]
        return tuple(found)

    def _by_status(self) -> list[Death]:
        found = []
        for t in self.tasks:
            if t.signal:
                found.append(Death(t.signal, None, "status", t.cite, t.step, str(t.rank), t.node, t.at, t))
            elif t.code:
                found.append(Death(None, t.code, "status", t.cite, t.step, str(t.rank), t.node, t.at, t))
        return found

    def _by_accounting(self) -> list[Death]:
        found = []
        for step in self.accounting.steps:
            if step.exit is None or step.step == "extern":
                continue
            if step.exit.signal and step.exit.signal not in signals.PSEUDO:
                found.append(
                    Death(step.exit.signal, None, "accounting", step.cite, step.step, None, step.nodes, step.end)
                )
            elif step.exit.code and step.exit.minus_128 is False and not step.exit.signal:
                found.append(
                    Death(None, step.exit.code, "accounting", step.cite, step.step, None, step.nodes, step.end)
                )
        info, cite = self.job_exit
        if info.signal and info.signal not in signals.PSEUDO and cite is not None:
            found.append(Death(info.signal, None, "accounting", cite, None, None, None, self.attempt.end))
        return found

    def _by_slurm(self) -> list[Death]:
        found = []
        for sign in self.log.of("srun_task_signal", "srun_task_exit", "slurmd_task_signal"):
            fields = sign.fields
            if self.place.on_our_node(sign) is False:
                continue  # a log of another job, printed into this one
            number = signals.number_of(fields.get("signal", "")) if fields.get("signal") else None
            code = fields.get("code", "")
            ranks = fields.get("tasks") or fields.get("task")
            node = fields.get("node") or sign.node
            if number:
                found.append(Death(number, None, "slurm", sign.cite, sign.step, ranks, node, sign.at))
            elif code.isascii() and code.isdigit() and 0 < int(code) < 256:
                found.append(Death(None, int(code), "slurm", sign.cite, sign.step, ranks, node, sign.at))
        return found

    def _by_shell(self) -> list[Death]:
        found = []
        for sign in self.log.of(*SHELL_LINES):
            number = signals.number_of(sign.fields.get("signal") or sign.fields.get("number", ""))
            script = re.search(r"/job0*(\d{1,12})/slurm_script", sign.cite.text)
            if script and self.attempt.job_id is not None and script[1] != self.attempt.job_id:
                continue  # bash names the script of another job
            if sign.id == "dataloader_worker_killed":
                number = number or signals.number_of(sign.fields.get("signal", "").capitalize())
                if number == signals.SIGBUS:
                    continue  # of shared memory that is full: a rule of its own asks for that line
            if number:
                wrapped = sign.id in PARENTS and number != signals.SIGTERM  # with which it ends the others
                found.append(
                    Death(number, None, "shell", sign.cite, "batch", None, sign.node, sign.at, wrapped=wrapped)
                )
        return found

    def _by_code(self) -> list[Death]:
        """Exit codes of 128 + n: by convention a program below the script died of signal n."""
        found: list[Death] = []
        cite = self.job_exit[1]
        if cite is not None:
            found += [
                Death(code - SHELL_BASE, None, "convention", cite)
                for code in self.possible_codes
                if SHELL_BASE < code < SHELL_BASE + 65
            ]
        for t in self.tasks:
            if t.step != "batch" and SHELL_BASE < t.code < SHELL_BASE + 65:
                found.append(Death(t.code - SHELL_BASE, None, "convention", t.cite, t.step, str(t.rank), t.node, t.at))
        return found

    # ------------------------------------------------------------------------------------------ the end

    def fits_end(self, death: Death) -> bool:
        """Whether the job's own end shows this death: else the job outlived it, or the line is not about this job.

        It does when the job ended by the same signal or with 128 + n; when it was the job's last step and the job
        failed; when srun tore the rest down, so that the job ended by SIGTERM or SIGKILL; or when no exit was seen.
        """
        info, cite = self.job_exit
        if cite is None:
            return self.accounting.final is None or self.accounting.state != "COMPLETED"
        number = death.signal
        codes = set(self.possible_codes)
        if number is None:
            if death.code in codes:
                return True
        elif info.signal == number or SHELL_BASE + number in codes:
            return True
        if death.wrapped and 1 in codes:
            return True
        failed = bool(info.signal) or any(codes)
        if failed and self._in_last_step(death):
            return True
        torn = bool(self.log.of("srun_terminating", "srun_force_terminated", "slurm_task_failure"))
        by_kill = info.signal in TEARDOWN or bool({SHELL_BASE + n for n in TEARDOWN} & codes)
        return torn and by_kill

    def _in_last_step(self, death: Death) -> bool:
        """Whether the death is of the step started last, and nobody cancelled that step on purpose."""
        steps = self.accounting.app_steps()
        if death.step is None:
            return death.witness == "slurm" and len(steps) == 1
        if self.records.selective and not steps:
            return False  # a later step that ended well would have left nothing
        record = self.accounting.step(death.step)
        return death.step == self.last_step and not (record is not None and record.cancelled_by)

    @once
    def last_step(self) -> str | None:
        """The step started last, of those that srun started."""
        named = [d.step for d in self.deaths if d.step and d.step[:1].isdigit()]
        known = self.accounting.last_app_step
        return known or max(named, key=lambda s: int(s[:9]) if s.isdigit() else 0, default=None)

    # ------------------------------------------------------------------------------------------ facts

    def ended_by(self, number: int) -> Fact:
        """Whether a process died of this signal and the job's end shows it."""
        says = f"a process of the job died of {signals.name(number)}"
        seen = [d for d in self.deaths if d.signal == number and d.witness != "convention"]
        fitting = [d for d in seen if self.fits_end(d)]
        if fitting:
            return true(says, [d.cite for d in fitting])
        if seen:
            return unknown(says, "such a death was seen, but the job's own end does not show it", self.accounting.how)
        return self.killed_by(number)

    def killed_by(self, *numbers: int, witnesses: tuple[str, ...] = ("status", "accounting", "slurm", "shell")) -> Fact:
        """Whether a process of the job died of one of these signals, by these witnesses."""
        says = f"a process of the job died of {' or '.join(signals.name(n) for n in numbers)}"
        hits = [d for d in self.deaths if d.signal in numbers and d.witness in witnesses]
        if hits:
            return true(says, [d.cite for d in hits])
        if self.all_ends_known:
            return false(says, "no task's status shows it", self._end_cites())
        return unknown(says, "not every task's wait status was seen", self.accounting.how)

    def may_have_died_of(self, *numbers: int) -> Fact:
        """As `killed_by`, counting also exit codes of 128 + n, which only by convention mean a signal."""
        return self.killed_by(*numbers, witnesses=("status", "accounting", "slurm", "shell", "convention"))

    @once
    def all_ends_known(self) -> bool:
        """Whether an exact witness told how the job and each of its steps ended."""
        exact = self.job_exit[0].code is not None or bool(self.job_exit[0].signal)
        return exact and self.accounting.steps_known

    def _end_cites(self) -> list[Cite]:
        cites = [self.job_exit[1]] if self.job_exit[1] is not None else []
        return cites + [s.cite for s in self.accounting.steps[:3]]

    @once
    def exited_with_code(self) -> Fact:
        """Whether the job ended by itself with a positive exit code (of itself, or handed on by the shell)."""
        says = "the job's script (or its srun) ended with a positive exit code"
        info, cite = self.job_exit
        if cite is None:
            return self._failed_word(says)
        if info.signal:
            return false(says, f"it died of {signals.name(info.signal)} or Slurm's status {info.signal}", [cite])
        if any(self.possible_codes) and 0 not in self.possible_codes:
            return true(says, [cite])
        return false(says, "its exit code is 0", [cite])

    def _failed_word(self, says: str) -> Fact:
        """srun's "Exited with exit code" speaks for the job when accounting was not seen."""
        said = [d for d in self.deaths if d.code and d.witness == "slurm"]
        if said:
            return true(says, [d.cite for d in said])
        return unknown(says, "the job's exit code was not seen", self.accounting.how)

    @once
    def script_succeeded(self) -> Fact:
        """Whether the batch script itself ended with 0."""
        says = "the job's script itself ended with 0"
        batch = [t for t in self.tasks if t.step == "batch"]
        if batch:
            good = all(t.status == 0 for t in batch)
            return true(says, batch) if good else false(says, f"its wait status was {batch[0].status:#06x}", batch)
        done = [s for s in self.log.of("slurmd_batch_done", "slurmd_task_exit") if s.step == "batch"]
        for sign in done:
            text = sign.fields.get("code", sign.fields.get("rc", ""))
            if text.isascii() and text.isdigit():
                return true(says, [sign]) if int(text) == 0 else false(says, f"it returned {text}", [sign])
        info, cite = self.job_exit
        if cite is not None and self.accounting.state in ("COMPLETED", "FAILED"):
            if info.signal or 0 not in self.possible_codes:
                return false(says, info.meaning, [cite])
            return true(says, [cite])
        return unknown(says, "the script's own exit status was not seen", self.accounting.how)

    def signs(self, *ids: str) -> tuple[Sign, ...]:
        """Message lines by signature id."""
        return self.log.of(*ids)


def _can_show(task: TaskExit, shown: ShownExit) -> bool:
    """Whether accounting may show this end so; exit codes of 128 and more may have lost 128."""
    if task.signal or shown.signal:
        return task.signal == shown.signal and shown.code == 0
    return task.code == shown.code or (shown.minus_128 is not False and task.code == shown.code + SHELL_BASE)
