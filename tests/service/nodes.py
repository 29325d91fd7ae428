"""Nodes for tests of the service: real agents with real spools, whose collectors find what was recorded."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from slurm_triage import sections
from slurm_triage.log import Log
from slurm_triage.node import agent as agents
from slurm_triage.node.agent import Agent
from slurm_triage.node.collect import Budget, Collected
from slurm_triage.node.config import Settings
from slurm_triage.node.deliver import Delivered
from slurm_triage.node.job import Job as NodeJob
from slurm_triage.sections import Section
from tests.service.storm_jobs import Job
from tests.spool import writers

UID = 1001
"""Of the user of all recorded jobs."""
FOLDERS = ("tmp", "new", "work")
ORDER = ("tasks", "spank", "epilog")


class Desk:
    """Where all jobs' diagnoses are written, as files; it stands for the users' directories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._lock = threading.Lock()

    def write(self, job: NodeJob, name: str, section: Section, seconds: float, **_: object) -> Delivered:
        """As `deliver` does it."""
        path = self.folder / name
        with self._lock:
            old = path.read_bytes() if path.exists() else b""
            partial = path.with_suffix(".new")
            partial.write_bytes(sections.merge(old, section))
            partial.replace(path)
        return Delivered(str(path), True)

    def sections(self, name: str) -> list[str]:
        """The texts of the sections of a file."""
        path = self.folder / name
        text = path.read_text("utf-8") if path.exists() else ""
        return re.split(r"^==== slurm-triage 1: .* ====\n", text, flags=re.MULTILINE)[1:]

    @property
    def names(self) -> set[str]:
        """The files."""
        return {path.name for path in self.folder.glob("*.txt")}


class Node:
    """A node of this name below `root`, whose agent speaks with the service at a port by the key in `root/key`."""

    def __init__(self, root: Path, name: str, port: int, desk: Desk, clock: Callable[[], float] = time.time) -> None:
        self.root, self.name, self.desk, self.clock = root / name, name, desk, clock
        self.root.mkdir()
        (self.root / "state").mkdir(mode=0o700)
        self.spool = writers.make(self.root / "spool")
        self.jobs: dict[str, Job] = {}
        self.lines: list[str] = []
        self.settings = Settings(
            servers=(f"127.0.0.1:{port}",), auth="key", key=str(root / "key"), service_users=(str(os.geteuid()),),
            spools=(str(self.spool),), state=str(self.root / "state"), settle=0.0, linger=0.0,
        )  # fmt: skip

    def agent(self) -> Agent:
        """The agent, as it is when it starts."""
        one = Agent(self.settings, Log(self.lines.append), clock=self.clock)
        one.exchange._write = self.desk.write
        one.gatherer.collectors = {"recorded": self._collect}
        return one

    def leave(self, job: Job) -> None:
        """The witnesses of a job's end write their records: who sees the plugin's ticket sees the task records."""
        self.jobs[job.raw] = job
        papers = sorted(job.records.get(self.name, ()), key=lambda paper: ORDER.index(paper.kind))
        for number, paper in enumerate(papers):
            name = f"{job.raw}.{UID}.{int(paper.at)}.{7000 + number}.{paper.kind}"
            writers.put(self.spool, name, paper.data, "tmp", paper.at).rename(self.spool / "new" / name)

    def _collect(self, job: NodeJob, budget: Budget) -> Collected:
        """The kernel log, and the job's output on the node that wrote it, as this node's clock has it."""
        known = self.jobs[job.job]
        found = Collected()
        if "kmsg.txt" in known.files:
            found.files[f"kmsg.{self.name}.txt"] = known.files["kmsg.txt"]
        if "job.out" in known.files and job.batch_host:
            found.files["job.out"] = known.files["job.out"]
        if known.boot is not None:
            found.manifest["boot_epoch"] = {self.name: known.boot + self.clock() - time.time()}
        return found

    @property
    def lying(self) -> list[str]:
        """What is not handed on: records in the spool, cases in the outbox (what a killed agent half wrote is none)."""
        folders = [self.spool / name for name in FOLDERS] + [self.root / "state" / "outbox"]
        return [str(path) for folder in folders if folder.is_dir() for path in folder.glob("[!.]*")]

    def refused(self) -> list[str]:
        """The names of what lies in bad/."""
        return writers.names(self.spool, "bad")


def in_step(nodes: Iterable[Node], rounds: int = 3) -> None:
    """A few rounds of each agent, in turn."""
    for node in nodes:
        one = node.agent()
        for _ in range(rounds):
            one.round(0.0)


def hasten(patch: Callable[[object, str, object], object]) -> None:
    """Agents try again at once, and ask about everything each time."""
    patch(agents, "PAUSE", (0.05, 0.2))
    patch(agents, "ALL_EVERY", 0.5)
    patch(agents, "NAP", 0.02)
