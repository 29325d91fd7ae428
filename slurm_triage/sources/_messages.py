"""Message lines: what a line says of itself, which families it belongs to, and keeping few of many (see `_finder`)."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_triage.case import EvidenceFile
from slurm_triage.model import Sign, Stamp, Voice
from slurm_triage.sources import TEXT_LIMIT, Context
from slurm_triage.sources._catalog import Signature, load

KEEP = 200
"""Lines kept per family from the start of a file, and as many from its end."""

OF_RANK = 3
"""Lines kept per family of each rank, however many the others print: one of thousands may be the one that failed."""

MOST_OF_RANKS = 20_000
"""Lines that are kept of ranks beside the first and last ones of a family."""

NAMED = 5
"""Families that the coverage names when lines of them were left out."""

SAME_MOMENT = 2.0
"""Seconds by which two times of one line may differ and still be one."""

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)(?![\d:])")
_LABEL = re.compile(r"(?:\[(rank|Rank |default|trainer)?(\d{1,7})\]:? ?|\s{0,6}(\d{1,7}):(?: |$))")
_TAG = re.compile(r"\[(?:[\w.-]{1,80}@)?\d{1,7},(\d{1,7})\]<std(?:out|err)>:? ?")
"""What mpirun --tag-output and prterun --output tag print: job and rank in its MPI_COMM_WORLD."""
_STEPD = re.compile(r"slurmstepd-([A-Za-z0-9][\w.-]{0,254}): ")
_NODE = re.compile(r"[A-Za-z0-9][\w.-]{0,254}")
_JOB = re.compile(r"\d{1,12}(?:[_+]\d{1,9})?")
_STEP = re.compile(r"(\d{1,12}(?:[_+]\d{1,9})?)\.(\d{1,9}|batch|extern|interactive)")
_SHOWN = re.compile(r"(\d{1,12}[_+]\S{1,40})\((\d{1,12})\)")


@dataclass(frozen=True)
class Label:
    """What a launcher put before the line: `rank` as printed, `local` if it is the rank within a node.

    `tag` is True for one that can be nothing else, so that the message is what follows it.
    """

    text: str = ""
    rank: str | None = None
    local: bool = False
    tag: bool = False


def label_of(text: str) -> Label:
    """The label of a line: `[rank3]:` (torch), `[default3]:` (torchrun: role and *local* rank), ` 3: ` (srun -l),
    `[1,3]<stderr>:` (mpirun)."""
    match = _LABEL.match(text)
    if not match:
        tag = _TAG.match(text) if text.startswith("[") else None
        return Label(tag[0], tag[1], tag=True) if tag else Label()
    word, inner, bare = match.groups()
    if word is None and inner is not None:
        return Label()  # "[3]" alone is a list index, a thread, a footnote
    return Label(match[0], inner or bare, word in ("default", "trainer"))


def node_name(text: str | None) -> str | None:
    """`text` if it can be the name of one node: not empty, no folded list, no `...` of an excerpt."""
    if text and _NODE.fullmatch(text.rstrip(".,;:")) and text != "(null)":
        return text.rstrip(".,;:")
    return None


def job_and_step(fields: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Job and step that a line names by its fields `id`, `job_id` or `step_id`.

    `1088.0` is step 0 of job 1088; the raw id of `1001_4(1005)` is 1005.
    """
    for key in ("id", "job_id", "step_id"):
        text = fields.get(key, "").rstrip(".")
        if shown := _SHOWN.fullmatch(text):
            return shown[2], None
        if step := _STEP.fullmatch(text):
            return step[1], step[2]
        if _JOB.fullmatch(text):
            return text, None
    return None, None


def stamp_of(text: str, fields: Mapping[str, str], context: Context) -> Stamp | None:
    """When the message was written: its own time, or the stamp at the start of the line.

    Slurm's `CANCELLED AT` has whole seconds and the line's stamp milliseconds, so the stamp is taken where they agree;
    where they do not, the message was glued behind older text.
    """
    match = _STAMP.match(text)
    stamp = context.clock.local(match[1]) if match else None
    said = context.clock.local(fields["time"].replace("_", "T", 1)) if "time" in fields else None
    if stamp is None or said is None:
        return stamp or said
    apart = stamp.seconds_since(said)
    return stamp if apart is not None and abs(apart) <= SAME_MOMENT else said


