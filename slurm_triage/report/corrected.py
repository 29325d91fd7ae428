"""What stands around a report that somebody has corrected: the correction first and last, the old verdict between."""

from __future__ import annotations

import time
from typing import Protocol

from slurm_triage.causes import UNKNOWN, title
from slurm_triage.report.text import words, wrap

MOST = 10
"""Lines of a correction: enough for a reason of `history.corrections.WHY_LIMIT` characters of ASCII."""

_BEGIN = "CORRECTED by "


class Correction(Protocol):
    """What has to be known of a correction; `slurm_triage.history.corrections.Correction` is one."""

    @property
    def cause(self) -> str | None:
        """What it was: an id of causes.toml."""

    @property
    def owner(self) -> str | None:
        """Who has to act, None = not said."""

    @property
    def why(self) -> str:
        """How that is known."""

    @property
    def by_user(self) -> str:
        """Who says so."""

    @property
    def at(self) -> float:
        """When, in epoch seconds."""

    @property
    def verdict_cause(self) -> str:
        """What the diagnosis said then."""

    @property
    def verdict_owner(self) -> str:
        """Who had to act, as the diagnosis said then."""

    @property
    def agrees_now(self) -> bool:
        """Whether the diagnosis says so by now."""


def corrected(text: str, correction: Correction | None) -> str:
    """A report (of `report.text.render`, lines of 79 columns of ASCII) with the correction of its attempt.

    It stands above the report, which stays as it is, and is named once more in the last line, because people use
    `tail`. A correction that is there already is replaced, with None taken out.
    """
    report = _without(text)
    if correction is None:
        return report
    head = [*wrap(words(_statement(correction)), MOST, "", ""), _about_the_rest(correction)]
    foot = f"{wrap(_signed(correction), 1, '', '')[0]}: see the top of this section."
    return "\n".join([*head, "", report.rstrip("\n"), foot]) + "\n"


def _without(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    if lines[0].startswith(_BEGIN) and "" in lines:
        lines = lines[lines.index("") + 1 :]
        if lines and lines[-1].startswith(_BEGIN):
            lines.pop()
    return "\n".join(lines) + "\n"


def _signed(correction: Correction) -> str:
    return words(f"{_BEGIN}{words(correction.by_user)[:20]} on {time.strftime('%Y-%m-%d', time.gmtime(correction.at))}")


def _statement(correction: Correction) -> str:
    cause = correction.cause or UNKNOWN
    if cause == correction.verdict_cause:
        what = f"the cause was {_named(cause)}, as said, but not for {correction.verdict_owner} to act on"
    elif cause == UNKNOWN:
        what = f"the cause is not known, it was not {_named(correction.verdict_cause)}"
    else:
        what = f"the cause was {_named(cause)}, not {_named(correction.verdict_cause)}"
    stop = "" if correction.why.endswith((".", "!", "?")) else "."
    act = f" Owner: {correction.owner}." if correction.owner else ""
    return f"{_signed(correction)}: {what}: {correction.why}{stop}{act}"


def _named(cause: str) -> str:
    return f"{cause} ({title(cause)})" if title(cause) != cause else cause


def _about_the_rest(correction: Correction) -> str:
    return "The diagnosis agrees now:" if correction.agrees_now else "What the diagnosis says, which is not right:"
