"""One node may bring so much in a while, another has its own share, and a new while begins with nothing."""

from __future__ import annotations

from slurm_triage.service.quota import Quota


def test_a_node_that_brings_too_much_has_to_wait_and_others_have_not() -> None:
    quota = Quota(most=100, seconds=60.0)
    assert quota.room("c1", 60, 0.0)
    assert quota.room("c1", 40, 1.0)
    assert not quota.room("c1", 1, 2.0)
    assert quota.room("c2", 100, 2.0)
    assert not quota.room("c1", 1, 59.9)
    assert quota.room("c1", 100, 60.0)


def test_what_was_not_taken_does_not_count() -> None:
    quota = Quota(most=100, seconds=60.0)
    assert quota.room("c1", 50, 0.0)
    assert not quota.room("c1", 51, 0.0)
    assert quota.room("c1", 50, 0.0)


def test_one_large_case_is_taken_however_large() -> None:
    quota = Quota(most=100, seconds=60.0)
    assert quota.room("c1", 1000, 0.0)
    assert not quota.room("c1", 1, 1.0)
