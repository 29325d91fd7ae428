"""What the diagnosis says when the cases are changed: figures that no knowledge of their literal words can win.

Each change is made to the files of a labelled case, always in the same way (the random choices are seeded with the
case's id). What must hold is said beside each: above all that no wrong cause is ever given as confirmed.

The changes touch what means nothing for the cause (names, paths, ids, times, neighbours), or take away what means
everything (the deciding lines). Numbers that carry a meaning (exit codes, signals, Xid, sizes, limits) are left alone.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests import accuracy
from tests.accuracy import Scored
from tests.corpus.load import LoadedCase

Change = Callable[[LoadedCase, Sequence[LoadedCase]], LoadedCase | None]
OUTPUT = re.compile(r"(^|/)job\.out$|^out/")
KERNEL = re.compile(r"(^|/)(kmsg|dmesg)\.")
NAMES = ("alder", "birch", "cedar", "hazel", "linden", "maple", "rowan", "willow")
SHIFT = timedelta(days=389, hours=5, minutes=17)
SECONDS = int(SHIFT.total_seconds())
RANKS = 7


@dataclass(frozen=True)
class Robustness:
    """How one change came out. `strengths`: how many answers were given as what; `bad`: cases that break the promise."""

    change: str
    n: int
    accuracy: float | None
    owner: float | None
    same: float | None
    unknown: int
    strengths: dict[str, int]
    wrong_confirmed: tuple[str, ...]
    false_hardware: tuple[str, ...]


# ------------------------------------------------------------------------------------------------ the changes


def without_key_evidence(case: LoadedCase, _: Sequence[LoadedCase]) -> LoadedCase | None:
    """Every line that holds a piece of the label's key evidence is taken out. None where the label names none."""
    id, files, label = case
    keys = [key.encode() for key in label.get("key_evidence", ())]
    if not keys:
        return None
    left = {
        name: b"\n".join(line for line in data.split(b"\n") if not any(key in line for key in keys))
        for name, data in files.items()
    }
    return id, left, label


HOST = (
    re.compile(r"NodeList=([a-z][\w-]*\d[\w-]*)"),
    re.compile(r"srun: error: ([a-z][\w-]*\d[\w-]*): task"),
    re.compile(r"error: \*\*\* \S+ ON ([a-z][\w-]*\d[\w-]*) "),
    re.compile(r"^\w{3} +\d+ [\d:]{8} ([a-z][\w-]*\d[\w-]*) ", re.M),
    re.compile(r"^([a-z][\w-]*\d[\w-]*):\d+:\d+ \[\d+\] NCCL", re.M),
)
PERSON = re.compile(r"/(?:home|scratch|work|users?|data|projects?)/([A-Za-z][\w.-]*)")
SCRIPT = re.compile(r"\b(?!__)([A-Za-z]\w{2,})\.(?:py|sh|slurm|sbatch|R|jl)\b")
KNOWN = frozenset(
    {"run", "train", "launcher", "launch", "api", "setup", "connection", "queues", "spawn", "distributed"}
)
"""Script names that launchers and libraries have, too; these stay."""
NUMBER = (
    re.compile(r"\bJobId=(\d{3,})"),
    re.compile(r"\bStepId=(\d{3,})"),
    re.compile(r"\bjob[_ ](\d{3,})", re.I),
    re.compile(r"\b(?:STEP|JOB) (\d{3,})"),
    re.compile(r"\bpid[ =:]*(\d{3,})", re.I),
    re.compile(r"[Pp]rocess (\d{3,})"),
    re.compile(r"\w\[(\d{3,})\]:"),
    re.compile(r"\buid[ =:](\d{4,})"),
    re.compile(r"^(\d{4,})(?:\.\w+)?\|", re.M),
)
CLOCK = re.compile(r"(20[123]\d-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)")
EPOCH = re.compile(r"(?<![\d.])(1[5-9]\d{8})(?![\d])")
SYSLOG = re.compile(r"^(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([ \d]\d) (\d\d:\d\d:\d\d)(?= )", re.M)
BOOT = re.compile(r"^(\[ *)(\d+)(\.\d{6}\])", re.M)
ADDRESS = re.compile(r"\b0x[0-9a-f]{9,16}\b|\b0000(?:7f|55)[0-9a-f]{10}\b")


