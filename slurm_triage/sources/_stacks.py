"""Lines that only one software stack prints (catalog/stack): they tell what the advice has to fit, never a cause.

They are kept apart from the messages that rules ask for: a traceback through a framework is not a story of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_triage.case import EvidenceFile
from slurm_triage.model import StackLine, Voice
from slurm_triage.sources import Context
from slurm_triage.sources._catalog import Signature
from slurm_triage.sources._messages import Keeper, matches

FOLDER = "stack"
PREFIX = "stack_"
"""Before the name of the stack in the ids of its families."""

KEPT = 3
"""Lines kept per stack from the start of a file, and as many from its end."""

_COMMENT = re.compile(r"\s{0,80}(?:#|//)\s")
"""A script that somebody printed tells of what it might do, not of what runs."""


class Stacks:
    """The lines of one file."""

    def __init__(self) -> None:
        self._keeper = Keeper(KEPT)

    def take(self, number: int, text: str, families: list[Signature]) -> list[Signature]:
        """Keeps what the line says of a stack. Returns the families that speak of something else."""
        mine = [family for family in families if family.id.startswith(PREFIX)]
        if not mine:
            return families
        if not _COMMENT.match(text):
            for family, fields in matches(mine, text):
                self._keeper.add(number, text, family.id, Voice.PROGRAM, fields)
        return [family for family in families if family not in mine]

    def events(self, source: str, file: EvidenceFile, context: Context) -> Iterator[StackLine]:
        """What was kept, in the order of the lines."""
        for hit in self._keeper.hits():
            yield StackLine(
                context.cite(source, file, hit.number, hit.text),
                stack=hit.id.removeprefix(PREFIX),
                banner="banner" in hit.fields,
                checkpoint="checkpoint" in hit.fields,
            )
