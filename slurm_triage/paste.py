"""Pasted material: a terminal's scrollback, a ticket, single files, standard input, in any mixture.

One text may hold several kinds of evidence: `$ sacct -j 17` with its table, then kernel lines, then the job's output.
It is cut into parts:

* a shell prompt starts a new part, and the command on it says whose words follow: what `cat slurm-17.out` or `srun`
  printed is the job's output, whatever it looks like;
* within a part, tables of accounting, records of scontrol, kernel lines and daemons' lines are taken out where their
  source is sure of them; what is left is one text.

A file named like a job's output (`slurm-17.out`) is never cut: a job may print a prompt and anything behind it. Lines
keep the number that they have in the user's file, and citations name that file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from slurm_triage.case import BLOCK, LINE_LIMIT, Block, Case, EvidenceFile, blocks_of
from slurm_triage.engine import Study, study
from slurm_triage.model import Coverage
from slurm_triage.sources import job_log, recognise
from slurm_triage.sources._catalog import load
from slurm_triage.sources._finder import Scan
from slurm_triage.sources._names import is_daemon_name, is_output_name

TEXT_LIMIT = 64 * 1024 * 1024
"""Bytes of standard input or of one file that are cut into parts; a larger file is read whole as one kind."""

TAKEN_AS_OUTPUT = "taken-as-output.out"
"""Name of a text that no source is sure of: most likely the program's own words, which prove least."""

PARTS_LIMIT = 500
"""Prompts that are looked at; what follows the last of them stays one part."""

Line = tuple[int, str]

# ------------------------------------------------------------------------------------------------ parts


@dataclass(frozen=True)
class Part(EvidenceFile):
    """Some lines of a pasted text, with the numbers that they have there.

    `name` is for recognising only (see `Pasted.shown`); `kept` are (number from 1, text), by number.
    """

    kept: tuple[Line, ...] = ()

    def lines(self, size: int = BLOCK) -> Iterator[Line]:
        """The lines with their numbers in the pasted text."""
        yield from self.kept

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """The lines in pieces, a new one wherever lines of other parts stand between."""
        return blocks_of(((number, text.encode("utf-8", "replace")) for number, text in self.kept), size)

    def head(self, limit: int = 60) -> list[str]:
        """The first `limit` lines of the part."""
        return [text for _, text in self.kept[:limit]]

    def text(self, limit: int = 64 * 1024 * 1024) -> str:
        """The part's text behind as many empty lines as stand before it, so that counted lines are the pasted ones."""
        out: list[str] = []
        at = 1
        for number, text in self.kept:
            out.append("\n" * (number - at) + text)
            at = number
        return "".join(out)[:limit]

    def size(self) -> int:
        """Characters, line ends not counted."""
        return sum(len(text) for _, text in self.kept)


@dataclass(frozen=True)
class Pasted:
    """A case made of pasted material. `shown` maps the name of each part to the name of the user's file."""

    case: Case
    shown: Mapping[str, str]


# ------------------------------------------------------------------------------------------------ prompts

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[A-Za-z]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
_PROMPT = re.compile(
    r"(?:\([\w.-]{1,60}\) )?"  # conda or venv
    r"(?:\[(?P<a>[^\s\[\]@]{1,60})@(?P<ahost>[\w.-]{1,100})(?: [^\]\n]{0,200})?\][$#%]"  # [user@host dir]$
    r"|(?P<b>[\w.-]{1,60})@(?P<bhost>[\w.-]{1,100})[: ][^$#%>\n]{0,200}[$#%>]"  # user@host:~/dir$
    r"|(?P<bare>[$#%]))"
    r" +(?P<command>\S.{0,2000})"
)
_READERS = frozenset({"cat", "zcat", "tail", "head", "less", "more", "grep", "zgrep", "egrep"})
_RUNNERS = frozenset({"srun", "salloc", "mpirun", "mpiexec", "torchrun"})
_TOOLS = (
    {"sacct", "scontrol", "squeue", "seff", "sinfo", "sacctmgr", "sstat", "sdiag", "sbatch", "scancel"}
    | {"dmesg", "journalctl", "kubectl", "nvidia-smi"}
    | _READERS
    | _RUNNERS
)
_BEFORE = frozenset({"sudo", "time", "nohup", "env"})
_NAME = re.compile(r"[\w%+=@,.-]{1,120}")


