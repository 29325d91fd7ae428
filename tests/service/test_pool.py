"""Processes that judge: the same answers as in this process, and what dies over a case costs that case only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_triage.service import pool as pools
from slurm_triage.service.judge import Case
from slurm_triage.service.pool import Failed, Judged, Pool, PoolError
from tests.service.jobs import VERSION, FakeAsker, recorded

JOBS = recorded()
SETTINGS = FakeAsker(JOBS).settings()
EVIL = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from slurm_triage.service import pool
honest = pool.judge
def judge(case, cluster):
    if case.name.startswith("kill"):
        os.kill(os.getpid(), 9)
    if case.name.startswith("exit"):
        os._exit(3)
    if case.name.startswith("hang"):
        time.sleep(1000)
    if case.name.startswith("memory"):
        bytearray(1 << 40)
    if case.name.startswith("deep"):
        return judge(case, cluster)
    return honest(case, cluster)
pool.judge = judge
pool.work(int(sys.argv[2]))
"""


def cases(*names: str) -> list[Case]:
    """The recorded jobs, and before each of the first ones a case of these names."""
    found = [Case(raw, files, {}) for raw, files in JOBS.items()]
    for at, name in enumerate(names):
        found.insert(2 * at, Case(name, found[0].files, {}))
    return found


def judged(pool: Pool, some: list[Case]) -> dict[str, Judged | Failed]:
    found = list(pool.judge(some, SETTINGS, VERSION))
    assert len(found) == len(some)
    return dict(found)


def alive(pid: int) -> bool:
    """Whether the process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def here() -> dict[str, Judged | Failed]:
    return judged(Pool(0), cases())


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(2, seconds=20) as made:
        yield made


def test_processes_find_what_this_one_finds(pool: Pool, here: dict[str, Judged | Failed]) -> None:
    assert judged(pool, cases()) == here
    assert not any(isinstance(one, Failed) for one in here.values())
    assert len({worker.process.pid for worker in pool._workers}) == 2
    first = [worker.process.pid for worker in pool._workers]
    assert judged(pool, cases()) == here  # by the same processes
    assert [worker.process.pid for worker in pool._workers] == first


@pytest.mark.parametrize("workers", [0, 1])
def test_less_than_two_are_none(workers: int) -> None:
    with Pool(workers) as pool:
        judged(pool, cases()[:1])
        assert not pool._workers


def test_nothing_starts_for_nothing(pool: Pool) -> None:
    assert list(pool.judge([], SETTINGS, VERSION)) == [] and not pool._workers
    judged(pool, cases()[:1])
    assert len(pool._workers) == 1
    judged(pool, cases())
    assert len(pool._workers) == 2  # also if the first one was quicker than the second could start
    pids = [worker.process.pid for worker in pool._workers]
    for _ in range(3):
        judged(pool, cases()[:2])
    assert [worker.process.pid for worker in pool._workers] == pids


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kill", "judging it ended the process 2 times"),
        ("exit", "judging it ended the process 2 times"),
        ("memory", "MemoryError"),
        ("deep", "RecursionError"),
    ],
)
def test_what_dies_over_a_case_costs_that_case(
    pool: Pool, here: dict[str, Judged | Failed], name: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_CODE", EVIL)
    found = judged(pool, cases(name, f"{name}2"))
    for bad in (found.pop(name), found.pop(f"{name}2")):
        assert isinstance(bad, Failed) and why in bad.why
    assert found == here


def test_what_hangs_is_ended(here: dict[str, Judged | Failed], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_CODE", EVIL)
    with Pool(2, seconds=3) as pool:
        found = judged(pool, cases("hang"))
    assert found.pop("hang") == Failed("judging it took more than 3 seconds 2 times")
    assert found == here


def test_only_bad_cases_leave_a_pool_that_works(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pools, "_CODE", EVIL)
        found = judged(pool, [Case(f"kill{n}", {}, {}) for n in range(3)])
    assert all(isinstance(one, Failed) for one in found.values())
    assert not any(isinstance(one, Failed) for one in judged(pool, cases()[:3]).values())


def test_no_process_is_left_and_none_is_a_zombie(pool: Pool) -> None:
    judged(pool, cases())
    processes = [worker.process for worker in pool._workers]
    pool.close()
    assert all(process.returncode in (0, -signal.SIGKILL) for process in processes) and len(processes) == 2
    assert not any(alive(process.pid) for process in processes)


def test_signals_of_the_service_do_not_end_its_processes(pool: Pool, here: dict[str, Judged | Failed]) -> None:
    answers = pool.judge(cases(), SETTINGS, VERSION)
    found = dict([next(answers)])
    for worker in pool._workers:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(worker.process.pid, number)
    pids = [worker.process.pid for worker in pool._workers]
    found.update(answers)
    assert found == here and [worker.process.pid for worker in pool._workers] == pids


def test_they_leave_when_the_service_is_gone(tmp_path: Path) -> None:
    program = (
        "import os, sys; from tests.service.test_pool import *; pool = Pool(2); judged(pool, cases())\n"
        "print(*(worker.process.pid for worker in pool._workers), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, timeout=60)
    pids = [int(word) for word in done.stdout.split()]
    assert done.returncode == -signal.SIGKILL and len(pids) == 2
    end = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(alive, pids))


def test_answers_that_nobody_waits_for_are_of_no_later_case(pool: Pool, here: dict[str, Judged | Failed]) -> None:
    given_up = pool.judge(cases(), SETTINGS, VERSION)
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]
    assert judged(pool, cases()) == here


def test_other_settings_are_used_at_once(pool: Pool) -> None:
    def cluster(settings: dict[str, bytes]) -> set[str]:
        found = dict(pool.judge(cases(), settings, VERSION))
        return {a.section["cluster"] for one in found.values() if isinstance(one, Judged) for a in one.attempts}

    assert cluster({"scontrol-config.txt": b"ClusterName = one\n"}) == {"one"}
    assert cluster({"scontrol-config.txt": b"ClusterName = two\n"}) == {"two"}


def test_without_a_process_there_is_an_error(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pools, "_CODE", "raise SystemExit(1)")
        with pytest.raises(PoolError, match="ended before they could judge"):
            judged(pool, cases())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nonexistent/python")
        with pytest.raises(PoolError, match="No such file"):
            judged(pool, cases())
    assert len(judged(pool, cases())) == len(JOBS)  # later it can be done


def test_a_large_case_is_handed_over_alone(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "BYTES_AHEAD", 1)
    assert len(judged(pool, cases())) == len(JOBS)
    big = Case("big", {**cases()[0].files, "kmsg.c1.txt": b"6,1,1,-;x\n" * 600_000}, {})
    assert isinstance(judged(pool, [big, *cases()])["big"], Judged)
