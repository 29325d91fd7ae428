"""When the word of a program, or of Slurm about its own act, proves why the job ended (decision 12).

A line that names a cause and an end is a proof only as the last act of who wrote it, and only while nothing else that
was read tells another story: no other cause in any file, no end that does not fit, no sign of life after the line. What
no list below names counts as another story, so that a new signature can take a proof away and never give one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurm_triage import signals
from slurm_triage.attempts import Attempt
from slurm_triage.facts._kernel import TROUBLE, Kernel
from slurm_triage.facts._logic import true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._outlived import NEAR_END
from slurm_triage.facts._proof_words import CLOSING, LIBRARY, PROMPT, REASON, SURVIVED
from slurm_triage.facts.cancel import Cancel
from slurm_triage.facts.log import Log
from slurm_triage.facts.memory import Memory
from slurm_triage.facts.node import NodeFacts
from slurm_triage.facts.scheduling import Scheduling
from slurm_triage.facts.telling import CAUSES, ECHO_TYPES, ERRORS, Telling, exception_type
from slurm_triage.model import Cite, Fact, Sign, Voice
from slurm_triage.sources._messages import label_of

SILENT = frozenset({
    "error_frame", "error_message", "java_vm_crash",
    "log_end", "log_tail", "log_empty", "python_traceback", "python_exception_chain", "alloc_granted", "alloc_queued",
    "alloc_relinquished", "client_exit", "slurm_cancelled", "slurm_cancelled_signal", "srun_aborted",
    "srun_force_terminated", "srun_task_exit", "srun_task_signal", "srun_task_status", "srun_terminating",
    "slurm_task_failure", "ctld_complete", "ctld_start", "ctld_submit", "ctld_recovered", "ctld_restarted",
    "ctld_kill_request", "ctld_denied", "ctld_epilog_fail", "slurmd_epilog_failed",
    "slurmd_cancelled",
    "slurmd_done", "slurmd_launch", "slurmd_task_exit", "slurmd_task_signal", "slurmd_task_started",
    "slurmd_sent_signal", "kernel_boot", "nvidia_gpu_uuid", "callbacks_suppressed", "mpirun_task_signal",
    "mpi_launcher_note",
    "torchrun_child_failed", "torchrun_child_signal", "torchrun_closing_signal", "torchrun_failure_detail",
    "torchrun_root_cause", "shell_signal", "shell_bare_signal", "exit_status_text", "make_error",
    "workflow_error",
})  # fmt: skip
"""Families that name no cause: how things start, that and how processes ended. Deaths among them are looked at as such
(`_deaths_elsewhere`), cancellations too (`_other_ends`)."""

STATUSES = "task_exits"
"""Source of the witnesses' records: they tell of ends only, which are looked at as such."""

FOLLOWERS = frozenset({
    "nccl_remote_exit", "nccl_timeout", "nccl_system_error", "gloo_timeout", "pmix_peer_lost", "mpi_transport_canceled",
    "mpi_transport_error", "mlx5_completion_error", "connection_refused_rendezvous", "mpi_abort", "mpi_error",
    "pool_worker_died", "error_line", "r_error",
})  # fmt: skip
"""What others say when a process has ended. Before the line in question they tell another story."""

CARRIERS = frozenset({
    "error_line", "r_error", "apptainer_error", "container_runtime_error", "enroot_error", "pyxis_error",
    "slurmd_pyxis",
})  # fmt: skip
"""Families whose lines may hand on what something else said."""

LAUNCHERS = ("hydra_", "mpiexec", "mpirun", "orted", "prted", "prterun", "orterun", "pmi_proxy")
"""How the names of launchers' processes begin."""

TEARDOWN = (signals.SIGTERM, signals.SIGKILL)


