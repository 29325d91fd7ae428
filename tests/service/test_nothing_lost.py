"""Nothing lost, nothing doubled: whatever is killed, full, down, late or wrong while jobs end badly.

At the end each attempt of each bad job has one row with its cause in the history, each job that deserves a file has one
text there, the newest, and nothing lies in a spool, an outbox or an intake any more.

TRIAGE_KILLS=200 kills more often, TRIAGE_SEED=n at other moments.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service.nodes import Node, hasten
from tests.service.site import Process, Site
from tests.service.storm_jobs import ARRAY, Job, Model, Recordings, job, recordings, rewritten

KILLS = int(os.environ.get("TRIAGE_KILLS", "20"))
SEED = int(os.environ.get("TRIAGE_SEED", "1"))
JOBS, TASKS = 1000, 60
FIRST = 5_000_000
"""Raw id of the first job."""
ARRAY_ID = 4_000_000
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
        steps = [lambda one=one: site.leave([one]), lambda one=one: site.slurm.account([one.accounted])]
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
                process.wait_for(chance.randrange(1, JOBS // KILLS), chance.uniform(1.0, 3.0))
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