def other_names(case: LoadedCase, _: Sequence[LoadedCase]) -> LoadedCase | None:
    """Hosts, people, scripts, job and process ids, addresses and all times are replaced, each by one other throughout."""
    id, files, label = case
    texts = {name: data.decode("utf-8", "surrogateescape") for name, data in files.items()}
    table = _renaming("\n".join(texts.values()), random.Random(id))
    words = re.compile(r"(?<![\w])(" + "|".join(map(re.escape, sorted(table, key=len, reverse=True))) + r")(?![\w])")
    changed = {}
    for name, text in texts.items():
        text = words.sub(lambda m: table[m[1]], text) if table else text
        changed[name] = _later(ADDRESS.sub(_other_address, text)).encode("utf-8", "surrogateescape")
    return id, changed, label


def _renaming(text: str, choice: random.Random) -> dict[str, str]:
    """Word to word. A number keeps its length, so that it stays a number of the same kind."""
    table: dict[str, str] = {}
    hosts = dict.fromkeys(m[1] for pattern in HOST for m in pattern.finditer(text))
    for host in hosts:
        table[host] = choice.choice(NAMES) + re.sub(r"^\D+", "", host)
    for m in PERSON.finditer(text):
        table.setdefault(m[1], "u" + choice.choice(NAMES))
    for m in SCRIPT.finditer(text):
        if m[1].lower() not in KNOWN:
            table.setdefault(m[1], choice.choice(NAMES) + "_" + choice.choice(NAMES))
    for pattern in NUMBER:
        for m in pattern.finditer(text):
            table.setdefault(m[1], _other_number(m[1]))
    return table


def _other_number(digits: str) -> str:
    """One to one, so that two numbers that differ stay different; the first digit stays."""
    return digits[0] + "".join(str((int(d) + 3) % 10) for d in digits[1:])


def _other_address(m: re.Match[str]) -> str:
    head, tail = m[0][:-6], m[0][-6:]
    return head + "".join("0123456789abcdef"[(int(c, 16) + 5) % 16] for c in tail)


def _later(text: str) -> str:
    """Every time of day and epoch by the same span, every stamp since boot by the same seconds."""

    def clock(m: re.Match[str]) -> str:
        try:
            when = datetime.fromisoformat(f"{m[1]}T{m[3]}") + SHIFT
        except ValueError:  # no date at all
            return m[0]
        return f"{when:%Y-%m-%d}{m[2]}{when:%H:%M:%S}"

    def syslog(m: re.Match[str]) -> str:
        try:
            when = datetime.strptime(f"2023 {m[1]} {m[2].strip()} {m[3]}", "%Y %b %d %H:%M:%S") + SHIFT
        except ValueError:
            return m[0]
        return f"{when:%b} {when.day:2d} {when:%H:%M:%S}"

    text = CLOCK.sub(clock, text)
    text = SYSLOG.sub(syslog, text)
    text = EPOCH.sub(lambda m: str(int(m[1]) + SECONDS), text)
    return BOOT.sub(lambda m: m[1] + str(int(m[2]) + 4000) + m[3], text)


def with_another_case(step: int) -> Change:
    """The files of two cases one after the other; either cause is right, and what neither is, is wrong."""

    def change(case: LoadedCase, all_cases: Sequence[LoadedCase]) -> LoadedCase | None:
        at = next(i for i, other in enumerate(all_cases) if other[0] == case[0])
        other_id, other_files, other = all_cases[(at + step) % len(all_cases)]
        id, files, label = case
        joined = {
            name: b"\n".join(
                part.rstrip(b"\n") for part in (files.get(name), other_files.get(name)) if part is not None
            )
            + b"\n"
            for name in sorted({*files, *other_files} - {"manifest.toml"})
        }
        one, two = accuracy.expected(label), accuracy.expected(other)
        both = {
            "cause": one.cause,
            "also": sorted(one.causes | two.causes),
            "owner": one.owner,
            "owner_accept": sorted(one.owners | two.owners),
            "derivable": one.derivable and two.derivable,
            "owner_derivable": one.owner_derivable and two.owner_derivable,
        }
        return f"{id} + {other_id}", joined, both

    return change


