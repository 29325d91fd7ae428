"""What the collectors cost for one job: `python -m tests.node.collect.measure`, as root for the whole of it."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.node.job import Job

LOG = 4 * 1024 * 1024
"""Bytes of the job's output: a long run that prints a line each step."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of the process and its children; bytes that its largest process had more than a bare start."""

    cpu: float
    more_memory: int
    by_name: dict[str, float]


def output(path: Path, size: int = LOG) -> None:
    """A job's output of that size that ends with a traceback."""
    rnd = random.Random(7)
    lines: list[str] = []
    length = 0
    while length < size:
        step = len(lines)
        line = f"[2026-11-30 15:{step // 60 % 60:02}:{step % 60:02}] step {step} loss {rnd.random():.4f} {rnd.random():.2f} it/s\n"
        lines.append(line)
        length += len(line)
    path.write_text("".join(lines) + "Traceback (most recent call last):\n  x\nRuntimeError: CUDA error\n")


def measured(folder: Path) -> Cost:
    """The cost in a new process, whose memory is not that of tests."""
    output(folder / "job.out")
    code = f"from tests.node.collect.measure import _in_this_process as m; m({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    cpu, memory, *names = done.stdout.split()
    by_name = {name: float(cost) for name, _, cost in (entry.partition("=") for entry in names)}
    return Cost(float(cpu), int(memory), by_name)


def _cpu() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _memory() -> int:
    """Bytes that this process had at most (of ru_maxrss a part is the parent's before exec)."""
    said = Path("/proc/self/status").read_text("ascii")
    return 1024 * int(said.partition("VmHWM:")[2].split()[0])


def _in_this_process(folder: str) -> None:
    """Prints CPU seconds, bytes, and `name=seconds` of each collector."""
    from slurm_triage.node import as_user
    from slurm_triage.node.collect import Budget, _child, all_collectors

    def in_a_child(job: Job, work: object, seconds: float, limit: int, first_uid: int | None = None) -> bytes:
        """As this user, who need not be a person; the child tells its memory, too."""

        def told() -> bytes:
            answer = work()  # type: ignore[operator]
            Path(folder, "memory").write_text(str(_memory()))
            return bytes(answer)

        return _child.ask(told, seconds, limit) or b""

    as_user.run = in_a_child
    before = _memory()
    now = time.time()
    job = Job(
        "77", "c1", os.getuid(), os.getgid(), int(now) - 3600, int(now), batch_host=True, stdout=f"{folder}/job.out"
    )
    costs = {}
    for name, collect in all_collectors().items():
        began = _cpu()
        collect(job, Budget(now=now, state=folder))
        costs[name] = _cpu() - began
    most = max(_memory(), int(Path(folder, "memory").read_text()))
    print(sum(costs.values()), most - before, *(f"{name}={cost:.4f}" for name, cost in costs.items()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = measured(Path(made))
        for name, cost in found.by_name.items():
            print(f"{name:16} {cost * 1000:7.1f} ms")
        print(f"{'together':16} {found.cpu * 1000:7.1f} ms CPU, {found.more_memory / 1048576:.1f} MiB")
