"""A site for tests: a service over commands of Slurm that tests write, nodes that speak with it, and what must be so."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from slurm_triage.log import Log
from slurm_triage.service import ledger as books
from slurm_triage.service.config import Settings, load
from slurm_triage.service.intake import Intake
from slurm_triage.service.loop import Service
from slurm_triage.service.texts import group_key
from tests.service.fake_slurm import FakeSlurm
from tests.service.nodes import Desk, Node
from tests.service.storm_jobs import Job, Recordings, attempts_with_target

KEY = b"k" * 40
ROOT = Path(__file__).parents[2]
PATIENCE = float(os.environ.get("TRIAGE_PATIENCE", "300"))
"""Seconds after which a test that waits has failed; they are only spent then."""


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


class Site:
    """All of it below `root`. `more` are further lines of the service's settings."""

    def __init__(self, root: Path, known: Recordings, *more: str, workers: int = 0, names: Sequence[str] = ()) -> None:
        self.root, self.port = root, free_port()
        self.slurm = FakeSlurm(root / "slurm", known.settings, known.columns, known.tail)
        self.state = root / "service"
        self.state.mkdir()
        (root / "history").mkdir()
        self.history = root / "history" / "history.sqlite"
        (root / "key").write_bytes(KEY)
        (root / "key").chmod(0o600)
        self.config = root / "service.toml"
        self._more = more
        self.configure(workers)
        self.desk = Desk(root / "files")
        self.nodes = {name: Node(root, name, self.port, self.desk) for name in names}
        self.lines: list[str] = []

    def configure(self, workers: int) -> None:
        """Writes the service's settings."""
        said = {
            "history": str(self.history), "state": str(self.state), "listen": f"127.0.0.1:{self.port}", "auth": "key",
            "key": str(self.root / "key"), "slurm_user": "root",
        }  # fmt: skip
        lines = [f'{key} = "{value}"' for key, value in said.items()]
        numbers = ["check_addresses = false", "interval = 10", "recheck = 60", f"workers = {workers}"]
        self.config.write_text("\n".join(["[service]", *lines, *numbers, *self._more, ""]))

    @property
    def settings(self) -> Settings:
        """The service's settings."""
        return load(self.config)

    def leave(self, jobs: Iterable[Job]) -> None:
        """The nodes of these jobs have their records."""
        for job in jobs:
            for name in job.records:
                self.nodes[name].leave(job)

    @contextmanager
    def service(self, clock: Callable[[], float] = time.time) -> Iterator[Service]:
        """The service in this process, without its loop."""
        before = os.environ.get("PATH", "")
        os.environ["PATH"] = self.slurm.path
        one = Service(self.settings, Log(self.lines.append), clock)
        try:
            one.open()
            yield one
        finally:
            one.close()
            os.environ["PATH"] = before

    # -------------------------------------------------------------------------------------------- what is so

    def rows(self) -> dict[str, list[tuple[float | None, str, str]]]:
        """By raw id: (start, cause, strength) of each attempt in the history."""
        found: dict[str, list[tuple[float | None, str, str]]] = {}
        with closing(sqlite3.connect(self.history, timeout=30)) as db:
            for raw, *row in db.execute(
                "SELECT job.job_id, attempt.start_time, attempt.cause, attempt.strength FROM attempt "
                "JOIN job ON job.id = attempt.job ORDER BY job.submit_time, attempt.at"
            ):
                found.setdefault(raw, []).append((row[0], row[1], row[2]))
        return found

    def texts(self) -> list[sqlite3.Row]:
        """All texts."""
        with closing(sqlite3.connect(self.state / "texts.sqlite", timeout=30)) as db:
            db.row_factory = sqlite3.Row
            return db.execute("SELECT *, json_extract(section, '$.text') AS words FROM text").fetchall()

    def hours_pass(self) -> None:
        """What was handed out is no longer on its way, and other nodes than the batch host may write."""
        with closing(sqlite3.connect(self.state / "texts.sqlite", timeout=30, isolation_level=None)) as db:
            db.execute("UPDATE text SET handed_at = 0, at = at - 1800")

    def wrong(self, jobs: Sequence[Job]) -> list[str]:
        """Sentences about what is not as it has to be once everything has come to rest; none if all is well."""
        return [*self._unjudged(jobs), *self._unwritten(jobs), *self._left()]

    def _unjudged(self, jobs: Sequence[Job]) -> Iterator[str]:
        try:
            rows = self.rows()
        except sqlite3.OperationalError as error:
            yield f"history: {error}"
            return
        for job in jobs:
            causes = tuple(cause for _, cause, _ in rows.pop(job.raw, []))
            if causes != job.causes:
                yield f"job {job.raw}: {job.causes} has rows {causes}"
        yield from (f"job {raw}: nobody knows it" for raw in rows)

    def _unwritten(self, jobs: Sequence[Job]) -> Iterator[str]:
        texts: dict[str, list[sqlite3.Row]] = {}
        try:
            for row in self.texts():
                texts.setdefault(row["job"], []).append(row)
        except sqlite3.OperationalError as error:
            yield f"texts: {error}"
            return
        wanted: dict[str, list[str]] = {}
        for job in jobs:
            said = sorted(texts.get(job.raw, []), key=lambda row: float(row["start"]))
            for index, cause in enumerate(job.causes):
                deserves = job.wants_file and cause != "no_failure" and bool(job.nodes[index])
                if index >= len(said):
                    yield f"job {job.raw}: nothing is said of attempt {index + 1}"
                elif not job.array and (said[index]["state"] == "text") != deserves:
                    yield f"job {job.raw}: attempt {index + 1} has state {said[index]['state']}: {said[index]['why']}"
                elif said[index]["state"] == "text" and index in attempts_with_target(job):
                    wanted.setdefault(f"{job.shown}.diagnosis.txt", []).append(said[index]["words"].strip())
                    if said[index]["done"] < said[index]["revision"]:
                        yield f"job {job.raw}: revision {said[index]['revision']} of attempt {index + 1} is not written"
        for array in sorted({job.array for job in jobs if job.array}):
            own = sum(row["state"] == "text" and row["array"] == array for rows in texts.values() for row in rows)
            if own != int(self.settings.group_from):
                yield f"array {array}: {own} tasks have a text of their own"
            for group in texts.get(group_key(array), []):
                wanted[group["name"]] = [group["words"].strip()]
                if group["done"] < group["revision"]:
                    yield f"array {array}: revision {group['revision']} is not written"
        for name in wanted.keys() | self.desk.names:
            found = [text.strip() for text in self.desk.sections(name)]
            if found != wanted.get(name, []):
                yield f"{name}: {len(found)} sections, not the {len(wanted.get(name, []))} that are the newest"

    def _left(self) -> Iterator[str]:
        for node in self.nodes.values():
            yield from (f"{path}: not handed on" for path in node.lying)
        if number := Intake(self.state).waiting():
            yield f"of {number} jobs nodes told, and no round was done with them"
        try:
            ledger = books.load(self.state / books.FILE)
        except books.LedgerError as error:
            yield str(error)
            return
        yield from (f"job {raw}: waits" for raw in ledger.waiting)
        yield from (f"job {raw}: bad: {why}" for raw, why in ledger.bad.items())

    def come_to_rest(self, jobs: Sequence[Job], what: Callable[[], object] = lambda: time.sleep(0.5)) -> list[str]:
        """Waits until all is well, for as long as that may take; says what is not. `what` is done meanwhile."""
        end = time.monotonic() + PATIENCE
        while (wrong := self.wrong(jobs)) and time.monotonic() < end:
            what()
        return wrong


