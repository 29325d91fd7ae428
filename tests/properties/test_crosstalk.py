"""Whole logs of the node and the controller hold lines of all jobs: a job's diagnosis must not be taken from others'.

Each case gets the slurmctld log, the slurmd logs and the kernel log of *all* jobs that were recorded on its cluster, and
must keep its cause and owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from tests.corpus.load import cases

CORPUS = "recorded-24.11"
EVERY = 3
"""Every third case is diagnosed: the logs hold the lines of all of them."""


def _seconds(line: bytes) -> float:
    match = re.match(rb"\[\s*([\d.]+)", line)
    return float(match[1]) if match else 0.0


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"


def test_lines_of_other_jobs_change_nothing() -> None:
    found = [(name, files) for name, files, _ in cases(CORPUS)]
    logs: dict[str, set[bytes]] = {}
    for _, files in found:
        for file, data in files.items():
            if file in ("slurmctld.log", "kmsg.txt") or re.fullmatch(r"slurmd\.\w+\.log", file):
                logs.setdefault(file, set()).update(data.splitlines())
    whole = {file: _joined(sorted(lines)) for file, lines in logs.items() if file != "kmsg.txt"}
    kernel = _joined(sorted(logs["kmsg.txt"], key=_seconds))
    assert len(kernel.splitlines()) > 300 and len(whole["slurmctld.log"].splitlines()) > 500
    wrong = []
    for name, files in found[::EVERY]:
        alone = diagnose(from_files(files))
        crowd = {file: whole.get(file, data) for file, data in files.items()}
        crowd |= {"slurmctld.log": whole["slurmctld.log"], "kmsg.txt": kernel}
        among = diagnose(from_files(crowd))
        if (alone.cause, alone.owner) != (among.cause, among.owner):
            wrong.append(f"{name}: {alone.cause} alone, {among.cause} among the lines of all jobs")
    assert not wrong, "\n".join(wrong)
