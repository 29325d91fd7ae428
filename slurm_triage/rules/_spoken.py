"""Which line of the output names the error, what it says below, and where in the user's own code it arose."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_triage.facts import Job
from slurm_triage.facts._logic import true, unknown
from slurm_triage.facts.program import ERROR_LINES
from slurm_triage.facts.telling import ECHO_TYPES, ECHOES, exception_type
from slurm_triage.model import Fact, Sign, Voice

CLOSING = re.compile(
    r"^(?:Execution halted|error: called from|BEGIN failed--|Node\.js v\d|CallStack \(from|.{0,80}MPI_ERRORS_ARE_FATAL)"
)
"""Lines that end a report: the error stands above them."""
ABOVE = 80
"""Lines above a closing line in which its error stands."""
LESS = (
    "floating_point_text",
    "error_line",
    "r_error",
    "mpi_error",
    "file_permission",
    "program_not_found",
    "io_error",
    "shared_library_missing",
)
"""Families that are asked where no other one names the error."""
PEERS = (
    "nccl_remote_exit", "nccl_timeout", "nccl_system_error", "gloo_timeout", "pmix_peer_lost", "rendezvous_timeout",
    "connection_refused_rendezvous",
)  # fmt: skip
"""Families of lines that tell of another process: an exception with such words is no error of its own."""
LOST_PEER = re.compile(r"connectFullMesh failed|Connection (?:closed|reset) by peer|Broken pipe")
"""The same, in words of Gloo and errno."""
OF_REPORT = ("error_frame", "error_message", "log_tail", "log_end", "python_traceback", "python_exception_chain")
"""What is no error by itself."""
QUOTED = 200
"""Characters of a line that are quoted."""


@dataclass(frozen=True)
class Spoken:
    """The line that names the error, and where they are there its message below and the frame in the user's code."""

    line: Sign
    message: Sign | None = None
    frame: Sign | None = None

    @property
    def text(self) -> str:
        """All of it in one sentence, without its end."""
        said = self.line.cite.text.strip()[:QUOTED]
        if self.message is not None:
            said = f"{said} {self.message.fields['message'][:QUOTED]}"
        if self.frame is not None:
            where = self.frame.fields
            function = where.get("function", "")
            place = f"{where.get('file', '')[-120:]} line {where.get('line', '?')}"
            said = f"{said}, at {place}" + (f" in {function[:60]}" if function not in ("", "<module>") else "")
        return said


def spoken(job: Job) -> Spoken | None:
    """The last error of the rank that failed first, else of all; what only echoes another failure comes last."""
    every = job.log.of(*ERROR_LINES, "cpp_exception")
    own = [sign for sign in every if sign.id not in ECHOES and exception_type(sign) not in ECHO_TYPES]
    peers = {(sign.cite.file, sign.cite.line) for sign in job.log.of(*PEERS)}
    own = [s for s in own if not job.telling.ignored(s) and not LOST_PEER.search(s.cite.text)]
    own = [s for s in own if (s.cite.file, s.cite.line) not in peers]
    line = _last(job, own) or _last(job, job.log.of(*LESS)) or job.program.last_error
    if line is None:
        return None
    told = [line]
    if CLOSING.match(line.cite.text):
        above = [s for s in job.log.signs if _above(s, line)]
        if above:
            told.insert(0, max(above, key=lambda s: s.cite.line))
    return Spoken(told[0], _of(job, "error_message", told), _of(job, "error_frame", told))


def named(job: Job) -> Fact:
    """The program ended by itself and names its error: cites what `spoken` finds."""
    says = "the program names its error"
    found = spoken(job)
    if found is None or not job.program.failed_by_itself.holds:
        return unknown(says, "no such line was seen", job.log.how)
    return true(says, [sign.cite for sign in (found.line, found.message, found.frame) if sign is not None])


def _last(job: Job, lines: Iterable[Sign]) -> Sign | None:
    found = list(lines)
    first = job.ranks.first
    if first is not None:
        found = [sign for sign in found if sign.fields.get("rank") == str(first.rank)] or found
    return found[-1] if found else None


def _above(sign: Sign, line: Sign) -> bool:
    if sign.cite.file != line.cite.file or not 0 < line.cite.line - sign.cite.line <= ABOVE:
        return False
    return sign.voice is Voice.PROGRAM and sign.id not in OF_REPORT and not CLOSING.match(sign.cite.text)


def _of(job: Job, id: str, told: list[Sign]) -> Sign | None:
    """The frame or message that belongs to one of these lines."""
    lines = {(sign.cite.file, str(sign.cite.line)) for sign in told}
    return next((s for s in job.log.of(id) if (s.cite.file, s.fields.get("of")) in lines), None)
