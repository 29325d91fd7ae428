"""The files of advice: complete, well-formed in their language, short enough for the page, and never a higher limit."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_triage.rules
from slurm_triage import advice
from slurm_triage.advice import Advice, AdviceError
from slurm_triage.causes import all_causes
from slurm_triage.facts.stack import stacks, title
from slurm_triage.rules import all_rules
from slurm_triage.sources._catalog import folders, load
from slurm_triage.sources._stacks import FOLDER, PREFIX

RULES = Path(slurm_triage.rules.__file__).parent
CALL = re.compile(r'fitting_advice\(job, "(\w+)"\)')
LINES = 3
"""Lines that the report has for one action."""


def _all() -> Iterator[Advice]:
    for stack in (advice.GENERIC, *advice.stacks()):
        yield from advice.of_stack(stack).values()


ALL = [pytest.param(found, id=f"{found.stack}: {found.family}") for found in _all()]


def _texts(found: Advice) -> list[str]:
    return [found.step, found.paste, found.measure, found.measure_when, found.confirm, found.numbers]


# ------------------------------------------------------------------------------------------------ the files


def test_every_stack_has_signatures_or_names_a_table_and_advice() -> None:
    assert set(advice.stacks()) == set(stacks())
    assert {s.id for s in load(FOLDER).signatures} == {PREFIX + name for name in stacks()}


def test_a_stack_stands_before_what_it_is_built_on() -> None:
    order = list(stacks())
    for name, entry in stacks().items():
        if over := entry.get("over"):
            assert order.index(name) < order.index(over)


@pytest.mark.parametrize("found", ALL)
def test_fields(found: Advice) -> None:
    assert re.fullmatch(r"20\d\d-\d\d", found.since)
    assert all(re.fullmatch(r"https://[\w./%#-]+", url) for url in found.sources)
    assert bool(found.step) == bool(found.paste) == bool(found.lang) == (found.stack != advice.GENERIC)
    assert set(found.unless) <= {s.id for folder in folders() for s in load(folder).signatures}
    for text in _texts(found):
        assert text.isascii() and "\n" not in text.replace("\\n", "")
    assert set(re.findall(r"\{(\w+)\}", found.numbers)) <= {"tasks", "limit", "share", "time_limit", "minutes"}


@pytest.mark.parametrize("found", ALL)
def test_it_fits_the_lines_that_the_report_has(found: Advice) -> None:
    numbers = found.numbers.format(
        tasks=128, limit="1000.0 GiB", share="1000.0 MiB", time_limit="47 h 59 min", minutes=9
    )
    said = [f"Measure {found.measure_when}: {found.measure}", f"{numbers} Cheapest check: {found.confirm}".strip()]
    if found.step:
        said.append(f"{title(found.stack)}: {found.step}: {found.paste}")
    for text in said:
        wrapped = textwrap.wrap(f"- {text}", 75, break_on_hyphens=False)
        assert len(wrapped) <= LINES, wrapped


@pytest.mark.parametrize("found", ALL)
def test_it_never_asks_for_a_higher_limit(found: Advice) -> None:
    said = " ".join(_texts(found))
    assert not re.search(r"--mem(?:-per-\w+)?\b(?!ory|_)|--time[= ]|\bmore memory\b|\braise\b|\bincrease\b", said), said


@pytest.mark.parametrize("found", ALL)
def test_what_is_to_be_pasted_is_well_formed(found: Advice) -> None:
    for text, language in ((found.paste, found.lang), (found.measure, found.measure_lang)):
        if text:
            _parse(text, language)


def _parse(text: str, language: str) -> None:
    if language == "python":
        ast.parse(text)
    elif language == "json":
        json.loads(f"{{{text}}}")
    elif language == "sbatch":
        first, *options = text.split()
        assert first == "#SBATCH" and options and all(o.startswith("--") for o in options)
    elif language == "args":
        assert any(word.startswith("-") for word in shlex.split(text))
    elif language == "shell":
        bash = shutil.which("bash")
        assert bash is not None
        subprocess.run([bash, "-n", "-c", text], check=True)
    else:
        bare = re.sub(r'"[^"]*"', '""', text)
        assert bare.count("(") == bare.count(")") and bare.count("[") == bare.count("]") and text.count('"') % 2 == 0


def test_a_text_that_is_not_well_formed_is_seen() -> None:
    for text, language in (("print(", "python"), ('"a": }', "json"), ("echo 'x", "shell"), ("--mem 1", "sbatch")):
        with pytest.raises((SyntaxError, ValueError, subprocess.CalledProcessError, AssertionError)):
            _parse(text, language)


# ------------------------------------------------------------------------------------------------ families and rules


def test_every_family_names_causes_that_exist_and_whose_rules_ask_for_it() -> None:
    asked = {rule.cause: set(CALL.findall((RULES / f"{rule.cause}.py").read_text("utf-8"))) for rule in all_rules()}
    for family in advice.families().values():
        assert family.meaning
        for cause in family.causes:
            assert cause in all_causes()
            assert asked[cause] & {family.name, family.instead_of}, (
                f"the rule of {cause} does not ask for {family.name}"
            )
    told = {(f.name, cause) for f in advice.families().values() for cause in f.causes}
    assert {(name, cause) for cause, names in asked.items() for name in names} <= told


def test_every_family_has_advice_and_every_wider_one_exists() -> None:
    names = set(advice.families())
    assert {found.family for found in _all()} == names
    assert {f.instead_of for f in advice.families().values()} - {""} <= names


# ------------------------------------------------------------------------------------------------ looking it up


def test_the_first_stack_with_advice_is_taken_then_the_wider_family_then_any_program() -> None:
    def of(names: tuple[str, ...], family: str) -> tuple[str, str]:
        found = advice.find(names, family)
        assert found is not None
        return found.stack, found.family

    assert of(("lightning", "pytorch"), "host_memory") == ("lightning", "host_memory")
    assert of(("lightning", "pytorch"), "segfault") == ("pytorch", "segfault")
    assert of(("lightning", "pytorch"), "gpu_memory_fragmented") == ("pytorch", "gpu_memory_fragmented")
    assert of(("jax",), "gpu_memory_fragmented") == ("jax", "gpu_memory")
    assert of((), "host_memory") == (advice.GENERIC, "host_memory")
    assert advice.find((), "gpu_fault") is None
    assert advice.of_stack("cobol") == {}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"confirm": ""}, "without confirm"),
        ({"paste": ""}, "without paste"),
        ({"sources": []}, "without sources"),
        ({"lang": "perl"}, "a language is one of"),
        ({"more": "x"}, "unknown keys"),
    ],
)
def test_a_defect_is_named(change: dict[str, object], complaint: str) -> None:
    entry: dict[str, object] = {
        "step": "s", "paste": "x", "lang": "python", "measure": "m", "measure_lang": "python", "measure_when": "w",
        "confirm": "c", "sources": ["https://a.org"],
    }  # fmt: skip
    assert advice._advice("pytorch", "segfault", entry, "2026-12").step == "s"
    with pytest.raises(AdviceError, match=complaint):
        advice._advice("pytorch", "segfault", entry | change, "2026-12")
    with pytest.raises(AdviceError, match="no such family"):
        advice._advice("pytorch", "toothache", entry, "2026-12")