class Proof:
    """What is said about the end, held against all else that was read."""

    def __init__(
        self,
        attempt: Attempt,
        log: Log,
        telling: Telling,
        memory: Memory,
        scheduling: Scheduling,
        cancel: Cancel,
        node: NodeFacts,
        kernel: Kernel,
    ) -> None:
        self.attempt = attempt
        self.log = log
        self.telling = telling
        self.program = telling.program
        self.exits = telling.program.exits
        self.accounting = telling.accounting
        self.memory = memory
        self.scheduling = scheduling
        self.cancel = cancel
        self.node = node
        self.kernel = kernel

    def ended_on(self, says: str, lines: Iterable[Sign], *kin: str, died_of: tuple[int, ...] = ()) -> Fact:
        """The job ended on what these lines say, and all that was read agrees.

        `kin` are families that tell the same failure again. `died_of` are signals that belong to it (SIGABRT of an
        allocator that aborts); any other death by a signal speaks against it. Never false: what is not proven may
        still be so.
        """
        found = tuple(sorted(lines, key=_place))
        if not found:
            return unknown(says, "no such line was seen", self.log.how)
        last = self.telling.last_of(says, found, *kin)
        against = next(self._against(found, frozenset(kin), died_of), None)
        if not last.holds:
            return unknown(says, last.because, last.how)
        if against is not None:
            return unknown(says, against, "read the output from the first error on: which of them ended the program?")
        return true(says, last.cites)

    def unopposed(self, says: str, witness: Fact, *kin: str, died_of: tuple[int, ...] = ()) -> Fact:
        """The witness holds, and nothing that was read tells another story than the families `kin` do."""
        if not witness.holds:
            return unknown(says, witness.because, witness.how)
        against = next(map(_another, self._other_stories((), frozenset(kin))), None)
        against = against or next(self._other_ends(died_of), None) or next(self._deaths_elsewhere((), died_of), None)
        return unknown(says, against, self.log.how) if against else true(says, witness.cites)

    def last_told(self, says: str, *kin: str, died_of: tuple[int, ...] = ()) -> Fact:
        """The program's own error stands below every other story of the output: it lived to meet that one.

        What Slurm's daemons write of nodes and times is no story here; what the kernel tells is.
        """
        unread = (tail for tail in self._unread if not LIBRARY.match(tail.cite.text))
        errors = (*self.telling.own_errors, *self.log.of("usage_error"), *unread)
        last = max(errors, key=_place, default=None)
        if last is None:
            return unknown(says, "no error of its own was seen", self.log.how)
        for other in self._other_stories((), frozenset(kin)):
            above = other.cite.file == last.cite.file and other.cite.line < last.cite.line
            if not above and (other.voice is not Voice.SLURM or other.cite.source == last.cite.source):
                return unknown(says, _another(other), self.log.how)
        node = [c for c in self.node.said_lost.cites if (c.file, c.line) > _place(last)]
        spared = () if node else (self.node.said_lost,)  # srun's word, and the script went on without that node
        against = next(self._other_ends(died_of, spared), None)
        return unknown(says, against, self.log.how) if against else true(says, [last])

    # ------------------------------------------------------------------------------------------ what speaks against it

    def _against(self, lines: tuple[Sign, ...], kin: frozenset[str], died_of: tuple[int, ...]) -> Iterator[str]:
        """Reasons to doubt, the cheapest to find first."""
        for sign in self._other_stories(lines, kin):
            yield _another(sign)
        yield from self._other_ends(died_of)
        yield from self._deaths_elsewhere(lines, died_of)
        if any(SURVIVED.search(sign.cite.text) or self.telling.ignored(sign) for sign in lines):
            yield "the line itself, or Python, says that the program goes on"
        unread = self._unread_reason(lines)
        if unread is not None:
            yield f"{unread.cite.file} line {unread.cite.line} may name another reason"
        if self._life_after(lines, kin):
            yield "the output goes on after it"

    def _other_stories(self, lines: tuple[Sign, ...], kin: frozenset[str]) -> Iterator[Sign]:
        """Lines of any file that tell of another cause."""
        own = {sign.id for sign in lines}
        places = {_place(sign) for sign in lines}
        first: dict[str, int] = {}
        for sign in lines:
            first.setdefault(sign.cite.file, sign.cite.line)
        for sign in self.log.signs:
            if sign.id in own or sign.id in kin or sign.id in SILENT or sign.cite.source == STATUSES:
                continue
            if sign.id == "ctld_drain" and ("epilog" in sign.cite.text.lower() or self.log.of("ctld_epilog_fail")):
                continue  # a node's Epilog runs after the job
            if _place(sign) in places and (sign.id in ERRORS or sign.id in CARRIERS):
                continue  # the same line, as an error of any kind or as it was handed on
            follows = sign.cite.line > first.get(sign.cite.file, sign.cite.line)
            if follows and (sign.id in FOLLOWERS or _names_an_echo(sign)):
                continue
            yield sign

    @once
    def _ends(self) -> tuple[Fact, ...]:
        """Ends that something other than the program brought about."""
        return (
            self.memory.oom_killed, self.scheduling.preempted, self.scheduling.time_limit, self.scheduling.deadline,
            self.scheduling.failed_after_pause, self.cancel.by_state, self.cancel.request_logged,
            self.cancel.cancel_message, self.cancel.step_cancelled, self.node.lost, self.node.said_lost,
            self.program.foreign_signal,
        )  # fmt: skip

    def _other_ends(self, died_of: tuple[int, ...], spared: tuple[Fact, ...] = ()) -> Iterator[str]:
        """An end by something else, or one that does not fit an error of the program's own."""
        yield from (fact.says for fact in self._ends if fact.holds and fact not in spared)
        for fact in (self.program.killed_first, self.kernel.trouble_inside):
            if fact.holds is not False:
                yield fact.because or fact.says
        if self.accounting.state not in (None, "FAILED"):
            yield f"the job's state is {self.accounting.state}"
        info, cite = self.exits.job_exit
        if cite is not None and (info.signal not in (0, None, *died_of) or info.code == 0 == info.signal):
            yield f"the job {info.meaning}"

    def _deaths_elsewhere(self, lines: tuple[Sign, ...], died_of: tuple[int, ...]) -> Iterator[str]:
        """Processes that died of a signal which is neither the cause's own nor the launcher's teardown after it."""
        exact = len(self.exits.possible_codes) == 1
        first = {sign.cite.file: sign.cite.line for sign in reversed(lines)}
        after = {d.signal for d in self.exits.deaths if d.cite.line > first.get(d.cite.file, d.cite.line)}
        torn_down = {n for n in TEARDOWN if n in after or self.program.ranks.failed}
        for death in self.exits.deaths:
            if death.signal is None or death.signal in died_of:
                continue
            if death.witness == "convention" and not exact and death.task is None:
                continue  # `9:0` may be 9 or 137
            printed = death.witness in ("slurm", "shell")
            if death.signal in torn_down and (not printed or 0 < first.get(death.cite.file, 0) < death.cite.line):
                continue
            yield f"a process died of {signals.name(death.signal)}"

    def _life_after(self, lines: tuple[Sign, ...], kin: frozenset[str]) -> bool:
        """Whether a file goes on after the last of the lines with text that belongs to no report of an error.

        Only the last lines of a file are kept as they are; a program that went on left its text there too.
        """
        ends: dict[str, int] = {}
        for sign in lines:
            ends[sign.cite.file] = max(ends.get(sign.cite.file, 0), sign.cite.line)
        for sign in self.log.of(*kin):
            if sign.cite.file in ends:
                ends[sign.cite.file] = max(ends[sign.cite.file], sign.cite.line)
        ended = set()
        for tail in self.log.of("log_tail"):
            file = tail.cite.file
            if file not in ends or file in ended or tail.cite.line <= ends[file]:
                continue
            if PROMPT.fullmatch(tail.fields["text"][:1000]):
                ended.add(file)
            elif not self._of_a_report(tail):
                return True
        return False

    def _unread_reason(self, lines: tuple[Sign, ...]) -> Sign | None:
        """A line that no catalog knows and that sounds like an error, among the last ones of a file with the lines."""
        files = {sign.cite.file for sign in lines}
        return next((tail for tail in self._unread if tail.cite.file in files), None)

    @once
    def _unread(self) -> tuple[Sign, ...]:
        """Last lines of the output that no catalog knows and that sound like an error."""
        tails = (t for t in self.log.of("log_tail") if REASON.search(t.fields["text"][:1000]))
        return tuple(tail for tail in tails if not self._of_a_report(tail))

    def _of_a_report(self, tail: Sign) -> bool:
        """Whether a line is one that a catalog knows, or belongs to the report of an error."""
        if _place(tail) in self._known_places:
            return True
        text = tail.fields["text"][:1000]
        label = label_of(text).text
        if CLOSING.fullmatch(text[len(label) :]):
            return True
        file, line = _place(tail)
        return any(begin < line < end for begin, end in self._tracebacks.get((file, label.strip()), ()))

    @once
    def _tracebacks(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """First and last line of each traceback, by file and by the label that its rank writes before each line."""
        open_: dict[tuple[str, str], int] = {}
        found: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for sign in self.log.of("python_traceback", "python_exception"):
            key = (sign.cite.file, label_of(sign.cite.text).text.strip())
            if sign.id == "python_traceback":
                open_[key] = sign.cite.line
            elif "traceback" in sign.fields and key in open_:
                found.setdefault(key, []).append((open_.pop(key), sign.cite.line))
        return found

    # ------------------------------------------------------------------------------------------ crashes

    def nothing_before(self, death: Fact, *kin: str) -> Fact:
        """No line above that of a death tells another story, and no device is known to have failed: whoever dies of a
        fault at the end may have met another failure before."""
        says = "nothing else is told before it"
        other = next(self._before(death, frozenset(kin)), None)
        if other is not None:
            return unknown(says, f"{other.file} line {other.line} tells of something else", self.log.how)
        if self._outlived(death):
            return unknown(says, "only the output tells of it, and goes on after it", self.accounting.how)
        if self._launcher_crashed:
            return unknown(says, "it was the launcher's own process that crashed", self.log.how)
        trouble = self.kernel.trouble_inside
        if trouble.holds or (trouble.holds is None and self.kernel.of(*TROUBLE)):
            return unknown(says, trouble.because or trouble.says, trouble.how or self.log.how)
        return true(says, death.cites[:1])

    def _outlived(self, death: Fact) -> bool:
        """Whether a shell's word is all that tells of the death, and the output lives on for long: scripts go on."""
        told = {(d.cite.file, d.cite.line): d.witness for d in self.exits.deaths}
        places = {(c.file, c.line) for c in death.cites}
        if self.exits.job_exit[1] is not None or any(told.get(place) != "shell" for place in places):
            return False
        ends = {end.cite.file: end.cite.line for end in self.log.ends}
        long = all(ends.get(file, 0) - line >= NEAR_END for file, line in places)
        return long and self._life_after(tuple(s for s in self.log.signs if _place(s) in places), frozenset())

    def no_cause_before(self, death: Fact, *kin: str) -> Fact:
        """As `nothing_before`, for what names a cause by itself: a rule's own family, an error, a kill."""
        says = "no other cause is named before it"
        named = {_place(s) for s in (*self.log.of(*CAUSES), *self.telling.own_errors)}
        named |= {(d.cite.file, d.cite.line) for d in self.exits.deaths if d.signal in TEARDOWN}
        other = next((c for c in self._before(death, frozenset(kin)) if (c.file, c.line) in named), None)
        if other is None and self._launcher_crashed:
            return unknown(says, "it was the launcher's own process that crashed", self.log.how)
        if other is not None or self.memory.oom_killed.holds:
            why = f"{other.file} line {other.line} names one" if other else self.memory.oom_killed.says
            return unknown(says, why, self.log.how)
        return true(says, death.cites[:1])

    @once
    def _launcher_crashed(self) -> bool:
        """Whether the kernel names a process of an MPI launcher: those crash when their ranks have ended on them."""
        return any(s.fields.get("comm", "").startswith(LAUNCHERS) for s in self.log.of("x86_segfault", "x86_trap"))

    def _before(self, death: Fact, kin: frozenset[str]) -> Iterator[Cite]:
        """Lines of another story above the first line of a death, in its file; kills too."""
        first: dict[str, int] = {}
        for cite in death.cites:
            first[cite.file] = min(first.get(cite.file, cite.line), cite.line)
        for other in self.exits.deaths:
            if other.signal in TEARDOWN and other.cite.line < first.get(other.cite.file, 0):
                yield other.cite
        for sign in self.log.signs:
            told = sign.id not in SILENT and sign.id not in kin and sign.cite.source != STATUSES
            if told and sign.cite.line < first.get(sign.cite.file, 0):
                yield sign.cite

    # ------------------------------------------------------------------------------------------ excerpts

    @once
    def _no_job(self) -> bool:
        """Whether the evidence names no job and holds nothing of one: lines that somebody picked out."""
        return self.attempt.job_id is None and not (self.log.ends or self.accounting.records or self.accounting.steps)

    def sole_story(self, says: str, lines: Iterable[Sign], *kin: str) -> Fact:
        """An excerpt of a log, without a word of any job, that holds these lines and no other story."""
        found = tuple(sorted(lines, key=_place))
        if not found or not self._no_job:
            return unknown(says, "whether the job ended of it was not seen", self.accounting.how)
        other = next(self._other_stories(found, frozenset(kin)), None)
        if other is not None:
            return unknown(says, f"{other.cite.file} line {other.cite.line} tells of something else", self.log.how)
        return true(says, [*found[:2], found[-1]])

    @once
    def understood(self) -> Fact:
        """Every line of the output is known: a short excerpt, of which nothing was left unread."""
        says = "no line of the output is left that was not understood"
        tails = self.log.of("log_tail")
        if tails and all(map(self._of_a_report, tails)) and all(end.cite.line <= len(tails) for end in self.log.ends):
            return true(says, self.log.ends[:1])
        return unknown(says, "the output holds lines that say nothing known", self.log.how)

    @once
    def _known_places(self) -> frozenset[tuple[str, int]]:
        """Lines that a catalog knows."""
        return frozenset(_place(s) for s in self.log.signs if s.id not in ("log_end", "log_tail", "log_empty"))


def _place(sign: Sign) -> tuple[str, int]:
    return (sign.cite.file, sign.cite.line)


def _another(sign: Sign) -> str:
    return f"{sign.cite.file} line {sign.cite.line} tells of something else ({sign.id})"


def _names_an_echo(sign: Sign) -> bool:
    """An exception with which a process reports that another one ended."""
    return sign.id in ("python_exception", "cpp_exception") and exception_type(sign) in ECHO_TYPES
