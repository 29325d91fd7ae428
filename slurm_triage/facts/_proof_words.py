"""Forms of lines by which an end is told from a life that goes on (decision 12)."""

from __future__ import annotations

import re

CLOSING = re.compile(
    r"[\s=_*#~^|+!<>(){}\[\]-]*|\s*\.{3}\s*"  # rules, carets, brackets, the mark of a cut
    r"|\s{0,200}(?:File \"[^\"]{1,400}\", line \d{1,9}.*|at [\w.$<>/]{1,300} ?\(.*|#\d{1,4}:? .*|frame #\d{1,4}.*"
    r"|at \S{1,400}:\d{1,9}|\S{1,400} at line \d{1,9} column \d{1,9}|Error termination\. Backtrace:"  # gfortran, Octave
    r"|Exception raised from .*)"
    r"|\[\d{1,5}\]:|Failures:|\S{1,200} FAILED|wandb: .*"  # torchrun's report; what wandb prints as its process ends
    r"|CUDA kernel errors might be asynchronously .*|For debugging consider passing CUDA_LAUNCH_BLOCKING.*"
    r"|Compile with `TORCH_USE_CUDA_DSA`.*|Last error:|\s{0,8}what\(\): .*"  # below PyTorch's errors
    r"|.{0,200}NCCL INFO .{1,200}:\d{1,6} -> \d{1,3}\b.*"
)
"""Lines that belong to a report of an error and are no sign of life: rules, frames of a stack."""

SURVIVED = re.compile(
    r"\b(?:retry(?:ing)?|retries|trying again|try again|will try|attempt \d{1,6}|ignor(?:ed?|ing)|skip(?:ped|ping)?"
    r"|continu(?:ed?|ing)|falling back|fall ?back|non-fatal|recover(?:ed|ing)|disabl(?:ed|ing))\b"
    r"|(?<!NCCL )\bWARN(?:ING)?\b|\b(?:DEBUG|INFO|NOTICE)\b|\b[Ww]arning:",
    re.IGNORECASE,
)
"""Words with which a program says that it goes on. NCCL prints its fatal errors as warnings."""

REASON = re.compile(
    r"\b(?:errors?|fail(?:ed|ure|s|ing)?|fatal|can ?not|can't|could not|couldn't|unable|not enough|out of|insufficient"
    r"|exceed(?:s|ed)?|denied|refused|illegal|invalid|corrupt(?:ed|ion)?|timed? ?out|lost|killed|crash(?:ed)?|panic"
    r"|exceptions?|abort(?:ed|ing)?|missing|not found|no such|unreachable|unavailable|broken|wrong|bad|must|negative"
    r"|diverged?|not converged?|nan)\b",
    re.IGNORECASE,
)
"""Words of lines that may name a reason although no catalog knows them."""

PROMPT = re.compile(
    r"(?:\([\w.-]{1,60}\) ?)?(?:\[?[\w.-]{1,60}@[\w.-]{1,80}[ :][^\]$#]{0,200}\]?[$#] ?|\$ ?)[\w./~-].{0,400}"
)
"""A command at an interactive shell's prompt: the one before it has ended."""

LIBRARY = re.compile(r"\[[\w.-]{1,80}:\d{1,9}\]")
"""How Open MPI, PMIx and UCX begin their messages: those are not the program's own."""
