"""What is handed to the service about an attempt of a job on this node: who it was, evidence, what was not seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from slurm_triage.node.collect import Collected
from slurm_triage.node.job import Job
from slurm_triage.transport.message import Message, pack

MOST = 2 * 1024 * 1024
"""Bytes of evidence of one attempt."""
MOST_UNSEEN = 50
KIND = "evidence"


def evidence(job: Job, role: str, collected: Iterable[Collected], ended: float, now: float) -> bytes:
    """It all as bytes. `role` is `node` or `controller`; `ended` and `now` are epochs of this host's clock."""
    files: dict[str, bytes] = {}
    manifest: dict[str, Any] = {}
    unseen: list[str] = []
    room = MOST
    for part in collected:
        unseen += part.not_seen
        _merge(manifest, part.manifest)
        for name, data in part.files.items():
            if len(data) > room:
                unseen.append(f"{name}: left out, {len(data)} bytes are more than fit")
                continue
            files[name] = data
            room -= len(data)
    head = {
        "job": job.job,
        "start": job.start,
        "node": job.node,
        "role": role,
        "uid": job.uid,
        "array": list(job.array) if job.array else None,
        "batch_host": job.batch_host,
        "ended": ended,
        "now": now,
        "manifest": manifest,
        "not_seen": [re.sub(r"[\x00-\x1f\x7f]", " ", text)[:500] for text in unseen[:MOST_UNSEEN]],
    }
    return pack(Message(KIND, head, files))


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            into[key].update(value)
        else:
            into[key] = value
