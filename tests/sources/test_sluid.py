"""What is a SLUID and what only looks like one."""

from __future__ import annotations

import pytest

from slurm_triage.sources._sluid import of_line, read


@pytest.mark.parametrize(
    "text", ["s0AHM8PEWZGD00", "sC99M8PCP5JG00", "sEKNKTV3WPV500", "s00800000000ZZ", "s0100000000000"]
)
def test_sluid(text: str) -> None:
    assert read(text) == text


@pytest.mark.parametrize(
    "text",
    [
        None, 7, "", "1089", "s0000000000000", "s00000000001A7", "s003ZZZZZZZZZZ", "S0AHM8PEWZGD00", "s0ahm8pewzgd00",
        "s0AHM8PEWZGD0", "s0AHM8PEWZGD000", "s0AHM8PEWZGD0I", "sZ0000000000000", "s0AHM8PEWZGD00\n", "slurmstepdproc",
    ],
)  # fmt: skip
def test_no_sluid(text: object) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Launching batch JobId=1089 SLUID=s0AHM8PEWZGD00 for UID 1001", {"sluid": "s0AHM8PEWZGD00"}),
        ("JobId=1089 SLUID=s0AHM8PEWZGD00: timeout: sent SIGTERM", {"sluid": "s0AHM8PEWZGD00"}),
        ("JobId=1090 SLUID=s0AHM8PEWZGD00", {}),
        ("JobId=1089 SLUID=s0AHM8PEWZGD00x", {}),
        ("JobId=1089 SLUID=Invalid", {}),
        ("SLUID=s0AHM8PEWZGD00", {}),
    ],
)
def test_sluid_beside_the_job_that_the_line_is_about(text: str, found: dict[str, str]) -> None:
    assert of_line(text, {"id": "1089"}) == found
