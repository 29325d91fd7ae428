"""A diagnosis as a JSON document: the contract for programs. Schema: docs/reference/diagnosis-1.schema.json."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from slurm_triage.clock import show
from slurm_triage.model import Cite, Condition, Diagnosis, Fact, JobIdentity, Role, Stamp, Strength, Verdict
from slurm_triage.report import mask

SCHEMA = "slurm-triage/diagnosis/1"
"""Name and major version of the format. Members may be added within a version, never changed or removed."""

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3})?Z?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def text(value: str) -> str:
    """A string of the document: secrets masked, else verbatim. Lone surrogates, which UTF-8 has not, are U+FFFD."""
    shown = mask.secrets(value)
    return shown if shown.isascii() else _SURROGATE.sub("�", shown)


def _opt(value: str | None) -> str | None:
    return None if value is None else text(value)


def time(stamp: Stamp | None) -> str | None:
    """ISO 8601, with Z only where the zone is known, with milliseconds where the stamp is narrower than a second."""
    if stamp is None:
        return None
    shown = show(stamp, seconds_only=stamp.hi - stamp.lo >= 1)
    return shown if _TIME.fullmatch(shown) else None  # a time outside the calendar is not a time


def strength(value: Strength | None) -> str:
    """`confirmed`, `likely` or `possible`; `unknown` where there is no cause to be sure of."""
    return value.value if value is not None and value.rank else "unknown"


def _cite(cite: Cite, uid: int | None) -> dict[str, Any]:
    return {**_cited(cite, uid)}


@lru_cache(maxsize=512)  # most lines are cited for and against several causes
def _cited(cite: Cite, uid: int | None) -> dict[str, Any]:
    return {
        "source": text(cite.source),
        "node": _opt(cite.node),
        "file": text(cite.file),
        "line": cite.line,
        "time": time(cite.at),
        "text": text(mask.mask_process(cite.text, uid)),
    }


_REQUIRE, _REFUTE = Role.REQUIRE, Role.REFUTE
MOST_AGAINST = 2
"""Lines cited against a cause that is ruled out: twenty causes times all their lines would bury the answer."""


def _decided(condition: Condition) -> str:
    """What a condition that ruled its rule out says, in words."""
    fact: Fact = condition.fact
    if fact.holds:
        return fact.says
    return fact.because or f"it is not so that: {fact.says}"


def ruled_out_by(verdict: Verdict) -> tuple[str, tuple[Cite, ...]]:
    """Why a verdict is ruled out, with the lines that say so, by the truth table of the engine.

    A refuting fact that holds or a required one that does not decides; else it was all confirming ones being false.
    """
    against = [
        c
        for c in verdict.conditions
        if (c.role is _REFUTE and c.fact.holds is True) or (c.role is _REQUIRE and c.fact.holds is False)
    ] or [c for c in verdict.conditions if c.role is not _REFUTE and c.fact.holds is False]
    against.sort(key=lambda c: (not c.fact.cites, c.role is not _REFUTE))  # what a line says comes first
    because = "; ".join(dict.fromkeys(_decided(c) for c in against))
    cites = tuple(dict.fromkeys(cite for c in against for cite in c.fact.cites))[:MOST_AGAINST]
    return because or verdict.summary or "no reason was given", cites


def _job(job: JobIdentity) -> dict[str, Any]:
    return {
        "cluster": _opt(job.cluster),
        "job_id": _opt(job.job_id),
        "shown_id": _opt(job.shown_id),
        "array": _opt(job.array),
        "array_task": _opt(job.array_task),
        "het": _opt(job.het),
        "het_offset": _opt(job.het_offset),
        "attempt": job.attempt,
        "attempts": job.attempts,
        "user": _opt(job.user),
        "account": _opt(job.account),
        "partition": _opt(job.partition),
        "qos": _opt(job.qos),
        "name": _opt(job.name),
        "state": _opt(job.state),
        "submit": time(job.submit),
        "start": time(job.start),
        "end": time(job.end),
        "nodes": [text(n) for n in job.nodes],
        "exit": {
            "code": job.exit.code,
            "signal": job.exit.signal,
            "core_dumped": job.exit.core_dumped,
            "raw": job.exit.raw,
            "shown_by_sacct": _opt(job.exit.shown_by_sacct),
            "meaning": text(job.exit.meaning),
        },
    }


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as the document of schema `slurm-triage/diagnosis/1`, made of dict, list, str, int, bool and None.

    Secrets are masked in every string; names of other users' processes in kernel lines where the job's uid is known.
    """
    uid = diagnosis.job.uid
    first = diagnosis.first_failure
    excluded = [(v.cause, *ruled_out_by(v)) for v in diagnosis.ruled_out]
    return {
        "schema": SCHEMA,
        "cause": text(diagnosis.cause),
        "owner": diagnosis.owner.value,
        "strength": strength(diagnosis.strength),
        "summary": text(diagnosis.summary),
        "actions": [
            {"text": text(a.text)} | ({} if a.command is None else {"command": text(a.command)})
            for a in diagnosis.actions
        ],
        "evidence": [_cite(c, uid) for c in diagnosis.evidence],
        "timeline": [
            {
                "time": time(m.at),
                "what": text(mask.mask_process(m.what, uid)),
                "source": text(m.cite.source),
                "node": _opt(m.cite.node),
                "file": text(m.cite.file),
                "line": m.cite.line,
            }
            for m in diagnosis.timeline
        ],
        "first_failure": None
        if first is None
        else {"rank": first.rank, "node": _opt(first.node), "time": time(first.at), "what": text(first.what)},
        "not": [
            {"cause": text(cause), "because": text(because), "evidence": [_cite(c, uid) for c in cites]}
            for cause, because, cites in excluded
        ],
        "missing": [
            {"fact": text(m.fact), "would_settle": text(m.would_settle), "how": text(m.how)} for m in diagnosis.missing
        ],
        "also": [{"cause": text(v.cause), "strength": strength(v.strength)} for v in diagnosis.also if v.strength.rank],
        "coverage": [
            {
                "file": text(c.file),
                "kind": _opt(c.kind),
                "lines": c.lines,
                "events": c.events,
                "node": _opt(c.node),
                "first": time(c.first),
                "last": time(c.last),
                "note": text(c.note),
            }
            for c in diagnosis.coverage
        ],
        "numbers": [{"label": text(label), "value": text(value) or "n/a"} for label, value in diagnosis.numbers],
        "job": _job(diagnosis.job),
        "parts": [document(p) for p in diagnosis.parts],
        "site_rules": [{"cause": text(cause), "file": text(file)} for cause, file in diagnosis.site_rules],
    }
