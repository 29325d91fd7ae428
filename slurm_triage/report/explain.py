"""How a diagnosis came about: every rule that was considered, with each of its conditions and the lines behind them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from slurm_triage.clock import show
from slurm_triage.model import Cite, Condition, Diagnosis, Strength, Verdict
from slurm_triage.report import mask
from slurm_triage.report.document import strength
from slurm_triage.report.text import COLUMNS, words

_ORDER = (Strength.CONFIRMED, Strength.LIKELY, Strength.POSSIBLE, Strength.RULED_OUT, Strength.SILENT)
_HOLDS = {True: "true   ", False: "false  ", None: "unknown"}


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    lines = textwrap.wrap(words(text), COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines or [first.rstrip()]


def _cite(cite: Cite, uid: int | None) -> str:
    node = f", node {words(cite.node)}" if cite.node else ""
    at = f", {show(cite.at)}" if cite.at is not None else ""
    line = mask.plain(mask.secrets(mask.mask_process(cite.text, uid)))
    return f"        {words(cite.file)}:{cite.line} ({words(cite.source)}{node}{at}): {line}"


def _condition(condition: Condition, uid: int | None) -> Iterator[str]:
    fact = condition.fact
    yield from _wrapped(fact.says, f"  {condition.role.value:<8}{_HOLDS[fact.holds]}  ", "      ")
    if fact.because:
        yield from _wrapped(f"because: {fact.because}", "      ", "        ")
    if fact.how:
        yield from _wrapped(f"to find out: {fact.how}", "      ", "        ")
    for cite in fact.cites:
        yield _cite(cite, uid)


def _rule(verdict: Verdict, uid: int | None) -> Iterator[str]:
    owner = f", owner: {verdict.owner.value}" if verdict.strength.rank else ""
    yield f"{words(verdict.cause)}: {verdict.strength.value}{owner}"
    if verdict.summary:
        yield from _wrapped(verdict.summary, "  ", "  ")
    for condition in verdict.conditions:
        yield from _condition(condition, uid)
    if not verdict.conditions:
        yield "  (no condition)"
    for note in verdict.notes:
        yield from _wrapped(f"note: {note}", "  ", "    ")


def explain(diagnosis: Diagnosis) -> str:
    """Every rule considered, the winner first, then by strength, ruled-out and silent rules at the end.

    Each condition is one line `role holds statement`, where holds is `true`, `false` or `unknown`, with its reason,
    how to find out, and the whole lines cited below it. ASCII, secrets masked, ends in a newline; any length.
    """
    uid = diagnosis.job.uid
    job = words(diagnosis.job.shown_id or diagnosis.job.job_id or "") or "n/a"
    out = [
        f"Job {job}, attempt {diagnosis.job.attempt} of {diagnosis.job.attempts}: {words(diagnosis.cause)} "
        f"({strength(diagnosis.strength)}), owner: {diagnosis.owner.value}",
        *_wrapped(diagnosis.summary, "", ""),
    ]
    ranked = sorted(
        diagnosis.considered,
        key=lambda v: (not (v.cause == diagnosis.cause and v.strength.rank), _ORDER.index(v.strength)),
    )
    for verdict in ranked:
        out += ["", *_rule(verdict, uid)]
    if not ranked:
        out += ["", "No rule was considered."]
    for part in diagnosis.parts:
        out += ["", explain(part).rstrip("\n")]
    return "\n".join(out) + "\n"
