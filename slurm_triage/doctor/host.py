"""The host that is looked at: its files, its commands, what it is for. Asked once, remembered."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path

from slurm_triage.live._command import Reply, run

SECONDS = 15.0
"""What one command may take."""
TEXT = 4 << 20
"""Most bytes that are read of a file."""


class Role(Enum):
    """What a host is for. One may be several."""

    NODE = "node"
    CONTROLLER = "controller"
    SERVICE = "service"


class Host:
    """This host, or what lies below `root` (for tests), with the roles that were named, else those that it shows."""

    def __init__(self, root: Path = Path("/"), roles: Iterable[Role] = ()) -> None:
        self.root = root
        self._named = frozenset(roles)

    # -------------------------------------------------------------------------------------------- files

    def path(self, name: str) -> Path:
        """An absolute path, below the root."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str:
        """The content of a file, its first `TEXT` bytes. Raises `OSError`."""
        with self.path(name).open("rb") as stream:
            return stream.read(TEXT).decode("utf-8", "replace")

    # -------------------------------------------------------------------------------------------- commands

    def run(self, *argv: str) -> Reply:
        """What a command answers."""
        return run(argv, SECONDS, limit=16 << 20)

    @cached_property
    def config(self) -> Reply:
        """`scontrol show config`."""
        return self.run("scontrol", "show", "config")

    @cached_property
    def settings(self) -> dict[str, list[str]]:
        """Slurm's settings by lower-case name; `Epilog[0]` and `Epilog[1]` are two values of `epilog`. No (null)."""
        found: dict[str, list[str]] = {}
        for line in self.config.output.decode("utf-8", "replace").splitlines():
            match = re.fullmatch(r"(\w+)(?:\[\d+\])?\s+= (.*)", line)
            if match and match[2] not in ("(null)", ""):
                found.setdefault(match[1].lower(), []).append(match[2].strip())
        return found

    def setting(self, name: str) -> str:
        """The first value of a setting; empty if it is not set or could not be asked."""
        return self.settings.get(name.lower(), [""])[0]

    @cached_property
    def release(self) -> tuple[int, int] | None:
        """Slurm's release as (24, 11), from `scontrol --version`, which asks nobody."""
        match = re.search(r"\b(\d\d)\.(\d\d)\b", self.run("scontrol", "--version").output.decode("ascii", "replace"))
        return (int(match[1]), int(match[2])) if match else None

    # -------------------------------------------------------------------------------------------- what it is

    def processes(self, name: str) -> list[int]:
        """Ids of processes of that name that run below no other of that name."""
        found = {}
        for folder in self.path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if (folder / "comm").read_text("ascii", "replace").strip() == name:
                    status = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
                    found[int(folder.name)] = int(status[1])
            except (OSError, IndexError, ValueError):
                continue
        return sorted(pid for pid, parent in found.items() if parent not in found)

    def started(self, pid: int) -> float | None:
        """The epoch at which a process began; None if that cannot be told."""
        try:
            ticks = int(self.text(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
            boot = re.search(r"^btime (\d+)$", self.text("/proc/stat"), re.MULTILINE)
        except (OSError, IndexError, ValueError):
            return None
        return int(boot[1]) + ticks / os.sysconf("SC_CLK_TCK") if boot else None

    @cached_property
    def name(self) -> str:
        """The host's short name."""
        return socket.gethostname().partition(".")[0]

    @cached_property
    def roles(self) -> frozenset[Role]:
        """What this host is for."""
        if self._named:
            return self._named
        found = set()
        if self.processes("slurmd") or self._has("/usr/sbin/slurmd") or self._has("/var/spool/slurm-triage"):
            found.add(Role.NODE)
        here = any(value.partition("(")[0].partition(".")[0] == self.name
                   for value in self.settings.get("slurmctldhost", []))  # fmt: skip
        if here or self.processes("slurmctld"):
            found.add(Role.CONTROLLER)
        if self._has("/var/lib/slurm-triage/service") or self._has("/etc/slurm-triage/service.toml"):
            found.add(Role.SERVICE)
        return frozenset(found)

    def _has(self, name: str) -> bool:
        return self.path(name).exists()

    def has_role(self, *roles: Role) -> bool:
        """Whether it is one of these."""
        return not self.roles.isdisjoint(roles)

    def unit(self, action: str, unit: str) -> str:
        """The word that systemctl answers (`is-enabled`, `is-active`); empty if there is no systemd to ask."""
        reply = self.run("systemctl", action, unit)
        words = reply.output.decode("ascii", "replace").split()
        return words[0] if words else ""


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
