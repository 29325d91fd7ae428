"""A corrected report: the correction first and last, the old verdict whole between, nothing unsafe."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage import sections
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.history.corrections import WHY_LIMIT
from slurm_triage.report.corrected import corrected
from slurm_triage.report.text import COLUMNS, render
from tests.corpus.load import cases


@dataclass(frozen=True)
class Said:
    cause: str | None = "node_fail"
    owner: str | None = "hardware"
    why: str = "the node lost power at 15:11"
    by_user: str = "alice"
    at: float = 1796051478.0
    verdict_cause: str = "memcg_oom"
    verdict_owner: str = "user"
    agrees_now: bool = False


@pytest.fixture(scope="module")
def report() -> str:
    return render(diagnose(from_files(next(files for _, files, _ in cases("recorded-24.11-cgroup2")))))


def joined(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split())


def test_the_correction_is_first_and_last_and_the_report_is_whole_between(report: str) -> None:
    text = corrected(report, Said())
    lines = text.splitlines()
    assert lines[0].startswith("CORRECTED by alice on 2026-11-30: the cause was node_fail (")
    assert joined(text) == (
        "CORRECTED by alice on 2026-11-30: the cause was node_fail (Slurm lost a node), not memcg_oom (killed at a "
        "memory limit): the node lost power at 15:11. Owner: hardware. What the diagnosis says, which is not right:"
    )
    assert "\n\n" + report in text
    assert lines[-1] == "CORRECTED by alice on 2026-11-30: see the top of this section."
    assert text.endswith("\n")


def test_it_does_not_pile_up_and_can_be_taken_out(report: str) -> None:
    once = corrected(report, Said())
    other = Said(cause="time_limit", by_user="bob")
    assert corrected(once, Said()) == once
    assert corrected(once, other) == corrected(report, other)
    assert "alice" not in corrected(once, other)
    assert corrected(once, None) == report
    assert corrected(report, None) == report


def test_what_is_not_known_and_who_has_to_act(report: str) -> None:
    head = joined(corrected(report, Said(cause="unknown", owner=None)))
    assert "the cause is not known, it was not memcg_oom (killed at a memory limit): the node" in head
    assert "Owner" not in head
    head = joined(corrected(report, Said(cause="memcg_oom", owner="admin")))
    assert "the cause was memcg_oom (killed at a memory limit), as said, but not for user to act on: " in head
    assert "Owner: admin." in head
    assert "no_longer_known, not" in joined(corrected(report, Said(cause="no_longer_known")))


def test_a_diagnosis_that_agrees_is_not_called_wrong(report: str) -> None:
    head = joined(corrected(report, Said(agrees_now=True)))
    assert head.endswith("The diagnosis agrees now:")
    assert "not right" not in head


def test_the_longest_reason_is_whole(report: str) -> None:
    why = ("word " * (WHY_LIMIT // 5))[: WHY_LIMIT - 4] + "END."
    text = corrected(report, Said(cause="oom_numa_cpuset", verdict_cause="warning_signal_unhandled", why=why))
    assert "END. Owner: hardware." in joined(text)


def test_secrets_and_escapes_do_not_come_out(report: str) -> None:
    text = corrected(report, Said(why="a\x1b[2J\npassword=hunter2\u202e", by_user="e\x1bve\n\nVERDICT x"))
    assert "hunter2" not in text
    assert text.isascii()
    assert "\x1b" not in text
    assert corrected(text, None) == report


@given(st.text(max_size=WHY_LIMIT), st.text(max_size=70), st.text(max_size=30), st.text(max_size=30))
def test_any_words_make_short_plain_lines(why: str, by: str, cause: str, verdict: str) -> None:
    report = "VERDICT x (likely), owner: user\n\nmore\n\nVERDICT x (likely), owner: user\n"
    text = corrected(report, replace(Said(), why=why, by_user=by, cause=cause, verdict_cause=verdict))
    for line in text.splitlines():
        assert len(line) <= COLUMNS
        assert (line.isascii() and line.isprintable()) or line == ""
    assert text.startswith("CORRECTED by ")
    assert text.splitlines()[-1].startswith("CORRECTED by ")
    assert corrected(text, None) == report


def test_it_stays_one_section_of_the_file(report: str) -> None:
    def section(text: str) -> sections.Section:
        return sections.Section("1107", "mini", "2026-11-30T15:11:09Z", "2026-11-30T15:11:18Z", text)

    before = sections.merge(b"somebody else's text\n", section(report))
    after = sections.merge(before, section(corrected(report, Said())))
    assert after.count(b"==== slurm-triage 1: ") == 1
    assert after.count(b"CORRECTED by alice") == 2
    assert sections.merge(after, section(report)) == before
