"""What a history of many jobs costs: filling it, its size, and each question as a command, from its start to its answer.

Nine of ten jobs ended well, as on most clusters. `python -m tests.bench.history` does this alone.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.history.good_runs import DAY, GoodRun
from slurm_triage.history.queries import show_time
from slurm_triage.history.store import History
from slurm_triage.nodeset import fold
from slurm_triage.report.document import document
from tests.bench.sample import sample
from tests.bench.timing import summary

SIZES = (10_000, 100_000, 1_000_000)
NODES, USERS, PROGRAMS, DAYS = 500, 60, 4, 90
WIDE = 0.2
"""Share of jobs of more than one node."""
BAD = 0.1
CAUSES = ("app_error", "time_limit", "memcg_oom", "cancelled_by_user", "node_fail", "gpu_oom")
NOW = 1_796_083_200.0
TOGETHER = 20_000
"""Jobs that are made at once."""
RUNS = 5


class _Jobs:
    """Jobs of many users on many nodes over a quarter of a year; the same seed gives the same jobs."""

    def __init__(self, count: int, model: Mapping[str, Any]) -> None:
        self._count, self._model = count, model
        self._rng = random.Random(1)
        self._names = [f"n{number:04d}" for number in range(NODES)]

    def parts(self) -> Iterator[tuple[list[GoodRun], list[dict[str, Any]]]]:
        """Runs that ended well, and documents of the others, in the order of their end."""
        for first in range(0, self._count, TOGETHER):
            good: list[GoodRun] = []
            bad: list[dict[str, Any]] = []
            for number in range(first, min(first + TOGETHER, self._count)):
                self._one(number, good, bad)
            yield good, bad

    def _one(self, number: int, good: list[GoodRun], bad: list[dict[str, Any]]) -> None:
        rng = self._rng
        width = rng.choice((2, 4, 8, 16)) if rng.random() < WIDE else 1
        at = rng.randrange(NODES - width)
        nodes, user = self._names[at : at + width], f"user{rng.randrange(USERS)}"
        name = f"program{rng.randrange(PROGRAMS)}-{'abcdefgh'[number % 8]}{number}"
        end = NOW - DAYS * DAY * (1 - number / self._count)
        if rng.random() >= BAD:
            good.append(GoodRun("bench", str(number), user, name, "main", end - 3600, end, fold(nodes)))
            return
        start = show_time(end - 3600)
        job = {
            **self._model["job"], "cluster": "bench", "job_id": str(number), "shown_id": str(number), "user": user,
            "name": name, "nodes": nodes, "submit": start, "start": start, "end": show_time(end),
        }  # fmt: skip
        bad.append({**self._model, "cause": rng.choice(CAUSES), "job": job, "parts": []})


def _fill(path: Path, count: int) -> Iterator[str]:
    jobs = _Jobs(count, document(diagnose(from_files(sample()))))
    good_runs = diagnoses = 0
    of_good = of_bad = 0.0
    with History.open(path) as history:
        for good, bad in jobs.parts():
            began = time.perf_counter()
            good_runs += history.record_good(good)
            of_good += time.perf_counter() - began
            began = time.perf_counter()
            with history.batch():
                for made in bad:
                    history.record(made)
            of_bad += time.perf_counter() - began
            diagnoses += len(bad)
    size = path.stat().st_size
    yield f"{count} jobs, {diagnoses} of them bad: {size / 2**20:.0f} MiB, {size / count:.0f} bytes a job"
    yield f"  {diagnoses / of_bad:.0f} diagnoses/s, {good_runs / of_good:.0f} good runs/s"


def _ask(path: Path, name: str, words: Sequence[str]) -> str:
    """Seconds of a command, from its start to its end, and the most memory it took."""
    argv = [str(Path(sys.executable).parent / "sdiag-history"), *words, "--db", str(path)]
    spent = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        spent.append((time.perf_counter() - began) * 1000)
    return f"  {name:<28} {summary(spent[1:])}"


def bench_large(work: Path, sizes: Sequence[int] = SIZES) -> Iterator[str]:
    """All of it, for histories of so many jobs."""
    until = ["--until", f"@{NOW + 1:.0f}"]
    for count in sizes:
        path = work / f"large{count}.sqlite"
        yield from _fill(path, count)
        middle = str(count // 2 + next(n for n in range(1000) if _is_bad(path, count // 2 + n)))
        for name, words in (
            ("show", ["show", middle]),
            ("list", ["list"]),
            ("list --user, a week", ["list", "--user", "user7", "--since", f"@{NOW - 7 * DAY:.0f}"]),
            ("list --cause, a week", ["list", "--cause", "gpu_oom", "--since", f"@{NOW - 7 * DAY:.0f}"]),
            ("nodes, 90 days", ["nodes", *until]),
            ("nodes, a week", ["nodes", *until, "--since", f"@{NOW - 7 * DAY:.0f}"]),
            ("job --why, 90 days", ["job", "program1-a7", "--why", "--user", "user7", *until]),
        ):
            yield _ask(path, name, words)
        path.unlink()
    yield f"  most memory of a command: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB"


def _is_bad(path: Path, number: int) -> bool:
    with History.open(path, readonly=True) as history:
        return bool(history.db.execute("SELECT 1 FROM job WHERE job_id = ?", (str(number),)).fetchone())


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: the history alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.history", description="Time large histories.")
    parser.add_argument("--jobs", type=int, nargs="+", default=list(SIZES), help="jobs (default %(default)s)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="slurm-triage-bench.", dir=Path.cwd()) as folder:
        for line in bench_large(Path(folder), options.jobs):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
