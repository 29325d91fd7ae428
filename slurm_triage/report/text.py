"""A diagnosis as text for people: at most 60 lines of 79 columns of plain ASCII, laid out by a template.

The first line is the verdict and the last line is the verdict again, because people use `tail`. Text of the job only
ever enters the template as a value. Where the page is too small, what was left out is counted.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_triage.causes import title
from slurm_triage.clock import show
from slurm_triage.model import Cite, Coverage, Diagnosis, ExitInfo, JobIdentity, Missing, Moment, Stamp
from slurm_triage.nodeset import fold
from slurm_triage.report import mask
from slurm_triage.report.document import document, ruled_out_by, strength

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

LINES = 60
COLUMNS = 79
TEMPLATE = "diagnosis.txt.j2"
SITE_TEMPLATES = Path("/etc/slurm-triage/templates")

_INDENT = "  "
_QUOTE = "      | "


# ------------------------------------------------------------------------------------------------ words and lines


@lru_cache(maxsize=2048)  # most is of our own, and the same in every report
def words(text: str) -> str:
    """Text of our own or of the job for a report: secrets masked, ASCII, runs of blanks as one."""
    return " ".join(mask.plain(mask.secrets(text)).split())


def cut(text: str, width: int = COLUMNS) -> str:
    """`text` in `width` columns, ending in `...` where something was cut off."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def _cut_sentence(text: str) -> str:
    """As `cut`, between two words where one of them is not too long."""
    if len(text) <= COLUMNS:
        return text
    at = text.rfind(" ", COLUMNS - 18, COLUMNS - 2)
    return text[: at if at > 0 else COLUMNS - 3].rstrip(" .,;:") + "..."


def wrap(text: str, most: int, first: str = _INDENT, rest: str = "    ") -> list[str]:
    """`text` as at most `most` lines, cut with `...`; `first` and `rest` are the indents."""
    text = text[: (most + 1) * COLUMNS]  # no more than this can be shown
    lines = _wrapped(text, most, first, rest)
    if lines is None:
        lines = textwrap.wrap(
            text,
            COLUMNS,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
            max_lines=most,
            placeholder="...",
        )
    return lines or [first.rstrip()]


def _wrapped(text: str, most: int, first: str, rest: str) -> list[str] | None:
    """What textwrap makes of words between single blanks, much quicker; None for texts that are anything else."""
    if not text.isprintable() or "  " in text or text[:1] in (" ", "") or text[-1] == " ":
        return None
    if len(first) + len(text) <= COLUMNS:
        return [first + text]
    words_ = text.split(" ")
    if max(map(len, words_)) + max(len(first), len(rest)) + 3 > COLUMNS:
        return None
    lines: list[str] = []
    line = first + words_[0]
    for word in words_[1:]:
        if len(line) + 1 + len(word) <= COLUMNS:
            line += " " + word
            continue
        if len(lines) == most - 1:
            while len(line) + 3 > COLUMNS:
                line = line[: line.rindex(" ")]
            return [*lines, line + "..."]
        lines.append(line)
        line = rest + word
    return [*lines, line]


