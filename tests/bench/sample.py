"""The case that commands and histories are timed with."""

from __future__ import annotations

from tests.corpus.load import cases

SAMPLE = ("recorded-24.11", "1088-oom_one_of_four_kbe")
"""Corpus and id: all kinds of evidence, a kernel log among them."""


def sample() -> dict[str, bytes]:
    """Its files."""
    corpus, wanted = SAMPLE
    return next(files for case_id, files, _ in cases(corpus) if case_id == wanted)