class Process:
    """`slurm-triage service run` as it is started at a site."""

    def __init__(self, site: Site) -> None:
        environment = {**os.environ, "PATH": site.slurm.path}
        self._site = site
        self._process = subprocess.Popen(
            [sys.executable, "-m", "slurm_triage", "service", "run", "--config", str(site.config)],
            env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._site.lines.append(line.rstrip("\n"))
            with self._more:
                self._lines.append(line)
                self._more.notify()

    def wait_for(self, verdicts: int, seconds: float) -> None:
        """Until it has said so many verdicts, or that it cannot, or until it had so many seconds for it."""
        with self._more:
            self._more.wait_for(lambda: self._far(0), PATIENCE)
            self._more.wait_for(lambda: self._far(verdicts), seconds)

    def _far(self, verdicts: int) -> bool:
        said = [line for line in self._lines if line.startswith(("info verdict", "info amended"))]
        begun = any(line.startswith("info started") for line in self._lines)
        return (begun and len(said) >= verdicts) or any(line.startswith("error sweep-failed") for line in self._lines)

    def __enter__(self) -> Process:
        """It runs."""
        return self

    def __exit__(self, *error: object) -> None:
        """It is gone."""
        if self._process.poll() is None:
            self.kill()

    def kill(self) -> None:
        """As the kernel does it when memory is short."""
        self._process.kill()
        self._ended()

    def stop(self) -> int:
        """As systemd does it; returns the exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._ended()

    def peak(self) -> int:
        """KiB of memory that it had at most."""
        return peak_of(self._process.pid)

    def peak_of_workers(self) -> int:
        """The same of the largest of its processes."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return max((peak_of(int(child)) for child in children), default=0)

    def _ended(self) -> int:
        status = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stderr is not None
        self._process.stderr.close()
        return status


def peak_of(pid: int) -> int:
    """KiB of memory that a process had at most; 0 of one that has ended."""
    words = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()
    return int(words[0]) if words else 0
