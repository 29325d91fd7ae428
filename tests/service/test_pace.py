"""How soon what nodes told is looked at, and in what pieces a storm is worked off."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.log import Log
from slurm_triage.service import ask
from slurm_triage.service import round as rounds
from slurm_triage.service.config import Settings
from slurm_triage.service.intake import Intake
from slurm_triage.service.ledger import Ledger
from slurm_triage.service.pool import Pool
from slurm_triage.service.round import Means
from slurm_triage.service.sweep import RETRY, Stopped, Sweeper
from tests.service.jobs import FakeAsker, end_of, recorded
from tests.service.test_intake import told

JOBS = recorded()
NOW = 1000.0


def sweeper(root: Path, intake: Intake | None, asker: FakeAsker) -> Sweeper:
    settings = Settings(history=root / "h.sqlite", state=root)
    return Sweeper(Means(settings, asker, Pool(0), Log(lambda line: None), intake))


def test_a_round_comes_early_only_for_a_whole_call_of_new_jobs(tmp_path: Path) -> None:
    intake = Intake(tmp_path)
    one = sweeper(tmp_path, intake, FakeAsker({}))
    assert not one.worth_a_round(NOW + 10)
    intake.put([told(str(number)) for number in range(1, ask.AT_ONCE)], NOW)
    assert one.worth_a_round(NOW + 10) and not one.worth_a_round(NOW + 10, early=True)
    intake.put([told(str(ask.AT_ONCE))], NOW)
    assert one.worth_a_round(NOW + 10, early=True)
    assert not one.worth_a_round(NOW, early=True)  # they may still be speaking
    # Accounting does not know them: they are looked at again, but for that no round comes early.
    assert one.prompt(Ledger(), NOW + 10, early=True) is not None
    later = NOW + 10 + RETRY[0]
    assert one.worth_a_round(later) and not one.worth_a_round(later, early=True)


def test_without_nodes_no_round_is_worth_it(tmp_path: Path) -> None:
    assert not sweeper(tmp_path, None, FakeAsker(JOBS)).worth_a_round(NOW)


def test_what_is_judged_is_kept_before_the_next_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is ended in the middle of a call's jobs has said of some, and knows which."""
    monkeypatch.setattr(rounds, "BATCH", 2)
    ledger, kept = Ledger(), []

    def keep() -> None:
        kept.append(len(ledger.said))
        if len(kept) == 2:
            raise Stopped

    asker = FakeAsker(JOBS)
    one = sweeper(tmp_path, None, asker)
    last = max(map(end_of, JOBS.values()))
    with pytest.raises(Stopped):
        one.sweep(ledger, last + 100, keep)
    assert kept == [2, 4] and len(JOBS) > 4
    one.sweep(ledger, last + 100)
    assert set(ledger.said) == set(JOBS) and not ledger.waiting
