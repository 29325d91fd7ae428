"""Nothing lost, nothing doubled: whatever is killed, full, down, late or wrong while jobs end badly.

At the end each attempt of each bad job has one row with its cause in the history, each job that deserves a file has one
text there, the newest, and nothing lies in a spool, an outbox or an intake any more.

TRIAGE_KILLS=200 kills more often, TRIAGE_SEED=n at other moments.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from slurm_triage.node import agent as agents
from slurm_triage.service import loop
from slurm_triage.service.judge import Case, Cluster, Judged, judge
from slurm_triage.spool import Spool
from slurm_triage.transport.munge import Munge
from tests.service.nodes import Node, hasten, in_step
from tests.service.site import Process, Site
from tests.service.storm_jobs import ARRAY, Job, Model, Recordings, job, recordings, rewritten
from tests.spool import writers
from tests.transport.munged import running

KILLS = int(os.environ.get("TRIAGE_KILLS", "20"))
SEED = int(os.environ.get("TRIAGE_SEED", "1"))
JOBS, TASKS = 1000, 60
FIRST = 5_000_000
"""Raw id of the first job."""
ARRAY_ID = 4_000_000
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
NAMES = ("c1", "c2", "c3", "f1", "f2", "p1", "p3")


@pytest.fixture(scope="module")
def known() -> Recordings:
    return recordings()


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch.setattr)


def kinds(known: Recordings) -> list[tuple[Model, tuple[int, int] | None]]:
    """What the jobs of a storm are made of: all models in turn, and the tasks of an array among them."""
    singles = [(known.models[number % len(known.models)], None) for number in range(JOBS - TASKS)]
    tasks = [(known.model(ARRAY), (ARRAY_ID, number)) for number in range(TASKS)]
    return [*singles, *tasks]


def end_badly(
    site: Site, made: Sequence[tuple[Model, tuple[int, int] | None]], first: int, chance: random.Random
) -> list[Job]:
    """Jobs end: accounting knows it sooner than the node has its records, or later."""
    jobs = []
    for number, (model, array) in enumerate(made):
        one = job(model, first + number, time.time() - chance.uniform(1, 20), array)
        jobs.append(one)
        steps: list[Callable[[], None]] = [partial(site.leave, [one]), partial(site.slurm.account, [one.accounted])]
        for step in chance.sample(steps, 2):
            step()
    return jobs


@contextmanager
def living(nodes: Sequence[Node]) -> Iterator[list[BaseException]]:
    """The agents of these nodes at work, each in a thread; yields what they fail with."""
    stop, failed = threading.Event(), []

    def live(node: Node) -> None:
        try:
            one = node.agent()
            while not stop.is_set():
                one.round(0.5)
                stop.wait(0.05)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=live, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    try:
        yield failed
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# ------------------------------------------------------------------------------------------------ killed


def test_the_service_is_killed_again_and_again(tmp_path: Path, known: Recordings) -> None:
    chance = random.Random(SEED)
    site = Site(tmp_path, known, workers=2, names=NAMES)
    made = kinds(known)
    chance.shuffle(made)
    jobs: list[Job] = []
    with living(list(site.nodes.values())) as failed:
        for life in range(KILLS):
            site.configure(workers=chance.choice((0, 2)))
            with Process(site) as process:
                some = made[life * JOBS // KILLS : (life + 1) * JOBS // KILLS]
                jobs += end_badly(site, some, FIRST + len(jobs), chance)
                site.slurm.down(life == KILLS // 4)
                if life == KILLS // 2:
                    site.slurm.account(rewritten(one.accounted) for one in jobs if one.causes == ("cancelled_by_user",))
                process.wait_for(chance.randrange(1, max(2, JOBS // KILLS)), chance.uniform(0.3, 2.0))
                time.sleep(chance.uniform(0.0, 0.2))
                process.kill()
        with Process(site) as process:
            site.come_to_rest(jobs)
            site.hours_pass()
            wrong = site.come_to_rest(jobs)
            assert process.stop() == 0
    assert not wrong, f"seed {SEED}, {len(wrong)} things: {wrong[:20]}"
    assert not failed
    assert len(jobs) == JOBS


def each_kind(known: Recordings, tasks: int = 0) -> list[Job]:
    """One job of each model, and some tasks of an array, that all ended a moment ago."""
    models = [*((model, None) for model in known.models), *((known.model(ARRAY), (ARRAY_ID, n)) for n in range(tasks))]
    return [job(model, FIRST + n, time.time() - 20, array) for n, (model, array) in enumerate(models)]


def work_off(site: Site, jobs: Sequence[Job], patiently: bool = False) -> list[str]:
    """Agents and service do what there is to do, in turn; what is not as it has to be then.

    `patiently`: until it is as it has to be, for Slurm may need its time.
    """

    def turn() -> None:
        in_step(site.nodes.values())
        service.once()

    with site.service() as service:
        for _ in range(3):
            turn()
        site.hours_pass()
        time.sleep(0.6)  # agents ask about all targets then, not only about those that wait
        turn()
        return site.come_to_rest(jobs, turn) if patiently else site.wrong(jobs)


def test_who_was_killed_before_it_kept_what_it_said_says_the_same_again(tmp_path: Path, known: Recordings) -> None:
    site = Site(tmp_path, known, names=NAMES)
    jobs = each_kind(known, tasks=TASKS)
    site.slurm.account(one.accounted for one in jobs)
    site.leave(jobs)
    assert not work_off(site, jobs)
    before = [(row["job"], row["start"], row["state"], row["revision"]) for row in site.texts()]
    (site.state / "ledger.json").unlink()
    assert not work_off(site, jobs)
    assert [(row["job"], row["start"], row["state"], row["revision"]) for row in site.texts()] == before


def test_an_agent_is_killed_again_and_again(tmp_path: Path, known: Recordings) -> None:
    """It dies at any of the steps that others can see: before or after a file has its name, a question its answer."""
    chance = random.Random(SEED)
    site = Site(tmp_path, known, names=NAMES)
    jobs: list[Job] = []
    killed = 0
    with site.service() as service:
        while killed < KILLS:
            jobs.append(job(known.models[len(jobs) % len(known.models)], FIRST + len(jobs), time.time() - 20))
            site.slurm.account([jobs[-1].accounted])
            site.leave(jobs[-1:])
            for name in jobs[-1].records:
                killed += dies(site.nodes[name], chance.randrange(1, 30))
            if chance.random() < 0.2:
                service.once()
    assert not work_off(site, jobs)


def dies(node: Node, steps: int) -> bool:
    """Whether an agent that can do so many steps dies before it is ready."""
    child = os.fork()
    if child == 0:
        left = [steps]

        def mortal(what: Callable[..., object]) -> Callable[..., object]:
            def step(*words: object, **more: object) -> object:
                left[0] -= 1
                if left[0] <= 0:
                    os._exit(9)
                return what(*words, **more)

            return step

        try:
            one = node.agent()
            for name in ("rename", "unlink", "link", "fsync", "replace", "mkdir"):
                setattr(os, name, mortal(getattr(os, name)))
            one.exchange.client.ask = mortal(one.exchange.client.ask)  # type: ignore[method-assign,assignment]
            one.round(0.0)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


# ------------------------------------------------------------------------------------------------ full


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A disk of so many bytes at a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "small", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def filled(folder: Path) -> Path:
    """What takes all that is free."""
    file = folder / "ballast"
    with file.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
    return file


@as_root
@pytest.mark.parametrize("where", ["history", "service"])
def test_the_disk_of_the_service_is_full_for_a_while(tmp_path: Path, known: Recordings, where: str) -> None:
    site = Site(tmp_path, known, names=NAMES)
    jobs = each_kind(known)
    with small_disk(tmp_path / where, 4 << 20):
        with site.service() as service:
            service.once()  # the files are there, and grow
        ballast = filled(tmp_path / where)
        site.slurm.account(one.accounted for one in jobs)
        site.leave(jobs)
        with site.service() as service:
            in_step(site.nodes.values())
            assert not service.once()
            assert any("error sweep-failed" in line for line in site.lines)
            assert site.wrong(jobs)
        ballast.unlink()
        assert not work_off(site, jobs)


@as_root
def test_the_disk_of_a_spool_is_full_for_a_while(tmp_path: Path, known: Recordings) -> None:
    site = Site(tmp_path, known, names=NAMES)
    jobs = each_kind(known)
    site.slurm.account(one.accounted for one in jobs)
    site.leave(jobs)
    node = site.nodes["c1"]
    state = node.root / "state"
    with small_disk(state, 1 << 20):
        for folder in ("outbox", "targets"):
            (state / folder).mkdir(mode=0o700)
        ballast = filled(state)
        with site.service() as service:
            in_step(site.nodes.values())
            service.once()
        assert any("No space left" in line for line in node.lines)
        assert {path.rpartition("/")[0] for path in node.lying} == {str(node.spool / "new")}
        ballast.unlink()
        assert not work_off(site, jobs)


# ------------------------------------------------------------------------------------------------ down, late, wrong


def test_munge_is_down_for_a_while(tmp_path: Path, known: Recordings, monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as daemon:
        for module in (agents, loop):
            monkeypatch.setattr(module, "auth_of", lambda kind, key: Munge(daemon.socket))
        site = Site(tmp_path, known, names=NAMES)
        jobs = each_kind(known)
        site.slurm.account(one.accounted for one in jobs)
        site.leave(jobs)
        daemon.stop()
        with site.service() as service:
            in_step(site.nodes.values())
            service.once()
        for node in site.nodes.values():
            assert len(node.lying) > 0 or not any(node.name in one.records for one in jobs)
            assert not node.lines or any("unreachable" in line for line in node.lines)
        daemon.start()
        assert not work_off(site, jobs)


def test_slurmdbd_is_down_in_a_storm(tmp_path: Path, known: Recordings) -> None:
    site = Site(tmp_path, known, names=NAMES)
    jobs = each_kind(known, tasks=TASKS)
    site.slurm.account(one.accounted for one in jobs)
    site.leave(jobs)
    site.slurm.down()
    with site.service() as service:
        in_step(site.nodes.values())
        assert not service.once() and not service.once()
        assert any("Connection refused" in line for line in site.lines)
    assert not any(node.lying for node in site.nodes.values())  # evidence is taken all the same
    site.slurm.down(False)
    assert not work_off(site, jobs)


def test_accounting_forgets_who_cancelled(tmp_path: Path, known: Recordings) -> None:
    site = Site(tmp_path, known, names=NAMES)
    one = job(known.model("1049-scancel_owner"), FIRST, time.time() - 20)
    site.slurm.account([one.accounted])
    site.leave([one])
    assert not work_off(site, [one])
    before = site.rows()
    assert before[one.raw][0][1:] == ("cancelled_by_user", "confirmed")
    site.slurm.account([rewritten(one.accounted)])
    assert not work_off(site, [one])
    assert site.rows() == before


def test_a_node_is_lost_before_it_spoke(tmp_path: Path, known: Recordings) -> None:
    """Its job is judged when Slurm has had its time to end it, and what the node says later amends that."""
    site = Site(tmp_path, known, names=NAMES)
    ahead = [0.0]
    one = job(known.model("1014-oom_one_of_four"), FIRST, time.time() - 2)
    site.slurm.account([one.accounted])
    site.nodes["c2"].leave(one)
    with site.service(lambda: time.time() + ahead[0]) as service:
        in_step(site.nodes.values())
        service.once()
        assert not site.rows()
        ahead[0] = 30.0
        service.once()
        assert [cause for _, cause, _ in site.rows()[one.raw]] == ["memcg_oom"]
    site.nodes["c3"].leave(one)
    assert not work_off(site, [one], patiently=True)


@pytest.mark.parametrize("off", [-240.0, 240.0])
def test_a_nodes_clock_is_minutes_off(tmp_path: Path, known: Recordings, off: float) -> None:
    """Its kernel log lands where the service's clock has it."""
    site = Site(tmp_path, known, names=NAMES)
    right = job(known.model("1016-oom_worker_survived"), FIRST, time.time() - 20)
    wrong = job(known.model("1016-oom_worker_survived"), FIRST + 1, time.time() - 20)
    site.slurm.account([right.accounted, wrong.accounted])
    site.leave([right])
    with site.service():
        in_step(site.nodes.values())
    site.nodes["c1"].clock = lambda: time.time() + off
    site.leave([wrong])
    for path in (site.nodes["c1"].spool / "new").iterdir():
        os.utime(path, (path.stat().st_mtime + off, path.stat().st_mtime + off))
    assert not work_off(site, [right, wrong])
    with closing(sqlite3.connect(site.history)) as db:
        times = {raw: [at for (at,) in db.execute(_CITED, (raw,))] for raw in (right.raw, wrong.raw)}
    assert times[right.raw] and len(times[right.raw]) == len(times[wrong.raw])
    assert all(abs(a - b) < 2.0 for a, b in zip(times[right.raw], times[wrong.raw], strict=True))


