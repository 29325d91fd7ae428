"""What the tests of the command share. Each has a history `db` of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage.history.cli import main
from tests.history.examples import Ask


@pytest.fixture
def ask(db: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    def call(*argv: str) -> tuple[int, str, str]:
        code = main([*argv, "--db", str(db)])
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return call
