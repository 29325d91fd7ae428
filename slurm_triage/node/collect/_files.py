"""Small files of /proc and /sys, and the few that the agent keeps for itself; nothing here waits or follows a link."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any

LIMIT = 64 * 1024
"""Most bytes that are read of a file of /proc or /sys."""
KEPT_LIMIT = 1024 * 1024
"""Most bytes of a file that the agent keeps."""


def text(path: str, limit: int = LIMIT) -> str | None:
    """What a file of /proc or /sys says, without white space around it; None if it is not there or cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        data = b""
        while len(data) < limit and (piece := os.read(handle, limit - len(data))):  # /proc gives a page at a time
            data += piece
        return data.decode("utf-8", "replace").strip()
    except OSError:
        return None
    finally:
        os.close(handle)


def number(path: str) -> int | None:
    """The decimal number in such a file, None if there is none."""
    said = text(path, 64)
    return int(said) if said and said.isascii() and said.isdigit() else None


def names(folder: str, most: int = 4096) -> list[str]:
    """The names in a folder, in order, none if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(most)))
    except OSError:
        return []


def boot_id() -> str:
    """The kernel's name of this boot, empty if it cannot be read."""
    return text("/proc/sys/kernel/random/boot_id", 64) or ""


def recall(path: Path) -> dict[str, Any]:
    """What `keep` left; empty if there is nothing, or if it is not a file of this process's user alone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return {}
        found = json.loads(os.read(handle, KEPT_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        os.close(handle)
    return found if isinstance(found, dict) else {}


def keep(path: Path, values: dict[str, Any]) -> str:
    """Puts the values in the place of the file, whole or not at all; why it could not, empty if it could.

    The folder has to be there. No fsync: on a busy disk it may take seconds, and what is lost is one baseline.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as stream:
            json.dump(values, stream)
        fresh.replace(path)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        return f"{path}: {error}"
    return ""
