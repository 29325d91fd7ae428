"""What the program's own words are worth: was an error the last word, or did the program go on to another one?"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from slurm_triage.facts._errors import NAMED
from slurm_triage.facts._logic import all_of, false, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts._outlived import NEAR_END
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.log import Log
from slurm_triage.facts.program import Program
from slurm_triage.model import Fact, Sign, Voice

ECHOES = frozenset({
    "python_traceback", "python_exception_chain", "torchrun_root_cause", "torchrun_child_failed",
    "torchrun_child_signal", "torchrun_closing_signal", "torchrun_failure_detail", "torchrun_signal",
    "nccl_remote_exit", "nccl_timeout", "nccl_system_error", "mpi_abort", "mpi_error", "mpi_transport_canceled",
    "mpi_transport_error", "pmix_peer_lost", "mlx5_completion_error", "connection_refused_rendezvous",
    "exit_status_text", "workflow_error", "make_error", "error_line", "r_error", "signal_caught", "requeue_handler",
    "time_signal", "shell_signal", "shell_bare_signal", "mpirun_task_signal", "pool_worker_died",
    "dataloader_worker_killed", "checkpoint_writer_frame", "sigabrt_text", "python_fatal_signal", "log_end",
    "log_tail", "log_empty", "python_child_signal",
})  # fmt: skip
"""Families that report an end or another process's failure: they never outdo an error named before them."""

ECHO_TYPES = frozenset({
    "ChildFailedError", "CalledProcessError", "DistBackendError", "DistNetworkError", "ProcessExitedException",
    "ProcessRaisedException", "BrokenPipeError", "ConnectionResetError", "ConnectionError", "EOFError",
    "KeyboardInterrupt", "SystemExit", "SignalException", "RemoteError", "DistStoreError",
})  # fmt: skip
"""Python exceptions with which a process reports that another one ended."""

LOGIC = frozenset({
    "KeyError", "IndexError", "TypeError", "NameError", "AttributeError", "ImportError", "ModuleNotFoundError",
    "SyntaxError", "IndentationError", "ZeroDivisionError", "UnboundLocalError", "AssertionError",
    "NotImplementedError",
})  # fmt: skip
"""Exceptions that no pause, signal or lost peer brings about."""

ERRORS = (
    "python_exception",
    "cpp_exception",
    "fortran_runtime",
    "runtime_panic",
    "assertion_failed",
    "glibc_abort",
    "language_error",
    *NAMED,
)
"""Families with which any program names its error, whatever it is."""


IGNORED = 200
"""Lines that a traceback below `Exception ignored in` may have."""

CAUSES = (
    "gpu_oom", "cuda_ecc", "cuda_illegal_access", "cuda_launch_failed", "cuda_device_assert", "cuda_nvlink_error",
    "cuda_not_initialized_802", "cuda_driver_insufficient", "nvml_driver_mismatch", "nvidia_smi_failed",
    "gpu_lost_text", "quoted_nvidia_xid", "quoted_nvrm_off_bus", "nccl_config", "nccl_memlock", "nccl_mismatch",
    "nccl_net_error", "nccl_nvls", "nccl_timeout", "nccl_remote_exit", "gloo_timeout", "pmix_peer_lost",
    "mpi_transport_error", "mpi_transport_canceled", "mpi_launch_failed", "mpi_cq_exhaustion", "mpi_abort",
    "rendezvous_timeout", "store_barrier_timeout", "address_in_use", "disk_quota", "no_space", "stale_file_handle",
    "lustre_error_text", "too_many_open_files", "process_limit", "jemalloc_page_size", "image_platform_mismatch",
    "pyxis_error", "enroot_error", "apptainer_error", "container_runtime_error", "slurm_container_join",
    "slurm_task_plugin", "slurm_plugin_stack", "shm_too_small", "cuda_error_other", "cuda_no_device",
    "nccl_system_error",
)  # fmt: skip
"""Families that name, or point at, more than an error of the program: rules of their own ask for them."""


