"""The docstring of a rule as a page: paragraphs with a label, commands as indented lines below them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc

from slurm_triage.explain._entry import Part, capital

LABELS = (
    "What happened",
    "Who acts",
    "Hardware or software",
    "First check",
    "As an administrator",
    "What to do",
    "What this is not",
    "Check next",
)
SOURCES = "Sources"
_LABEL = re.compile(rf"({'|'.join((*LABELS, SOURCES))}):\s*", re.IGNORECASE)
_INDENT = "    "


def parts(doc: str) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The parts of a docstring in its order, and its sources. The first part has no heading: what the rule is about."""
    found: list[Part] = []
    sources: tuple[str, ...] = ()
    for paragraph in re.split(r"\n\s*\n", cleandoc(doc)):
        if paragraph.startswith(_INDENT) and found:
            last = found[-1]
            found[-1] = Part(last.heading, last.text, (*last.commands, *_commands(paragraph)))
            continue
        text = " ".join(paragraph.split())
        match = _LABEL.match(text)
        heading, text = (match[1], text[match.end() :]) if match else ("", text)
        if heading == SOURCES:
            sources = tuple(word.strip() for word in text.rstrip(".").split(", ") if word.strip())
        elif text:
            found.append(Part(heading, capital(text)))
    return tuple(found), sources


def _commands(block: str) -> Iterator[str]:
    """One command a line; a line that is indented further goes on with the one above."""
    command = ""
    for line in block.splitlines():
        if line.startswith(_INDENT + " ") and command:
            command += f" {line.strip()}"
            continue
        if command:
            yield command
        command = line.strip()
    if command:
        yield command