def _quote(text: str, most: int) -> list[str]:
    """A line of evidence, its blanks kept, behind a bar so that it cannot be taken for a line of ours."""
    width = COLUMNS - len(_QUOTE)
    lines: list[str] = []
    while text and len(lines) < most:
        if len(lines) == most - 1 or len(text) <= width:
            lines.append(cut(text, width))
            break
        at = text.rfind(" ", width // 2, width + 1)
        at = at if at > 0 else width
        lines.append(text[:at])
        text = text[at:].lstrip(" ")
    return [(_QUOTE + line).rstrip() for line in lines] or [_QUOTE.rstrip()]


# ------------------------------------------------------------------------------------------------ times


def _middle(stamp: Stamp) -> Stamp:
    middle = (stamp.lo + stamp.hi) / 2
    return Stamp(middle, middle, stamp.zoned)


def _span(seconds: int) -> str:
    """+mm:ss, with hours and days only where needed."""
    sign, left = ("-", -seconds) if seconds < 0 else ("+", seconds)
    minutes, second = divmod(left, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{sign}{days}-{hour:02d}:{minute:02d}:{second:02d}"
    return f"{sign}{hour}:{minute:02d}:{second:02d}" if hour else f"{sign}{minute:02d}:{second:02d}"


class _Clock:
    """One way of writing times for a whole report: the day is said once where all is on one day."""

    def __init__(self, start: Stamp | None, stamps: Iterable[Stamp | None]) -> None:
        self.start = start
        seen = {show(_middle(s))[:10] for s in stamps if s is not None}
        self.day = seen.pop() if len(seen) == 1 else None

    def wall(self, stamp: Stamp | None) -> str:
        """Wall time of the middle of the interval."""
        if stamp is None:
            return "n/a"
        text = show(_middle(stamp))
        return text[11:] if self.day is not None and text[:10] == self.day else text

    def since_start(self, stamp: Stamp | None) -> str:
        """Time since the start of the job, from the seconds as shown; `~` where known to more than a second only."""
        if stamp is None or self.start is None or stamp.zoned != self.start.zoned:
            return ""
        a, b = _middle(stamp).lo, _middle(self.start).lo
        if not abs(a - b) < 1e10:  # also for NaN: nothing that a clock of this world says
            return ""
        about = "~" if stamp.hi - stamp.lo > 1 or self.start.hi - self.start.lo > 1 else ""
        return about + _span(int(a // 1 - b // 1))


# ------------------------------------------------------------------------------------------------ sections


@dataclass(frozen=True)
class Section:
    """A part of the page. `name` is for templates, `lines` are finished; when all was cut away there are none."""

    name: str
    title: str
    lines: tuple[str, ...]


@dataclass
class _Draft:
    """A section before its size is known: whole items, how many are wanted at least and at most."""

    name: str
    title: str
    items: list[list[str]]
    least: int
    most: int
    both_ends: bool = False  # what is left out is in the middle, not at the end
    shown: int = 0

    def cost(self, shown: int) -> int:
        """Lines on the page: a blank, the title, the items, and what is left out."""
        if shown == 0:
            return 2
        return 2 + sum(len(item) for item in self.items[:shown]) + (shown < len(self.items))

    def section(self) -> Section:
        left = len(self.items) - self.shown
        if self.shown == 0:
            return Section(self.name, f"{self.title}: ({left} in --format json)", ())
        head = min(2, self.shown // 2) if self.both_ends else self.shown
        tail = self.shown - head
        items = [*self.items[:head], *([[f"{_INDENT}({left} more in --format json)"]] if left else [])]
        lines = [line for item in (*items, *self.items[len(self.items) - tail :]) for line in item]
        return Section(self.name, self.title, tuple(lines))


def _fit(drafts: Sequence[_Draft], room: int) -> None:
    """Give each section as many items as fit: first the least of all in order of importance, then more, likewise."""
    used = sum(d.cost(0) for d in drafts)
    # A story with a hole, or half of an advice, is worth less than one quoted line: timeline and actions grow first.
    growing = sorted(drafts, key=lambda d: (not d.both_ends, d.name != "actions"))
    for limit, order in (("least", drafts), ("most", growing)):
        for draft in order:
            wanted = min(getattr(draft, limit), len(draft.items))
            while draft.shown < wanted:
                grown = used - draft.cost(draft.shown) + draft.cost(draft.shown + 1)
                if grown > room:
                    break
                draft.shown += 1
                used = grown


def _place(cite: Cite, most: int = 40) -> str:
    """`file:line`, the end of a long file name kept."""
    text = f"{words(cite.file)}:{cite.line}"
    return text if len(text) <= most else "..." + text[-(most - 3) :]


def verdict(diagnosis: Diagnosis) -> str:
    """The verdict in one line: what it was, how sure that is, who has to act."""
    sure = strength(diagnosis.strength)
    what = cut(words(title(diagnosis.cause)), 40) or "cause not known"
    return cut(f"VERDICT {what}{f' ({sure})' if sure != 'unknown' else ''}, owner: {diagnosis.owner.value}")


def _exit(info: ExitInfo) -> str:
    parts = []
    if info.code is not None and not (info.code == 0 and info.signal):
        parts.append(f"exit code {info.code}")
    if info.signal:
        parts.append(f"signal {info.signal}")
    if info.core_dumped:
        parts.append("core dumped")
    text = ", ".join(parts) or "exit n/a"
    if info.shown_by_sacct:
        text += f", sacct shows {cut(words(info.shown_by_sacct), 20)}"
    return text + (f" ({words(info.meaning)})" if info.meaning else "")


def _name(value: str | None, most: int = 24) -> str:
    return cut(words(value), most) if value else ""


def _header(job: JobIdentity, *, whole: bool) -> list[str]:
    """Who, when, where: up to seven lines; of a `whole` with parts only what is known."""
    shown, raw = _name(job.shown_id), _name(job.job_id)
    number = shown or raw or "n/a"
    who = [f"Job {number}{f' (raw id {raw})' if shown and raw and raw != shown else ''}"]
    if job.cluster:
        who[0] += f" on cluster {_name(job.cluster)}"
    who.append(f"attempt {job.attempt} of {job.attempts}")
    for label, value in (("user", job.user), ("account", job.account), ("partition", job.partition), ("QOS", job.qos)):
        if value:
            who.append(f"{label} {_name(value)}")
    if job.name:
        who.append(f'name "{_name(job.name, 40)}"')
    when = [f"Submitted {show(job.submit)}", f"started {show(job.start)}", f"ended {show(job.end)}"]
    if job.start is not None and job.end is not None and job.start.zoned == job.end.zoned:
        ran = _Clock(job.start, ()).since_start(job.end)
        if ran.lstrip("~").startswith("+"):
            when[2] += f" (ran {ran.replace('+', '')})"
    nodes = f"Nodes {fold(words(n) for n in job.nodes)}" if job.nodes else "Nodes n/a"
    if len(job.nodes) > 1:
        nodes = f"{cut(nodes, 100)} ({len(job.nodes)})"
    state = f"state {_name(job.state) or 'n/a'}, {_exit(job.exit)}"
    lines = wrap(", ".join(who), 2, "", _INDENT)
    if not whole or job.submit or job.start or job.end:
        lines += wrap(", ".join(when), 2, "", _INDENT)
    if not whole or job.nodes or job.state:
        lines += wrap(f"{nodes}, {state}", 3, "", _INDENT)
    return lines


def _timeline(job: JobIdentity, moments: Sequence[Moment], clock: _Clock) -> list[list[str]]:
    rows: list[tuple[Stamp | None, str, Cite | None]] = [(m.at, m.what, m.cite) for m in moments]
    if len(rows) < 3:
        rows += [(at, f"job {what}", None) for at, what in ((job.start, "started"), (job.end, "ended")) if at]
    kinds = {at.zoned for at, _, _ in rows if at is not None}
    if len(kinds) == 1:  # times with and without a zone have no common order: then as given
        rows.sort(key=lambda r: (r[0] is None, (r[0].lo + r[0].hi) if r[0] else 0.0))
    walls = [clock.wall(at) for at, _, _ in rows]
    sinces = [clock.since_start(at) for at, _, _ in rows]
    wide, far = max(map(len, walls), default=0), max(map(len, sinces), default=0)
    lines = []
    for (_, what, cite), wall, since in zip(rows, walls, sinces, strict=True):
        node = f"{_name(cite.node, 16)}: " if cite is not None and cite.node else ""
        tail = f" ({_place(cite, 28)})" if cite is not None else ""
        head = f"{_INDENT}{wall:<{wide}} {since:>{far}}  {node}"
        lines.append([cut(head + words(what), COLUMNS - len(tail)) + tail])
    return lines


def _evidence(diagnosis: Diagnosis, clock: _Clock) -> list[list[str]]:
    items = []
    for number, cite in enumerate(dict.fromkeys(diagnosis.evidence), 1):
        node = f", node {_name(cite.node, 20)}" if cite.node else ""
        at = f", {clock.wall(cite.at)}" if cite.at is not None else ""
        head = cut(f"{_INDENT}[{number}] {_name(cite.source)}{node}{at}, {_place(cite)}")
        line = mask.mask_process(cite.text, diagnosis.job.uid)
        items.append([head, *_quote(mask.plain(mask.secrets(line)), 3)])
    return items


def _excluded(diagnosis: Diagnosis, most: int) -> list[list[str]]:
    """The items of the first `most`, and empty ones that only count."""
    items: list[list[str]] = []
    for verdict in diagnosis.ruled_out[:most]:
        because, cites = ruled_out_by(verdict)
        place = f" ({_place(cites[0])})" if cites else ""
        lines = wrap(f"- not {_name(title(verdict.cause), 40)}: {cut(words(because), 180 - len(place))}{place}", 3)
        items.append(lines)
    return items + [[] for _ in diagnosis.ruled_out[most:]]


def _unread(coverage: Iterable[Coverage]) -> list[list[str]]:
    """Files that could not be read are facts that could not be had."""
    return [
        wrap(f"- {_place(Cite('', c.file, c.lines, ''), 40).rpartition(':')[0]}: {words(c.note)}", 2)
        for c in coverage
        if "could not be read" in c.note or "not recognised" in c.note
    ]


def _missing(diagnosis: Diagnosis) -> list[list[str]]:
    """What is missing; facts that one look would settle stand together."""
    by_look: dict[str, list[Missing]] = {}
    for missing in diagnosis.missing:
        by_look.setdefault(missing.how or missing.fact, []).append(missing)
    items = []
    for together in by_look.values():
        lines: list[str] = []
        for missing in together:
            lines += wrap(f"- {words(missing.fact)}", 2)
        settled = "; ".join(dict.fromkeys(words(m.would_settle) for m in together if m.would_settle))
        if settled:
            lines += wrap(f"would settle: {settled}", 2 + len(together), "    ", "      ")
        if together[0].how:
            lines += wrap(f"to find out: {words(together[0].how)}", 2, "    ", "      ")
        items.append(lines)
    return items + _unread(diagnosis.coverage)


def _numbers(numbers: Sequence[tuple[str, str]]) -> list[list[str]]:
    rows = [(_name(label, 44), words(value) or "n/a") for label, value in numbers]
    wide = max((len(label) for label, _ in rows), default=0)
    return [wrap(f"{label:<{wide}}  {value}", 2, _INDENT, " " * 8) for label, value in rows]


def _part_name(job: JobIdentity) -> tuple[str, str]:
    """What kind of part it is, and which."""
    if job.het_offset:
        return "component", job.het_offset
    if job.array_task:
        return "task", job.array_task
    if job.attempts > 1:
        return "attempt", str(job.attempt)
    return "job", job.shown_id or job.job_id or "n/a"


def _parts(parts: Sequence[Diagnosis]) -> list[list[str]]:
    """One row for each cause: which parts, and the summary of the first. Failures first, then the many."""
    groups: dict[tuple[str, str, str, str], list[Diagnosis]] = {}
    for part in parts:
        key = (_part_name(part.job)[0], part.cause, part.owner.value, strength(part.strength))
        groups.setdefault(key, []).append(part)
    items = []
    for (kind, cause, owner, sure), found in sorted(
        groups.items(), key=lambda g: (g[0][1] == "no_failure", -len(g[1]), g[0])
    ):
        which = cut(fold(words(_part_name(p.job)[1]) for p in found), 30)
        many = f"{len(found)} {kind}s" if len(found) > 1 else kind
        lines = [cut(f"{_INDENT}{many} {which}: {_name(cause, 32)} ({sure}), owner: {owner}")]
        if cause != "no_failure" and found[0].summary:
            lines += wrap(words(found[0].summary), 1, "    ")
        items.append(lines)
    return items


def _command(diagnosis: Diagnosis) -> list[str]:
    """One command to paste, unchanged or not at all; broken over lines only where the shell allows it."""
    for action in diagnosis.actions:
        if action.command is None:
            continue
        command = action.command.strip()
        if command and mask.plain(mask.secrets(command)) == command:
            lines = _continued(command)
            if lines:
                return lines
        return [_INDENT + "(not shown: it does not fit on this page; see --format json)"]
    job = diagnosis.job.shown_id or diagnosis.job.job_id or ""
    if re.fullmatch(r"[0-9][0-9_+]{0,30}", job):
        return [f"{_INDENT}sacct -D -j {job} -o JobID,State,ExitCode,Start,End,NodeList"]
    return []


def _continued(command: str, most: int = 3) -> list[str]:
    """The command in lines that end in a backslash, split at blanks outside quotes; empty if that does not go."""
    pieces, start, quoted, escaped = [], 0, "", False
    for at, char in enumerate(command):
        if escaped:
            escaped = False
        elif char == "\\" and quoted != "'":
            escaped = True
        elif quoted:
            quoted = "" if char == quoted else quoted
        elif char in "'\"":
            quoted = char
        elif char == " ":
            pieces.append(command[start : at + 1])
            start = at + 1
    pieces.append(command[start:])
    lines = [_INDENT]
    for number, piece in enumerate(pieces):
        room = COLUMNS if number == len(pieces) - 1 else COLUMNS - 1  # a continued line ends in ` \`
        if len(lines[-1]) + len(piece) > room and lines[-1].strip():
            lines[-1] += "\\"
            lines.append("    ")
        lines[-1] += piece
    return lines if len(lines) <= most and all(len(line) <= COLUMNS for line in lines) else []


def _without_action(diagnosis: Diagnosis) -> str:
    hows = [words(m.how) for m in diagnosis.missing if m.how]
    if hows:
        return f"Find out first: {hows[0]}"
    return "See each part below." if diagnosis.parts else "Nothing is proposed."


def _lay_out(diagnosis: Diagnosis, room: int, *, whole: bool) -> dict[str, Any]:
    """The values of the template, measured for a page of `room` lines. `whole`: with the document, too."""
    job = diagnosis.job
    clock = _Clock(
        job.start,
        [*(m.at for m in diagnosis.timeline), *(c.at for c in diagnosis.evidence), job.start, job.end],
    )
    line = verdict(diagnosis)
    summary = words(diagnosis.summary)
    actions = [text for text in (words(a.text) for a in diagnosis.actions) if text]
    first_action = f"TO DO   {actions[0] if actions else _without_action(diagnosis)}"
    happened: list[list[str]] = []
    if summary:
        happened.append(wrap(summary, 4, _INDENT, _INDENT))
    for cause, file in diagnosis.site_rules:
        happened.append(wrap(f"{_name(cause, 32)} is said by a rule of this site: {words(file)}", 2))
    if diagnosis.first_failure is not None:
        first = diagnosis.first_failure
        rank = "rank n/a" if first.rank is None else f"rank {first.rank}"
        node = f" on {_name(first.node)}" if first.node else ""
        at = f" at {clock.wall(first.at)} {clock.since_start(first.at)}".rstrip() if first.at is not None else ""
        happened.append(wrap(f"First to fail: {rank}{node}{at}: {words(first.what)} ({_place(first.cite, 30)})", 2))
    for other in diagnosis.also:
        if other.strength.rank:
            text = f"Also {other.strength.value}: {_name(other.cause, 32)}. {words(other.summary)}"
            happened.append(wrap(text, 2))
    day = f", {clock.day}" if clock.day else ""
    zoned = {m.at.zoned for m in diagnosis.timeline if m.at is not None} or ({job.start.zoned} if job.start else set())
    zone = {frozenset({True}): ", UTC", frozenset({False}): ", zone of times not known"}.get(frozenset(zoned), "")
    since = "; +mm:ss since the start" if job.start is not None else ""
    # What to do is whole on the second line, or again below.
    todo = actions if len(first_action) > COLUMNS else actions[1:]
    title = "What to do" if len(todo) == len(actions) else "What else to do"
    moments = _timeline(job, diagnosis.timeline, clock)
    drafts = [
        _Draft("happened", f"What happened ({_name(diagnosis.cause, 32)})", happened, 3, 6),
        _Draft("parts", "Parts", _parts(diagnosis.parts), 3, 12),
        _Draft("evidence", "Evidence", _evidence(diagnosis, clock), 2, 6),
        _Draft("timeline", f"Timeline{day}{zone}{since}", moments, 5, 8 if len(moments) <= 8 else 7, both_ends=True),
        _Draft("actions", title, [wrap(f"- {text}", 3) for text in todo], 1, 4),
        _Draft("not", "What this is not", _excluded(diagnosis, 4), 1, 4),
        _Draft("missing", "What we could not see, and what it would change", _missing(diagnosis), 1, 3),
        _Draft("numbers", "Numbers", _numbers(diagnosis.numbers), 3, 8),
    ]
    drafts = [d for d in drafts if d.items]
    header = _header(job, whole=bool(diagnosis.parts))
    command = _command(diagnosis)
    fixed = 2 + 1 + len(header) + (2 + len(command) if command else 0) + 2
    _fit(drafts, room - fixed)
    order = ("happened", "parts", "actions", "timeline", "evidence", "not", "missing", "numbers")
    return {
        "verdict": line,
        "todo": _cut_sentence(first_action),
        "header": header,
        "sections": [d.section() for d in sorted(drafts, key=lambda d: order.index(d.name))],
        "command": command,
        "note": "",
        **({"diagnosis": _cleaned(document(diagnosis))} if whole else {}),
    }


def _cleaned(value: Any) -> Any:
    """The document with all its strings in plain ASCII, for templates of a site."""
    if isinstance(value, str):
        return mask.plain(value)
    if isinstance(value, list):
        return [_cleaned(v) for v in value]
    return {k: _cleaned(v) for k, v in value.items()} if isinstance(value, dict) else value


# ------------------------------------------------------------------------------------------------ templates


def _site_templates() -> list[Path]:
    named = os.environ.get("SLURM_TRIAGE_TEMPLATES", "")
    return [*([Path(named)] if named else []), SITE_TEMPLATES]


@lru_cache(maxsize=8)
def _environment(folder: Path) -> SandboxedEnvironment:
    """Compiled once per folder; a changed template file is seen (auto_reload)."""
    import jinja2  # here, since json and brief need no template
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(
        loader=jinja2.FileSystemLoader(str(folder)),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # plain text, no markup
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _fill(folder: Path, values: dict[str, Any]) -> str:
    return _environment(folder).get_template(TEMPLATE).render(values)


def _own_page(values: dict[str, Any]) -> str:
    """What the package's own template makes of the values, without loading a template engine: that takes 40 ms."""
    lines = [values["verdict"], values["todo"], "", *values["header"]]
    for section in values["sections"]:
        lines += ["", section.title, *section.lines]
    if values["command"]:
        lines += ["", "Command to paste", *values["command"]]
    lines.append("")
    if values["note"]:
        lines.append(values["note"])
    return "\n".join((*lines, values["verdict"]))


def _has_template(folder: Path) -> bool:
    try:
        return (folder / TEMPLATE).is_file()
    except OSError:
        return False


def _page(text: str) -> str:
    """What holds for any template: ASCII, 79 columns, 60 lines, and the last lines are the ones that stay."""
    lines = [cut(mask.plain(line).rstrip()) for line in text.strip("\n").split("\n")]
    if len(lines) > LINES:
        left = len(lines) - LINES + 1
        lines = [*lines[: LINES - 3], f"({left} lines more in --format json)", *lines[-2:]]
    return "\n".join(lines) + "\n"


def _loudly(fill: Callable[[], str]) -> tuple[str, str]:
    """What a template of a site made, or why it made nothing. Anything may go wrong in somebody else's template."""
    try:
        text = fill()
    except Exception as error:  # a diagnosis must not be lost to a typo
        where = f" line {getattr(error, 'lineno', 0)}" if isinstance(getattr(error, "lineno", None), int) else ""
        return "", f"{type(error).__name__}{where}: {error}"
    return (text, "") if text.strip() else ("", "it made an empty page")


def render(diagnosis: Diagnosis) -> str:
    """The report: at most 60 lines of 79 columns, ASCII, ending in a newline.

    The template `diagnosis.txt.j2` is looked for in `$SLURM_TRIAGE_TEMPLATES`, then in `/etc/slurm-triage/templates`.
    Without one, or where it fails (which is said in one line), the page is that of the package's own template.
    """
    note = ""
    for folder in _site_templates():
        if _has_template(folder):
            site = folder
            text, problem = _loudly(lambda: _fill(site, _lay_out(diagnosis, LINES, whole=True)))  # noqa: B023 (called at once)
            if not problem:
                return _page(text)
            note = cut(f"(template of this site not used: {words(str(site / TEMPLATE))}: {words(problem)})")
            break
    values = _lay_out(diagnosis, LINES - (1 if note else 0), whole=False)  # the package's has no use for the document
    return _page(_own_page(values | {"note": note}))
