"""The job's own output: what it says, whether it was read, and to which attempt it belongs."""

from __future__ import annotations

from collections.abc import Iterable

from slurm_triage.attempts import Attempt
from slurm_triage.facts._logic import false, true, unknown
from slurm_triage.model import Fact, Sign, Voice

KINDS = ("job_log",)


class Log:
    """Message lines of the attempt, by signature id."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.signs = tuple(e for e in attempt.events if isinstance(e, Sign))
        self._by_id: dict[str, list[Sign]] = {}
        for sign in self.signs:
            self._by_id.setdefault(sign.id, []).append(sign)
        self.ends = tuple(s for s in self.signs if s.id in ("log_end", "log_empty"))

    def of(self, *ids: str) -> tuple[Sign, ...]:
        """All lines of these signatures, in the order of files and lines."""
        found = [sign for id in ids for sign in self._by_id.get(id, ())]
        return tuple(sorted(found, key=lambda s: (s.cite.file, s.cite.line)))

    @property
    def read(self) -> bool:
        """Whether this attempt's output was read."""
        return self.attempt.has_log and bool(self.ends)

    @property
    def how(self) -> str:
        """How to get the log."""
        return f"read the job's output file (scontrol show job {self.attempt.job_id or 'JOBID'} names it as StdOut)"

    def has(self, says: str, *ids: str) -> Fact:
        """Whether the output holds a line of one of these signatures. Unknown when the output was not read."""
        found = self.of(*ids)
        if found:
            return true(says, found[:3])
        if self.read:
            return false(says, "no such line in the job's output", self.ends[:1])
        return unknown(says, "this attempt's output was not read", self.how)

    def programs(self) -> Iterable[Sign]:
        """Lines of programs (not of Slurm) that name an error, in order."""
        return (s for s in self.signs if s.voice is Voice.PROGRAM and not s.id.startswith("log_"))