_CITED = """
SELECT citation.at FROM citation JOIN attempt ON attempt.id = citation.attempt JOIN job ON job.id = attempt.job
WHERE job.job_id = ? AND citation.file LIKE 'kmsg%' AND citation.at IS NOT NULL ORDER BY citation.ordinal
"""


def test_a_poisoned_record_is_put_aside_and_no_other(tmp_path: Path, known: Recordings) -> None:
    site = Site(tmp_path, known, names=NAMES)
    jobs = each_kind(known)
    site.slurm.account(one.accounted for one in jobs)
    node = site.nodes["c1"]
    names = (f"{FIRST}.1001.1796051442.1.epilog", f"{FIRST}.1001.1796051442.2.epilog", "4711.epilog.sh")
    for name, data in zip(
        names, (b"SLURM_JOB_ID=1\0", b"SLURM_JOB_ID=%d\0\xff\xfe" % FIRST, b"#!/bin/sh\n"), strict=True
    ):
        writers.put(node.spool, name, data)
    site.leave(jobs)
    assert not work_off(site, jobs)
    assert node.refused() == sorted(names)
    with Spool(str(node.spool)) as spool:
        assert spool.state().refused == {"another job's id": 1, "no uid": 1, "wrong name": 1}


def test_poisoned_evidence_costs_its_job_and_no_other(
    tmp_path: Path, known: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(case: Case, cluster: Cluster) -> Judged:
        if any(b"POISON" in data for data in case.files.values()):
            raise RecursionError("maximum recursion depth exceeded")
        return judge(case, cluster)

    monkeypatch.setattr("slurm_triage.service.pool.judge", poisoned)
    site = Site(tmp_path, known, names=NAMES)
    jobs = each_kind(known)
    victim = next(one for one in jobs if "job.out" in one.files and "c1" in one.records)
    victim.files["job.out"] += b"POISON\n"
    site.slurm.account(one.accounted for one in jobs)
    site.leave(jobs)
    wrong = work_off(site, jobs)
    assert wrong and all(f"job {victim.raw}: " in sentence for sentence in wrong)
    assert f"job {victim.raw}: bad: RecursionError: maximum recursion depth exceeded" in wrong
    monkeypatch.undo()
    (site.state / "ledger.json").unlink()  # a service that can judge it, and is told to look again
    hasten(monkeypatch.setattr)
    assert not work_off(site, jobs)
