"""Rounds: nothing lost, nothing twice, one bad record stops no other, and later evidence amends."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.history.database import HistoryError
from slurm_triage.history.good_runs import GoodRun
from slurm_triage.history.store import Detail, History
from slurm_triage.log import Log
from slurm_triage.service import ask, judge, pool
from slurm_triage.service import sweep as sweeping
from slurm_triage.service.ask import Ended, JobName
from slurm_triage.service.config import Settings
from slurm_triage.service.ledger import Ledger, Waiting
from slurm_triage.service.patience import MARGIN
from slurm_triage.service.pool import Pool
from slurm_triage.service.round import UNSEEN, Means, Swept
from slurm_triage.service.sweep import Sweeper, SweepError
from tests.service.jobs import FakeAsker, cause_of, end_of, recorded

JOBS = recorded()
LAST = max(map(end_of, JOBS.values()))


class Site:
    """A sweeper with its ledger, history and log."""

    def __init__(self, root: Path, **settings: object) -> None:
        self.settings = replace(Settings(), history=root / "h.sqlite", state=root, **settings)  # type: ignore[arg-type]
        self.asker = FakeAsker(JOBS)
        self.lines: list[str] = []
        self.sweeper = Sweeper(Means(self.settings, self.asker, Pool(0), Log(self.lines.append)))
        self.ledger = Ledger()

    def sweep(self, now: float) -> Swept:
        return self.sweeper.sweep(self.ledger, now)

    def rows(self) -> dict[str, list[str]]:
        """Causes in the history by raw id, in the order of the attempts."""
        found: dict[str, list[str]] = {}
        query = "SELECT job.job_id, attempt.cause FROM attempt JOIN job ON job.id = attempt.job ORDER BY attempt.id"
        with sqlite3.connect(self.settings.history) as db:
            for job, cause in db.execute(query):
                found.setdefault(str(job), []).append(cause)
        return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("TZ", "UTC")
    return Site(tmp_path)


def test_a_sweep_records_what_ended_badly(site: Site) -> None:
    found = site.sweep(LAST + 60)
    causes = cause_of()
    bad = {job for job, cause in causes.items() if cause != "no_failure"}
    assert set(site.rows()) == bad and found.recorded == len(bad) and found.waiting == 0 and found.bad == 0
    hits = [job for job in bad if causes[job] in site.rows()[job]]
    assert len(hits) >= len(bad) - 3  # without the job's output and the kernel log not every cause can be seen
    assert site.ledger.swept == LAST + 60


def test_what_ended_well_is_counted_once(site: Site) -> None:
    run = GoodRun("mini", "77", "user1", "train-3", "main", LAST - 50.0, LAST, "c[1-2]")
    site.asker.good = [run, replace(run, job="78", name="train-4", nodes="c1")]
    for minute in (1, 2, 3):
        site.sweep(LAST + 60 * minute)
    with sqlite3.connect(site.settings.history) as db:
        assert db.execute("SELECT job_id, n_nodes, nodes FROM good_run ORDER BY job_id").fetchall() == [
            ("77", 2, "c[1-2]"), ("78", 1, "c1"),
        ]  # fmt: skip
        counted = (
            "SELECT node, program, size, runs FROM good_day JOIN workload w ON w.id = workload ORDER BY size, node"
        )
        assert db.execute(counted).fetchall() == [
            ("c1", "train-#", 1, 1), ("c1", "train-#", 2, 1), ("c2", "train-#", 2, 1),
        ]  # fmt: skip


def test_a_site_may_not_want_that(tmp_path: Path) -> None:
    site = Site(tmp_path, good_runs=False)
    site.asker.good = [GoodRun("mini", "77", "user1", "train-3", "main", LAST - 50.0, LAST, "c[1-2]")]
    site.sweep(LAST + 60)
    with sqlite3.connect(site.settings.history) as db:
        assert db.execute("SELECT count(*) FROM good_run").fetchone() == (0,)


def test_a_second_sweep_asks_and_says_nothing_new(site: Site) -> None:
    site.sweep(LAST + 60)
    said = len(site.lines)
    found = site.sweep(LAST + 180)
    assert (found.recorded, found.amended) == (0, 0) and len(site.lines) == said


def test_what_is_not_final_waits_and_is_not_lost(site: Site) -> None:
    job = next(job for job, cause in cause_of().items() if cause == "memcg_oom")
    site.asker.jobs = {job: JOBS[job]}
    end = end_of(JOBS[job])
    found = site.sweep(end + 1)
    assert job in site.ledger.waiting and not site.rows() and found.waiting == 1
    site.asker.ended = lambda since, until: Ended([], [])  # type: ignore[method-assign]
    site.sweep(end + 2)
    assert job in site.ledger.waiting
    site.sweep(end + 6 + MARGIN)
    assert job in site.rows() and not site.ledger.waiting


def test_what_never_becomes_final_is_judged_in_the_end(site: Site) -> None:
    job = next(iter(JOBS))
    table = JOBS[job]["sacct.psv"]
    at = table.split(b"\n")[0].split(b"|").index(b"End")
    lines = [line.split(b"|") for line in table.splitlines()]
    open_ = b"".join(
        b"|".join([*w[:at], b"Unknown" if i == len(lines) - 1 else w[at], *w[at + 1 :]]) + b"\n"
        for i, w in enumerate(lines)
    )
    site.asker.jobs = {job: {"sacct.psv": open_}}
    site.asker.ended = lambda since, until: Ended([JobName(job, job)], [])  # type: ignore[method-assign]
    for minute in range(1, 4):
        site.sweep(LAST + 60 * minute)
        assert (job in site.ledger.waiting and not site.settings.history.exists()) or job not in site.rows()
    site.sweep(LAST + 600)
    assert job not in site.ledger.waiting


@pytest.mark.parametrize("where", ["ended", "evidence"])
def test_slurmdbd_down_loses_nothing(site: Site, where: str) -> None:
    site.sweep(LAST - 100000)
    site.asker.down = where
    for hour in (1, 2):
        with pytest.raises(SweepError, match="slurmdbd does not answer"):
            site.sweep(LAST + 3600 * hour)
    assert site.ledger.swept is not None and site.ledger.swept <= min(map(end_of, JOBS.values()))
    site.asker.down = ""
    site.sweep(LAST + 3 * 3600)  # much later: the window reaches back to the last sweep
    assert len(site.rows()) == sum(cause != "no_failure" for cause in cause_of().values())


def test_killed_between_history_and_ledger_does_it_again_and_nothing_twice(site: Site) -> None:
    site.sweep(LAST + 60)
    rows = site.rows()
    site.ledger = Ledger()  # as it was on disk
    site.sweep(LAST + 61)
    assert site.rows() == rows


@pytest.mark.parametrize("number", [0, 3, 9])
def test_a_history_that_fails_in_the_middle(site: Site, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [number]

    real = History.record

    def fail(history: History, document: dict[str, object], detail: Detail) -> int:
        if left[0] == 0:
            raise HistoryError("disk full") from sqlite3.OperationalError("database or disk is full")
        left[0] -= 1
        return real(history, document, detail)

    monkeypatch.setattr(History, "record", fail)
    with pytest.raises(SweepError, match="disk full"):
        site.sweep(LAST + 60)
    monkeypatch.setattr(History, "record", real)
    site.ledger = Ledger()
    site.sweep(LAST + 120)
    assert len(site.rows()) == sum(cause != "no_failure" for cause in cause_of().values())


def test_one_bad_record_stops_no_other_and_is_tried_again_when_it_changes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = judge.judge
    victim = next(job for job, cause in cause_of().items() if cause != "no_failure")

    def evil(evidence: judge.Case, cluster: judge.Cluster) -> judge.Judged:
        if evidence.name == victim:
            raise RecursionError("evil\nrecord")
        return real(evidence, cluster)

    monkeypatch.setattr(pool, "judge", evil)
    assert site.sweep(LAST + 60).bad == 1
    assert victim not in site.rows() and len(site.rows()) > 5
    assert site.ledger.bad[victim].startswith("RecursionError")
    assert [line for line in site.lines if line.startswith("error bad ") and "\n" not in line]
    assert site.sweep(LAST + 180).bad == 0  # the same evidence is not tried again
    monkeypatch.setattr(pool, "judge", real)
    site.asker.jobs[victim]["sacct.psv"] += b"\n"
    site.sweep(LAST + 240)
    assert victim in site.rows() and not site.ledger.bad


def test_a_job_that_cannot_be_recorded_is_bad_and_stops_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = next(job for job, cause in cause_of().items() if cause != "no_failure")

    real = History.record

    def refuse(history: History, document: dict[str, Any], detail: Detail) -> int:
        if document["job"]["job_id"] == victim:
            raise HistoryError("constraint failed") from sqlite3.IntegrityError("constraint failed")
        return real(history, document, detail)

    monkeypatch.setattr(History, "record", refuse)
    assert site.sweep(LAST + 60).bad == 1
    assert site.ledger.bad[victim].endswith("constraint failed") and len(site.rows()) > 5


def test_a_job_that_accounting_lists_and_does_not_show_waits_and_is_said(site: Site) -> None:
    victim = next(job for job, cause in cause_of().items() if cause != "no_failure")
    site.asker.hidden = {victim}
    site.sweep(LAST + 60)
    assert victim in site.ledger.waiting
    site.asker.hidden = set()
    site.sweep(LAST + 120)
    assert victim in site.rows() and not site.ledger.waiting
    site.asker.hidden = {victim}
    site.ledger.waiting[victim] = Waiting(victim, LAST)
    site.sweep(LAST + 7200)
    assert site.ledger.bad[victim] == UNSEEN


def poorer(table: bytes) -> bytes:
    """What a restart of slurmctld makes of a cancelled job: who did it is lost (docs/explanation/what-slurm-tells.md)."""
    return table.replace(b"CANCELLED by 1001", b"CANCELLED")


def test_less_than_was_known_before_amends_nothing(site: Site) -> None:
    job = next(job for job, cause in cause_of().items() if cause == "cancelled_by_user")
    site.sweep(LAST + 60)
    rows = site.rows()
    assert site.ledger.said[job].strength == "confirmed"
    site.asker.jobs[job] = {"sacct.psv": poorer(site.asker.jobs[job]["sacct.psv"])}
    site.sweep(LAST + 120)
    assert site.ledger.said[job].strength == "confirmed" and site.rows() == rows
    assert not any(line.startswith("info amended ") for line in site.lines)


def test_accounting_that_tells_more_amends_the_same_row(site: Site) -> None:
    job = next(job for job, cause in cause_of().items() if cause == "cancelled_by_user")
    whole = dict(site.asker.jobs[job])
    site.asker.jobs[job] = {"sacct.psv": poorer(whole["sacct.psv"])}
    site.sweep(LAST + 60)
    rows, before = site.rows(), site.ledger.said[job].strength
    site.asker.jobs[job] = whole
    found = site.sweep(LAST + 120)
    after = site.ledger.said[job]
    assert len(site.rows()[job]) == len(rows[job]) and (before, after.strength) == ("likely", "confirmed")
    assert found.amended == 1 and after.revision == 1 and any(line.startswith("info amended ") for line in site.lines)


def test_the_owners_own_scancel_can_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    site = Site(tmp_path, own_scancel=False)
    site.sweep(LAST + 60)
    own = {job for job, cause in cause_of().items() if cause == "cancelled_by_user"}
    assert own and not own & set(site.rows())


def test_what_comes_into_accounting_long_after_its_end(site: Site) -> None:
    """slurmctld keeps records while slurmdbd is down, and hands them on when it is back: hours after the sweep."""
    late = next(job for job, cause in cause_of().items() if cause == "memcg_oom")
    held = site.asker.jobs.pop(late)
    for minute in range(1, 300, 2):
        site.sweep(LAST + 60 * minute)
    site.asker.jobs[late] = held
    before = len(site.rows())
    for minute in range(301, 365, 2):
        site.sweep(LAST + 60 * minute)
    assert late in site.rows() and len(site.rows()) == before + 1


def test_the_first_sweep_goes_no_further_back_than_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    site = Site(tmp_path, lookback=100.0)
    for minute in range(10, 200, 30):
        site.sweep(LAST + 60 * minute)
    assert not site.ledger.said


def test_a_clock_that_is_set_back(site: Site) -> None:
    site.sweep(LAST + 7200)
    site.sweep(LAST + 60)
    rows = site.rows()
    assert len(rows) > 5 and any(line.startswith("error clock ") for line in site.lines)
    site.sweep(LAST + 180)
    assert site.rows() == rows


def test_many_jobs_are_done_in_parts_and_each_part_is_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "AT_ONCE", 4)
    kept: list[int] = []
    site.sweeper.sweep(site.ledger, LAST + 60, lambda: kept.append(len(site.ledger.said)))
    assert max(map(len, site.asker.asked)) == 4 and kept == sorted(kept) and len(set(kept)) > 2


def test_a_long_outage_is_swept_in_slices() -> None:
    pieces = list(sweeping.slices(0, 10_000))
    assert pieces[0][0] == 0 and pieces[-1][1] == 10_000 and all(e - b <= sweeping.SLICE for b, e in pieces)
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    assert list(sweeping.slices(5, 5)) == []


def test_the_ledger_does_not_grow_for_ever(site: Site) -> None:
    site.sweep(LAST + 60)
    assert site.ledger.said
    site.ledger.bad = {str(number): "x" for number in range(1500)}
    site.sweep(LAST + 60 + 86400 * 4)
    assert not site.ledger.said and len(site.ledger.bad) == 1000
