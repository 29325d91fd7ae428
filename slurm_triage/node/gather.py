"""From the spool to the outbox: the records of jobs that ended badly, and what this node has about them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence

from slurm_triage.log import Log
from slurm_triage.node import records
from slurm_triage.node.collect import Budget, Collected
from slurm_triage.node.config import Settings
from slurm_triage.node.drawer import Drawer
from slurm_triage.node.evidence import evidence
from slurm_triage.node.job import Job
from slurm_triage.node.target import AGAIN, Target, read
from slurm_triage.spool import Record, Spool
from slurm_triage.spool_evidence import Attempt, attempts, files, node_of

ABANDONED = 86400.0
"""Seconds without a write after which what lies in the spool's tmp/ is taken over."""
AT_ONCE = 100
"""Jobs of one round: then the outbox is emptied before the next."""
MOST_WAITING = 8
"""Most pieces of evidence of one attempt that wait in the outbox."""
CONTROLLER = "epilogslurmctld"
"""Kind of the records that the controller's hook writes."""


class Gatherer:
    """Takes records, collects, and puts into the drawers. `clock` gives the epoch."""

    def __init__(
        self,
        settings: Settings,
        outbox: Drawer,
        targets: Drawer,
        collectors: Mapping[str, Callable[[Job, Budget], Collected]],
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        self.settings, self.outbox, self.targets = settings, outbox, targets
        self.collectors, self.log, self.clock = collectors, log, clock
        self._round = 0.0

    def gather(self, spool: Spool) -> tuple[int, bool]:
        """(jobs that were handled, whether some have to wait a little). Raises `SpoolError`, and `OSError` of a drawer.

        A record leaves the spool when what is made of it lies in the outbox.
        """
        self._round = self.clock()
        spool.recover(ABANDONED)
        spool.trim()
        handled, young = 0, False
        for job, names in spool.waiting().items():
            if handled >= AT_ONCE:
                return handled, True
            taken = list(spool.claim(names))
            done = False
            try:
                if self._too_young(taken):
                    young = True
                    continue
                self._job(taken)
                done = True
            except Exception as error:
                # Whatever it is, it is about this job; a disk that is full is about all of them.
                if isinstance(error, OSError):
                    raise
                self.log.error("bad", job=job, why=f"{type(error).__name__}: {error}")
                for record in taken:
                    spool.refuse(record, "the agent failed at it")
                taken = []
            finally:
                for record in taken:
                    spool.done(record) if done else spool.release(record)
            handled += done
        return handled, young

    def _too_young(self, taken: Sequence[Record]) -> bool:
        """Whether late lines and the other witnesses may still come. A time in the future is old enough.

        Task records come into the spool when the job ends, some time after their last line: their name says when.
        """
        now = self.clock()
        return any(0 <= now - at < self.settings.settle for one in taken for at in (one.mtime, one.seconds))

    def _job(self, taken: Sequence[Record]) -> None:
        for attempt in attempts(taken):
            told = records.job_of(attempt)
            ended = max(record.mtime for record in attempt.records)
            if not isinstance(told, Job):
                # Evidence it is all the same; only nobody knows where a diagnosis of it would go.
                self.log.error("no-identity", job=attempt.records[0].job, why=told.why)
                told = Job(attempt.records[0].job, self._node(attempt), uid=-1, gid=-1, start=attempt.start)
            self._attempt(told, attempt, ended)

    def _node(self, attempt: Attempt) -> str:
        return next((name for record in attempt.records if (name := node_of(record))), "unknown")

    def _attempt(self, job: Job, attempt: Attempt, ended: float) -> None:
        role = "controller" if all(record.kind == CONTROLLER for record in attempt.records) else "node"
        now = self.clock()
        found = [_of_records(attempt)]
        if role == "node":
            budget = Budget(now=self._round, state=self.settings.state, first_uid=self.settings.first_uid)
            found += [self._collected(name, job, budget) for name in self.collectors]
        target = Target(job, now, ended)
        self.outbox.put(self._free(target.name), evidence(job, role, found, ended, now))
        if self.settings.files and job.uid >= self.settings.first_uid and os.geteuid() == 0:
            self._aim(target)
        self.log.info("collected", job=job.job, node=job.node, files=sum(len(part.files) for part in found))

    def _free(self, name: str) -> str:
        """The name for evidence: that of records which came before may wait there still, and must not be lost."""
        names = [name, *(f"{name}{AGAIN}{number}" for number in range(2, MOST_WAITING + 1))]
        return next((one for one in names if not self.outbox.has(one)), names[-1])

    def _aim(self, target: Target) -> None:
        """Keeps the target, joined with what is known of its attempt."""
        kept = self.targets.read(target.name)
        old = read(kept) if kept is not None else None
        joined = target.after(old) if old is not None else target
        if joined is None:
            self.log.error("no-identity", job=target.job.job, why="records that came later name another user")
            self.targets.remove(target.name)
        else:
            self.targets.put(target.name, joined.data())

    def _collected(self, name: str, job: Job, budget: Budget) -> Collected:
        if name == "job_log" and not (self.settings.read_output and job.uid >= self.settings.first_uid):
            return Collected(not_seen=["the job's output: not read here (settings of the agent)"])
        try:
            return self.collectors[name](job, budget)
        except Exception as error:  # one source must not cost the others
            self.log.error("collector", name=name, job=job.job, why=f"{type(error).__name__}: {error}")
            return Collected(not_seen=[f"{name}: could not be looked at: {type(error).__name__}: {error}"])


def _of_records(attempt: Attempt) -> Collected:
    """The records themselves as evidence."""
    found = files(attempt.records)
    said = found.pop("manifest.toml", b"").decode("ascii", "replace")
    cluster = re.search(r'^cluster = (".*")$', said, re.MULTILINE)
    manifest = {"env_format": "nul"}
    if cluster:
        manifest["cluster"] = json.loads(cluster[1])
    return Collected(files=found, manifest=manifest)
