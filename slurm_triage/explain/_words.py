"""Pages of terms of Slurm and the kernel, and of the message families of the catalogs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurm_triage.explain._entry import Entry, Part
from slurm_triage.extension import cached
from slurm_triage.knowledge import table
from slurm_triage.sources._catalog import folders, load


def term(word: str) -> Iterator[Entry]:
    """The page of a term (`KillWait`, `CONSTRAINT_NONE`), also with a value behind it (`RaisedSignal:53(...)`)."""
    if not word[:1].isalpha():
        return  # no term: spares reading the table
    terms = table("terms")
    bare = re.split(r"[:=(]", word, maxsplit=1)[0].strip().lower()
    for name, entry in terms.items():
        if isinstance(entry, dict) and bare == name.lower():
            see = tuple(entry.get("cause", ()))
            yield Entry("term", name, "", (Part("", entry["meaning"]),), see, (entry["source"],), terms["since"])


@cached
def signatures() -> tuple[tuple[str, str], ...]:
    """(id, folder) of every family of every catalog."""
    return tuple((s.id, folder) for folder in folders() for s in load(folder).signatures)


def signature(word: str) -> Iterator[Entry]:
    """The page of a message family by its id (`slurm_time_limit`)."""
    if not re.fullmatch(r"\w+", word) or word.isdigit():
        return  # no id: spares reading the catalogs
    for id, folder in signatures():
        if id == word.lower():
            entry = load(folder).get(id)
            parts = [Part("", entry.meaning)]
            if entry.caution:
                parts.append(Part("Caution", entry.caution))
            examples = [e for form in entry.forms for e in form.examples]
            parts += [Part("Example", example) for example in examples[:2]]
            title = f"a message of the catalog {folder}, voice: {entry.voice.value}"
            yield Entry("signature", id, title, tuple(parts), (), entry.sources, entry.since)
