"""The cases beside the rules: `<cause>.toml` holds at least a hit, a near miss and one where the deciding fact is
unknown. What they expect is what is true of such a job, not what the engine happens to say.

A case is a table `[[case]]`:

* `kind` (`hit`, `near miss` or `unknown`) and `name`;
* `files`: the evidence. A value is the text or a list of texts; one that starts with `@` names a text of `common.toml`,
  with `;value` for each of its `{}`. `manifest.toml` is the common one if the case has none of its own;
* `expect`: `cause`, `strength` (`unknown` where no cause is named) and `owner`, each one word or a list of right ones;
* `cites`: for each of these substrings a line of the evidence must hold it;
* `not_confirmed`: causes that must not be confirmed, neither as the answer nor beside it;
* `never`: causes that must not be the answer at all;
* `missing`: for each of these substrings one of the missing facts must hold it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import slurm_triage.rules
from slurm_triage import causes
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Strength
from slurm_triage.report.document import strength
from slurm_triage.rules import all_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
KINDS = {"hit", "near miss", "unknown"}
MEMBERS = {"kind", "name", "files", "expect", "cites", "not_confirmed", "never", "missing"}
COMMON: dict[str, str] = tomllib.loads((HERE / "common.toml").read_text("utf-8"))


def _cases() -> list[Any]:
    found = []
    for path in sorted(HERE.glob("*.toml")):
        if path.stem != "common":
            for case in tomllib.loads(path.read_text("utf-8"))["case"]:
                found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return found


def _text(piece: str) -> str:
    if not piece.startswith("@"):
        return piece if piece.endswith("\n") or not piece else piece + "\n"
    name, *values = piece[1:].split(";")
    return COMMON[name].format(*values)


def _files(case: Mapping[str, Any]) -> dict[str, bytes]:
    files = {"manifest.toml": "@manifest"} | case["files"]
    return {
        name: "".join(map(_text, [value] if isinstance(value, str) else value)).encode()
        for name, value in files.items()
    }


def _one_of(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _confirmed(diagnosis: Diagnosis) -> set[str]:
    """Causes said to be confirmed, as the answer or beside it."""
    found = {v.cause for v in diagnosis.also if v.strength is Strength.CONFIRMED}
    return found | ({diagnosis.cause} if diagnosis.strength is Strength.CONFIRMED else set())


@pytest.mark.parametrize("case", _cases())
def test_case(case: Mapping[str, Any]) -> None:
    diagnosis = diagnose(from_files(_files(case)))
    said = {"cause": diagnosis.cause, "strength": strength(diagnosis.strength), "owner": diagnosis.owner.value}
    wrong = {key: said[key] for key, value in case["expect"].items() if said[key] not in _one_of(value)}
    assert not wrong, f"said {said}: {diagnosis.summary}"
    for text in case.get("cites", ()):
        assert any(text in cite.text for cite in diagnosis.evidence), f"no cited line holds {text!r}"
    assert not _confirmed(diagnosis) & set(case.get("not_confirmed", ()))
    assert diagnosis.cause not in case.get("never", ())
    facts = [f"{m.fact} {m.would_settle} {m.how}" for m in diagnosis.missing]
    for text in case.get("missing", ()):
        assert any(text in fact for fact in facts), f"nothing missing speaks of {text!r}: {facts}"


@pytest.mark.parametrize("cause", [rule.cause for rule in all_rules()])
def test_every_rule_has_its_cases(cause: str) -> None:
    path = HERE / f"{cause}.toml"
    assert path.is_file(), f"tests/rules/{cause}.toml is missing"
    cases = tomllib.loads(path.read_text("utf-8"))["case"]
    assert {case["kind"] for case in cases} == KINDS
    assert len({case["name"] for case in cases}) == len(cases)
    assert any(cause in _one_of(case["expect"].get("cause", "")) for case in cases if case["kind"] == "hit")


def test_every_module_of_the_folder_holds_the_rule_of_its_name() -> None:
    folder = Path(next(iter(slurm_triage.rules.__path__)))
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert modules == {rule.cause for rule in all_rules()}


def test_every_case_says_what_it_expects() -> None:
    words = {"confirmed", "likely", "possible", "unknown"}
    for param in _cases():
        case = param.values[0]
        assert case.keys() <= MEMBERS, param.id
        assert case["kind"] in KINDS, param.id
        assert case["expect"].keys() <= {"cause", "strength", "owner"}, param.id
        assert case["expect"] or case.get("not_confirmed") or case.get("never"), param.id
        named = {*_one_of(case["expect"].get("cause", [])), *case.get("not_confirmed", ()), *case.get("never", ())}
        assert named <= causes.all_causes().keys(), param.id
        assert set(_one_of(case["expect"].get("strength", []))) <= words, param.id
