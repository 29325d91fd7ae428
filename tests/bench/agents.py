"""What the exchange between nodes and the service costs: a storm of tickets, a job of thousands of nodes, one agent.

The service is the real one with its port, its stores and its processes; of Slurm only the commands are missing, whose
answers lie ready in memory and are counted. Senders are processes of their own. The agent runs as its command does.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_triage.log import Log
from slurm_triage.nodeset import expand
from slurm_triage.service.admit import TAKEN
from slurm_triage.service.answering import Answering
from slurm_triage.service.ask import JobName
from slurm_triage.service.config import Settings
from slurm_triage.service.glance import glance
from slurm_triage.service.intake import Intake
from slurm_triage.service.ledger import FILE, load
from slurm_triage.service.listener import Listener
from slurm_triage.service.loop import Service
from slurm_triage.service.texts import Texts
from slurm_triage.transport.client import Client, Unreachable
from slurm_triage.transport.key import Key
from slurm_triage.transport.message import Message
from tests.bench.service import Model, Storm, StormAsker
from tests.service.site import Process, Site, free_port, peak_of
from tests.service.storm_jobs import job, recordings
from tests.spool import writers

JOBS = 10_000
SENDERS = 9_000
AT_ONCE = 50
"""Cases of one message, as the agent sends them."""
CLIENTS = 8
"""Senders that talk at the same moment."""
KEY = b"k" * 40
LONGEST = 1800.0
"""Seconds after which a measurement is given up."""


# ------------------------------------------------------------------------------------------------ the service


class _Ready(Storm):
    """A storm whose answers are made before they are asked for."""

    def prepare(self, count: int) -> None:
        self._made = [super(_Ready, self).job(number) for number in range(count)]

    def job(self, number: int) -> Model:
        return self._made[number]


class _Bench:
    """A service in this process, on a free port, over a storm."""

    def __init__(self, folder: Path, asker: StormAsker, workers: int, port: int) -> None:
        folder.mkdir()
        key = folder / "key"
        key.write_bytes(KEY)
        key.chmod(0o600)
        self.history, self.state = folder / "history.sqlite", folder
        self.service = Service(
            Settings(
                history=self.history, state=folder, workers=workers, listen=f"127.0.0.1:{port}", auth="key", key=key,
                check_addresses=False, slurm_user="root",
            ),
            Log(lambda line: None),
        )  # fmt: skip
        self.service.asker = asker
        self.service.open()
        self._thread = threading.Thread(target=self._rounds, daemon=True)
        self.rounds: list[float] = []

    def _rounds(self) -> None:
        # As `run` does between two sweeps.
        while not self.service.stop.is_set():
            began = time.monotonic()
            self.service._until(began + 60.0)

    def start(self) -> None:
        self._thread.start()

    def said(self) -> int:
        """How many jobs the ledger has a verdict of."""
        return len(load(self.state / FILE).said)

    def stop(self) -> None:
        self.service.end()
        self._thread.join(60)
        self.service.close()


class StormOfNodes(StormAsker):
    """The storm's asker, with a cluster that has a name."""

    def settings(self) -> Mapping[str, bytes]:
        return self.storm.settings

    def controller(self, jobs: Iterable[JobName]) -> dict[str, bytes]:
        return {}


# ------------------------------------------------------------------------------------------------ a storm of tickets


def _cases(asker: StormAsker, first: int, last: int) -> Iterator[tuple[dict[str, Any], dict[str, bytes]]]:
    """Head and files of each case that the nodes of some jobs send: the first node has all, the others a word."""
    for number in range(first, last):
        job = asker.storm.job(number)
        look = glance(asker.evidence_of(number)["sacct.psv"])
        if not look.attempts:
            continue
        attempt = look.attempts[-1]
        for index, node in enumerate(expand(attempt.nodes) or ()):
            files = dict(job.node) if not index else {f"env.epilog.{node}.txt": b"SLURM_JOB_ID=%s\0" % job.raw.encode()}
            yield _head(job.raw, node, attempt.start, attempt.uid, dict(job.manifest["boot_epoch"]), not index), files


def _head(
    job: str, node: str, start: float | None, uid: int | None, boot: Mapping[str, float], batch_host: bool
) -> dict[str, Any]:
    now = time.time()
    ended = now - 3.0  # an agent waits for late lines, and collects
    return {
        "job": job, "start": None if start is None else int(start), "node": node, "role": "node",
        "uid": 1001 if uid is None else uid, "array": None, "batch_host": batch_host, "ended": ended, "now": now,
        "manifest": {"boot_epoch": dict.fromkeys([node] if boot else [], next(iter(boot.values()), 0.0))}, "not_seen": [],
    }  # fmt: skip


