"""The settings of the agent: a TOML file, every key with a default, every mistake a sentence.

Python 3.9 has no reader of TOML. So what the agent reads is the part of TOML whose values are JSON too: strings in
double quotes, numbers, true and false, lists of them on one line, all in the table [agent].
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slurm_triage.spool import PLACES
from slurm_triage.transport.auth import KINDS
from slurm_triage.transport.client import checked

DEFAULT = Path("/etc/slurm-triage/agent.toml")
"""The file that is read if none is named."""
_SAID = re.compile(r"""(?:[^"#]|"(?:[^"\\]|\\.)*")*(?=#|$)""")
"""A line without its comment: `#` within quotes begins none."""
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=\s*(.*)")


class ConfigError(Exception):
    """A setting that cannot be used; the message says which, where and what would do."""


@dataclass(frozen=True)
class Settings:
    """What an administrator may choose. Times in seconds."""

    servers: tuple[str, ...] = ()
    """Where the service is: `host`, `host:port`, `dir:/path`, in turn. None: evidence is kept until there is one."""
    auth: str = "munge"
    """How messages are signed: `munge`, or `key` with a key that nodes and service share."""
    key: str = "/etc/slurm-triage/key"
    """The file of that key."""
    service_users: tuple[str, ...] = ("slurm-triage", "slurm", "root")
    """Users (names or uids) whose answers are believed; names that this host does not know are passed over."""
    spools: tuple[str, ...] = (PLACES[0],)
    """The spools that this agent empties; those that do not exist are passed over."""
    state: str = "/var/spool/slurm-triage"
    """A folder of root on a local disk, for `outbox/` and `targets/`."""
    settle: float = 2.0
    """How old a record is before its job is looked at: late lines of the kernel log, the other witnesses."""
    linger: float = 300.0
    """How long a batch host waits for diagnoses before it leaves them to the timer."""
    files: bool = True
    """Whether diagnoses are written beside jobs' output on this host."""
    read_output: bool = True
    """Whether the output of jobs is read, as the user, for lines that tell why."""
    first_uid: int = 1000
    """Users below are of the system: nothing is read or written as them."""


RANGES: Mapping[str, tuple[float, float]] = {"settle": (0, 60), "linger": (0, 3600), "first_uid": (1, 2**31)}


def load(path: Path | None) -> Settings:
    """The settings of a file; of `DEFAULT`, which may be missing, for None. Raises `ConfigError`."""
    where = path or DEFAULT
    try:
        text = where.read_text("utf-8")
    except FileNotFoundError:
        if path is None:
            return Settings()
        raise ConfigError(f"{where}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: cannot be read: {error}") from error
    return read(text, str(where))


def read(text: str, where: str) -> Settings:
    """The settings of a text. Raises `ConfigError`."""
    known = {field.name for field in fields(Settings)}
    values: dict[str, Any] = {}
    for number, key, said in _lines(text, where):
        if key not in known:
            raise ConfigError(f"{where} line {number}: {key} is not known; known are {', '.join(sorted(known))}")
        try:
            value = json.loads(said)
        except (ValueError, RecursionError):
            raise ConfigError(f"{where} line {number}: {key} has to be {_form(key)}") from None
        values[key] = _checked(key, value, f"{where} line {number}")
    return Settings(**values)


def _lines(text: str, where: str) -> list[tuple[int, str, str]]:
    """(number, key, value as written) of the lines that set something."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        said = _SAID.match(line)
        bare = said[0].strip() if said else line.strip()
        match = _KEY.fullmatch(bare)
        if match:
            found.append((number, match[1], match[2]))
        elif bare not in ("", "[agent]"):
            raise ConfigError(f"{where} line {number}: has to be [agent] or KEY = VALUE, on one line")
    return found


def _form(key: str) -> str:
    default = getattr(Settings, key)
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, tuple):
        return 'a list of strings on one line: ["one", "two"]'
    if isinstance(default, str):
        return "a string in double quotes"
    low, high = RANGES[key]
    return f"a number from {low:g} to {high:g}"


def _checked(key: str, value: object, where: str) -> object:
    default = getattr(Settings, key)
    wrong = ConfigError(f"{where}: {key} has to be {_form(key)}")
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise wrong
        return value
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(one, str) and one and "\0" not in one for one in value):
            raise wrong
        if key == "spools" and not all(one.startswith("/") for one in value):
            raise ConfigError(f"{where}: spools has to be a list of absolute paths")
        if key == "servers":
            _check_servers(value, where)
        return tuple(value)
    if isinstance(default, str):
        if not isinstance(value, str) or "\0" in value:
            raise wrong
        if key == "auth" and value not in KINDS:
            raise ConfigError(f"{where}: auth has to be one of {', '.join(KINDS)}")
        if key != "auth" and not value.startswith("/"):
            raise ConfigError(f"{where}: {key} has to be an absolute path")
        return value
    low, high = RANGES[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise wrong
    if isinstance(default, int) and value != int(value):
        raise wrong
    return type(default)(value)


def _check_servers(servers: list[str], where: str) -> None:
    for server in servers:
        try:
            checked(server)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
