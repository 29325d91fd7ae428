"""What holds for all tests: no deadline that a busy machine could miss, and no history or template of the user's."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests set what they need; a developer's own settings must not change what they see."""
    for name in [n for n in os.environ if n.startswith(("SDIAG_", "SLURM_TRIAGE_", "SLURM_"))]:
        monkeypatch.delenv(name)
