"""Places and users for tests that become somebody else, which only root can."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root that every user may pass through, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


def belongs(path: Path, uid: int, gid: int | None = None, mode: int | None = None) -> Path:
    """Gives a path to a user."""
    os.chown(path, uid, uid if gid is None else gid, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)
    return path
