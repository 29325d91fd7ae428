"""Where the diagnosis of a job of this node goes: a small file of this node's, from this node's own records."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from slurm_triage.node.job import Job

MOST_TRIES = 6
"""Times that a diagnosis is tried to be written, minutes apart."""

AGAIN = ".again."
"""What stands behind a target's name in that of further evidence about its attempt."""


@dataclass
class Target:
    """A job whose diagnosis may be written from here. `since` and `ended` are epochs.

    `revision` is that of the text that was written last, 0 for none; `tries` counts those of the next one that failed,
    `trouble` says why; `closed` when nothing will come any more but a changed verdict. `news` is what came of the last
    text, until the service has been told.
    """

    job: Job
    since: float
    ended: float
    revision: int = 0
    tries: int = 0
    trouble: str = ""
    closed: bool = False
    news: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.job.job}.{self.job.start or int(self.ended)}.{self.job.node}"

    @property
    def waits(self) -> bool:
        """Whether this node is the one to wait for the text."""
        return self.job.batch_host and not self.closed and not self.tries

    def after(self, old: Target) -> Target | None:
        """What is known after records of the same attempt have come later; None if they are about another user.

        Records that come late may say less than those before: what they do not say stays as it was.
        """
        if (self.job.uid, self.job.gid) != (old.job.uid, old.job.gid):
            return None
        told = {field.name: getattr(self.job, field.name) or getattr(old.job, field.name) for field in fields(Job)}
        return replace(old, job=Job(**told))

    def data(self) -> bytes:
        """The target as bytes."""
        return json.dumps(asdict(self)).encode("ascii")


def read(data: bytes) -> Target | None:
    """The target in these bytes; None for what is none (a version of the agent that had other members, damage)."""
    try:
        table: Any = json.loads(data)
        about = table.pop("job")
        for key in ("groups", "array"):
            about[key] = tuple(about[key]) if about[key] is not None else None
        known = {field.name for field in fields(Job)}
        target = Target(job=Job(**{key: value for key, value in about.items() if key in known}), **table)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    job = target.job
    texts = (job.job, job.node, job.user, job.name, job.work_dir, job.stdout, job.stderr, job.nodes, target.trouble)
    numbers = (job.uid, job.gid, target.revision, target.tries)
    whole = all(isinstance(one, str) for one in texts) and all(type(one) is int for one in numbers)
    return target if whole and isinstance(target.ended, (int, float)) and math.isfinite(target.ended) else None
