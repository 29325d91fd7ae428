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
FINISHED = re.compile(r"\b(?:finished|completed)\b", re.IGNORECASE)
EPILOGUE = re.compile(
    r"\b(?:jobs?|script|slurm\w*|task|step|date)\b|\b(?:finished|completed)\W+(?:at|on)\b"
    r"|\b(?:not|never|only|partly|partially|fail\w*|error\w*)\b|n't\b|\d ?(?:of|/|out of) ?\d",
    re.IGNORECASE,
)
"""What batch scripts say of their end whatever happened, beside `done`, and what was finished in part or not at all."""
GOES_ON = re.compile(
    r"\b(?:retrying|will retry|trying again|ignor(?:ed|ing)|skipp(?:ed|ing)|continuing|falling back|expected by"
    r"|as expected|as designed|reducing)\b|\(caught\b|\(optional\b|^(?:PASSED|XFAIL)\b"
    r"|\bWARNING\b|\b[Ww]arning:|\[W[ \d]|: W \w+/",
)
"""Words with which a line itself says that the program goes on. NCCL prints its fatal errors as `WARN`."""
MENTION = re.compile(r"(?:^|\s)(?:Examples?|e\.g\.|For example)[:,]? \S|^\s*\|(?:[^|]{1,400}\|){2,40}\s*$")
"""Forms of manuals: an example, the row of a table."""
WAITS = frozenset({"alloc_granted", "alloc_queued", "alloc_relinquished", "srun_step_busy"})
"""Families of Slurm's words that tell of no failure: jobs and steps that wait for their resources."""
FAILURE = re.compile(
    r"\b(?:not|un|without|no) ?success|(?<!\d)[1-9]\d{0,8} (?:failed|errors?|failures?)\b(?! ?[:=] ?[\d.])"
    r"|\b(?:fatal|abort(?:ed|ing)?)\b",
    re.IGNORECASE,
)


def kept(events: Iterable[Event]) -> tuple[Sign, ...]:
    """The message lines of an attempt, without those of its output that were outlived.

    All lines are kept where anything but the output was read, and those that Slurm wrote into it always are, but that a
    step waited for its turn.
    """
    found = tuple(events)
    signs = tuple(e for e in found if isinstance(e, Sign))
    if any(e.cite.source != "job_log" for e in found):
        return signs
    files: dict[str, list[Sign]] = {}
    for sign in signs:
        files.setdefault(sign.cite.file, []).append(sign)
    quiet = all(_words(s) or s.id in WAITS for s in signs)
    last: dict[str, int] = {}
    calm: dict[str, int] = {}
    for end in (s for s in signs if s.id == "log_end"):
        own = files[end.cite.file]
        still = quiet and _calm_end(end, own)
        last[end.cite.file] = _outlived_up_to(end, own, still)
        calm[end.cite.file] = end.cite.line - NEAR_END if still else 0
    return tuple(
        s
        for s in signs
        if not (_words(s) and not _always(s) and s.cite.line <= last.get(s.cite.file, 0))
        and not (_goes_on(s) and s.cite.line <= calm.get(s.cite.file, 0))
    )


def _words(sign: Sign) -> bool:
    """Whether a program wrote the line."""
    return sign.voice is Voice.PROGRAM


def _goes_on(sign: Sign) -> bool:
    """Whether the line says of itself that it ended nothing, or only mentions what may happen."""
    told = (_words(sign) and not _always(sign)) or sign.id in WAITS
    text = sign.cite.text[:1000]
    return told and (GOES_ON.search(text) or MENTION.search(text)) is not None


def _calm_end(end: Sign, own: list[Sign]) -> bool:
    """Whether nothing that is known of a failure stands near the end of the file. `own`: its lines."""
    near = (s for s in own if s.cite.line > end.cite.line - NEAR_END)
    return all(_always(s) or _goes_on(s) for s in near)


def _always(sign: Sign) -> bool:
    return sign.id in ("log_end", "log_tail", "log_empty")


def _outlived_up_to(end: Sign, own: list[Sign], still: bool) -> int:
    """The last line of the file that the program outlived, 0 if that is not known.

    `own`: the lines of the file; `still`: neither Slurm nor its last lines tell of a failure.
    """
    if len({s.id for s in own if s.voice is Voice.PROGRAM}) >= LISTING:
        return end.cite.line
    texts = [s.fields["text"][:1000] for s in own if s.id == "log_tail" and s.cite.line > end.cite.line - LAST]
    if any(FAILURE.search(text) for text in texts):
        return 0
    if any(COUNTED.search(text) for text in texts):
        return end.cite.line
    if any(SUCCESS.search(text) for text in texts):
        return end.cite.line - NEAR_END
    finished = any(FINISHED.search(text) and not EPILOGUE.search(text) for text in texts)
    return end.cite.line - NEAR_END if finished and still else 0