@dataclass(frozen=True)
class _Command:
    """What stood behind a prompt: the words of the first command, and the host it ran on where that is known."""

    words: tuple[str, ...]
    host: str | None

    @property
    def tool(self) -> str:
        """Its name without the folder."""
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""


def _command(line: str) -> _Command | None:
    """The command of a line that is a prompt with a command, else None.

    `#` and `%` alone are prompts only before a tool that is known here: both begin comments.
    """
    if len(line) > 4000:
        return None
    match = _PROMPT.fullmatch(_ANSI.sub("", line).rstrip())
    if not match:
        return None
    words = _words(match["command"])
    host = match["ahost"] or match["bhost"]
    if words[:1] == ["ssh"] and len(words) > 2 and re.fullmatch(r"[\w.@-]{1,160}", words[1]):
        host, words = words[1].rsplit("@", 1)[-1], _words(" ".join(words[2:]).strip("'\""))
    command = _Command(tuple(words), host)
    if match["bare"] in ("#", "%") and command.tool not in _TOOLS:
        return None
    return command


def _words(text: str) -> list[str]:
    """The words of the first command of a line, without what is before the program's name (sudo, VAR=value)."""
    words = re.split(r"\s*(?:[|;]|&&|2?>)", text, maxsplit=1)[0].split()
    while words and (words[0] in _BEFORE or re.match(r"\w+=", words[0]) or words[0].startswith("-")):
        words.pop(0)
    return words


def _name(command: _Command | None, lines: Sequence[Line]) -> str | None:
    """A file name that says whose words a part holds, None where the content has to say it."""
    if command is None or not command.tool:
        return None
    if command.tool in _RUNNERS:
        return "client.out"
    if command.tool in _READERS:
        named = [word.rsplit("/", 1)[-1] for word in command.words[1:] if not word.startswith("-")]
        return next((n for n in reversed(named) if _NAME.fullmatch(n) and is_output_name(n)), None)
    kernel = command.tool in ("dmesg", "journalctl") and any(_KERNEL.match(text) for _, text in lines[:60])
    if kernel and command.host and re.fullmatch(r"[A-Za-z0-9][\w-]{0,62}", command.host.split(".")[0]):
        return f"dmesg.{command.host.split('.')[0]}.txt"
    return None


# ------------------------------------------------------------------------------------------------ blocks by content

_KERNEL = re.compile(
    r"(?:<\d{1,3}>)?\[ {0,6}\d{1,9}\.\d{6}\] "  # dmesg
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "  # dmesg -T
    r"|\d{1,3},\d{1,12},\d{1,15},[-c]"  # /dev/kmsg
    r"|\S{3} [ \d]\d \d\d:\d\d:\d\d \S{1,100} kernel: "  # syslog, journalctl -k
    r"|\d{4}-\d\d-\d\dT\S{8,25} (?:\S{1,100} )?kernel: "
)
_DAEMON = re.compile(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?\] ")
_RECORD = re.compile(r"\s{0,3}JobId=\d")
_INDENTED = re.compile(r"\s{1,12}[\w:/*.-]{1,60}=|\s*$")
_TABLE = re.compile(r"(?i)\s*job_?id(?:raw)?\b")
_SEFF = re.compile(r"Job ID: \d")
_SEFF_LINE = re.compile(r"[A-Z][A-Za-z/ -]{2,40}: \S")
_SURE = frozenset(
    {"sacct", "sacct_table", "scontrol_job", "kernel_log", "slurmctld_log", "slurmd_log", "kubectl", "task_exits"}
)
"""Kinds that may be taken out of a text in which other things stand too."""

_SURE_FROM = 0.75
_MOST_ROWS = 100_000


def _class(text: str) -> str:
    """What a line starts or is, by its layout alone: `kernel`, `daemon`, `record`, `table`, `seff` or nothing."""
    if _KERNEL.match(text):
        return "kernel"
    if _DAEMON.match(text):
        return "daemon"
    if _RECORD.match(text):
        return "record"
    if len(text) < 2000 and _TABLE.match(text) and len(re.split(r"[|\s]+", text.strip())) > 1 and "=" not in text:
        return "table"
    return "seff" if _SEFF.match(text) else ""


