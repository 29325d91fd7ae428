"""From a study to the history: the document, and what it does not carry."""

from __future__ import annotations

from typing import Any

from slurm_triage.engine import Study
from slurm_triage.history.detail import detail_of
from slurm_triage.history.store import Detail, History
from slurm_triage.report.document import document


def recording(study: Study) -> tuple[dict[str, Any], Detail]:
    """What the history takes of a study: the document, and the details of its attempts."""
    details = tuple(detail_of(a.records, a.steps, a.events) for a in study.attempts)
    return document(study.diagnosis), Detail(parts=details) if study.diagnosis.parts else details[0]


def record(history: History, study: Study) -> int:
    """Puts the attempts of a study into the history; returns how many rows that are. Raises `HistoryError`."""
    return history.record(*recording(study))
