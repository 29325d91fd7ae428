"""The job's own output, and the terminal of srun or salloc: anything may be printed there.

Lines of slurmstepd and srun speak with Slurm's voice (catalog/slurm), all others are the program's word
(catalog/program). Kernel lines that somebody printed there keep the program's voice and get the id `quoted_<id>`.

Beside the lines that a catalog knows, every file yields how it ends: `log_end` (the last line that is not empty) and
`log_tail` (each of the last five), or `log_empty`, the lines that only one software stack prints (catalog/stack), and
of reports of errors the frame in the user's own code (`error_frame`) and a message below the heading (`error_message`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Event, Voice
from slurm_triage.sources import TEXT_LIMIT, Context
from slurm_triage.sources._catalog import Signature, folders
from slurm_triage.sources._finder import Chunk, finder
from slurm_triage.sources._frames import Frames
from slurm_triage.sources._messages import (
    Hit,
    Keeper,
    Label,
    known,
    label_of,
    matches,
    segments,
    sign,
)
from slurm_triage.sources._names import is_daemon_name, is_output_name
from slurm_triage.sources._stacks import FOLDER, Stacks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KIND = "job_log"

TAIL = 5
"""Lines from the end of the file that are always kept."""

GIVEN_UP = 100_000
"""Lines of others after which the rest of a traceback is not waited for: its rank was killed while it printed."""

WEAK = frozenset({"error_line", "exit_status_text", "file_not_found", "file_exists", "signal_caught"})
"""Families that any text may hold: they do not make a file a job's output."""

_TABLE = re.compile(r"[A-Za-z][\w/%. -]{0,40}(?:\|[\w/%. -]{0,60}){3,200}\|?")
_HEADER = "Traceback (most recent call last)"
_EXOTIC = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,60}\.){1,8}[A-Za-z_]\w{0,80}|[A-Z][a-z0-9]{1,30}(?:[A-Z][a-z0-9]{1,30}){1,8})"
    r"(?:: (?P<message>.{0,800}))?"
)


# ------------------------------------------------------------------------------------------------ recognising


def recognise(name: str, head: Sequence[str]) -> float:
    """By name (`job.out`, `out/*`, `client.out`, `*.log`) or by lines that the catalogs know.

    Never a TOML file with keys, JSON, or a table of sacct -P.
    """
    if _structured(head):
        return 0.0
    base = name.rsplit("/", 1)[-1].lower()
    said = _known(head)
    if is_output_name(name):
        return 0.7 if said else 0.6
    if is_daemon_name(name):
        return 0.2 if said else 0.0
    if base.endswith(".log"):
        return 0.6 if said else 0.5
    return 0.5 if said else 0.0


def _known(head: Sequence[str]) -> bool:
    for text in head:
        if any(id != "client_exit" for id in known("slurm", text)):
            return True
        if any(id not in WEAK for id in known("program", text)):
            return True
    return False