def _goes_on(begun: str, text: str) -> bool:
    """Whether a line belongs to the table or record that begins above it."""
    if begun == "table":
        row = text.strip()
        return bool(row) and (row[0].isdigit() or set(row) <= set("- |"))
    if begun == "record":
        return bool(_INDENTED.match(text)) or bool(_RECORD.match(text))
    return begun == "seff" and bool(_SEFF_LINE.match(text))


def _pieces(lines: Sequence[Line]) -> list[tuple[str, list[Line]]]:
    """The lines by layout: each table, record and report by itself, all kernel and daemon lines together, the rest."""
    pieces: list[tuple[str, list[Line]]] = []
    gathered: dict[str, list[Line]] = {}
    begun = ""
    for line in lines:
        text = line[1]
        if begun and _goes_on(begun, text):
            pieces[-1][1].append(line)
            continue
        begun = ""
        kind = _class(text)
        if kind in ("table", "record", "seff") and len(pieces) < PARTS_LIMIT:
            pieces.append((kind, [line]))
            begun = kind
        else:
            gathered.setdefault(kind if kind in ("kernel", "daemon") else "", []).append(line)
    return [*pieces, *gathered.items()]


def _split(lines: Sequence[Line], name: str) -> Iterator[Sequence[Line]]:
    """The parts of a text without prompts. What no source is sure of stays together."""
    pieces = _pieces(lines)
    if len(pieces) == 1:
        yield lines
        return
    rest: list[Line] = []
    for kind, piece in pieces:
        if kind and _is_sure(piece, name):
            yield piece
        else:
            rest.extend(piece)
    rest.sort()
    if any(text.strip() for _, text in rest):
        yield rest


def _is_sure(piece: Sequence[Line], name: str) -> bool:
    part = Part(name, kept=tuple(piece))
    source = recognise(part)
    if source is None or source.KIND not in _SURE or source.recognise(name, part.head()) < _SURE_FROM:
        return False
    # Programs print times in brackets too: kernel lines must say something that the kernel says.
    return source.KIND != "kernel_log" or _known_to_kernel(piece)


def _known_to_kernel(piece: Iterable[Line]) -> bool:
    catalog = load("kernel")
    return any(catalog.match(text) for _, text in islice(piece, _MOST_ROWS) if len(text) < LINE_LIMIT)


# ------------------------------------------------------------------------------------------------ texts and files


def parts_of(lines: Sequence[Line], stem: str = "pasted") -> tuple[Part, ...]:
    """The parts of one pasted text, in its order. Their names begin with `stem`; lines of prompts are in none of them.

    A text with lines but no part (nothing but prompts) gives no part at all.
    """
    blocks: list[tuple[_Command | None, list[Line]]] = [(None, [])]
    prompt_goes_on = False
    for line in lines:
        command = _command(line[1]) if len(blocks) < PARTS_LIMIT else None
        if command is not None:
            blocks.append((command, []))
        elif not prompt_goes_on:
            blocks[-1][1].append(line)
        prompt_goes_on = (command is not None or prompt_goes_on) and line[1].endswith("\\")
    found: list[Part] = []

    def add(kept: Sequence[Line], base: str) -> None:
        found.append(Part(f"{stem}-{len(found) + 1}/{base}", kept=tuple(kept)))

    for command, block in blocks:
        if not any(text.strip() for _, text in block):
            continue
        named = _name(command, block)
        if named is not None:
            add(block, named)
            continue
        for piece in sorted(_split(block, "pasted.txt"), key=lambda p: p[0][0]):
            add(piece, "pasted.txt")
    return tuple(found)


def _whole(name: str, head: Sequence[str]) -> bool:
    """Whether a file is one kind of evidence by its name or layout, so that it must not be cut."""
    if is_output_name(name) or any("\0" in text for text in head):
        return True
    first = next((text.strip() for text in head if text.strip()), "")
    if first[:1] in "{[" and _is_json(head):
        return True
    return (is_daemon_name(name) or name.lower().endswith(".log")) and not any(_command(text) for text in head)


def _is_json(head: Sequence[str]) -> bool:
    text = "\n".join(head).lstrip()
    if re.match(r'\{\s*"|\[\s*\{\s*"', text):
        return True
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


