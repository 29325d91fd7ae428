"""How long things take: `python -m tests.bench`. Prints figures and asserts nothing.

Commands are timed as processes, in turn, so that a slow moment of the machine hits all of them; compare ratios, not
milliseconds, between machines. Stages are timed in one process over the built-in corpora, after a warm-up; the service
in a storm of bad jobs (`python -m tests.bench.service` does that alone). Where the mini cluster runs (`make cluster`),
its login node tells what one diagnosis of a job costs beside one `sacct`.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_triage import sources
from slurm_triage.case import Case, from_files
from slurm_triage.engine import diagnose
from slurm_triage.history import queries
from slurm_triage.history.store import History
from slurm_triage.report.document import document
from slurm_triage.report.text import render
from tests.bench.agents import bench_agents
from tests.bench.history import SIZES as LARGE
from tests.bench.history import bench_large
from tests.bench.live import bench_live
from tests.bench.log_scan import SIZES, bench_log_scan
from tests.bench.sample import sample
from tests.bench.service import JOBS, bench_service
from tests.bench.timing import summary, timed
from tests.bench.witnesses import bench_hooks, bench_plugin
from tests.corpus.load import BUILTIN, CorpusError, cases, write

ROWS = 10_000
NODES, USERS, CAUSES = 200, 40, ("memcg_oom", "time_limit", "app_error", "node_fail", "cancelled_by_user")
# ------------------------------------------------------------------------------------------------ commands


def run_quietly(command: Sequence[str]) -> None:
    """Runs a command to its end. Raises `CalledProcessError` when it fails."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def bench_commands(commands: Mapping[str, Sequence[str]], runs: int) -> Iterator[str]:
    """Wall time of processes; the first command is what the others are compared with."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            spent = timed(lambda command=command: run_quietly(command))  # type: ignore[misc]
            if turn:  # the first turn fills the disk cache and writes byte code
                taken[name].append(spent)
    base = statistics.median(next(iter(taken.values())))
    for name, values in taken.items():
        ratio = statistics.median(values) / base
        yield f"{name:<52} median {statistics.median(values):7.1f} ms  best {min(values):7.1f} ms  x{ratio:.1f}"


SACCT = r"""#!/bin/sh
case "$*" in
*--helpformat*) echo "$FIELDS" | tr , ' ' ;;
*) printf '%s' '1088|train|u|a|p|OUT_OF_MEMORY|0:125|2026-03-01T10:00:00|2026-03-01T10:00:00|2026-03-01T10:00:01|2026-03-01T10:10:01|00:10:00|01:00:00|4G|2|cpu=2|cpu=2|2|1|c1|00:10:00|00:20:00|
1088.0|train|||||||||||||||||||||4000000K
' | tr '|' '\037' ;;
esac
"""
"""Answers what slurmpast 0.9 asks of sacct about one job, at once."""

FIELDS = (
    "JobID,JobName,User,Account,Partition,State,ExitCode,Submit,Eligible,Start,End,Elapsed,Timelimit,ReqMem,ReqCPUS,"
    "ReqTRES,AllocTRES,NCPUS,NNodes,NodeList,TotalCPU,CPUTime,MaxRSS"
)


def slurmpast(work: Path) -> dict[str, Sequence[str]]:
    """Another diagnosis of one job, where somebody installed it (`pip install slurmpast`): the one to be compared with."""
    command = shutil.which("slurmpast")
    if command is None:
        return {}
    sacct = work / "bin" / "sacct"
    sacct.parent.mkdir()
    sacct.write_text(SACCT.replace("$FIELDS", FIELDS))
    sacct.chmod(0o755)
    ask = f"PATH={sacct.parent}:$PATH exec {command} 1088 --plain --no-cache"
    return {"slurmpast JOBID (exits with 1 for a failed job)": ["sh", "-c", f"({ask}) || :"]}


# ------------------------------------------------------------------------------------------------ stages


def bench_stages(corpus: str) -> Iterator[str]:
    """Milliseconds a case of each stage. `facts and rules` is a whole diagnosis less the time that parsing took."""
    loaded: list[Case] = [from_files(files) for _, files, _ in cases(corpus)]
    render(diagnose(loaded[0]))  # loads catalogs, rules and templates
    parse, judge, paper, text = [], [], [], []
    for case in loaded:
        parsing = timed(lambda case=case: sources.parse(case))  # type: ignore[misc]
        began = time.perf_counter()
        diagnosis = diagnose(case)
        judge.append(max(0.0, (time.perf_counter() - began) * 1000 - parsing))
        parse.append(parsing)
        paper.append(timed(lambda diagnosis=diagnosis: document(diagnosis)))  # type: ignore[misc]
        text.append(timed(lambda diagnosis=diagnosis: render(diagnosis)))  # type: ignore[misc]
    size = sum(f.size() for case in loaded for f in case.files) / len(loaded) / 1024
    yield f"{corpus}: {len(loaded)} cases, {size:.1f} KiB of evidence each"
    for name, values in (("parse", parse), ("facts and rules", judge), ("document", paper), ("text", text)):
        yield f"  {name:<16} {summary(values)}"


# ------------------------------------------------------------------------------------------------ history


def documents(model: Mapping[str, Any], rows: int) -> Iterator[dict[str, Any]]:
    """`rows` documents like `model`, of different jobs, a job a minute, on changing nodes."""
    for i in range(rows):
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + 60 * i))
        job = {
            **model["job"],
            "cluster": "bench",
            "job_id": str(100_000 + i),
            "shown_id": str(100_000 + i),
            "user": f"user{i % USERS}",
            "nodes": [f"n{(i + k) % NODES}" for k in range(4)],
            "submit": moment,
            "start": moment,
            "end": moment,
        }
        yield {**model, "cause": CAUSES[i % len(CAUSES)], "job": job, "parts": []}


def bench_history(path: Path, rows: int) -> Iterator[str]:
    """Fills a history, one transaction for each diagnosis, and asks it."""
    model = document(diagnose(from_files(sample())))
    with History.open(path) as history:
        inserts = [timed(lambda paper=paper: history.record(paper)) for paper in documents(model, rows)]  # type: ignore[misc]
    yield f"{rows} records, {path.stat().st_size / 1024 / 1024:.1f} MiB"
    yield f"  {'record':<24} {summary(inserts)}"
    tail = inserts[-max(1, rows // 100) :]
    yield f"  {'record, the last 1 %':<24} {summary(tail)}"

    def asked(ask: Callable[[History], object]) -> list[float]:
        with History.open(path, readonly=True) as history:
            return [timed(lambda: ask(history)) for _ in range(30)]

    def filters(**wanted: str) -> queries.Filters:
        found = queries.Filters()
        for key, value in wanted.items():
            queries.FILTERS[key](found, [value])
        return found

    job = queries.Filters()
    job.job(str(100_000 + rows // 2))
    for name, ask in (
        ("newest 50", lambda h: queries.newest(h.db, filters(), 50)),
        ("by job id", lambda h: queries.by_job(h.db, job, None)),
        ("by node, newest 50", lambda h: queries.newest(h.db, filters(node="n7"), 50)),
        ("by user, newest 50", lambda h: queries.newest(h.db, filters(user="user7"), 50)),
        ("by cause, newest 50", lambda h: queries.newest(h.db, filters(cause="node_fail"), 50)),
        ("by cause, all", lambda h: queries.newest(h.db, filters(cause="node_fail"), None)),
    ):
        yield f"  {name:<24} {summary(asked(ask))}"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 = measured, 1 = a corpus could not be read."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Time commands, stages, long logs, the history, the service and a live cluster.",
    )
    parser.add_argument("--runs", type=int, default=11, help="runs of each command (default %(default)s)")
    parser.add_argument("--rows", type=int, default=ROWS, help="records of the history (default %(default)s)")
    parser.add_argument(
        "--jobs", type=int, nargs="+", default=list(LARGE), help="jobs of large histories (default %(default)s)"
    )
    parser.add_argument("--storm", type=int, default=JOBS, help="bad jobs for the service (default %(default)s)")
    parser.add_argument(
        "--logs", type=int, nargs="+", default=list(SIZES), help="MiB of long logs (default %(default)s)"
    )
    parser.add_argument("--hook-runs", type=int, default=500, help="runs of each hook (default %(default)s)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="slurm-triage-bench.") as folder:
        work = Path(folder)
        try:
            write(sample(), work / "job")
            print("== history", flush=True)
            for line in bench_history(work / "history.sqlite", options.rows):
                print(line, flush=True)
            for line in bench_large(work, options.jobs):
                print(line, flush=True)
            scripts = Path(sys.executable).parent
            history = ["--db", str(work / "history.sqlite")]
            print("\n== commands, as processes", flush=True)
            for line in bench_commands(
                {
                    "python -c pass": [sys.executable, "-c", "pass"],
                    "python -c 'import slurm_triage.cli'": [sys.executable, "-c", "import slurm_triage.cli"],
                    "slurm-triage diagnose --evidence DIR": [
                        str(scripts / "slurm-triage"),
                        "diagnose",
                        "--evidence",
                        str(work / "job"),
                    ],
                    f"sdiag-history list -n 50 ({options.rows} records)": [
                        str(scripts / "sdiag-history"),
                        "list",
                        "-n",
                        "50",
                        *history,
                    ],
                    "sdiag-history show JOBID": [str(scripts / "sdiag-history"), "show", "100000", *history],
                    **slurmpast(work),
                },
                options.runs,
            ):
                print(line, flush=True)
            print("\n== stages, in one process", flush=True)
            for corpus in BUILTIN:
                for line in bench_stages(corpus):
                    print(line, flush=True)
            print("\n== long logs", flush=True)
            for line in bench_log_scan(work, options.logs):
                print(line, flush=True)
            print("\n== service, in a storm", flush=True)
            for line in bench_service(work, options.storm):
                print(line, flush=True)
            print("\n== hooks, as processes beside an empty script", flush=True)
            for line in bench_hooks(work, options.hook_runs):
                print(line, flush=True)
            print("\n== SPANK plugin, calls", flush=True)
            for line in bench_plugin(work):
                print(line, flush=True)
            print("\n== nodes and service", flush=True)
            for line in bench_agents(work):
                print(line, flush=True)
            print("\n== live, on the login node", flush=True)
            for line in bench_live(options.runs):
                print(line, flush=True)
        except CorpusError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
