"""Filename patterns of sbatch, as slurmstepd fills them in."""

from __future__ import annotations

import time

import pytest

from slurm_triage.filename_pattern import fill

NAMES = {"j": "1003", "A": "1001", "a": "4", "b": "4", "u": "17", "x": "prep", "N": "c1", "n": "0", "t": "0"}


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/s/%j.out", "/s/1003.out"),
        ("/s/%x-%j.out", "/s/prep-1003.out"),
        ("slurm-%A_%a.out", "slurm-1001_4.out"),
        ("/s/%8j", "/s/00001003"),
        ("/s/%3a", "/s/004"),
        ("/s/%2j", "/s/1003"),
        ("/s/%0j", "/s/1003"),
        ("/s/%99j", "/s/0000001003"),
        ("/s/%123456789012345678901234567890j", "/s/0000001003"),
        ("/s/%8N/%8u/%8x", "/s/c1/17/prep"),  # only what is a number for Slurm is padded
        ("/s/100%%", "/s/100%"),
        ("/s/%%j", "/s/%j"),
        ("/s/100%", "/s/100%"),
        ("/s/%-j", "/s/%-j"),
        ("/s/%12-%j", "/s/2-1003"),  # a width without a letter: its last digit stays
        ("/s/%5%j", "/s/51003"),
        ("/s/%7", "/s/7"),
        ("/s/\\%j", "/s/%j"),
        ("/s\\/%j-%q", "/s/%j-%q"),
        ("/s/\\\\%j", None),  # up to 24.05 one of the two stays, later none
        ("/s/%s", None),
        ("/s/%q", None),
        ("/s/%3q", None),
        ("%j" * 33, None),
        ("", ""),
    ],
)
def test_filename_patterns(pattern: str, path: str | None) -> None:
    assert fill(pattern, NAMES) == path


@pytest.mark.parametrize("text", ["%", "%1", "%j", "\\", "%%", "%a%b"])
def test_long_ones_take_no_longer(text: str) -> None:
    begun = time.perf_counter()
    fill(text * 100_000, NAMES)
    fill("%" + "1" * 300_000, NAMES)
    assert time.perf_counter() - begun < 30  # what grows with the square takes minutes
