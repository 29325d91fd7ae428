"""The settings of the service: a TOML file, every key with a default, every mistake a sentence."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

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


RANGES: Mapping[str, tuple[float, float]] = {
    "interval": (10, 3600),
    "lookback": (0, 30 * 86400),
    "recheck": (60, 86400),
    "late": (3600, 30 * 86400),
    "timeout": (5, 1800),
}


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
    if isinstance(default, Path):
        if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
            raise ConfigError(f"{place}: {key} has to be an absolute path, in quotes")
        return Path(value)
    low, high = RANGES[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigError(f"{place}: {key} has to be a number of seconds from {low:g} to {high:g}")
    return float(value)
