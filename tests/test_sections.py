"""The text of the diagnosis file, as the agent gets it from the service: fields that anybody may have written."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.report.delivery import section_of
from slurm_triage.sections import SIZE_LIMIT, Section, merge
from tests.report.samples import PREEMPTED

SECTION = Section("1119", "mini", "2026-11-30T15:10:55Z", "2026-11-30T15:10:56Z", "first\nend\n")
MARK = (
    b"==== slurm-triage 1: cluster=mini job=1119 submit=2026-11-30T15:10:55Z start=2026-11-30T15:10:56Z lines=2 ====\n"
)


def test_the_service_says_it_and_the_agent_writes_it() -> None:
    sent = json.loads(json.dumps(asdict(section_of(PREEMPTED, "first\nend\n"))))
    assert Section(**sent) == SECTION
    assert merge(b"", Section(**sent)) == MARK + b"first\nend\n"


@pytest.mark.parametrize("field", ["job_name", "cluster", "submit", "start"])
def test_no_field_breaks_out_of_the_marker(field: str) -> None:
    forged = replace(
        SECTION, **{field: "a ====\n==== slurm-triage 1: cluster=x job=2 submit=3 start=4 lines=1 ====\x1b[2J"}
    )
    data = merge(MARK + b"old\nend\n", forged)
    assert data.count(b"\n==== slurm-triage 1: ") == 1 and b"\x1b" not in data
    assert merge(data, forged) == data


def test_no_text_forges_a_section() -> None:
    other = MARK.replace(b"1119", b"1120").decode()
    data = merge(b"", replace(SECTION, text=f"{other}not mine\nend\n"))
    assert data.splitlines()[1].startswith(b" ==== slurm-triage 1: ")
    assert merge(data, replace(SECTION, text="clean\nend\n")) == MARK + b"clean\nend\n"


def test_a_huge_text_stays_bounded_and_whole_as_a_section() -> None:
    data = merge(MARK.replace(b"15:10:56", b"15:10:57") + b"old\nend\n", replace(SECTION, text="x\n" * 100_000))
    assert data.count(b"\nx") == 9999 and b"lines=9999 ====" in data.splitlines()[0]
    assert data.endswith(b"\nold\nend\n")
    alone = merge(MARK + b"a\nb\n", replace(SECTION, start="2026-11-30T16:00:00Z", text="y" * SIZE_LIMIT))
    assert b"1 older section(s) dropped" in alone.splitlines()[0] and b"\na\nb\n" not in alone


@settings(deadline=None)
@given(*[st.text()] * 5, st.binary())
def test_whatever_the_fields_are_what_is_not_ours_stays(
    job: str, cluster: str, submit: str, start: str, text: str, old: bytes
) -> None:
    section = Section(job, cluster, submit, start, text)
    once = merge(old, section)
    assert once.startswith(old) and merge(once, section) == once