def _structured(head: Sequence[str]) -> bool:
    """Whether the text is TOML with keys, JSON, or a table with `|` and a header."""
    lines = [line for line in head if line.strip()]
    if not lines:
        return False
    if _TABLE.fullmatch(lines[0]):
        return True
    first = lines[0].strip()
    if re.match(r'\{\s*(?:"|\}|$)|\[\s*(?:[{"\[]\s*["{]?|\]|$)', first) and not (len(lines) > 1 and _is_json(first)):
        # A first line that is JSON by itself, with more lines after it, is a program that logs in JSON.
        return first[0] == "{" or len(lines) == 1 or first in ("[", "[{") or _is_json("\n".join(lines))
    text = "\n".join(head)
    try:
        return bool(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return False


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


# ------------------------------------------------------------------------------------------------ parsing


@dataclass
class _Tracebacks:
    """Open tracebacks by label: the first line that is not indented ends one and names the exception."""

    lines_left: dict[str, int] = field(default_factory=dict)
    last_line: int = 0
    """Number of the last line that belonged to one of them."""

    def open(self, number: int) -> bool:
        """Whether line `number` may belong to one. They are given up when for long no line did."""
        if self.lines_left and number - self.last_line > GIVEN_UP:
            self.lines_left.clear()
        return bool(self.lines_left)

    def ends(self, number: int, label: str, rest: str) -> bool:
        """Whether this line is the last one of a traceback."""
        left = self.lines_left.get(label)
        if _HEADER in rest:
            if len(self.lines_left) < 4096 or left is not None:
                self.lines_left[label], self.last_line = 2000, number
            return False
        if left is None:
            return False
        self.last_line = number
        if (not rest.strip() or rest[0] in " \t|+") and left:
            self.lines_left[label] = left - 1
            return False
        del self.lines_left[label]
        return True


@cache
def _catalogs() -> tuple[str, ...]:
    return ("slurm", "program", *(f for f in ("kernel", FOLDER) if f in folders()))


def parse(file: EvidenceFile, context: Context) -> Iterator[Event]:
    """The known lines (of each family the first and last 200, and the first of each rank), then how the file ends."""
    keeper = Keeper()
    stacks = Stacks()
    tracebacks = _Tracebacks()
    frames = Frames(keeper)
    root: Hit | None = None
    tail: list[tuple[int, str]] = []
    terminal = file.base.lower().startswith(("client", "terminal"))
    for chunk in finder(_catalogs(), (_HEADER,)).chunks(file, context.scan):
        tail = (tail + chunk.last(TAIL))[-TAIL:]
        for index, text in _telling(chunk, tracebacks, frames):
            number, label = chunk.first + index, label_of(text)
            frames.inside(number, text, label.text.strip(), _rest(text, label))
            ended = tracebacks.ends(number, label.text.strip(), _rest(text, label))
            families = stacks.take(number, text, chunk.marked.get(index, []))
            hits = _line(number, text, label, families, keeper, ended)
            frames.named(label.text.strip(), hits, ended)
            for hit in hits:
                if hit.id == "torchrun_root_cause":
                    root = hit
                elif hit.id == "torchrun_failure_detail" and root and number <= root.number + 8:
                    for key, value in hit.fields.items():
                        root.fields.setdefault(key, value)
    if not tail:
        keeper.add(1, "", "log_empty", Voice.PROGRAM, {})
    for number, text in tail:
        keeper.add(number, text, "log_tail", Voice.PROGRAM, {"text": _visible(text)})
    if tail:
        keeper.add(*tail[-1], "log_end", Voice.PROGRAM, {"text": _visible(tail[-1][1])})
    context.note(keeper.left_out())
    for hit in keeper.hits():
        if terminal:
            hit.fields["terminal"] = "1"
        yield sign(KIND, file, context, hit)
    yield from stacks.events(KIND, file, context)


def _telling(chunk: Chunk, tracebacks: _Tracebacks, frames: Frames) -> Iterator[tuple[int, str]]:
    """Index and text of the lines that may say something: those with a hint, and all while a report is open."""
    marked = iter((*chunk.marked, chunk.count))
    at = next(marked)
    index = 0
    while index < chunk.count:
        if not frames.open() and not tracebacks.open(chunk.first + index):
            index = at
        if index >= at:
            if at == chunk.count:
                return
            at = next(marked)
        yield index, chunk.text(index)
        index += 1


def _line(number: int, text: str, label: Label, families: list[Signature], keeper: Keeper, ended: bool) -> list[Hit]:
    """Everything that one line says."""
    found = []
    for family, fields in matches(families, _rest(text, label) if label.tag else text):
        quoted = family.voice is Voice.KERNEL
        found.append((f"quoted_{family.id}" if quoted else family.id, family.voice, fields))
    if any(id != "error_line" for id, _, _ in found):
        found = [entry for entry in found if entry[0] != "error_line"]  # it says no more than the others
    if ended and not any(id == "python_exception" for id, _, _ in found):
        exotic = _EXOTIC.fullmatch(_rest(text, label).rstrip())
        if exotic:
            fields = {key: value for key, value in exotic.groupdict().items() if value is not None}
            found.append(("python_exception", Voice.PROGRAM, fields))
    hits = []
    for id, voice, fields in found:
        if label.rank is not None:
            fields.setdefault("rank", label.rank)
            if label.local:
                fields.setdefault("rank_of", "node")
        if ended and id == "python_exception":
            fields["traceback"] = "1"
        kept = Voice.PROGRAM if voice is Voice.KERNEL else voice
        hits.append(keeper.add(number, text, id, kept, fields))
    return hits


def _rest(text: str, label: Label) -> str:
    return text[len(label.text) :]


def _visible(text: str) -> str:
    return segments(text)[-1][:TEXT_LIMIT]
