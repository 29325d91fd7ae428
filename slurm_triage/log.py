"""Log lines that people can read and tools can cut: `level event key=value`, one line each, on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

_PLAIN = re.compile(r"[A-Za-z0-9_.:/+,@%=-]{1,200}")


def line(level: str, event: str, fields: dict[str, object]) -> str:
    """One line. Values with anything unusual are quoted as JSON does it, so that no text can end the line."""
    words = [f"{key}={_word(value)}" for key, value in fields.items() if value is not None]
    return " ".join((level, event, *words))


def _word(value: object) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text[:1000])


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
