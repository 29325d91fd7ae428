"""plugstack.conf (spank(8)): the lines that name the plugin, with what is included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_triage.doctor.host import Host

PLUGIN = "slurm_triage.so"
MOST_FILES = 200


@dataclass(frozen=True)
class Line:
    """One line: where it stands, and its words."""

    file: str
    number: int
    required: bool
    path: str
    options: tuple[str, ...]
    changed: float
    """Epoch of the last change of the file."""

    @property
    def where(self) -> str:
        """The place, for people."""
        return f"{self.file} line {self.number}"


def place(host: Host) -> str:
    """Where Slurm has plugstack.conf: as slurmctld says, else beside slurm.conf."""
    said = host.setting("PlugStackConfig")
    return said or str(Path(host.setting("SLURM_CONF") or "/etc/slurm/slurm.conf").with_name("plugstack.conf"))


def lines(host: Host, file: str, seen: frozenset[str] = frozenset()) -> Iterator[Line]:
    """Lines that name our plugin, in the order in which Slurm reads them. Raises `OSError` for `file` itself."""
    changed = host.path(file).stat().st_mtime
    seen = seen | {file}
    for number, text in enumerate(host.text(file).splitlines(), 1):
        words = text.partition("#")[0].split()
        if len(words) < 2:
            continue
        if words[0].lower() == "include":
            for path in _included(host, file, words[1]):
                if path not in seen and len(seen) < MOST_FILES:
                    try:
                        yield from lines(host, path, seen)
                    except OSError:
                        continue
        elif os.path.basename(words[1]) == PLUGIN:  # noqa: PTH119 (text, not a path of this host)
            yield Line(file, number, words[0].lower() == "required", words[1], tuple(words[2:]), changed)


def _included(host: Host, file: str, pattern: str) -> list[str]:
    full = pattern if pattern.startswith("/") else str(Path(file).parent / pattern)
    try:
        found = sorted(host.root.glob(full.lstrip("/")))
    except (ValueError, NotImplementedError, OSError):
        return []
    return [f"/{path.relative_to(host.root)}" for path in found]
