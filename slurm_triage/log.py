"""Log lines that people can read and tools can cut: `level event key=value`, one line each, on standard error."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable

_PLAIN = re.compile(r"[A-Za-z0-9_.:/+,@%=-]{1,200}")


def line(level: str, event: str, fields: dict[str, object]) -> str:
    """One line. Values with anything unusual are quoted as JSON does it, so that no text can end the line."""
    words = [f"{key}={_word(value)}" for key, value in fields.items() if value is not None]
    return " ".join((level, event, *words))


def _word(value: object) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text[:1000])


class Sparing:
    """Lets `most` lines of a kind through in `seconds`: what somebody else can cause must not fill the journal."""

    def __init__(self, most: int = 20, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kinds: dict[str, tuple[float, int]] = {}

    def __call__(self, kind: str) -> int | None:
        """None if the line is to be left out; else how many of its kind were left out before it."""
        now = self._clock()
        since, count = self._kinds.get(kind, (now, 0))
        left_out = 0
        if now - since >= self._seconds:
            left_out = max(0, count - self._most)
            since, count = now, 0
        self._kinds[kind] = (since, count + 1)
        return left_out if count < self._most else None


class Log:
    """Writes lines to a function, standard error by default."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write or (lambda text: print(text, file=sys.stderr, flush=True))

    def info(self, event: str, **fields: object) -> None:
        """Something that happened."""
        self._write(line("info", event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Something that an administrator should look at."""
        self._write(line("error", event, fields))
