"""Who gets a file, what it says when somebody corrects it, and the one for the many tasks of an array."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_triage.history import queries
from slurm_triage.history.corrections import correct, undo
from slurm_triage.history.database import writing
from slurm_triage.history.store import History
from slurm_triage.log import Log
from slurm_triage.nodeset import expand
from slurm_triage.report.array import Task, array_text
from slurm_triage.service.ask import JobName
from slurm_triage.service.config import ConfigError, Settings, read
from slurm_triage.service.glance import glance
from slurm_triage.service.intake import Intake
from slurm_triage.service.ledger import Ledger
from slurm_triage.service.policy import why_no_file
from slurm_triage.service.pool import AttemptText, Pool
from slurm_triage.service.publish import Publisher
from slurm_triage.service.round import Means
from slurm_triage.service.sweep import Sweeper
from slurm_triage.service.texts import Asked, Texts
from tests.service.jobs import FakeAsker, cause_of, end_of, recorded
from tests.service.test_intake import told

JOBS = recorded()
LAST = max(map(end_of, JOBS.values()))
OOM = next(job for job, cause in cause_of().items() if cause == "memcg_oom")


class Site:
    """A sweeper with agents: what it would tell them is in `texts`."""

    def __init__(self, root: Path, jobs: Iterable[str] = JOBS, **settings: object) -> None:
        self.settings = replace(Settings(), history=root / "h.sqlite", state=root, **settings)  # type: ignore[arg-type]
        self.asker = FakeAsker({job: JOBS[job] for job in jobs})
        self.intake, self.texts = Intake(root), Texts(root)
        self.said: list[str] = []
        publisher = Publisher(self.settings, self.texts, self.said.extend)
        means = Means(self.settings, self.asker, Pool(0), Log(lambda line: None), self.intake, publisher)
        self.sweeper, self.ledger = Sweeper(means), Ledger()

    def text(self, job: str, revision: int = 0, now: float = LAST + 100) -> dict[str, object] | None:
        """What the batch host of a job gets."""
        glance = self.nodes_of(job)
        items = self.texts.answer([Asked(job, None, LAST + 50, glance, True, revision)], now)
        return items[0] if items else None

    def nodes_of(self, job: str) -> str:
        return nodes(job)[0]


def nodes(job: str) -> tuple[str, ...]:
    """The nodes of a job."""
    return tuple(expand(glance(JOBS[job]["sacct.psv"]).attempts[-1].nodes) or ())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("TZ", "UTC")
    return Site(tmp_path)


def test_who_gets_a_file(site: Site) -> None:
    site.sweeper.sweep(site.ledger, LAST + 60)
    assert set(site.said) == set(JOBS)
    for job, cause in cause_of().items():
        item = site.text(job)
        if cause in ("no_failure", "cancelled_by_user"):
            assert item is None or item["state"] == "none"
        elif item is not None and item["state"] == "text":
            section = item["section"]
            assert isinstance(section, dict) and section["text"].startswith("VERDICT ")
            assert item["name"] == f"{section['job_name']}.diagnosis.txt"
    assert site.texts.counts(LAST)["waiting"] > 5


def test_a_prompt_round_is_about_what_nodes_told_and_waits_for_the_others(site: Site) -> None:
    site.asker.jobs = {OOM: JOBS[OOM]}
    end = end_of(JOBS[OOM])
    assert site.sweeper.prompt(site.ledger, end + 10) is None
    first, *others = nodes(OOM)
    site.intake.put([told(OOM, start=None, node=first, ended=end)], end + 1)
    assert site.sweeper.prompt(site.ledger, end + 1) is None  # somebody may still be speaking
    found = site.sweeper.prompt(site.ledger, end + 2.5)
    assert found is not None and found.recorded == 0 and site.sweeper.told_something()
    found = site.sweeper.prompt(site.ledger, end + 6)
    assert found is not None and found.recorded == 0  # the other node has not spoken
    site.intake.put([told(OOM, start=None, node=node, ended=end) for node in others], end + 7)
    found = site.sweeper.prompt(site.ledger, end + 9)
    assert found is not None and found.recorded == 1 and not site.sweeper.told_something()
    assert site.said == [OOM] and site.sweeper.prompt(site.ledger, end + 60) is None


def test_late_evidence_is_looked_at_again_and_the_same_verdict_is_no_revision(site: Site) -> None:
    site.sweeper.sweep(site.ledger, LAST + 60)
    first = site.text(OOM)
    assert first is not None and first["revision"] == 1
    late = told(OOM, start=None, node=site.nodes_of(OOM), ended=end_of(JOBS[OOM]), files={"slurmd.c1.log": b"x\n"})
    site.intake.put([late], LAST + 61)
    site.sweeper.prompt(site.ledger, LAST + 70)
    again = site.text(OOM, now=LAST + 300)
    assert again is not None and again["revision"] == 1 and site.texts.counts(LAST)["waiting"] > 5


def test_a_job_that_accounting_does_not_show_is_asked_about_ever_less_often(site: Site) -> None:
    site.intake.put([told("999999")], LAST)
    for second in range(200):
        site.sweeper.prompt(site.ledger, LAST + second)
    assert 4 < len(site.asker.asked) < 12


def test_a_node_that_did_not_have_the_job_changes_nothing(site: Site) -> None:
    site.sweeper.sweep(site.ledger, LAST + 60)
    before = site.ledger.said[OOM]
    site.intake.put(
        [told(OOM, start=None, node="evil", ended=end_of(JOBS[OOM]), files={"kmsg.evil.txt": b"x\n"})], LAST
    )
    site.sweeper.prompt(site.ledger, LAST + 70)
    assert site.ledger.said[OOM] == before and not site.sweeper.told_something()


def test_observing_writes_no_file_and_records_all(tmp_path: Path) -> None:
    site = Site(tmp_path, files=False)
    site.sweeper.sweep(site.ledger, LAST + 60)
    assert len(site.ledger.said) == len(JOBS) and site.texts.counts(LAST)["waiting"] == 0
    item = site.text(OOM)
    assert item is not None and item["state"] == "none" and "files = false" in str(item["why"])


def _row(history: History) -> sqlite3.Row:
    filters = queries.Filters()
    filters.job(OOM)
    (row,) = queries.by_job(history.db, filters, None)
    return row


def test_a_correction_reaches_the_user_and_stays(site: Site) -> None:
    site.sweeper.sweep(site.ledger, LAST + 60)
    with History.open(site.settings.history) as history, writing(history.db):
        row = _row(history)
        correct(history.db, row, "mem_leak_growth", None, "it is the leak", "admin")
    site.sweeper.sweep(site.ledger, LAST + 120)
    item = site.text(OOM, revision=1)
    assert item is not None and item["revision"] == 2
    section = item["section"]
    assert (
        isinstance(section, dict) and section["text"].startswith("CORRECTED by admin") and "VERDICT" in section["text"]
    )
    site.ledger.said.clear()  # judged again, as after a loss of the ledger
    site.sweeper.sweep(site.ledger, LAST + 180)
    again = site.text(OOM, now=LAST + 400)
    assert again is not None and again["revision"] == 2
    with History.open(site.settings.history) as history, writing(history.db):
        row = _row(history)
        undo(history.db, row, "I was wrong", "admin")
    site.sweeper.sweep(site.ledger, LAST + 240)
    back = site.text(OOM, revision=2, now=LAST + 600)
    assert back is not None and back["revision"] == 3
    section = back["section"]
    assert isinstance(section, dict) and section["text"].startswith("VERDICT")


def _attempt(cause: str, bad: bool, **more: Any) -> AttemptText:
    return AttemptText(cause, "confirmed", "user", bad, {}, **more)


@pytest.mark.parametrize(
    ("attempt", "settings", "why"),
    [
        (_attempt("memcg_oom", True), {}, ""),
        (_attempt("no_failure", False), {}, "nothing went wrong"),
        (_attempt("cancelled_by_user", True, own_scancel=True), {}, "its owner cancelled it"),
        (_attempt("cancelled_by_user", True, own_scancel=True), {"file_own_scancel": True}, ""),
        (_attempt("app_error", True, interactive=True), {}, "no batch script"),
        (_attempt("app_error", True, interactive=True), {"file_interactive": True}, ""),
        (_attempt("app_error", True), {"no_file_causes": ("app_error",)}, "none of app_error"),
        (_attempt("app_error", True, user="ada"), {"no_file_users": ("ada",)}, "user ada"),
        (_attempt("app_error", True, user=""), {"no_file_users": ("",)}, ""),
        (_attempt("app_error", True, comment="run 7 slurm-triage=off"), {}, "slurm-triage=off"),
        (_attempt("app_error", True, comment="xslurm-triage=offx"), {}, ""),
        (_attempt("app_error", True, comment="slurm-triage=off"), {"opt_out": ""}, ""),
        (_attempt("app_error", True), {"files": False}, "files = false"),
    ],
)
def test_the_policy(attempt: AttemptText, settings: dict[str, object], why: str) -> None:
    said = why_no_file(attempt, replace(Settings(), **settings))  # type: ignore[arg-type]
    assert (why in said) if why else said == ""


def test_the_text_of_an_array_counts_and_folds() -> None:
    tasks = [
        Task(str(n), "app_segfault", "confirmed", "user", ("c1",), "died\n\x1b[31m at 0x0 " + "x" * 300)
        for n in range(40)
    ]
    tasks += [Task(str(n), "memcg_oom", "likely", "user", ("c2",)) for n in (50, 52)]
    text = array_text("77", tasks)
    verdict = "VERDICT 42 tasks of array 77 failed, 40: app_segfault (confirmed), owner: user"
    assert " ".join(text.split()).startswith(verdict)
    assert "tasks 0-39" in text and "tasks 50,52" in text and "on c2" in text and "sdiag-history show 77_0" in text
    assert all(len(line) < 80 and line.isprintable() for line in text.splitlines())
    assert "All of them ran on" not in text and "All of them ran on c1." in array_text("77", tasks[:40])


def test_settings_for_agents() -> None:
    found = read({"service": {"listen": ":7000", "no_file_users": ["ada"], "workers": 4}}, "x")
    assert found.listen == ":7000" and found.no_file_users == ("ada",) and found.workers == 4
    for key, value, why in (
        ("listen", "ctl:x", "HOST"), ("auth", "none", "one of munge, key"), ("no_file_causes", ["memcg_omo"], "did you mean memcg_oom"),
        ("no_file_users", "ada", "list of strings"), ("workers", 900, "a number from 0 to 64"), ("opt_out", 1, "a string"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=why):
            read({"service": {key: value}}, "x")


def test_shown_ids_are_what_slurm_is_asked_with(site: Site) -> None:
    site.intake.put([told("1234", array=("1200", "7"))], LAST)
    site.sweeper.prompt(site.ledger, LAST + 5)
    assert site.asker.asked == [[JobName("1234", "1200_7")]]