def gather(files: Iterable[EvidenceFile]) -> Pasted:
    """A case of the files given, each whole or cut into parts. Names are those that the user typed.

    Raises `OSError` for a file that cannot be read.
    """
    kept: list[EvidenceFile] = []
    shown: dict[str, str] = {}
    problems: list[str] = []
    for count, file in enumerate(files, 1):
        stem = f"pasted-{count}"
        base = "/".join(Path(file.name).parts[-2:]) if file.name != "-" else "pasted.txt"
        if file.size() > TEXT_LIMIT and file.path is None:
            problems.append(f"{file.name}: only the first {TEXT_LIMIT // 2**20} MiB were read")
            file = replace(file, data=(file.data or b"")[:TEXT_LIMIT])
        if _whole(base, file.head()) or file.size() > TEXT_LIMIT:
            parts: tuple[EvidenceFile, ...] = (replace(file, name=f"{stem}/{base}"),)
        else:
            parts = parts_of(list(file.lines()), stem)
            # A text that stays in one piece keeps its name: the name may say what it is.
            if len(parts) == 1 and parts[0].base == "pasted.txt":
                parts = (replace(parts[0], name=f"{stem}/{base}"),)
            elif not parts:
                parts = (replace(file, name=f"{stem}/{base}"),)
        alone = len(parts) == 1
        parts = tuple(
            replace(part, name=f"{part.name.split('/')[0]}/{TAKEN_AS_OUTPUT}")
            if _taken_as_output(part, alone)
            else part
            for part in parts
        )
        for part in parts:
            shown[part.name] = file.name
        kept.extend(parts)
    return Pasted(Case(tuple(kept), problems=tuple(problems)), shown)


def _taken_as_output(file: EvidenceFile, alone: bool) -> bool:
    """Whether a text is best read as the job's output.

    That is when a source knows it only by a line or two that a job may print too; or when no source knows it and there
    is nothing else (beside other parts it may be what a person wrote).
    """
    head = file.head()
    source = recognise(file)
    if source is None:
        return alone and any(text.strip() for text in head) and not any("\0" in text for text in head)
    loose = source.KIND == "kubectl" and source.recognise(file.name, head) < _SURE_FROM
    if source.KIND == "kernel_log" and not is_daemon_name(file.name):
        loose = not _known_to_kernel(file.lines())
    return loose and job_log.recognise(file.name, head) > 0


# ------------------------------------------------------------------------------------------------ diagnosis

T = TypeVar("T")


def diagnose(files: Iterable[EvidenceFile], scan: Scan | None = None) -> Study:
    """The diagnosis of pasted material, citing the user's files. Raises `OSError` for a file that cannot be read.

    `scan` is as in `study`.
    """
    pasted = gather(files)
    found = study(pasted.case, scan)
    diagnosis = _renamed(found.diagnosis, pasted.shown)
    parts = {p.name: p for p in pasted.case.files if isinstance(p, Part)}
    pairs = zip(found.diagnosis.coverage, diagnosis.coverage, strict=True)
    coverage = tuple(_counted(old, new, parts) for old, new in pairs)
    return Study(replace(diagnosis, coverage=coverage), found.attempts)


def _counted(old: Coverage, new: Coverage, parts: Mapping[str, Part]) -> Coverage:
    """Coverage of a part: how many lines it has, and between which lines of the user's file they stand."""
    part = parts.get(old.file)
    if old.file.endswith(f"/{TAKEN_AS_OUTPUT}"):
        new = replace(new, note="not known by its layout: read as output of the job")
    if part is None or not part.kept:
        return new
    where = f"lines {part.kept[0][0]} to {part.kept[-1][0]} of what was pasted"
    return replace(new, lines=len(part.kept), note=f"{where}; {new.note}" if new.note else where)


def _renamed(value: T, shown: Mapping[str, str]) -> T:
    """The same value with the names of parts replaced by the names of the user's files, everywhere in it."""
    pattern = re.compile("|".join(re.escape(name) for name in sorted(shown, key=len, reverse=True)) or r"(?!)")
    done: dict[int, Any] = {}

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            return pattern.sub(lambda m: shown[m[0]], item) if "pasted-" in item else item
        if isinstance(item, tuple):
            return tuple(walk(i) for i in item)
        if isinstance(item, Mapping):
            return {k: walk(v) for k, v in item.items()}
        if is_dataclass(item) and not isinstance(item, type):
            if id(item) not in done:  # facts and cites are shared between many verdicts
                done[id(item)] = replace(item, **{f.name: walk(getattr(item, f.name)) for f in fields(item)})
            return done[id(item)]
        return item

    renamed: T = walk(value)
    return renamed
