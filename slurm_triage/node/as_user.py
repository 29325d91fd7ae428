"""Runs something in a child that has become the user for good, with a deadline; the parent is root and stays so."""

from __future__ import annotations

from collections.abc import Callable

from slurm_triage.node.job import Job


class AsUserError(Exception):
    """The child could not do it; the message says why (the work's own sentence, a refusal, or that it took too long)."""


def run(job: Job, work: Callable[[], bytes], seconds: float, limit: int) -> bytes:
    """What `work` returned in a child with the job's uid, gid and groups; at most `limit` bytes.

    Raises `AsUserError`: uid 0 and system uids are refused; so is what raises, takes longer, or returns more.
    """
    raise NotImplementedError
