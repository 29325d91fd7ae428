"""The service of this host: its settings, its history, and when it last looked at accounting."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

from slurm_triage.doctor.finding import Finding, State, bad, ok, warn
from slurm_triage.doctor.host import Host, Role
from slurm_triage.doctor.slurm import SERVICE_USER
from slurm_triage.history.database import HistoryError, connect
from slurm_triage.service.config import DEFAULT, ConfigError, Settings, load
from slurm_triage.service.ledger import FILE, LedgerError
from slurm_triage.service.ledger import load as load_ledger


def settings(host: Host) -> Iterator[Finding]:
    """The settings can be used."""
    if host.has_role(Role.SERVICE):
        try:
            _settings(host)
        except ConfigError as error:
            yield bad("settings", str(error), f"correct {DEFAULT}")


def _settings(host: Host) -> Settings:
    """Raises `ConfigError`."""
    path = host.path(str(DEFAULT))
    return load(path if path.exists() else None)


def history(host: Host) -> Iterator[Finding]:
    """The history is there, whole enough to be opened, of this program's version, and the service's own."""
    if not host.has_role(Role.SERVICE):
        return
    try:
        name = str(_settings(host).history)
    except ConfigError:
        return
    path = host.path(name)
    if not path.exists():
        yield from _no_history(path, name)
        return
    try:
        connect(path, readonly=True).close()
    except HistoryError as error:
        denied = not os.access(path, os.R_OK)
        yield Finding(
            State.UNKNOWN if denied else State.BAD, "history", str(error), "run this as root" if denied else ""
        )
        return
    owner = _owner(path)
    if owner not in (SERVICE_USER, _owner(path.parent)):
        yield bad(
            "history",
            f"{name} belongs to {owner}, so the service may not write it",
            f"chown {SERVICE_USER}: {name}",
        )
    else:
        yield ok("history", f"{name} can be read and has this program's version")


def _no_history(path: Path, name: str) -> Iterator[Finding]:
    if not path.parent.is_dir():
        yield bad(
            "history",
            f"the folder of {name} is not there",
            f"install -d -o {SERVICE_USER} -g {SERVICE_USER} -m 0750 {Path(name).parent}",
        )
    else:
        yield warn("history", f"there is no {name} yet: nothing was recorded so far", "start the service")


def _owner(path: Path) -> str:
    uid = path.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def sweeps(host: Host) -> Iterator[Finding]:
    """The service looked at accounting a moment ago."""
    if not host.has_role(Role.SERVICE):
        return
    try:
        chosen = _settings(host)
        ledger = load_ledger(host.path(str(chosen.state)) / FILE)
    except ConfigError:
        return
    except LedgerError as error:
        denied = "ermission denied" in str(error)
        yield Finding(
            State.UNKNOWN if denied else State.BAD, "sweeps", str(error), "run this as root" if denied else ""
        )
        return
    start = "systemctl enable --now slurm-triage"
    if ledger.swept is None:
        yield bad("sweeps", "the service has never looked at accounting", start)
        return
    lag = time.time() - ledger.swept
    if lag > 3 * chosen.interval:
        yield bad(
            "sweeps",
            f"the service looked at accounting {lag / 60:.0f} minutes ago",
            f"systemctl status slurm-triage; journalctl -u slurm-triage; or {start}",
        )
    elif lag < -60:
        yield bad("sweeps", "the service's last sweep lies in the future", "set the clock right")
    else:
        yield ok("sweeps", f"the service looked at accounting {max(lag, 0):.0f} s ago, every {chosen.interval:g} s")


CHECKS = [settings, history, sweeps]
