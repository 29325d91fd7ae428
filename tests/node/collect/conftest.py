"""What collectors remember of a round is forgotten before each test."""

from __future__ import annotations

import pytest

from slurm_triage.node.collect import _slurm_conf, error_counters, gpu, kernel_log, node_facts


@pytest.fixture(autouse=True)
def _new_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_read", None)
    monkeypatch.setattr(_slurm_conf, "_round", None)
    for module in (error_counters, gpu):
        monkeypatch.setattr(module, "_round", {})
    monkeypatch.setattr(node_facts, "_kept", {})
