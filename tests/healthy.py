"""False positives: logs of jobs and nodes that were well, 200 MB and more, and what the diagnosis makes of them.

`tests/corpus/healthy.tar.xz` holds real logs (what they are: `tests/corpus/README.md`), by who speaks: `output/` of
programs, `kernel/` of boots, `slurmctld/` and `slurmd/` of a cluster without a failure. They are multiplied here, always
in the same way: round after round as another rank, launcher, terminal or kind of kernel log would have printed them.

Each log is judged twice: alone, and with the accounting of a job that completed with 0:0. Any cause but `no_failure` and
`unknown` is a false positive.

`lines/` holds single lines that sound bad and are not; each is judged in the middle of an output that goes on after it.

`python -m tests.healthy [--megabytes N] [--list] [--into DIR]`: measures, or writes the cases as evidence folders.
Exit status: 0 none, 1 false positives, 2 the archive cannot be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import re
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from tests.corpus.load import HERE, cases, write

ARCHIVE = HERE / "healthy.tar.xz"
MEGABYTES = 210
"""Size of all logs together after multiplication, in 10**6 bytes; each is judged twice."""
WELL = frozenset({"no_failure", "unknown"})
NAMES = {"output": "job.out", "kernel": "kmsg.txt", "slurmctld": "slurmctld.log", "slurmd": "slurmd.node1.log"}
"""Folder of the archive to the name that such a file has in an evidence folder."""
LINES = "lines"
"""Folder of the archive whose files are no logs, but lists of lines."""
COMPLETED = ("recorded-24.11", "1-ok", ("manifest.toml", "sacct.psv"))
"""Corpus, job and files of the accounting: a real job that ended COMPLETED 0:0."""
PROGRESS = tuple(b"step %d loss %.4f" % (step, 2 / (step + 1)) for step in range(60))
STAMP = re.compile(rb"(?m)^\[ *(\d+)\.\d{6}\] ")


@dataclass(frozen=True)
class FalsePositive:
    """A log that was given a cause. `line`: file, number and text of the first line that was cited for it."""

    log: str
    cause: str
    strength: str
    line: str


@dataclass(frozen=True)
class Healthy:
    """How it went. `megabytes` of log were judged in `seconds` by `processes` processes; `logs` counts both kinds."""

    logs: int
    megabytes: float
    distinct_megabytes: float
    lines: int
    seconds: float
    processes: int
    false: tuple[FalsePositive, ...]

    @property
    def speed(self) -> float:
        """Megabytes a second, of all processes together."""
        return self.megabytes / self.seconds if self.seconds else 0.0


def sources(archive: Path = ARCHIVE) -> dict[str, bytes]:
    """Name in the archive to content. Raises `OSError`, `tarfile.TarError`."""
    found = {}
    with tarfile.open(archive, "r:xz") as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isfile() else None
            if stream is not None:
                found[member.name] = stream.read()
    return dict(sorted(found.items()))


# ------------------------------------------------------------------------------------------------ multiplying


def multiplied(kind: str, data: bytes, size: int) -> bytes:
    """`data` in one form after the other until there are `size` bytes: whole rounds, at least one."""
    parts: list[bytes] = []
    have = 0
    while have < size or not parts:
        parts.append(_round(kind, data if data.endswith(b"\n") else data + b"\n", len(parts)))
        have += len(parts[-1])
    return b"".join(parts)


def _round(kind: str, data: bytes, number: int) -> bytes:
    if kind == "kernel":
        return _kernel_round(data, number)
    if kind != "output" or not number:
        return data
    day, hour = divmod(number, 24)
    prefixes = (
        b"%d: " % (number % 512),
        b"[rank%d]: " % (number % 512),
        b"2026-03-%02dT%02d:14:07.120 " % (1 + day % 28, hour),
        b"[1,%d]<stdout>:" % (number % 512),
        b"(Trainer pid=%d) " % (3000 + number),
        b"",
    )
    prefix = prefixes[(number - 1) % len(prefixes)]
    return prefix + data[:-1].replace(b"\n", b"\n" + prefix) + b"\n"


def _kernel_round(data: bytes, number: int) -> bytes:
    """Each boot later than the one before: as dmesg, as the journal, as `dmesg -T`."""
    day, hour = divmod(number, 24)
    if number % 3 == 1:
        return STAMP.sub(b"Mar %2d %02d:05:10 node1 kernel: " % (1 + day % 28, hour), data)
    if number % 3 == 2:
        return STAMP.sub(b"[2026-03-%02dT%02d:05:10,000000+01:00] " % (1 + day % 28, hour), data)
    return STAMP.sub(lambda m: b"[%5d.%06d] " % (int(m[1]) + 86400 * (number // 3), number), data)


def accounting() -> dict[str, bytes]:
    """Files of a job that completed. Raises `CorpusError`."""
    corpus, job, names = COMPLETED
    files = next(files for id, files, _ in cases(corpus) if id == job)
    return {name: files[name] for name in names}


def logs(megabytes: float, archive: Path = ARCHIVE) -> Iterator[tuple[str, dict[str, bytes]]]:
    """(name, evidence) of every log, alone and with accounting. Raises as `sources` and `accounting`."""
    found = sources(archive)
    size = int(megabytes * 1e6 / sum(not name.startswith(LINES) for name in found))
    ended = accounting()
    for name, file in _files(found, size):
        yield f"{name}, alone", file
        yield f"{name}, job completed", {**ended, **file}


def _files(found: Mapping[str, bytes], size: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    for name, data in found.items():
        kind = name.split("/", 1)[0]
        if kind != LINES:
            yield name, {NAMES[kind]: multiplied(kind, data, size)}
            continue
        for number, line in enumerate(data.splitlines(), 1):
            yield (
                f"{name}:{number}",
                {"job.out": b"\n".join((*PROGRESS[:30], line, *PROGRESS[30:], b"Training finished.\n"))},
            )


# ------------------------------------------------------------------------------------------------ judging


def judge(case: tuple[str, dict[str, bytes]]) -> tuple[FalsePositive | None, int, int]:
    """What is false about one log if anything, and how many bytes and lines were judged."""
    name, files = case
    found = diagnose(from_files(files))
    log = next(data for file, data in files.items() if file in NAMES.values())
    false = None
    if found.cause not in WELL:
        cite = found.evidence[0] if found.evidence else None
        line = f"{cite.file}:{cite.line}: {cite.text[:200]}" if cite else "no line"
        false = FalsePositive(name, found.cause, found.strength.value if found.strength else "unknown", line)
    return false, len(log), log.count(b"\n")


def measure(megabytes: float = MEGABYTES, processes: int = 2, archive: Path = ARCHIVE) -> Healthy:
    """Judges every log. Raises as `logs`."""
    began = time.monotonic()
    if processes < 2:
        judged = [judge(case) for case in logs(megabytes, archive)]
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            judged = list(pool.imap(judge, logs(megabytes, archive)))
    return Healthy(
        logs=len(judged),
        megabytes=sum(size for _, size, _ in judged) / 1e6,
        distinct_megabytes=sum(map(len, sources(archive).values())) / 1e6,
        lines=sum(count for _, _, count in judged),
        seconds=time.monotonic() - began,
        processes=processes,
        false=tuple(false for false, _, _ in judged if false),
    )


def text(found: Healthy, every: bool) -> str:
    """For people; `every`: with each false positive."""
    head = (
        f"healthy logs: {found.logs} of {found.megabytes:.0f} MB, {len(found.false)} false positives, "
        f"{found.speed:.1f} MB/s ({found.processes} processes, multiplying included)"
    )
    listed = [f"  {f.log}: {f.cause} ({f.strength}): {f.line}" for f in found.false] if every else []
    return "\n".join((head, *listed))


def as_dict(found: Healthy) -> dict[str, object]:
    """As JSON takes it."""
    return {**dataclasses.asdict(found), "speed": found.speed}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m tests.healthy", description="Judge logs of jobs that were well.")
    parser.add_argument("--megabytes", type=float, default=MEGABYTES, metavar="N", help="default %(default)s")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default %(default)s")
    parser.add_argument("--list", action="store_true", help="every false positive with its line")
    parser.add_argument("--into", type=Path, metavar="DIR", help="write the cases there and judge nothing")
    options = parser.parse_args(argv)
    try:
        if options.into:
            for name, files in logs(options.megabytes):
                write(files, options.into / re.sub(r"[^\w.-]+", "_", name))
            return 0
        found = measure(options.megabytes, options.processes)
    except (OSError, tarfile.TarError) as error:
        print(f"healthy: {error}", file=sys.stderr)
        return 2
    print(text(found, options.list))
    return 1 if found.false else 0


if __name__ == "__main__":
    sys.exit(main())