LABELLED = re.compile(rb"^\s*(?:\[?rank ?(\d+)\]?[:\s]|(\d+): |\[(\d+)\][ :])")
SLURM = (b"srun:", b"slurmstepd:", b"salloc:", b"sbatch:")


def ranks_shuffled(case: LoadedCase, _: Sequence[LoadedCase]) -> LoadedCase | None:
    """Lines that name their rank come in another order between ranks, each rank's own order kept. None without ranks."""
    id, files, label = case
    changed = dict(files)
    for name in filter(OUTPUT.search, files):
        changed[name] = b"\n".join(_shuffled(files[name].split(b"\n"), random.Random(id)))
    return (id, changed, label) if changed != files else None


def _shuffled(lines: list[bytes], choice: random.Random) -> Iterator[bytes]:
    """A line without a rank belongs to the one before it."""
    streams: dict[bytes, list[list[bytes]]] = {}
    order: list[bytes] = []
    for line in lines:
        m = LABELLED.match(line)
        if m:
            rank = next(g for g in m.groups() if g is not None)
            streams.setdefault(rank, []).append([line])
            order.append(rank)
        elif order:
            streams[order[-1]][-1].append(line)
        else:
            yield line
    choice.shuffle(order)
    for rank in order:
        yield from streams[rank].pop(0)


def one_rank_of_eight(case: LoadedCase, _: Sequence[LoadedCase]) -> LoadedCase | None:
    """The job's output as rank 3's under `srun --label`, among seven ranks that work on until it ends."""
    id, files, label = case
    names = [name for name in files if OUTPUT.search(name)]
    if not names:
        return None
    changed = dict(files)
    for name in names:
        lines = files[name].rstrip(b"\n").split(b"\n")
        changed[name] = b"\n".join(_labelled(lines, random.Random(id))) + b"\n"
    return id, changed, label


def _labelled(lines: list[bytes], choice: random.Random) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        for rank in choice.sample([0, 1, 2, 4, 5, 6, 7], choice.randrange(RANKS)):
            yield b"%d: step %d loss %.4f time %.2fs" % (rank, number, 2.5 - number / 1000, 0.31 + rank / 100)
        yield line if line.startswith(SLURM) else b"3: " + line


PROGRESS = (
    b"Loading module gcc/12.2.0",
    b"UserWarning: lr_scheduler.step() called before optimizer.step(); this has no effect on the result",
    b"0 errors, 0 warnings, 0 failed",
    b"WARNING: metrics server did not answer, retry 1 of 5",
    b"metrics server reachable again",
    b"validation error: 0.0123",
)
BOOTED = (
    b"[    0.000000] Linux version 6.1.0-13-amd64 (debian-kernel@lists.debian.org) (gcc-12 12.2.0)",
    b"[    0.004000] x86/fpu: Supporting XSAVE feature 0x001: 'x87 floating point registers'",
    b"[    0.411000] pci 0000:00:02.0: reg 0x10: [mem 0xfd000000-0xfdffffff pref]",
    b"[    1.100000] EDAC MC: Ver: 3.0.0",
    b"[    1.300000] nvme nvme0: pci function 0000:01:00.0",
    b"[    2.900000] EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode. Quota mode: none.",
    b'[    3.300000] audit: type=1400 audit(1700000000.100:2): apparmor="STATUS" operation="profile_load"',
)