def _messages(cases: Sequence[tuple[dict[str, Any], dict[str, bytes]]]) -> list[Message]:
    found = []
    for first in range(0, len(cases), AT_ONCE):
        some = cases[first : first + AT_ONCE]
        files = {f"{i}/{name}": data for i, (_, held) in enumerate(some) for name, data in held.items()}
        found.append(Message("evidence", {"now": time.time(), "cases": [head for head, _ in some]}, files))
    return found


def _send(port: int, messages: Sequence[Message]) -> int:
    """Sends them from a process of its own, several at a time, until all are taken; returns its pid."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:

        def send(message: Message) -> None:
            client = Client([f"127.0.0.1:{port}"], Key(KEY), [os.geteuid()])
            while True:
                try:
                    client.ask(message)
                    return
                except Unreachable:
                    time.sleep(0.2)

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(send, messages))
        status = 0
    finally:
        os._exit(status)


def bench_storm(work: Path, count: int) -> Iterator[str]:
    """Cases a second, from the first message of a node to the last verdict."""
    recorded = Storm.recorded()
    storm = _Ready(recorded.models, recorded.columns, recorded.tail, recorded.settings)
    storm.prepare(count)
    asker = StormOfNodes(storm)
    asker._learn()
    messages = _messages(list(_cases(asker, 0, count)))
    cases = sum(len(message.head["cases"]) for message in messages)
    size = sum(len(data) for message in messages for data in message.files.values()) / cases
    jobs = len({head["job"] for message in messages for head in message.head["cases"]})
    asker.calls.clear()
    port = free_port()
    sender = _send(port, messages)  # before there are threads
    one = _Bench(work / "storm", asker, 2, port)
    one.start()
    began = time.monotonic()
    taken = None
    intake = Intake(one.state)
    while time.monotonic() - began < LONGEST:
        if taken is None and os.waitpid(sender, os.WNOHANG)[0]:
            taken = time.monotonic() - began
        # Reading the ledger costs: only when nothing waits, which an SQLite index says.
        if taken is not None and not intake.waiting() and one.said() >= jobs:
            break
        time.sleep(0.1)
    spent, said = time.monotonic() - began, one.said()
    one.stop()
    sacct = asker.calls["sacct"]
    yield f"{cases} cases of {jobs} jobs, {size / 1024:.1f} KiB each, {AT_ONCE} in a message, {CLIENTS} senders at once"
    yield f"  taken in {taken or spent:.1f} s, {said} judged, recorded and published in {spent:.1f} s: {cases / spent:.0f} cases/s"
    yield f"  {sacct} calls of sacct: {200 * sacct / max(said, 1):.2f} for 200 jobs"


# ------------------------------------------------------------------------------------------------ a job of many nodes


def bench_wide(work: Path, count: int) -> Iterator[str]:
    """A job whose every node sends its evidence at the same moment, to a service of its own process."""
    if not count:
        return
    model = recordings().model("1041-exit9")
    end = time.time() - 20
    one = job(model, 7_000_000, end)
    place = {name: at for at, name in enumerate(one.accounted.columns)}
    rows = [
        [f"n[1-{count}]" if cell == "c2" and at == place["NodeList"] else cell for at, cell in enumerate(row)]
        for row in one.accounted.rows
    ]
    document = one.accounted.document.replace(b'"nodes": "c2"', b'"nodes": "n[1-%d]"' % count)
    folder = work / "wide"
    folder.mkdir()
    site = Site(folder, recordings(), workers=2)
    site.slurm.account([replace(one.accounted, rows=rows, document=document)])
    messages = []
    for number in range(1, count + 1):
        node = f"n{number}"
        files = {
            f"0/{'tasks' if paper.kind == 'tasks' else 'env.' + paper.kind}.{node}.txt": paper.data.replace(
                b"=c2", b"=" + node.encode()
            )
            for paper in one.records["c2"]
        }
        files[f"0/kmsg.{node}.txt"] = _KERNEL * 20
        head = _head(one.raw, node, one.starts[0], 1001, {}, number == 1)
        messages.append(Message("evidence", {"now": time.time(), "cases": [head]}, files))
    size = sum(len(data) for data in messages[0].files.values())
    sender = _send(site.port, messages)
    with Process(site) as service:
        began = time.monotonic()
        os.waitpid(sender, 0)
        taken = time.monotonic() - began
        while time.monotonic() - began < LONGEST and (
            Intake(site.state).waiting() or not any("verdict" in line for line in site.lines)
        ):
            time.sleep(0.2)
        spent = time.monotonic() - began
        peak, workers = service.peak(), service.peak_of_workers()
        verdict = next((line for line in site.lines if "verdict" in line), "no verdict")
        service.stop()
    yield f"a job of {count} nodes, {size / 1024:.1f} KiB from each, {CLIENTS} senders at once"
    yield f"  all taken in {taken:.1f} s, judged with all of it {spent - taken:.1f} s later: {verdict}"
    yield f"  most memory: service {peak / 1024:.0f} MiB, its processes {workers / 1024:.0f} MiB"


_KERNEL = b"[16400.123456] usb 1-1: new high-speed USB device number 4 using xhci_hcd\n"


# ------------------------------------------------------------------------------------------------ the agent


def bench_agent(work: Path) -> Iterator[str]:
    """What one activation costs a node: with no job, and with 1, 10 and 100 whose users wrote 4 MiB."""
    if os.geteuid() != 0:
        yield "the agent: not measured, only root reads users' output"
        return
    output = work / "output"
    output.mkdir()
    work.chmod(0o711)
    output.chmod(0o755)
    for count in (0, 1, 10, 100):
        yield _activation(work / f"agent{count}", output, count)


def _activation(folder: Path, output: Path, count: int) -> str:
    folder.mkdir(mode=0o700)
    spool = writers.make(folder / "spool")
    (folder / "key").write_bytes(KEY)
    (folder / "key").chmod(0o600)
    (folder / "service").mkdir()
    model = recordings().model("1016-oom_worker_survived")
    for number in range(count):
        one = job(model, 8_000_000 + number, time.time() - 5)
        file = output / f"{one.raw}.out"
        file.write_bytes(_OUTPUT)
        os.chown(file, 1001, 1001)
        for index, paper in enumerate(one.records["c1"]):
            data = re.sub(rb"STDOUT=[^\0]*", b"STDOUT=" + str(output).encode() + b"/%j.out", paper.data)
            writers.put(spool, f"{one.raw}.1001.{int(paper.at)}.{index + 1}.{paper.kind}", data, at=paper.at)
    texts, intake = Texts(folder / "service"), Intake(folder / "service")
    answering = Answering(Key(KEY), intake, texts, lambda *_: TAKEN, Log(lambda line: None))
    listener = Listener(("127.0.0.1", 0), answering)
    listener.start()
    config = folder / "agent.toml"
    config.write_text(
        f'servers = ["127.0.0.1:{listener.address[1]}"]\nauth = "key"\nkey = "{folder / "key"}"\n'
        f'spools = ["{spool}"]\nstate = "{folder / "state"}"\nlinger = 0\nsettle = 0\n'
    )
    (folder / "state").mkdir(mode=0o700)
    code = "import sys; from slurm_triage.node.cli import main; sys.exit(main())"  # as the agent's one file does it
    argv = [sys.executable, "-c", code, "run", "--config", str(config)]
    began, peak = time.monotonic(), 0
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    # What wait4(2) says of memory may be that of this process, which was its own for a moment.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        peak = max(peak, peak_of(process.pid))
        time.sleep(0.005)
    wall = time.monotonic() - began
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    listener.stop()
    cpu, of_each = used.ru_utime + used.ru_stime, max(count, 1)
    sent = intake.waiting()
    return (
        f"{count:4} jobs: {cpu:6.2f} CPU s ({cpu / of_each:.3f} a job), {wall:6.2f} s of time, "
        f"{peak / 1024:.0f} MiB at most, {sent} sent"
    )


_OUTPUT = b"".join(b"step %d: loss 0.12345 of all that was computed so far\n" % n for n in range(80_000))[: 4 << 20]


def bench_agents(work: Path, jobs: int = JOBS, senders: int = SENDERS) -> Iterator[str]:
    """All of it."""
    yield from bench_agent(work)
    yield from bench_storm(work, jobs)
    yield from bench_wide(work, senders)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: nodes and service alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agents", description="Time nodes and service.")
    parser.add_argument("--jobs", type=int, default=JOBS, help="bad jobs of the storm (default %(default)s)")
    parser.add_argument("--senders", type=int, default=SENDERS, help="nodes of the large job (default %(default)s)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="slurm-triage-bench.") as folder:
        for line in bench_agents(Path(folder), options.jobs, options.senders):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
