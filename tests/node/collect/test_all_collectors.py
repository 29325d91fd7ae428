"""The collectors as the agent finds and calls them: all of them, from an archive too, none raises, none costs much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import slurm_triage
from slurm_triage.node.collect import Budget, all_collectors
from slurm_triage.node.job import Job
from tests.node.collect.measure import measured

NAMES = {"error_counters", "file_systems", "gpu", "job_log", "kernel_log", "node_facts", "slurmd_log"}
ODD = [
    Job("77", "c1", -1, -1),
    Job("77", "c1", os.getuid(), os.getgid(), 0, 0, batch_host=True, stdout="/\0"),
    Job("77", "c1", os.getuid(), os.getgid(), 2**31, 5, stdout="%" * 4096, batch_host=True, cgroup="(["),
    Job("77", "../../x\n\x1b", 1, 1, -5, 2**62, array=("7", "8"), work_dir="\udcff", stdout="\udcff", batch_host=True),
]


def test_each_file_of_the_folder_is_found() -> None:
    assert set(all_collectors()) == NAMES


def test_they_are_found_in_an_archive(tmp_path: Path) -> None:
    package = Path(slurm_triage.__file__).parent
    with zipfile.ZipFile(tmp_path / "agent.pyz", "w") as archive:
        for path in package.rglob("*.py"):
            archive.write(path, Path("slurm_triage") / path.relative_to(package))
    code = "from slurm_triage.node.collect import all_collectors; print(sorted(all_collectors()))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'agent.pyz')!r}); {code}"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == str(sorted(NAMES))


@pytest.mark.parametrize("job", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("name", sorted(NAMES))
def test_no_job_makes_one_raise(name: str, job: Job, tmp_path: Path) -> None:
    found = all_collectors()[name](job, Budget(state=str(tmp_path / "none"), size=1000, seconds=1.0))
    assert all(isinstance(data, bytes) for data in found.files.values())
    assert all(": " in said for said in found.not_seen)
    json.dumps(found.manifest)


def test_together_they_cost_little(tmp_path: Path) -> None:
    cost = measured(tmp_path)
    assert cost.cpu < 1.0  # 0.3 on a quiet machine
    assert cost.more_memory < 40 * 1024 * 1024
