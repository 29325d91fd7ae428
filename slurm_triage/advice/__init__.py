"""What to try, measure and run first, by software stack and family of causes: data, one TOML file for each stack.

`<stack>.toml` holds a table for each family it has advice for; `generic.toml` is for jobs whose stack is not known;
`families.toml` says which causes a family stands for. How to write one: docs/howto/add-advice.md. Nothing of a job is
ever put into what is to be pasted: the texts are the same for every job, numbers stand in a sentence of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GENERIC = "generic"
LANGUAGES = ("python", "shell", "sbatch", "args", "json", "r", "matlab")
"""Where a text is to be pasted: a program, a shell, the head of a batch script, a command line, a configuration."""


class AdviceError(ValueError):
    """A file of advice is not what the format asks for: a defect of the package, never of the evidence."""


@dataclass(frozen=True)
class Family:
    """Causes that share advice. Where there is none for it, that of `instead_of` holds."""

    name: str
    meaning: str
    causes: tuple[str, ...]
    instead_of: str = ""


@dataclass(frozen=True)
class Advice:
    """Advice of one stack for one family.

    `step` says what to try, `paste` how to write it (language `lang`); both are empty in generic advice, where the rule
    has said the first step itself. `unless` are ids of signatures: a line of one shows that the step was taken.
    `numbers` is a sentence with `{names}` of numbers, said only where all are known.
    `measure` is the measuring call, `measure_when` where it belongs; `confirm` the smallest run that still shows it.
    """

    stack: str
    family: str
    measure: str
    measure_lang: str
    measure_when: str
    confirm: str
    sources: tuple[str, ...]
    since: str
    step: str = ""
    paste: str = ""
    lang: str = ""
    numbers: str = ""
    unless: tuple[str, ...] = ()


_FAMILY = ("meaning", "causes", "instead_of")
_NEEDED = ("measure", "measure_lang", "measure_when", "confirm", "sources")
_STEP = ("step", "paste", "lang")


@cache
def stacks() -> tuple[str, ...]:
    """The stacks that have a file, by name."""
    names = (entry.name for entry in Path(__file__).parent.iterdir())
    return tuple(sorted(n[:-5] for n in names if n.endswith(".toml") and n not in ("families.toml", f"{GENERIC}.toml")))


@cache
def families() -> Mapping[str, Family]:
    """All families by name. Raises `AdviceError`."""
    found = {}
    for name, entry in _read("families").items():
        if name == "since":
            continue
        if not isinstance(entry, dict) or set(entry) - set(_FAMILY) or not entry.get("causes"):
            raise AdviceError(f"families.toml: {name}: it has meaning, causes and maybe instead_of, nothing else")
        found[name] = Family(name, entry["meaning"], tuple(entry["causes"]), entry.get("instead_of", ""))
    return found


@cache
def of_stack(stack: str) -> Mapping[str, Advice]:
    """The advice of one stack (or `generic`) by family; empty for a stack without a file. Raises `AdviceError`."""
    if stack != GENERIC and stack not in stacks():
        return {}
    table = _read(stack)
    since = table.pop("since", "")
    if table.pop("stack", GENERIC) != stack or not since:
        raise AdviceError(f"{stack}.toml: stack must be the name of the file, and since a month")
    return {family: _advice(stack, family, entry, since) for family, entry in table.items()}


def find(names: Iterable[str], family: str) -> Advice | None:
    """The advice of the first of these stacks that has any for the family, else for the wider one, else generic."""
    known = (*names,)
    wider: str = family
    while wider:
        for name in known:
            if wider in of_stack(name):
                return of_stack(name)[wider]
        if wider in of_stack(GENERIC):
            return of_stack(GENERIC)[wider]
        wider = families()[wider].instead_of
    return None


def _read(name: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise AdviceError(f"{name}.toml: {error}") from error
    return table


def _advice(stack: str, family: str, entry: Mapping[str, Any], since: str) -> Advice:
    where = f"{stack}.toml: {family}"
    needed = _NEEDED if stack == GENERIC else (*_NEEDED, *_STEP)
    if family not in families():
        raise AdviceError(f"{where}: no such family")
    if missing := [key for key in needed if not entry.get(key)]:
        raise AdviceError(f"{where}: without {', '.join(missing)}")
    if unknown := set(entry) - {*needed, "numbers", "unless"}:
        raise AdviceError(f"{where}: unknown keys {sorted(unknown)}")
    if not {entry["measure_lang"], entry.get("lang", "shell")} <= set(LANGUAGES):
        raise AdviceError(f"{where}: a language is one of {', '.join(LANGUAGES)}")
    texts = {key: entry[key] for key in (*needed, "numbers") if key in entry and key != "sources"}
    sources, unless = tuple(entry["sources"]), tuple(entry.get("unless", ()))
    return Advice(stack=stack, family=family, since=since, sources=sources, unless=unless, **texts)