class Telling:
    """Which of the errors in the job's output counts."""

    def __init__(self, accounting: Accounting, log: Log, program: Program) -> None:
        self.accounting = accounting
        self.log = log
        self.program = program

    @once
    def _by_line(self) -> dict[tuple[str, int], set[str]]:
        found: dict[tuple[str, int], set[str]] = {}
        for sign in self.log.signs:
            found.setdefault((sign.cite.file, sign.cite.line), set()).add(sign.id)
        return found

    @once
    def _statements(self) -> tuple[Sign, ...]:
        """Lines in which a program names an error of its own, in order; echoes of other failures are left out."""
        found = []
        for sign in self.log.signs:
            if sign.voice is not Voice.PROGRAM or sign.id in ECHOES or sign.id.startswith("quoted_"):
                continue
            if sign.id not in ERRORS and sign.fields.get("traceback") is None:
                continue
            if self.ignored(sign) or "(SIGTERM)" in sign.fields.get("message", ""):
                continue  # Python goes on after it; Intel's Fortran run time was told to end
            if exception_type(sign) in ECHO_TYPES or self._by_line[_place(sign)] & (ECHOES - {"log_end", "log_tail"}):
                continue
            found.append(sign)
        return tuple(found)

    def ignored(self, sign: Sign) -> bool:
        """Whether Python said of the traceback that ends in this line that it goes on."""
        return _place(sign) in self._ignored

    @once
    def _ignored(self) -> set[tuple[str, int]]:
        """The line that ends the first traceback below each `Exception ignored in` or the like."""
        heads, found = self.log.of("python_ignored"), set()
        ends = sorted(self._tracebacks) if heads else []
        for head in heads:
            index = bisect_right(ends, _place(head))
            if index < len(ends) and ends[index][0] == head.cite.file and ends[index][1] - head.cite.line <= IGNORED:
                found.add(ends[index])
        return found

    @property
    def own_errors(self) -> tuple[Sign, ...]:
        """Lines in which a program names an error of its own, in order; what echoes another failure is left out."""
        return self._statements

    def said(self, says: str, *ids: str) -> Fact:
        """Whether a line of one of these families was seen. The mere lack of one excludes nothing worth a citation."""
        return self.given(says, self.log.of(*ids))

    def given(self, says: str, lines: Iterable[Sign]) -> Fact:
        """As `said`, for lines already picked."""
        found = tuple(lines)
        if found:
            return true(says, [*found[:2], found[-1]])
        if self.log.read:
            return false(says, "no such line in the job's output")
        return unknown(says, self.log.unread, self.log.how)

    def last_word(self, says: str, *ids: str, kin: tuple[str, ...] = ()) -> Fact:
        """As `said`, and no other error follows that the same process names: else the program outlived it."""
        return self.last_of(says, self.log.of(*ids), *kin)

    def last_of(self, says: str, lines: Iterable[Sign], *kin: str) -> Fact:
        """As `last_word`, for lines already picked. Errors of the families `kin` tell the same failure again."""
        found = tuple(lines)
        if not found:
            return self.given(says, ())
        own = {_place(sign) for sign in (*found, *self.log.of(*kin))}
        last = {_process(sign): sign for sign in found}
        after = {key: self._overtaken(sign, own) for key, sign in last.items()}
        standing = [sign for key, sign in last.items() if after[key] is None]
        if standing:
            return true(says, [*standing[:2], *found[:1]])
        for other in after.values():
            if other is not None:
                why = f"the program went on and named another error in line {other.cite.line}"
                return unknown(says, why, "read the output from the first error on: which of them ended the program?")
        return self.given(says, ())

    def _overtaken(self, sign: Sign, own: set[tuple[str, int]]) -> Sign | None:
        """The error that the same process named later, None if there is none."""
        lines, statements = self._by_process.get(_process(sign), ([], []))
        for other in statements[bisect_right(lines, sign.cite.line) :]:
            if _place(other) not in own and not self._same_chain(sign, other):
                return other
        return None

    def _same_chain(self, sign: Sign, other: Sign) -> bool:
        """Whether Python says that the later traceback tells the same failure again (`During handling of ...`)."""
        if _place(sign) not in self._tracebacks:
            return False
        return any(
            link.cite.file == sign.cite.file and sign.cite.line < link.cite.line < other.cite.line
            for link in self.log.of("python_exception_chain")
        )

    @once
    def _by_process(self) -> dict[tuple[str, str | None], tuple[list[int], list[Sign]]]:
        """The statements of each process, in order, with their line numbers."""
        found: dict[tuple[str, str | None], tuple[list[int], list[Sign]]] = {}
        for sign in sorted(self._statements, key=lambda s: s.cite.line):
            lines, statements = found.setdefault(_process(sign), ([], []))
            lines.append(sign.cite.line)
            statements.append(sign)
        return found

    @once
    def _tracebacks(self) -> set[tuple[str, int]]:
        """Lines that end a traceback."""
        return {_place(s) for s in self.log.of("python_exception") if "traceback" in s.fields}

    @once
    def no_finer_cause(self) -> Fact:
        """The last word of the output names no cause that has a rule of its own: a plain error is all there is."""
        says = "the output names no cause beyond the program's own error"
        named = self.last_word(says, *CAUSES)
        if named.holds:
            return false(says, "its last error names one", named.cites)
        if self.log.read:
            return true(says, self.log.ends[:1])
        return unknown(says, self.log.unread, self.log.how)

    @once
    def error_of_logic(self) -> Fact:
        """The last exception is one that only the program's own code can bring about (KeyError, TypeError, ...)."""
        says = "the last exception is an error in the program's own logic"
        last = self.log.of("python_exception")[-1:]
        if last and exception_type(last[0]) in LOGIC:
            return true(says, last)
        return unknown(says, "no such exception was seen", self.log.how)

    @once
    def survived(self) -> Fact:
        """The job ended well and no step failed: whatever the output says, the program outlived it."""
        says = "the job ended well in spite of the message"
        completed = self.accounting.state_is("COMPLETED")
        if completed.holds and self.program.step_failed_unseen.holds:
            return false(says, "a step failed", self.program.step_failed_unseen.cites)
        return all_of(says, completed)

    @once
    def calm_end(self) -> Fact:
        """No error and no crash is told within the last lines of the output: else a script may have hidden it."""
        says = "the last lines of the output tell of no error"
        told = [s.cite for s in self._statements]
        told += [s.cite for s in self.log.of("shell_signal")]  # with its line and pid; bare words may be quoted
        ends = {end.cite.file: end.cite.line for end in self.log.ends}
        near = [c for c in told if c.file in ends and ends[c.file] - c.line < NEAR_END]
        if near:
            why = f"{near[0].file} line {near[0].line} tells of one, and the script may have gone on after it"
            return unknown(says, why, "see whether the script stops on errors (set -e)")
        return true(says, self.log.ends[:1]) if self.log.ends else unknown(says, self.log.unread, self.log.how)

    def other_error(self, *ids: str) -> Sign | None:
        """The last error that the program names and that is of none of these families."""
        wanted = set(ids)
        for sign in reversed(self._statements):
            if not self._by_line[_place(sign)] & wanted:
                return sign
        return None


def exception_type(sign: Sign) -> str:
    """The name of the exception without its modules (`DistBackendError`), empty if the line names none."""
    return re.split(r"[.:]", sign.fields.get("type", ""))[-1]


def _place(sign: Sign) -> tuple[str, int]:
    return (sign.cite.file, sign.cite.line)


def _process(sign: Sign) -> tuple[str, str | None]:
    """Who wrote the line: the file, and the rank that its label names."""
    return (sign.cite.file, sign.fields.get("rank"))
