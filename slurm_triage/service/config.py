"""The settings of the service: a TOML file, every key with a default, every mistake a sentence."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slurm_triage.causes import all_causes
from slurm_triage.transport.auth import KINDS
from slurm_triage.transport.client import place as place_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT = Path("/etc/slurm-triage/service.toml")
"""The file that is read if none is named; it may be missing."""


class ConfigError(Exception):
    """A setting that cannot be used; the message says which, where and what would do."""


@dataclass(frozen=True)
class Settings:
    """What an administrator may choose. Times in seconds."""

    interval: float = 120.0
    """Between two sweeps. Less than MinJobAge (300), so that slurmctld still knows the jobs."""
    lookback: float = 3600.0
    """How far the very first sweep goes back. Later ones go on where the last one ended, however long ago that was."""
    recheck: float = 900.0
    """How long after its end a job is looked at again: accounting changes, after a restart of slurmctld for one."""
    late: float = 172800.0
    """How long after its end a job may come into accounting: slurmctld keeps what slurmdbd does not take."""
    timeout: float = 120.0
    """What one command of Slurm may take."""
    history: Path = Path("/var/lib/slurm-triage/history.sqlite")
    """The history. The service must be able to write in its folder."""
    state: Path = Path("/var/lib/slurm-triage/service")
    """The folder of the service's own files: ledger.json and metrics.prom."""
    own_scancel: bool = True
    """Whether jobs that their owner cancelled go into the history."""
    good_runs: bool = True
    """Whether runs that ended well are counted in the history, without which no node can be compared with its peers."""
    workers: float = 2
    """Processes that judge."""
    listen: str = ""
    """Where agents reach the service: `HOST:PORT`, or `:6821` for all addresses. Empty: there are no agents."""
    folder: str = ""
    """A folder that nodes and the service share, for nodes that cannot connect to `listen`. Empty: there is none."""
    auth: str = "munge"
    """How messages are signed: `munge`, or `key` with a key that nodes and service share."""
    key: Path = Path("/etc/slurm-triage/key")
    """The file of that key."""
    slurm_user: str = "slurm"
    """SlurmUser: who may speak for the controller's host, beside root."""
    check_addresses: bool = True
    """Whether a node is believed only where slurmctld has it. False where nodes come by other addresses (NAT)."""
    files: bool = True
    """Whether users get files. False: history only, to look at the tool before anybody sees it."""
    no_file_causes: tuple[str, ...] = ()
    """Causes of which no file is written."""
    no_file_users: tuple[str, ...] = ()
    """Users who get none."""
    file_own_scancel: bool = False
    """Whether a job that its owner cancelled gets one."""
    file_interactive: bool = False
    """Whether jobs without a batch script (salloc, srun) get one."""
    opt_out: str = "slurm-triage=off"
    """A job with this word in its comment (`sbatch --comment`) gets none."""
    group_from: float = 20
    """An array with more failed tasks than that gets one file for the further ones."""


RANGES: Mapping[str, tuple[float, float]] = {
    "interval": (10, 3600),
    "lookback": (0, 30 * 86400),
    "recheck": (60, 86400),
    "late": (3600, 30 * 86400),
    "timeout": (5, 1800),
    "workers": (0, 64),
    "group_from": (1, 100_000),
}
COUNTS = ("workers", "group_from")
"""Keys whose numbers are no seconds."""


def load(path: Path | None) -> Settings:
    """The settings of a file; of `DEFAULT`, which may be missing, for None. Raises `ConfigError`."""
    place = path or DEFAULT
    try:
        text = place.read_text("utf-8")
    except FileNotFoundError:
        if path is None:
            return Settings()
        raise ConfigError(f"{place}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{place}: cannot be read: {error}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{place}: not TOML: {error}") from error
    return read(table, str(place))


def read(table: Mapping[str, Any], place: str) -> Settings:
    """The settings of a parsed file; everything stands in the table `[service]`. Raises `ConfigError`."""
    for name in table:
        if name != "service":
            raise ConfigError(f"{place}: [{name}] is not known; all settings stand in [service]")
    given = table.get("service", {})
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}: service has to be a table, [service]")
    known = {field.name: field for field in fields(Settings)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(known))}"
            raise ConfigError(f"{place}: {key} is not known{hint}")
        values[key] = _value(key, value, place)
    return Settings(**values)


def _value(key: str, value: object, place: str) -> object:
    default = getattr(Settings, key)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{place}: {key} has to be true or false")
        return value
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise ConfigError(f'{place}: {key} has to be a list of strings, ["one", "two"]')
        return _words(key, tuple(value), place)
    if isinstance(default, str):
        if not isinstance(value, str):
            raise ConfigError(f"{place}: {key} has to be a string, in quotes")
        return _word(key, value, place)
    if isinstance(default, Path):
        if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
            raise ConfigError(f"{place}: {key} has to be an absolute path, in quotes")
        return Path(value)
    low, high = RANGES[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        unit = "" if key in COUNTS else " of seconds"
        raise ConfigError(f"{place}: {key} has to be a number{unit} from {low:g} to {high:g}")
    return float(value)


def _words(key: str, values: tuple[str, ...], place: str) -> tuple[str, ...]:
    if key == "no_file_causes":
        for value in values:
            if value not in all_causes():
                near = difflib.get_close_matches(value, all_causes(), 1)
                raise ConfigError(f"{place}: {value} is no cause" + (f"; did you mean {near[0]}?" if near else ""))
    return values


def _word(key: str, value: str, place: str) -> str:
    if key == "auth" and value not in KINDS:
        raise ConfigError(f"{place}: auth has to be one of {', '.join(KINDS)}")
    if key == "folder" and value and (not value.startswith("/") or "\0" in value):
        raise ConfigError(f"{place}: folder has to be an absolute path")
    if key == "listen" and value:
        try:
            address(value)
        except ValueError as error:
            raise ConfigError(f"{place}: listen: {error}") from None
    return value


def address(listen: str) -> tuple[str, int]:
    """(host, port) of `HOST:PORT`; the host is empty for all addresses. Raises `ValueError`."""
    return place_of(f"0.0.0.0{listen}" if listen.startswith(":") else listen)
