"""What the witnesses cost a node: the hooks beside an empty script, the plugin's callbacks by task and by job.

The hooks run in turn with the empty script, so that a slow moment of the machine hits both. The plugin runs behind
spank/tests/driver.c, as in slurmstepd but without Slurm, on real memory cgroups of this machine where root may make some.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.timing import quantile, summary, timed

ROOT = Path(__file__).parents[2]
TASKS = 1000
EMPTY = "#!/bin/sh\nexit 0\n"
JOB = {"SLURM_JOB_ID": "77", "SLURM_JOB_UID": "1001", "SLURM_JOB_END_TIME": "1796051516"} | {
    f"SLURM_JOB_X{n}": "y" * 24 for n in range(28)
}
"""An environment of the size that slurmd gives an Epilog: 30 variables, about 1 KiB."""


def bench_hooks(work: Path, runs: int) -> Iterator[str]:
    """Lines about both hooks, for a failed job and for a clean one."""
    spool = work / "spool"
    for folder in (spool, spool / "tmp", spool / "new"):
        folder.mkdir(mode=0o700)
    empty = work / "empty"
    empty.write_text(EMPTY)
    empty.chmod(0o755)
    scripts = {"an empty sh script": empty}
    for name in ("slurm-triage-epilog", "slurm-triage-epilogslurmctld"):
        scripts[name] = work / name
        text = (ROOT / "epilog" / name).read_text()
        lines = (f"SPOOL={spool}" if line.startswith("SPOOL=") else line for line in text.splitlines())
        scripts[name].write_text("\n".join(lines) + "\n")
        scripts[name].chmod(0o755)
    for end, code in (("failed", "256"), ("clean", "0")):
        taken, left = _in_turn(scripts.values(), {**JOB, "SLURM_JOB_EXIT_CODE": code}, runs, spool / "new")
        base = taken[empty]
        yield f"{end} job, {runs} runs, {left} tickets"
        for name, script in scripts.items():
            added = "" if script is empty else _added(taken[script], base)
            yield f"  {name:30} {summary(taken[script], 99)}{added}"


def _added(values: Sequence[float], base: Sequence[float]) -> str:
    return "  added " + ", ".join(
        f"{quantile(values, share) - quantile(base, share):.2f} ms {name}"
        for share, name in ((0.5, "median"), (0.99, "p99"))
    )


def _in_turn(
    scripts: Iterable[Path], environment: Mapping[str, str], runs: int, leaves: Path
) -> tuple[dict[Path, list[float]], int]:
    chosen = list(scripts)
    taken: dict[Path, list[float]] = {script: [] for script in chosen}
    tickets = 0

    def run(script: Path) -> None:
        # As directly as slurmd does it: what Python's subprocess adds would hide the difference.
        os.waitpid(os.posix_spawn(script, [str(script)], environment), 0)

    for turn in range(runs + 5):
        for script in chosen:
            spent = timed(lambda script=script: run(script))  # type: ignore[misc]
            if turn >= 5:  # the first turns fill caches
                taken[script].append(spent)
        for ticket in leaves.iterdir():
            ticket.unlink()
            tickets += turn >= 5
    return taken, tickets


def bench_plugin(work: Path) -> Iterator[str]:
    """Lines about task_exit, for clean tasks and for failed ones; none without a compiler."""
    build = work / "build"
    made = subprocess.run(
        ["make", "-s", "-C", str(ROOT / "spank"), f"BUILD={build}", str(build / "driver-plain")],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        yield f"not measured: the plugin does not build: {made.stderr.strip().splitlines()[-1:]}"
        return
    node = work / "node"
    node.mkdir()
    (node / "spool").mkdir(mode=0o700)
    (node / "mountinfo").write_text(Path("/proc/self/mountinfo").read_text())
    with _cgroups(node) as (where, what):
        yield f"{TASKS} tasks of a step, {what}"
        for end, status in (("ended with 0", 0), ("killed by signal 9", 9)):
            command = [str(build / "driver-plain"), f"spool={node / 'spool'}", f"cgroup={where}"]
            told = subprocess.run(
                [*command, f"many:{TASKS},status={status}"], cwd=node, check=True, capture_output=True, text=True
            )
            kept = sum(path.stat().st_size for path in (node / "spool").rglob("*.tasks"))
            yield f"  task_exit, {end:20} {_shown(told.stdout)}, {kept} bytes kept"
        began = {"SLURM_JOB_START_TIME": str(int(time.time())), "SLURM_JOB_EXIT_CODE": "0"}
        told = subprocess.run(
            [*command[:2], "ends:200"], cwd=node, check=True, capture_output=True, text=True, env=began
        )
        yield f"  job_epilog, a clean job         {_shown(told.stdout)}"


def _shown(told: str) -> str:
    """What the driver printed, in milliseconds."""
    median, p99 = (float(word) / 1000 for word in told.split())
    return f"median {median:8.3f}  p99 {p99:8.3f} ms"


@contextmanager
def _cgroups(node: Path) -> Iterator[tuple[Path, str]]:
    """(mount, what it is) of the cgroups of a job 7 with a folder for every task; node/self_cgroup names them."""
    v1 = Path("/sys/fs/cgroup/memory")
    base = v1 / "slurm-triage-bench"
    if os.access(v1, os.W_OK) and v1.is_dir():
        step = base / "job_7" / "step_0"
        folders = [base, base / "job_7", step, *(step / f"task_{rank}" for rank in range(TASKS))]
        (node / "self_cgroup").write_text("4:memory:/slurm-triage-bench/job_7/step_0\n")
        made: list[Path] = []
        try:
            for folder in folders:
                folder.mkdir()
                made.append(folder)
            yield Path("/sys/fs/cgroup"), "real cgroups of version 1"
        finally:
            for folder in reversed(made):
                folder.rmdir()
        return
    # Plain files stand in for cgroups: opening and reading them costs about the same.
    step = node / "cgroup" / "job_7" / "step_0"
    for folder in (step.parent, step, *(step / "user" / f"task_{rank}" for rank in range(TASKS))):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("memory.events", "memory.events.local"):
            (folder / name).write_text("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n")
        for name in ("memory.peak", "memory.max", "memory.swap.max", "memory.swap.events", "memory.swap.peak"):
            (folder / name).write_text("12345678\n")
    (node / "self_cgroup").write_text("0::/job_7/step_0/slurm\n")
    yield node / "cgroup", "files in the place of cgroups (no version 1 here, or not root)"
    shutil.rmtree(node / "cgroup")
