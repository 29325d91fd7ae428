"""How fast the service judges: a storm of ten thousand bad jobs, made of recorded ones, with what their nodes sent.

Stages are timed in one process as CPU time, after a warm-up; the whole, with the pool's processes, by the wall clock.
Slurm's commands cost nothing here: they answer from memory, and are counted.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_triage import sources
from slurm_triage.case import from_files
from slurm_triage.engine import study_events
from slurm_triage.history.store import History
from slurm_triage.live._command import Reply
from slurm_triage.recording import recording
from slurm_triage.report.text import render
from slurm_triage.service import judge
from slurm_triage.service.ask import AT_ONCE, Asker, JobName
from slurm_triage.service.judge import Case
from slurm_triage.service.pool import Failed, Pool
from tests.corpus.load import cases

JOBS = 10_000
STAGED = 2_000
"""Jobs of the storm that the stages are timed with."""
FIRST = 1_000_000
"""Raw id of the first job of the storm."""
CORPORA = ("recorded-witnesses", "recorded-24.11")
VERSION = "24.11.5"
SETTINGS = ("scontrol-config.txt", "scontrol-partition.txt", "sacctmgr-qos.psv")


# ------------------------------------------------------------------------------------------------ the storm


@dataclass(frozen=True)
class Model:
    """A job: its raw id, its rows and JSON objects of accounting, what its nodes have of it and say with it."""

    raw: str
    rows: bytes
    jobs: bytes
    node: dict[str, bytes]
    manifest: dict[str, Any]


@dataclass
class Storm:
    """Jobs that are made when they are asked for: the same number gives the same job."""

    models: list[Model]
    columns: tuple[str, ...]
    tail: bytes
    settings: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def recorded(cls) -> Storm:
        """Made of the recorded jobs of 24.11 that have one raw id of four digits, which can be changed."""
        models: list[Model] = []
        settings: dict[str, bytes] = {}
        for corpus in CORPORA:
            for name, files, label in cases(corpus):
                ids = label["job_ids"]
                other = corpus == CORPORA[0] and "slurm-24.11/" not in name
                header, *rows = files["sacct.psv"].splitlines()
                torn = any(row.count(b"|") != header.count(b"|") for row in rows)
                if other or torn or len(ids) != 1 or ids[0] < 1000:
                    continue
                columns = header.decode().split("|")
                whole = json.loads(files["sacct.json"])
                jobs = ",".join(json.dumps(job) for job in whole.pop("jobs"))
                tail = json.dumps(whole)[1:].encode()
                models.append(Model(str(ids[0]), b"\n".join(rows), jobs.encode(), dict(_of_nodes(files)), _said(files)))
                for file, data in files.items():
                    if (base := file.rsplit("/", 1)[-1]) in SETTINGS:
                        settings.setdefault(base, data)
        return cls(models, tuple(columns), tail, settings)

    def job(self, number: int) -> Model:
        """Job `number` of the storm: a recorded one with another id, and other fractions in its kernel's stamps."""
        model = self.models[number % len(self.models)]
        raw = str(FIRST + number)
        old = re.compile(rb"(?<![0-9])%s(?![0-9])" % model.raw.encode())
        fraction = b"%06d]" % (number * 7919 % 1_000_000)

        def changed(data: bytes) -> bytes:
            return old.sub(raw.encode(), data)

        node = {name: _STAMP.sub(fraction, changed(data)) for name, data in model.node.items()}
        return Model(raw, changed(model.rows), changed(model.jobs), node, model.manifest)

    def case(self, number: int, accounting: Mapping[str, bytes]) -> Case:
        """What is judged of a job."""
        job = self.job(number)
        return Case(job.raw, {**job.node, **accounting}, job.manifest)


_STAMP = re.compile(rb"(?<=\.)[0-9]{6}\]")
"""The fraction of a kernel stamp."""


def _said(files: Mapping[str, bytes]) -> dict[str, Any]:
    boot = re.search(rb"^boot_epoch = ([0-9.]+)$", files["manifest.toml"], re.MULTILINE)
    return {"boot_epoch": {"": float(boot[1])} if boot else {}, "not_seen": []}


