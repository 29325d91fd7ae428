"""What reading a long log costs: `python -m tests.bench.log_scan [MIB...]`. Prints figures and asserts nothing.

Beside each other, in turn: a whole `diagnose --evidence` of a log with its first error in the middle, the same where no
grep is found, and `grep -c` for the literals of the catalogs, which stand in `literals.txt` (`--write` renews it), once
as a list and once as one pattern `a|b|c`. Then the same diagnosis with twice as many families, made of the given ones
with other words. CPU seconds (user and system, children too) tell more than wall time on a busy machine; memory is the
largest resident set of the process and of its children.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slurm_triage import engine, extension, grep
from slurm_triage.case import read
from slurm_triage.extension import Extension
from slurm_triage.sources._catalog import Signature, load
from tests.bench import long_log

FOLDERS = ("slurm", "program", "kernel", "stack")
"""Catalogs that a job's output is searched for."""
LITERALS = Path(__file__).parent / "literals.txt"
SIZES = (64, 256, 1024)
WITHOUT_GREP = "/nonexistent"


def literals() -> list[str]:
    """All hints of these catalogs, in order."""
    return sorted({hint for folder in FOLDERS for signature in load(folder).signatures for hint in signature.hints})


def escaped(literal: str) -> str:
    """For `grep -E`."""
    return re.sub(r"([][\\.^$*+?(){}|])", r"\\\1", literal)


def spent(command: Sequence[str], env: Mapping[str, str]) -> tuple[float, float, float]:
    """Seconds of the clock and of processors that a command takes, and MiB that it or a child of it fills at most."""
    with tempfile.TemporaryFile() as answer:  # grep stops at the first line if its answer goes to /dev/null
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=answer, stderr=subprocess.DEVNULL, env=env)
        _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def bench_sizes(work: Path, sizes: Sequence[int]) -> Iterator[str]:
    """Each command over logs of so many MiB."""
    words = [line for line in LITERALS.read_text("utf-8").split("\n") if line]
    (work / "list").write_text("".join(f"{escaped(word)}\n" for word in words))
    (work / "pattern").write_text("|".join(map(escaped, words)) + "\n")
    plain = {**os.environ, "LC_ALL": "C"}
    for mib in sizes:
        folder = work / str(mib)
        folder.mkdir()
        log = folder / "job.out"
        line = long_log.write(log, mib * 1024 * 1024)
        diagnose = [sys.executable, "-m", "slurm_triage", "diagnose", "--evidence", str(folder), "--format", "brief"]
        runs: dict[str, tuple[list[str], Mapping[str, str]]] = {
            "grep -cE, a list": (["grep", "-acE", "-f", str(work / "list"), str(log)], plain),
            "grep -cE 'a|b|c'": (["grep", "-acE", "-f", str(work / "pattern"), str(log)], plain),
            "diagnose": (diagnose, os.environ),
            "diagnose, no grep there": (diagnose, {**os.environ, "PATH": WITHOUT_GREP}),
        }
        yield f"{mib} MiB, the first error in line {line}, {len(words)} literals"
        first = 0.0
        for name, (command, env) in runs.items():
            wall, cpu, memory = spent(command, env)
            first = first or cpu
            yield f"  {name:<26} {wall:7.2f} s  cpu {cpu:7.2f} s  x{cpu / first:5.2f}  {memory:7.1f} MiB"


def others(signature: Signature) -> Signature:
    """The family with other words: as many literals again, which no line holds."""
    return replace(
        signature, id=f"{signature.id}_x", hints=tuple(f"{hint[:-1]}~{hint[-1]}" for hint in signature.hints)
    )


def bench_twice(folder: Path) -> Iterator[str]:
    """CPU seconds of one process with all families, and with twice as many."""
    given = {name: tuple(replace(s) for s in map(_whole, load(name).signatures)) for name in FOLDERS}
    twice = Extension(signatures={name: tuple(map(others, families)) for name, families in given.items()})
    times: dict[str, list[float]] = {"once": [], "twice": []}
    for _ in range(3):
        for name, used in (("once", Extension()), ("twice", twice)):
            extension.use(used)
            times[name].append(_cpu(lambda: engine.study(read(folder), grep.scan)))
    extension.use(Extension())
    once, double = min(times["once"]), min(times["twice"])
    count = sum(map(len, given.values()))
    yield f"  {count} families {once:.2f} s, {2 * count} families {double:.2f} s of cpu: x{double / once:.2f}"


def _whole(found: Signature) -> Signature:
    return Signature(
        found.id, found.voice, found.meaning, found.since, found.sources, found.hints, found.forms,
        found.caution, found.also, found.speakers,
    )  # fmt: skip


def _cpu(run: Callable[[], object]) -> float:
    before = os.times()
    run()
    return sum(after - earlier for after, earlier in zip(os.times()[:4], before[:4], strict=True))


def bench_log_scan(work: Path, sizes: Sequence[int] = SIZES) -> Iterator[str]:
    """All of it."""
    yield from bench_sizes(work, sizes)
    middle = sizes[len(sizes) // 2]
    yield f"{middle} MiB, twice the signatures"
    yield from bench_twice(work / str(middle))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 = measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.log_scan", description="Time reading of long logs.")
    parser.add_argument("mib", nargs="*", type=int, default=list(SIZES), help="sizes in MiB (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the literals of the catalogs into literals.txt")
    options = parser.parse_args(argv)
    if options.write:
        LITERALS.write_text("".join(f"{literal}\n" for literal in literals()), encoding="utf-8")
        return 0
    with tempfile.TemporaryDirectory(prefix="slurm-triage-bench.") as folder:
        for line in bench_log_scan(Path(folder), options.mib):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
