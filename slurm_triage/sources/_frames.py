"""Where in the user's own code an error arose, and what it says where its message stands in the next line.

Python prints the frames above the exception, the innermost last; all others print them below, the innermost first. Of
each report one frame counts: the innermost that is not of a run time, a standard library or an installed package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_triage.model import Voice
from slurm_triage.sources._messages import Hit, Keeper

LINES = 60
"""Lines below an error in which its frame is looked for."""
MOST = 2000
"""Reports of one file that are followed: a flood of errors stays cheap."""
AT_ONCE = 256
"""Labels (ranks) whose reports are followed at the same time."""

_HEADS = frozenset({
    "language_error", "runtime_panic", "julia_error", "ruby_error", "lua_error", "haskell_error", "sanitizer_report",
    "floating_point_text", "fortran_runtime", "java_oom", "python_exception", "error_line", "sigsegv_handler",
    "r_error", "openfoam_error", "gromacs_error", "quantum_chemistry_error", "build_error", "alloc_failed",
})  # fmt: skip
"""Families whose lines begin a report."""
_BELOW = frozenset({"r_error", "language_error", "openfoam_error", "gromacs_error", "quantum_chemistry_error",
    "build_error", "runtime_panic"})  # fmt: skip
"""Those of them whose message may stand in the next line."""

_WHOLE = re.compile(
    r"Execution halted|BEGIN failed|Can't locate |\[?UnhandledPromise|error: |Un(?:defined|recognized) "
)
"""Lines of these families that have their message in themselves, or none."""

_FILE = r"(?P<file>[^\s:()\"]{1,400})"
_LINE = r":(?P<line>\d{1,9})"
_PYTHON = re.compile(r"\s{1,8}File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}))?")
_FRAMES = tuple(
    re.compile(form)
    for form in (
        rf"\s{{1,8}}at (?:[\w.@-]{{0,100}}/){{0,2}}(?P<function>[\w.$<>]{{1,300}})\({_FILE}{_LINE}\)",  # Java, Scala
        rf"\s{{1,8}}at (?:(?P<function>[^()]{{1,200}}) \()?(?:file://)?{_FILE}{_LINE}:\d{{1,9}}\)?",  # Node.js
        rf"\s{{1,8}}at {_FILE}{_LINE}$",  # gfortran, Rust
        rf"\s{{1,8}}#\d{{1,4}} 0x[0-9a-f]{{1,16}} in (?P<function>.{{1,300}}?) {_FILE}{_LINE}(?::\d{{1,9}})?$",
        rf"\t{_FILE}{_LINE}(?: \+0x[0-9a-f]{{1,16}})?$",  # Go
        r"\s{4}(?P<file>[^\s:]{1,300}) at line (?P<line>\d{1,9}) column \d{1,9}",  # GNU Octave
        r"Error in (?P<file>[\w./>()-]{1,200}) \(line (?P<line>\d{1,9})\)",  # MATLAB
        rf"\s{{1,8}}@ (?:[\w.]{{1,80}} )?{_FILE}{_LINE}",  # Julia
        rf"\s{{1,8}}(?:\d{{1,6}}: )?from {_FILE}{_LINE}",  # Ruby
        rf"\s{{1,8}}{_FILE}{_LINE}: in .{{1,200}}",  # Lua
        rf"\s{{1,8}}\w{{1,80}}, called at {_FILE}{_LINE}:\d",  # Haskell
    )
)
_LIBRARY = re.compile(
    r"site-packages/|dist-packages/|/lib(?:64)?/python\d|<frozen |<string>|<__array_function__|<decorator"
    r"|node:|node_modules/|\bat (?:java\.|jdk\.|\S{0,60}/)?(?:java|javax|jdk|sun|scala|kotlin|org\.apache)\.[a-z]"
    r"|/(?:usr/local/|usr/lib/)?go/(?:src|pkg)/|/rustc/|/\.cargo/registry/|/usr/(?:include|lib|lib64|share)/"
    r"|libsanitizer|compiler-rt|sanitizer_common|@ (?:Base|Core)\b|@ \S{1,80} \./|/stdlib/v|/gems/|/matlab/toolbox/"
)
"""Code that nobody wrote for this job."""


@dataclass
class _Report:
    hit: Hit
    left: int = LINES
    message: bool = False
    """Whether the message is still waited for."""


class Frames:
    """The reports of one file. `keeper` gets the lines: `error_frame`, `error_message`, both with `of`, the number of
    the line that names the error."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._reports: dict[str, _Report] = {}
        self._python: dict[str, tuple[int, str, dict[str, str]]] = {}
        self._count = 0

    def open(self) -> bool:
        """Whether the next line may belong to a report."""
        return bool(self._reports)

    def inside(self, number: int, text: str, label: str, rest: str) -> None:
        """A line while reports are open, `rest` without its label: a frame, a message, or neither."""
        if rest[:1] in " \t" and 'File "' in rest and (found := _PYTHON.match(rest)):
            if not _LIBRARY.search(rest) and len(self._python) < AT_ONCE:
                self._python[label] = number, text, _place(found)
            return
        report = self._reports.get(label)
        if report is None:
            return
        report.left -= 1
        found = next((f for form in _FRAMES if (f := form.match(rest[:1000]))), None)
        if found is not None and not _LIBRARY.search(rest[:1000]):
            self._keep(report.hit, number, text, "error_frame", _place(found))
            report.left = 0
        elif report.message and found is None and rest.strip():
            self._keep(report.hit, number, text, "error_message", {"message": rest.strip()[:400]})
            report.message = False
        if report.left <= 0:
            del self._reports[label]

    def named(self, label: str, hits: list[Hit], ended: bool) -> None:
        """The line had these hits; `ended`: it ends a traceback of Python."""
        if ended:
            frame = self._python.pop(label, None)
            if frame is not None and hits and self._count < MOST:
                self._count += 1
                self._keep(hits[0], frame[0], frame[1], "error_frame", frame[2])
            return
        head = next((hit for hit in hits if hit.id in _HEADS), None)
        if head is None or self._count >= MOST or len(self._reports) >= AT_ONCE:
            return
        before = self._reports.get(label)
        if before is not None and before.hit.id != "error_line" and head.text.startswith((" ", "\t", "error: called")):
            return  # a line within the report of that error
        self._count += 1
        text = head.fields.get("message", "")
        waits = head.id in _BELOW and (not text or text.endswith(":")) and not _WHOLE.match(head.text)
        self._reports[label] = _Report(head, message=waits)

    def _keep(self, hit: Hit, number: int, text: str, id: str, fields: dict[str, str]) -> None:
        if "rank" in hit.fields:
            fields["rank"] = hit.fields["rank"]
        fields["of"] = str(hit.number)
        self._keeper.add(number, text, id, Voice.PROGRAM, fields)


def _place(found: re.Match[str]) -> dict[str, str]:
    return {key: value for key, value in found.groupdict().items() if value}
