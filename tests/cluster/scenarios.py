"""The scenarios of the mini cluster, read from `scenarios.toml` and checked: a misspelt key is an error, never ignored."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_triage.model import Diagnosis, Owner, Strength

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("scenarios.toml")
WHEN = ("before", "pending", "running", "held", "ended")
OWNER = "user1"
"""Who submits all jobs."""
USERS = (OWNER, "user2")
"""The ordinary users of the mini cluster."""


class ScenarioError(Exception):
    """A scenario that cannot be used as it is written; the message says which and why."""


@dataclass(frozen=True)
class Action:
    """Something done from outside: `run` as `user` on the container `on`, or `docker` (`kill f2`, `start f2`).

    It happens `after` seconds after the job was first seen in the state `when`, or after the action before it.
    """

    when: str = "running"
    after: float = 0.0
    on: str = "login"
    user: str = "root"
    run: str = ""
    docker: str = ""
    keep: str = ""


@dataclass(frozen=True)
class Expect:
    """What must be said. `cite`: substrings of cited lines; `never`: causes that must not be confirmed.

    `unseen`, where somebody else than the owner asks: substrings of what the answer says that could not be looked at.
    `exits`, where the witnesses are installed: what the task records of all attempts hold, each as step, wait status and
    number of tasks: "batch 0x8900 1". `file`, where agents run: the folder of the diagnosis file, empty if there is none;
    `files`, how many there are, if that is fixed.
    """

    cause: str
    owner: tuple[str, ...]
    accept: tuple[str, ...] = ()
    strength: str | None = None
    cite: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    exits: tuple[str, ...] = ()
    file: str = "/shared/out/user1"
    files: int = 0


@dataclass(frozen=True)
class Scenario:
    """One failure made on purpose. Either `script` (for sbatch with `options`) or `client` (a line of srun).

    `asks` is who asks for the diagnosis on the login node; the job is always that of `OWNER`.
    """

    name: str
    notes: str
    expect: Expect
    core: bool = False
    options: str = ""
    script: str = ""
    client: str = ""
    output: str = "/shared/out/user1/%j.out"
    lock: tuple[str, ...] = ()
    meet: str = ""
    attempts: int = 1
    alone: bool = False
    asks: str = OWNER
    actions: tuple[Action, ...] = ()


def load(*files: Path) -> tuple[Scenario, ...]:
    """All scenarios of the files, or of `FILE`. Raises `ScenarioError`."""
    found: list[Scenario] = []
    for file in files or (FILE,):
        try:
            tables = tomllib.loads(file.read_text("utf-8"))["scenario"]
        except (tomllib.TOMLDecodeError, KeyError, OSError) as error:
            raise ScenarioError(f"{file.name}: {error}") from error
        found += map(_scenario, tables)
    names = [s.name for s in found]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f"{name}: two scenarios of this name")
    return tuple(found)


def _scenario(table: Mapping[str, Any]) -> Scenario:
    name = str(table.get("name", "?"))
    values = {key: value for key, value in table.items() if key not in ("action", "expect")}
    try:
        expect = Expect(**_tuples(table["expect"]))
        actions = tuple(Action(**action) for action in table.get("action", ()))
        scenario = Scenario(**_tuples(values), actions=actions, expect=expect)
    except (TypeError, KeyError) as error:
        raise ScenarioError(f"{name}: {error}") from error
    for wrong in _problems(scenario):
        raise ScenarioError(f"{name}: {wrong}")
    return scenario


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _problems(scenario: Scenario) -> Sequence[str]:
    wrong = []
    if bool(scenario.script) == bool(scenario.client):
        wrong.append("needs either a script or a client")
    if not re.fullmatch(r"[a-z0-9_]+", scenario.name):
        wrong.append("the name may have small letters, digits and _ only")
    for owner in scenario.expect.owner:
        if owner not in {o.value for o in Owner}:
            wrong.append(f"{owner} is no owner")
    if scenario.expect.strength not in (None, *(s.value for s in Strength)):
        wrong.append(f"{scenario.expect.strength} is no strength")
    wrong += [
        f"{text} is no exit" for text in scenario.expect.exits if not re.fullmatch(r"\S+ 0x[0-9a-f]{4} \d+", text)
    ]
    if scenario.asks not in USERS:
        wrong.append(f"{scenario.asks} is no user who asks")
    if bool(scenario.expect.unseen) != (scenario.asks != OWNER):
        wrong.append("unseen is for a user who asks and is not the owner")
    for action in scenario.actions:
        if action.when not in WHEN:
            wrong.append(f"{action.when} is no state to wait for")
        if bool(action.run) == bool(action.docker):
            wrong.append("an action has either run or docker")
    return wrong


def choose(every: Sequence[Scenario], *, core: bool = False, only: Sequence[str] = ()) -> tuple[Scenario, ...]:
    """The core set, those named in `only` with all that they meet, or all. Raises `ScenarioError` for unknown names."""
    known = {s.name: s for s in every}
    for name in only:
        if name not in known:
            raise ScenarioError(f"{name}: no such scenario")
    if only:
        meets = {known[name].meet for name in only} - {""}
        return tuple(s for s in every if s.name in only or s.meet in meets)
    return tuple(s for s in every if s.core or not core)


def judge(expect: Expect, diagnosis: Diagnosis) -> list[str]:
    """What is wrong with a diagnosis, empty if it is as expected."""
    wrong = []
    if diagnosis.cause not in (expect.cause, *expect.accept):
        wrong.append(f"cause {diagnosis.cause}, not {' or '.join((expect.cause, *expect.accept))}")
    if diagnosis.owner.value not in expect.owner:
        wrong.append(f"owner {diagnosis.owner.value}, not {' or '.join(expect.owner)}")
    if expect.strength and (diagnosis.strength is None or diagnosis.strength.value != expect.strength):
        said = diagnosis.strength.value if diagnosis.strength else "nothing"
        wrong.append(f"{said}, not {expect.strength}")
    every = (diagnosis, *diagnosis.parts)
    cited = [cite.text for d in every for cite in d.evidence]
    for text in expect.cite:
        if not any(text in line for line in cited):
            wrong.append(f"no cited line has {text!r}")
    for cause in expect.never:
        if any(v.cause == cause and v.strength is Strength.CONFIRMED for d in every for v in d.considered):
            wrong.append(f"{cause} is confirmed")
    return wrong


def judge_live(expect: Expect, document: Mapping[str, Any]) -> list[str]:
    """As `judge`, for the JSON document of `diagnose JOBID` asked by the job's owner.

    Strength and cited lines are not compared: what an ordinary user may read does not always decide.
    """
    wrong = []
    if document["cause"] not in (expect.cause, *expect.accept):
        wrong.append(f"cause {document['cause']}, not {' or '.join((expect.cause, *expect.accept))}")
    if document["owner"] not in expect.owner:
        wrong.append(f"owner {document['owner']}, not {' or '.join(expect.owner)}")
    for part in (document, *document["parts"]):
        for said in (part, *part["also"]):
            if said["cause"] in expect.never and said["strength"] == Strength.CONFIRMED.value:
                wrong.append(f"{said['cause']} is confirmed")
    return wrong


def judge_other(expect: Expect, document: Mapping[str, Any]) -> list[str]:
    """As `judge_live`, asked by somebody who may not read the job's files.

    A modest answer is right: any cause, as long as it is not confirmed, and what decides has to be named as not seen.
    """
    wrong = []
    unseen = [f"{c['file']}: {c['note']}" for c in document["coverage"] if c["kind"] is None]
    for text in expect.unseen:
        if not any(text in line for line in unseen):
            wrong.append(f"nothing that could not be seen is said with {text!r}")
    for part in (document, *document["parts"]):
        for said in (part, *part["also"]):
            right = said["cause"] in (expect.cause, *expect.accept)
            if said["strength"] == Strength.CONFIRMED.value and not right:
                wrong.append(f"{said['cause']} is confirmed")
    return wrong
