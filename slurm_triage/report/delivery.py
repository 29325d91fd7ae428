"""Putting a report beside the job's output: `<jobid>.diagnosis.txt`, one section for each attempt.

`slurm_triage.sections` says what the file looks like. Runs as the user who owns the directory; needs no more than
write access to it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from slurm_triage import sections
from slurm_triage.clock import show
from slurm_triage.model import Diagnosis, JobIdentity
from slurm_triage.section_file import NEW_MODE, Refused, existing, replace
from slurm_triage.sections import SIZE_LIMIT, Section

__all__ = ["SIZE_LIMIT", "Refused", "deliver", "file_name", "merge", "section_of"]

_READ_LIMIT = sections.FILE_LIMIT


def file_name(job: JobIdentity) -> str:
    """`<jobid>.diagnosis.txt`; `<array>_<task>` for an array task, the raw id for a component of a het job.

    Raises `Refused` when the job has no id that can be part of a file name.
    """
    task = bool(job.array and job.array_task and re.fullmatch(r"[0-9]{1,10}", job.array_task))
    name = f"{job.array}_{job.array_task}" if task else (job.job_id or "")
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_+-]{0,63}", name):
        raise Refused(f"no file name can be made of the job id {name!r}")
    return f"{name}.diagnosis.txt"


def section_of(diagnosis: Diagnosis, text: str) -> Section:
    """The section that says `text` (from `render`) of the attempt: what the service sends to the agent.

    Raises `Refused` as `file_name`.
    """
    job = diagnosis.job
    # Attempts whose start is not known must not replace each other.
    start = show(job.start) if job.start is not None else f"unknown.{job.attempt}"
    number = file_name(job).removesuffix(".diagnosis.txt")
    return Section(number, job.cluster or "unknown", show(job.submit), start, text)


def merge(old: bytes, diagnosis: Diagnosis, text: str, limit: int = SIZE_LIMIT) -> bytes:
    """The content of the file with the section of this attempt in it; `sections.merge`. Raises `Refused`."""
    return sections.merge(old, section_of(diagnosis, text), limit)


def deliver(directory: Path, diagnosis: Diagnosis, text: str, *, limit: int = SIZE_LIMIT) -> Path | None:
    """Put `text` (from `render`) as this attempt's section into its file in `directory`; the path of the file.

    Returns None and writes nothing when the cause is `no_failure`. A new file gets mode 0640, an existing one keeps
    its permission bits. Two deliveries into one file at the same instant: the later rename wins.

    Raises `Refused` when the target is a symbolic link, not a regular file, unreadable or larger than 8 MiB, or the
    job has no usable id, and `OSError` when the directory is gone or cannot be written; the file is then as it was.
    """
    if diagnosis.cause == "no_failure":
        return None
    name = file_name(diagnosis.job)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        old = existing(handle, name, _READ_LIMIT)
        data, mode = old if old is not None else (b"", NEW_MODE)
        replace(handle, name, merge(data, diagnosis, text, limit), mode)
    finally:
        os.close(handle)
    return directory / name
