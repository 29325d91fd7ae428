"""One job: its evidence, the diagnosis, and what the history and its user get of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slurm_triage import case, sources
from slurm_triage.attempts import Attempt
from slurm_triage.engine import Study, ended_badly, study_events
from slurm_triage.history.store import Detail
from slurm_triage.model import ControllerJob, Diagnosis, HookEnv, JobRecord, Owner
from slurm_triage.recording import recording
from slurm_triage.report.delivery import section_of
from slurm_triage.report.text import render
from slurm_triage.section_file import Refused
from slurm_triage.service.assemble import KINDS as OF_NODES

_CLUSTER = re.compile(rb"^ClusterName\s*=\s*([\w.-]{1,80})\s*$", re.MULTILINE)
_ASKED = {
    "sacct.json": "sacct_json",
    "sacct.psv": "sacct",
    "sacctmgr-qos.psv": "sacctmgr_qos",
    "scontrol-config.txt": "scontrol_config",
    "scontrol-job.txt": "scontrol_job",
    "scontrol-partition.txt": "scontrol_partition",
}
"""What the service asks for, by name, and what it is."""


@dataclass(frozen=True)
class Case:
    """The evidence of one job. `manifest` holds values of the manifest (docs/reference/evidence-folder.md)."""

    name: str
    files: Mapping[str, bytes]
    manifest: Mapping[str, Any]


@dataclass(frozen=True)
class AttemptText:
    """What is said of one attempt. `section` holds the members of `slurm_triage.sections.Section`; its text is empty
    for an attempt that ended well.

    `start` is an epoch, None if it never started or that is not known. `own_scancel`: its owner cancelled it;
    `interactive`: it had no batch script; `comment` is the user's own of the job.
    """

    cause: str
    strength: str | None
    owner: str
    bad: bool
    section: Mapping[str, str]
    start: float | None = None
    array: str = ""
    user: str = ""
    own_scancel: bool = False
    interactive: bool = False
    comment: str = ""


@dataclass(frozen=True)
class Judged:
    """What was found of one job: for the log, for the history (`recordings`) and for its user (`attempts`)."""

    cause: str
    strength: str | None
    owner: str
    recordings: tuple[tuple[Mapping[str, Any], Detail], ...]
    attempts: tuple[AttemptText, ...]
    bad: bool
    bad_beside_scancel: bool

    def worth_keeping(self, own_scancel: bool) -> bool:
        """Whether any attempt needs explaining. `own_scancel`: the owner's own scancel does."""
        return self.bad if own_scancel else self.bad_beside_scancel


def kinds(names: Iterable[str]) -> dict[str, str]:
    """What the files of a case are, by the names that the service and the agents give them.

    They need not be recognised by their look then, and what a job calls its own output changes nothing. A name that is
    not known is left out.
    """
    found = {}
    for name in names:
        kind = _ASKED.get(name) or OF_NODES.get(name[: name.find(".") + 1])
        if kind is not None and kind in sources.by_kind():
            found[name] = kind
    return found


class Cluster:
    """What is the same for many cases: the settings of the cluster, parsed once, and which Slurm it runs."""

    def __init__(self, settings: Mapping[str, bytes], version: str | None) -> None:
        self.manifest: dict[str, Any] = {"utc_offset": "+00:00"}  # Slurm was told to speak UTC
        if version:
            self.manifest["slurm"] = version
        # The history knows a job by it; a sacct without the column does not say it.
        if cluster := _CLUSTER.search(settings.get("scontrol-config.txt", b"")):
            self.manifest["cluster"] = cluster[1].decode()
        self.parsed = sources.parse_files(case.from_files(settings, self.manifest), kinds(settings))


def study(evidence: Case, cluster: Cluster) -> Study:
    """The diagnosis of a job, with the attempts behind it."""
    folder = case.from_files(evidence.files, {**evidence.manifest, **cluster.manifest})
    return study_events(*sources.parse(folder, kinds(evidence.files), cluster.parsed), folder)


def judge(evidence: Case, cluster: Cluster) -> Judged:
    """What is found of a job."""
    return told(study(evidence, cluster), evidence)


def told(found: Study, evidence: Case) -> Judged:
    """What the history and the user get of a study."""
    whole = found.diagnosis
    parts = whole.parts or (whole,)
    bad = [part for part in parts if ended_badly(part)]
    texts = [_text(part, attempt, evidence) for part, attempt in zip(parts, found.attempts, strict=True)]
    return Judged(
        whole.cause,
        _strength(whole),
        whole.owner.value,
        (recording(found),),
        tuple(text for text in texts if text is not None),
        bool(bad),
        any(not _own_scancel(part) for part in bad),
    )


def _strength(diagnosis: Diagnosis) -> str | None:
    return diagnosis.strength.value if diagnosis.strength else None


def _own_scancel(diagnosis: Diagnosis) -> bool:
    return diagnosis.cause == "cancelled_by_user" and diagnosis.owner is Owner.USER


def _text(diagnosis: Diagnosis, attempt: Attempt, evidence: Case) -> AttemptText | None:
    """What is said of an attempt; None of one whose job has no id that a file could be named by."""
    bad = ended_badly(diagnosis)
    try:
        section = section_of(diagnosis, render(diagnosis) if bad else "")
    except Refused:
        return None
    job = diagnosis.job
    return AttemptText(
        diagnosis.cause,
        _strength(diagnosis),
        diagnosis.owner.value,
        bad,
        asdict(section),
        job.start.lo if job.start is not None and job.start.zoned else None,
        job.array or "",
        job.user or "",
        _own_scancel(diagnosis),
        _interactive(attempt),
        _comment(attempt, evidence.files.get("sacct.psv", b"")),
    )


def _interactive(attempt: Attempt) -> bool:
    """Whether the attempt had no batch script, as far as slurmctld, its steps or the line that submitted it tell."""
    views = [e.values["BatchFlag"] for e in attempt.events if isinstance(e, ControllerJob) and "BatchFlag" in e.values]
    if views:
        return views[-1] == "0"
    steps = {step.step for step in attempt.steps}
    if steps & {"batch", "interactive"}:
        return "batch" not in steps
    lines = [record.submit_line.split() for record in attempt.records if record.submit_line]
    if lines:
        return any(line and line[0].rsplit("/", 1)[-1] in ("srun", "salloc") for line in lines)
    return bool(steps - {"extern"})


def _comment(attempt: Attempt, table: bytes) -> str:
    """The user's comment on the job: from slurmctld, a hook of its, or the row of accounting.

    Accounting has it only with AccountingStoreFlags=job_comment (slurm.conf(5)).
    """
    for event in attempt.events:
        if isinstance(event, (ControllerJob, HookEnv)):
            said = event.values.get("Comment" if isinstance(event, ControllerJob) else "SLURM_JOB_COMMENT")
            if said:
                return said
    return _stored_comment(attempt.records, table)


def _stored_comment(records: Iterable[JobRecord], table: bytes) -> str:
    """The comment in the row of the attempt. The service's own tables have no separator in a field."""
    lines = table.split(b"\n")
    names = lines[0].split(b"|")
    for record in records:
        if record.cite.file == "sacct.psv" and b"Comment" in names and 1 < record.cite.line <= len(lines):
            row = lines[record.cite.line - 1].split(b"|")
            if len(row) == len(names):
                return row[names.index(b"Comment")].decode("utf-8", "replace")
    return ""