# ------------------------------------------------------------------------------------------------ matching lines


def segments(text: str) -> list[str]:
    """The parts of a line that a terminal would show: split at carriage returns (progress bars), without colours."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        return [part for part in text.split("\r") if part.strip()] or [""]
    return [text]


def matches(families: Iterable[Signature], text: str) -> list[tuple[Signature, dict[str, str]]]:
    """Which of the families match the line, or a part of it between carriage returns (the last that does)."""
    parts = segments(text)
    found = []
    for family in families:
        for part in reversed(parts):
            fields = family.fields(part) if family.hinted(part) else None
            if fields is not None:
                found.append((family, fields))
                break
    return found


def known(folder: str, text: str) -> list[str]:
    """Ids of the families of a catalog that match the line; for recognising files by their first lines."""
    catalog = load(folder)
    return [family.id for family, _ in matches(catalog.signatures, text)] if catalog.hinted(text) else []


# ------------------------------------------------------------------------------------------------ keeping lines


@dataclass
class Hit:
    """A line that matched: `text` is cut, `fields` may still grow while the lines after it are read."""

    number: int
    text: str
    id: str
    voice: Voice
    fields: dict[str, str]
    order: int = 0


@dataclass
class Keeper:
    """The first and the last `KEEP` hits of each family, and the first of each rank: a flood of them stays small."""

    keep: int = KEEP
    _first: dict[str, list[Hit]] = field(default_factory=dict)
    _last: dict[str, deque[Hit]] = field(default_factory=dict)
    _of_ranks: list[Hit] = field(default_factory=list)
    _ranks: Counter[tuple[str, str]] = field(default_factory=Counter)
    _seen: Counter[str] = field(default_factory=Counter)
    _count: int = 0

    def add(self, number: int, text: str, id: str, voice: Voice, fields: dict[str, str]) -> Hit:
        """Keep a hit (or let it take the place of an older one)."""
        self._count += 1
        self._seen[id] += 1
        hit = Hit(number, text[:TEXT_LIMIT], id, voice, fields, self._count)
        first = self._first.setdefault(id, [])
        if len(first) < self.keep:
            first.append(hit)
        elif self._among_first(id, fields.get("rank")):
            self._of_ranks.append(hit)
        else:
            self._last.setdefault(id, deque(maxlen=self.keep)).append(hit)
        return hit

    def _among_first(self, id: str, rank: str | None) -> bool:
        """Whether this line, behind the first ones of all, is one of the first that the rank printed of the family."""
        if rank is None or len(self._of_ranks) >= MOST_OF_RANKS:
            return False
        self._ranks[id, rank] += 1
        return self._ranks[id, rank] <= OF_RANK

    def hits(self) -> list[Hit]:
        """All that was kept, in the order of the lines."""
        every = [hit for group in (*self._first.values(), *self._last.values()) for hit in group]
        return sorted((*every, *self._of_ranks), key=lambda hit: hit.order)

    def left_out(self) -> str:
        """Which families had more lines than were kept, for the coverage; empty if none had."""
        kept = Counter(hit.id for hit in self.hits())
        lost = [(id, seen) for id, seen in self._seen.most_common() if seen > kept[id]]
        said = [f"{id} {seen} ({kept[id]} used)" for id, seen in lost[:NAMED]]
        more = [f"{len(lost) - NAMED} kinds more"] if len(lost) > NAMED else []
        return f"of lines that came too often only some were used: {', '.join((*said, *more))}" if lost else ""


def sign(source: str, file: EvidenceFile, context: Context, hit: Hit, node: str | None = None) -> Sign:
    """The event of a hit. `node` is where the file was written; a node that the line names goes first."""
    fields = hit.fields
    stepd = _STEPD.search(hit.text)
    named = node_name(fields.get("node")) or node_name(fields.get("nodes")) or (stepd[1] if stepd else None)
    at = stamp_of(hit.text, fields, context)
    cite = context.cite(source, file, hit.number, hit.text, node=named or node, at=at)
    job, step = job_and_step(fields)
    return Sign(cite, job, step, id=hit.id, voice=hit.voice, fields=fields)