def _of_nodes(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """What agents would send of a recorded job, under their names for it."""
    for name, data in files.items():
        if name == "spank.txt":
            yield "tasks.txt", data
        elif name == "job.out":
            yield "job.out", data
        elif name.startswith(("env.", "tasks.", "kmsg.")):
            yield name, data


class StormAsker(Asker):
    """Asks a storm in the place of Slurm."""

    def __init__(self, storm: Storm) -> None:
        super().__init__(1.0)
        self.storm = storm
        self._version = VERSION
        self._columns = (*(name for name in storm.columns if name != "State"), "State")
        self.answering = 0.0

    def evidence_of(self, number: int) -> dict[str, bytes]:
        """What accounting says of one job of the storm."""
        raw = str(FIRST + number)
        return self.evidence([JobName(raw, raw)])[raw]

    def _run(self, argv: Sequence[str]) -> Reply:
        self.calls[argv[0]] += 1
        began = time.process_time()
        output = self._printed(argv)
        self.answering += time.process_time() - began
        return Reply(output)

    def _printed(self, argv: Sequence[str]) -> bytes:
        jobs = [self.storm.job(int(shown) - FIRST) for shown in argv[argv.index("-j") + 1].split(",")]
        if "--json" in argv:
            return b'{"jobs":[' + b",".join(job.jobs for job in jobs) + b"]," + self.storm.tail
        separator = next(word for word in argv if word.startswith("--delimiter=")).partition("=")[2].encode()
        at = self.storm.columns.index("State")
        lines = ["|".join(self._columns).encode()]
        for job in jobs:
            for row in job.rows.split(b"\n"):
                cells = row.split(b"|")
                lines.append(b"|".join([*cells[:at], *cells[at + 1 :], cells[at]]))
        return (b"\n".join(lines) + b"\n").replace(b"|", separator)


def parts(count: int) -> Iterator[list[JobName]]:
    """The names of the jobs, as many at a time as accounting is asked about."""
    names = [JobName(str(FIRST + number), str(FIRST + number)) for number in range(count)]
    for first in range(0, count, AT_ONCE):
        yield names[first : first + AT_ONCE]


# ------------------------------------------------------------------------------------------------ measuring


def bench_stages(storm: Storm, path: Path, count: int) -> Iterator[str]:
    """Milliseconds of CPU that a case costs in each stage, in one process."""
    clock = time.process_time
    asker = StormAsker(storm)
    spent: defaultdict[str, float] = defaultdict(float)
    began = clock()
    cluster = judge.Cluster(storm.settings, VERSION)
    yield f"  {'settings of the cluster, once':<32} {1000 * (clock() - began):8.2f} ms"
    warm = judge.told(judge.study(storm.case(0, {}), cluster), storm.case(0, {}))
    assert warm.recordings
    with History.open(path) as history:
        for part in parts(count):
            answered = asker.answering
            began = clock()
            evidence = asker.evidence(part)
            spent["answers of sacct taken apart"] += clock() - began - (asker.answering - answered)
            recordings = []
            for job in part:
                case = storm.case(int(job.raw) - FIRST, evidence[job.raw])
                own, folder = judge.kinds(case.files), from_files(case.files, {**case.manifest, **cluster.manifest})
                began = clock()
                sources.parse_files(from_files(evidence[job.raw], cluster.manifest), own)
                spent["parse: accounting"] += (at := clock()) - began
                events = sources.parse(folder, own, cluster.parsed)
                spent["parse: all"] += -at + (at := clock())
                study = study_events(*events, folder)
                spent["facts and rules"] += -at + (at := clock())
                render(study.diagnosis)
                spent["text"] += -at + (at := clock())
                recordings.append(recording(study))
                spent["document"] += clock() - at
            began = clock()
            with history.batch():
                for document, detail in recordings:
                    history.record(document, detail)
            spent["record"] += clock() - began
    for stage, seconds in spent.items():
        yield f"  {stage:<32} {1000 * seconds / count:8.2f} ms"
    whole = sum(spent.values()) - spent["parse: accounting"]
    yield f"  {'in all':<32} {1000 * whole / count:8.2f} ms: {count / whole:.0f} cases/s of one CPU"


def bench_storm(storm: Storm, path: Path, count: int, workers: int) -> Iterator[str]:
    """Cases a second from the answers of accounting to the history, by the wall clock."""
    asker = StormAsker(storm)
    spent, failed = 0.0, 0
    with Pool(workers) as pool, History.open(path) as history:
        list(pool.judge([storm.case(n, asker.evidence_of(n)) for n in range(8)], storm.settings, VERSION))  # starts it
        asker.calls.clear()
        for part in parts(count):
            nodes = {job.raw: storm.case(int(job.raw) - FIRST, {}) for job in part}
            answered, began = asker.answering, time.perf_counter()
            evidence = asker.evidence(part)
            spent -= asker.answering - answered
            cases_ = [replace(nodes[raw], files={**nodes[raw].files, **files}) for raw, files in evidence.items()]
            with history.batch():
                for _, result in pool.judge(cases_, storm.settings, VERSION):
                    if isinstance(result, Failed):
                        failed += 1
                        continue
                    for document, detail in result.recordings:
                        history.record(document, detail)
            spent += time.perf_counter() - began
    calls = sum(asker.calls.values()) * 200 / count
    size = path.stat().st_size / 2**20
    yield f"{workers} processes: {count} cases in {spent:.1f} s, {count / spent:.0f} cases/s"
    yield f"  {failed} failed; {calls:.2f} calls of sacct for 200 cases; {size:.0f} MiB of history"


def bench_service(work: Path, count: int) -> Iterator[str]:
    """All of it, over a storm of `count` jobs."""
    storm = Storm.recorded()
    sizes = [sum(map(len, storm.case(n, {}).files.values())) for n in range(len(storm.models))]
    yield f"{len(storm.models)} recorded jobs, {sum(sizes) / len(sizes) / 1024:.1f} KiB from the nodes of each"
    yield from bench_stages(storm, work / "stages.sqlite", min(count, STAGED))
    for workers in (1, 2):
        some = count if workers > 1 else min(count, STAGED)
        yield from bench_storm(storm, work / f"storm{workers}.sqlite", some, workers)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: the storm alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.service", description="Time the service in a storm.")
    parser.add_argument("--jobs", type=int, default=JOBS, help="bad jobs of the storm (default %(default)s)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="slurm-triage-bench.") as folder:
        for line in bench_service(Path(folder), options.jobs):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
