"""Pages of states and flags of jobs, with the pairs of state and exit that say more than each alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_triage.causes import all_causes
from slurm_triage.explain._entry import Entry, Part, page_parts, sentence
from slurm_triage.knowledge import table

_CAUSES = {
    "TIMEOUT": ("time_limit", "hang_until_time_limit"),
    "OUT_OF_MEMORY": ("memcg_oom", "memcg_oom_child_only", "global_oom"),
    "CANCELLED": ("cancelled_by_user", "admin_requeue"),
    "SUSPENDED": ("preempt_suspend",),
}
"""Causes that a state leads to, where they have another name."""


def state(word: str) -> Iterator[Entry]:
    """The page of a state: `PREEMPTED`, `PR`, `CANCELLED by 1000`, `CANCELLED+`."""
    bare = re.split(r"[ +]", word.strip(), maxsplit=1)[0]
    if not re.fullmatch(r"[A-Za-z_]+", bare):
        return  # no state: spares reading the table
    for entry in table("slurm_states")["state"]:
        if bare.upper() == entry["name"] or (bare and bare == entry["code"]):
            yield _entry(entry)


def states() -> Iterator[Entry]:
    """The pages of all states and flags."""
    return (_entry(entry) for entry in table("slurm_states")["state"])


def _entry(entry: Mapping[str, Any]) -> Entry:
    facts, name = table("slurm_states"), str(entry["name"])
    kind = "a state" if entry["base"] else "a flag, shown in place of the state"
    end = "the job's end" if entry["final"] else "not the job's end"
    code = f", code {entry['code']}" if entry["code"] else ""
    see = (name.lower(),) if name.lower() in all_causes() else _CAUSES.get(name, ())
    pairs = [
        Part(str(pair["name"]), f"{sentence(pair['meaning'])} See `{pair['cause']}`.")
        for pair in facts["combination"]
        if pair["state"] == name
    ]
    parts = (Part("", sentence(entry["meaning"])), *page_parts(entry), *pairs)
    title = f"{kind} of a job{code}; {end}"
    return Entry("state", name, title, parts, see, tuple(facts["sources"]), facts["since"])
