"""The tests of a site's knowledge: `cases/<name>/` is an evidence folder with `case.toml`, the expected answer.

`case.toml`: `cause_class` (the cause) and `also_accept` (further right ones); optional `owner` and `owner_accept`,
`strength` (`confirmed`, `likely`, `possible` or `unknown`: exactly that), `key_evidence` (pieces of text; each has to
be in a line that the diagnosis cites) and `never` (causes that must neither be the answer nor stand beside it). Other
keys are for people.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slurm_triage import case
from slurm_triage.causes import all_causes
from slurm_triage.engine import study
from slurm_triage.extension import PREFIX
from slurm_triage.model import Diagnosis, Owner
from slurm_triage.report.document import strength
from slurm_triage.site.causes import Bad
from slurm_triage.site.lines import line_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LABEL = "case.toml"
STRENGTHS = ("confirmed", "likely", "possible", "unknown")


def judged(folder: Path) -> tuple[Diagnosis, list[Bad]]:
    """The diagnosis of one case and what is not as its label says, each with its line in the label.

    Raises `Bad` for a case that cannot be judged at all.
    """
    label, text = _label(folder / LABEL)
    try:
        found = study(case.read(folder))
    except OSError as error:
        raise Bad(f"the evidence cannot be read: {error.strerror or error}") from error
    if not found.evidence_found:
        raise Bad("no file in it was recognised as evidence")
    return found.diagnosis, list(_wrong(found.diagnosis, label, text))


def _label(path: Path) -> tuple[Mapping[str, Any], str]:
    text = ""
    try:
        text = path.read_text("utf-8")
        table = tomllib.loads(text)
    except FileNotFoundError:
        raise Bad(f"there is no {LABEL} with the expected answer") from None
    except tomllib.TOMLDecodeError as error:
        raise Bad(f"not TOML: {error}", line_of(text, str(error))) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Bad(f"cannot be read: {error}") from error
    for key in ("cause_class", "owner", "strength"):
        if not isinstance(table.get(key, ""), str) or (key == "cause_class" and not table.get(key)):
            raise Bad(f"{key} has to be a string", line_of(text, key))
    for key in ("also_accept", "owner_accept", "key_evidence", "never"):
        if not isinstance(table.get(key, []), list) or not all(isinstance(one, str) for one in table.get(key, [])):
            raise Bad(f"{key} has to be a list of strings", line_of(text, key))
    _known(table, text, {"cause_class", "also_accept", "never"}, set(all_causes()))
    _known(table, text, {"owner", "owner_accept"}, {owner.value for owner in Owner})
    _known(table, text, {"strength"}, set(STRENGTHS))
    return table, text


def _known(table: Mapping[str, Any], text: str, keys: set[str], known: set[str]) -> None:
    for key in sorted(keys & set(table)):
        for value in [table[key]] if isinstance(table[key], str) else table[key]:
            if value not in known:
                raise Bad(f"{key}: {value!r} is not known", line_of(text, key))


def _wrong(diagnosis: Diagnosis, label: Mapping[str, Any], text: str) -> Iterator[Bad]:
    causes = [label["cause_class"], *label.get("also_accept", [])]
    said = f"{diagnosis.cause} ({strength(diagnosis.strength)})"
    if diagnosis.cause not in causes:
        yield Bad(
            f"cause_class: expected {' or '.join(causes)}, but the diagnosis is {said}", line_of(text, "cause_class")
        )
    elif "strength" in label and strength(diagnosis.strength) != label["strength"]:
        yield Bad(f"strength: expected {label['strength']}, but the diagnosis is {said}", line_of(text, "strength"))
    owners = [*([label["owner"]] if "owner" in label else []), *label.get("owner_accept", [])]
    if owners and diagnosis.owner.value not in owners:
        who = diagnosis.owner.value
        yield Bad(f"owner: expected {' or '.join(owners)}, but the diagnosis says {who}", line_of(text, "owner"))
    cited = [cite.text for part in (diagnosis, *diagnosis.parts) for cite in part.evidence]
    for piece in label.get("key_evidence", []):
        if not any(piece in line for line in cited):
            yield Bad(f"key_evidence: no cited line holds {piece!r}", line_of(text, "key_evidence"))
    named = {diagnosis.cause, *(v.cause for v in diagnosis.also)}
    for cause in label.get("never", []):
        if cause in named:
            yield Bad(f"never: the diagnosis names {cause}", line_of(text, "never"))
    for entry in diagnosis.coverage:
        if entry.file.startswith(PREFIX) and "failed" in entry.note:
            yield Bad(f"{entry.file.removeprefix(PREFIX)}: {entry.note}")
