"""What accounting says of a case, in whatever form it was pasted: state and exit code, nothing more."""

from __future__ import annotations

import re

from tests.baselines import Texts, all_text

STATES = (
    "OUT_OF_MEMORY",
    "TIMEOUT",
    "PREEMPTED",
    "NODE_FAIL",
    "BOOT_FAIL",
    "DEADLINE",
    "CANCELLED",
    "FAILED",
    "COMPLETED",
)
"""In the order of how much they say, for a paste with several jobs or steps."""
_STATE = re.compile(r"\b(OUT_OF_ME\w*|TIMEOUT|PREEMPTED|NODE_FAIL|BOOT_FAIL|DEADLINE|CANCELLED|FAILED|COMPLETED)\b")
_CODE = re.compile(r"(?<![\d:.])(\d{1,3}):(\d{1,3})(?![\d:.])")
_PRINTED = (
    re.compile(r"[Ee]xited with exit code (\d+)"),
    re.compile(r"[Ee]xit(?: ?[Cc]ode| status)s?\s*[:=]?\s*\(?(-?\d{1,3})\b"),
    re.compile(r"exitcode\s*:\s*(-?\d{1,3})\b"),
    re.compile(r"\(signal (\d{1,2})\)"),
)


def state(case: Texts) -> str:
    """The state that says most, or ""."""
    found = {m[1] if not m[1].startswith("OUT_OF_ME") else STATES[0] for m in _STATE.finditer(all_text(case))}
    return next((s for s in STATES if s in found), "")


def exit_code(case: Texts) -> tuple[int, int]:
    """(code, signal): the first pair that is not 0:0, else a code that a launcher printed, else (0, 0)."""
    if state(case):
        for name, text in case.items():
            for m in _CODE.finditer(text) if name != "job.out" else ():
                if (m[1], m[2]) != ("0", "0"):
                    return int(m[1]), int(m[2])
    for pattern in _PRINTED:
        for m in pattern.finditer(all_text(case)):
            code = int(m[1])
            if code:
                return (0, -code) if code < 0 else (code, 0)
    return 0, 0
