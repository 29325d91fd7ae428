"""One job: whether its accounting is final, what the diagnosis is, and whether the history wants it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slurm_triage import case, sources
from slurm_triage.engine import Study, ended_badly, study_events
from slurm_triage.model import Coverage, Event, JobRecord, StepRecord

_CLUSTER = re.compile(rb"^ClusterName\s*=\s*([\w.-]{1,80})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """The evidence of one job, parsed."""

    case: case.Case
    events: tuple[Event, ...]
    coverage: tuple[Coverage, ...]

    @property
    def records(self) -> list[JobRecord | StepRecord]:
        """The lines of accounting."""
        return [e for e in self.events if isinstance(e, (JobRecord, StepRecord))]

    @property
    def end(self) -> float | None:
        """Epoch of the last end that accounting shows; None if it shows none."""
        return max((r.end.hi for r in self.records if r.end is not None), default=None)

    def final(self, now: float, settle: float) -> bool:
        """Whether accounting has said its last word: no line without an end, and `settle` seconds since the last one.

        While Slurm ends a job, its steps stand there with a made-up exit for up to KillWait (recorded: up to 55 s).
        """
        if any(r.end is None and r.state not in ("REQUEUED", "PENDING") for r in self.records):
            return False
        end = self.end
        return end is not None and now - end >= settle

    def study(self) -> Study:
        """The diagnosis."""
        return study_events(self.events, self.coverage, self.case)


def read(files: Mapping[str, bytes], version: str | None) -> Case:
    """The evidence of one job as a case. Its times are UTC."""
    manifest = ['utc_offset = "+00:00"']
    if version:
        manifest.append(f'slurm = "{version}"')
    # The history knows a job by it; a sacct without the column does not say it.
    if cluster := _CLUSTER.search(files.get("scontrol-config.txt", b"")):
        manifest.append(f'cluster = "{cluster[1].decode()}"')
    manifest.append(
        "not_seen = [\"the job's output, the nodes' kernel logs: the service sees accounting and slurmctld only\"]"
    )
    folder = case.from_files({"manifest.toml": ("\n".join(manifest) + "\n").encode(), **files})
    events, coverage = sources.parse(folder)
    return Case(folder, events, coverage)


def worth_keeping(study: Study, own_scancel: bool) -> bool:
    """Whether any attempt needs explaining. `own_scancel`: the owner's own scancel does."""
    for part in study.diagnosis.parts or (study.diagnosis,):
        own = part.cause == "cancelled_by_user" and part.owner is not None and part.owner.value == "user"
        if ended_badly(part) and (own_scancel or not own):
            return True
    return False
