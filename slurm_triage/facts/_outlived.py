"""What a program printed, outlived and ended well after, where its output is all that there is to read.

A caught exception, a retry, a test that provokes a crash and a printed page about failures all hold the words of a
failure. Where accounting is there, the job's exit settles it. Where only the output is, its end has to: a program that
went on for long and says at last that all went well, or a text that speaks of every kind of failure at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_triage.model import Event, Sign, Voice

NEAR_END = 20
"""Lines from the end of a file in which an error may be the last thing that the program did."""
LISTING = 12
"""Families of a program's words in one output: no run fails of so many, but tables of errors and manuals hold them."""
LAST = 3
"""Last lines of a file that are asked whether all went well."""

COUNTED = re.compile(
    r"\ball (?:\d{1,9} )?(?:\w{1,20} )?passed\b|\b\d{1,9} passed\b|\b(?:0|no) (?:errors|failures|failed)\b",
    re.IGNORECASE,
)
"""Words of who has counted what failed: they speak of each line above them, however near."""
SUCCESS = re.compile(
    r"\bsuccess(?:ful(?:ly)?)?\b|\bsucceeded\b|\bexit(?:ed|ing)?(?: with)?(?: (?:exit )?code| status)?[:=]? 0\b",
    re.IGNORECASE,
)
"""Words that all went well. `done` is none: scripts print it whatever happened."""
FAILURE = re.compile(
    r"\b(?:not|un|without|no) ?success|(?<!\d)[1-9]\d{0,8} (?:failed|errors?|failures?)\b"
    r"|\b(?:fatal|abort(?:ed|ing)?)\b",
    re.IGNORECASE,
)


def kept(events: Iterable[Event]) -> tuple[Sign, ...]:
    """The message lines of an attempt, without those of its output that were outlived.

    All lines are kept where anything but the output was read, and those
    that Slurm wrote into it always are.
    """
    found = tuple(events)
    signs = tuple(e for e in found if isinstance(e, Sign))
    if any(e.cite.source != "job_log" for e in found):
        return signs
    last = {s.cite.file: _outlived_up_to(s, signs) for s in signs if s.id == "log_end"}
    return tuple(
        s for s in signs if s.voice is not Voice.PROGRAM or _always(s) or s.cite.line > last.get(s.cite.file, 0)
    )


def _always(sign: Sign) -> bool:
    return sign.id in ("log_end", "log_tail", "log_empty")


def _outlived_up_to(end: Sign, signs: tuple[Sign, ...]) -> int:
    """The last line of the file that the program outlived, 0 if that is not known."""
    own = [s for s in signs if s.cite.file == end.cite.file]
    if len({s.id for s in own if s.voice is Voice.PROGRAM}) >= LISTING:
        return end.cite.line
    texts = [s.fields["text"][:1000] for s in own if s.id == "log_tail" and s.cite.line > end.cite.line - LAST]
    if any(FAILURE.search(text) for text in texts):
        return 0
    if any(COUNTED.search(text) for text in texts):
        return end.cite.line
    return end.cite.line - NEAR_END if any(SUCCESS.search(text) for text in texts) else 0