def among_healthy_lines(case: LoadedCase, _: Sequence[LoadedCase]) -> LoadedCase | None:
    """Output before and after the excerpt as of a job that works, a boot log before the kernel's lines."""
    id, files, label = case
    changed = dict(files)
    for name, data in files.items():
        if OUTPUT.search(name):
            changed[name] = b"".join((_progress(0, 400), data.rstrip(b"\n"), b"\n", _progress(400, 800)))
        elif KERNEL.search(name) and BOOT.search(data.decode("utf-8", "replace")):
            changed[name] = b"\n".join(BOOTED) + b"\n" + data
    return (id, changed, label) if changed != files else None


def _progress(first: int, end: int) -> bytes:
    lines = []
    for step in range(first, end):
        lines.append(b"step %d | loss %.5f | error: %.4f | lr 1.0e-04" % (step, 3 / (step + 1), 1 / (step + 2)))
        if step % 67 == 0:
            lines.append(PROGRESS[step // 67 % len(PROGRESS)])
    return b"\n".join(lines) + b"\n"


CHANGES: dict[str, tuple[Change, str]] = {
    "deciding lines removed": (
        without_key_evidence,
        "falls to possible, unknown or a weaker likely; never wrong confirmed",
    ),
    "other names, ids and times": (other_names, "the same answer as before"),
    "two cases in one (next)": (with_another_case(1), "one of the two; never a third as confirmed"),
    "two cases in one (far)": (with_another_case(41), "one of the two; never a third as confirmed"),
    "ranks in another order": (ranks_shuffled, "the same cause"),
    "one rank of eight": (one_rank_of_eight, "the same cause, if less sure; never wrong confirmed"),
    "among healthy lines": (among_healthy_lines, "the same cause, if less sure; never wrong confirmed"),
}
"""Name to (change, what must hold)."""


# ------------------------------------------------------------------------------------------------ measuring


def measure(name: str, loaded: Sequence[LoadedCase], before: dict[str, str]) -> Robustness:
    """One change over the derivable cases of a corpus; `before`: cause that was said of each unchanged case."""
    change, _ = CHANGES[name]
    scored: list[Scored] = []
    same: list[bool] = []
    for case in loaded:
        changed = change(case, loaded)
        if changed is None or not accuracy.expected(changed[2]).derivable:
            continue
        found = accuracy.ask(changed)
        scored.append(found)
        same.append(found.answer.cause == before[case[0]])
    row = accuracy.figures(name, scored)
    owned = [s for s in scored if s.expected.owner_derivable]
    return Robustness(
        change=name,
        n=len(scored),
        accuracy=row.accuracy,
        owner=row.owner,
        same=sum(same) / len(same) if same else None,
        unknown=sum(s.answer.cause == "unknown" for s in scored),
        strengths={w: sum(s.answer.strength == w for s in scored) for w in ("confirmed", "likely", "possible")},
        wrong_confirmed=tuple(f"{s.id}: {s.answer.cause}" for s in scored if s.confirmed and not s.right),
        false_hardware=tuple(
            f"{s.id}: {s.answer.cause}" for s in owned if s.answer.owner == "hardware" and not s.owner_right
        ),
    )


def table(rows: Sequence[Robustness]) -> str:
    """For people."""
    head = (
        "change",
        "n",
        "acc",
        "owner",
        "same",
        "confirmed",
        "likely",
        "possible",
        "unknown",
        "wrong-conf",
        "false-hw",
    )
    lines = [head, *(tuple(cells(row)) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) if not i else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )


def cells(row: Robustness) -> list[str]:
    """One row of the table."""
    shares = ["-" if v is None else f"{v:.3f}" for v in (row.accuracy, row.owner, row.same)]
    counts = [row.strengths["confirmed"], row.strengths["likely"], row.strengths["possible"], row.unknown]
    return [row.change, str(row.n), *shares, *map(str, (*counts, len(row.wrong_confirmed), len(row.false_hardware)))]


def as_dict(row: Robustness) -> dict[str, Any]:
    """As JSON takes it."""
    return dataclasses.asdict(row)
