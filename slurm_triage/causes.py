"""The causes that a diagnosis may name, with what they mean and which wider cause they refine (`causes.toml`)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.extension import cached, current

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

UNKNOWN = "unknown"
NO_FAILURE = "no_failure"
ARRAY_MIXED = "array_mixed"


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `title` is a few words; `refines` the id of the wider cause, None for a cause of its own.

    `page` is its page in the form of a rule's docstring, for a cause that no rule gives; empty for the others.
    """

    id: str
    title: str
    meaning: str
    refines: str | None = None
    page: str = ""


@cached
def all_causes() -> dict[str, Cause]:
    """Every cause by its id, those of the site behind the program's own."""
    table = tomllib.loads((Path(__file__).parent / "causes.toml").read_text("utf-8"))
    own = {
        id: Cause(id, entry["title"], entry["meaning"], entry.get("refines"), entry.get("page", ""))
        for id, entry in table.items()
    }
    return {**own, **current().causes}


def title(cause: str) -> str:
    """A few words for a cause; the id itself for one that is not known here."""
    entry = all_causes().get(cause)
    return entry.title if entry else cause


def refines(finer: str, wider: str) -> bool:
    """True if `finer` is `wider` or refines it, directly or over several steps."""
    seen: set[str] = set()
    cause: str | None = finer
    while cause is not None and cause not in seen:
        if cause == wider:
            return True
        seen.add(cause)
        entry = all_causes().get(cause)
        cause = entry.refines if entry else None
    return False
