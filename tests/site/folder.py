"""A small folder of knowledge that is well, and what to change in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SIGNATURE = """id = "store_gone"
voice = "program"
meaning = "The site's object store refused the client."
since = "2026-12"
sources = ["source of the site's client"]
hints = ["STORE-E"]
[[form]]
regex = '''^STORE-E (?P<code>[0-9]{1,4}): refused by (?P<server>[a-z0-9.]{1,80})$'''
examples = ["STORE-E 12: refused by s1.example.org"]
counter = ["STORE-E 12: refused"]
origin = "format"
"""
CAUSES = """[object_store_gone]
title = "the object store refused the job"
meaning = "the site's object store does not serve this job"
"""
RULE = '''from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, confirm, owner, require, rule, summary


@rule("object_store_gone", supersedes=("app_error",))
def store(job: Job) -> Said:
    """The store refused.

    What happened: the store refused.

    Who acts: the administrator.

    What to do: ask the store.

    What this is not: a full disk.
    """
    yield require(job.site.seen("store_gone"))
    yield confirm(job.site.ended_on("store_gone"))
    yield owner(Owner.ADMIN)
    yield summary(f"{job.site.value('store_gone', 'server')} refused the job.")
'''
EVIDENCE = {"job.out": b"step 1\nSTORE-E 12: refused by s1.example.org\n"}
LABEL = 'cause_class = "object_store_gone"\nowner = "admin"\nstrength = "confirmed"\nkey_evidence = ["STORE-E 12"]\n'


def fill(where: Path, change: Mapping[str, str] | None = None) -> Path:
    """A folder `knowledge.d` below `where`, with files changed or added; only its owner may write there."""
    folder = where / "knowledge.d"
    files = {
        "signatures/store_gone.toml": SIGNATURE,
        "causes.toml": CAUSES,
        "rules/store.py": RULE,
        "cases/refused/job.out": EVIDENCE["job.out"].decode(),
        "cases/refused/case.toml": LABEL,
        **(change or {}),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for path in (where, folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder
