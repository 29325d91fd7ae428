"""Output paths out of the command line of sbatch, as accounting keeps it (SubmitLine).

The line has lost its quotes. So reading stops at the first word that is not an option or the value of one: it is the
script, or a part of a value with blanks, and what follows may be the script's own options. Source: sbatch(1) of 22.05
to 25.11.
"""

from __future__ import annotations

from collections.abc import Iterator

SHORT_WITH_VALUE = frozenset("ABCDFGJLMNSabcdeimnopqtwx")
SHORT_ALONE = frozenset("HIOQWhksv")
LONG_ALONE = frozenset(
    {
        "contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "nice", "no-kill",
        "no-requeue", "overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue",
        "spread-job", "test-only", "use-min-nodes", "verbose", "wait",
    }
)  # fmt: skip
"""Options without a value, or with one only behind `=`."""

_STREAMS = {"o": "out", "output": "out", "e": "err", "error": "err"}


def paths(line: str) -> dict[str, str]:
    """The patterns of `out` and `err` that the options give, the last of each; empty if it is not a line of sbatch."""
    return {_STREAMS[name]: value for name, value in _options(line) if name in _STREAMS and value}


def _options(line: str) -> Iterator[tuple[str, str]]:
    words = iter(line.split())
    if next(words, "").rsplit("/", 1)[-1] != "sbatch":
        return
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            if not name or name == "wrap":
                return
            if not equals and name not in LONG_ALONE:
                value = next(words, "")
            yield name, value
        elif word.startswith("-") and word[1:2] in SHORT_WITH_VALUE:
            yield word[1], word[2:] or next(words, "")
        elif not (word.startswith("-") and word[1:] and SHORT_ALONE.issuperset(word[1:])):
            return
