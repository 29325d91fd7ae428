"""The reader over pyslurm: against what pyslurm 25.11.2 said on Slurm 25.11.7 beside sacct, and against its ways to fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_triage import case, live, sources
from slurm_triage.live import pyslurm_view
from slurm_triage.model import ControllerJob, JobRecord
from tests.live.fake import Cluster

DATA = Path(__file__).resolve().parent / "data"
RECORDED: dict[str, dict[str, Any]] = json.loads((DATA / "pyslurm-25.11.json").read_text("utf-8"))["jobs"]
SACCT = (DATA / "pyslurm-25.11-sacct.psv").read_bytes()
MANIFEST = b'slurm = "25.11.7"\nutc_offset = "+00:00"\n'


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def view_of(text: str) -> ControllerJob:
    events, _ = sources.parse(case.from_files({"manifest.toml": MANIFEST, "scontrol-job.pyslurm.txt": text.encode()}))
    (view,) = events
    assert isinstance(view, ControllerJob)
    return view


def last_records() -> dict[str, JobRecord]:
    events, _ = sources.parse(case.from_files({"manifest.toml": MANIFEST, "sacct.psv": SACCT}))
    return {e.job: e for e in events if isinstance(e, JobRecord) and e.job}


@pytest.mark.parametrize("job", [job for job in RECORDED if job != "28"])
def test_a_view_agrees_with_accounting(job: str) -> None:
    view, record = view_of(pyslurm_view.record(RECORDED[job])), last_records()[job]
    assert view.job == job
    assert view.values["JobState"] == record.state
    assert view.submit == record.submit
    assert view.end == record.end
    assert view.start == record.start or record.started is False
    assert view.values["Partition"] == record.partition
    assert view.values["UserId"] == f"{record.user}({record.uid})"
    assert view.values["WorkDir"] == record.work_dir
    if "ExitCode" in view.values and view.values["JobState"] not in ("CANCELLED", "TIMEOUT", "PREEMPTED"):
        # accounting zeroes the code of jobs that Slurm ended; slurmctld's memory does not
        assert record.exit is not None
        assert view.values["ExitCode"] == f"{record.exit.code}:{record.exit.signal}"


def test_of_a_requeued_job_it_is_the_attempt_in_memory() -> None:
    """Job 28 was preempted and requeued, and cancelled while it waited; accounting was asked for its first attempt."""
    view, record = view_of(pyslurm_view.record(RECORDED["28"])), last_records()["28"]
    assert (view.values["JobState"], view.values["Restarts"], view.values["NodeList"]) == ("CANCELLED", "1", "(null)")
    assert record.state == "PREEMPTED"
    assert view.start != record.start


def test_the_preemption_time_is_there() -> None:
    for job in ("22", "24", "26"):
        assert view_of(pyslurm_view.record(RECORDED[job])).preempt_time is not None
    for job in ("1", "17", "23"):
        assert view_of(pyslurm_view.record(RECORDED[job])).preempt_time is None


def test_exit_codes_that_may_be_cut_are_left_out() -> None:
    """Job 4 exited 139: pyslurm says 11."""
    assert RECORDED["4"]["exit_code"] == 11
    assert " ExitCode=" not in pyslurm_view.record(RECORDED["4"])
    assert " ExitCode=0:11" in pyslurm_view.record(RECORDED["3"])
    assert " ExitCode=" not in pyslurm_view.record({**RECORDED["2"], "exit_code": 0})  # FAILED with 0: it may be 128


def test_hostile_values_stay_in_their_place() -> None:
    forged = {
        **RECORDED["17"],
        "working_directory": "/a\n   JobState=COMPLETED",
        "standard_output": "/x\x1b[2J",
        "account": "a b\n   JobState=COMPLETED",
        "start_time": 1e300,
        "time_limit": float("nan"),
        "run_time": -5,
        "state_reason": ["TimeLimit"],
    }
    view = view_of(pyslurm_view.record(forged))
    assert view.values["JobState"] == "TIMEOUT"
    assert view.values["WorkDir"] == "(null)"
    assert view.values["StdOut"] == "(null)"
    assert view.values["StartTime"] == "Unknown"
    view_of(pyslurm_view.record({"id": 17, "state": "FAILED"}))


@pytest.mark.parametrize(
    ("pyslurm", "cluster", "same"),
    [
        ("25.11.2", "25.11.7", True),
        ("25.11.2", "25.05.7", False),
        ("25.11", "25.11.7", True),
        ("25.1.2", "25.11.7", False),
        ("25.11.2", None, False),
        ("x", "x", False),
    ],
)
def test_only_the_clusters_release_is_asked(pyslurm: str, cluster: str | None, same: bool) -> None:
    assert pyslurm_view.matches(pyslurm, cluster) is same


# ------------------------------------------------------------------------------------------------ the child


def stand_in(folder: Path, patch: pytest.MonkeyPatch, body: str) -> None:
    """A module `pyslurm` for the child process only."""
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib" / "pyslurm.py").write_text(body, "utf-8")
    patch.setenv("PYTHONPATH", str(folder / "lib"))


LOADS = """
import json
class Job:
    @staticmethod
    def load(id):
        job = Job()
        job.__dict__.update(json.loads({!r})[str(id)])
        return job
"""


def test_a_library_that_ends_the_process_does_not_end_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import pyslurm` without a slurm.conf: libslurm writes a line and exits."""
    stand_in(
        tmp_path,
        monkeypatch,
        "import os, sys\nos.write(2, b'fatal: Could not establish a configuration source\\n')\nos._exit(1)\n",
    )
    text, why = pyslurm_view.ask("17", 20)
    assert text == b""
    assert why == "pyslurm: Could not establish a configuration source"
    assert "pyslurm" not in sys.modules


def test_answers_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "import os\nprint('hello')\nos._exit(0)\n")
    assert pyslurm_view.ask("17", 20) == (b"", "pyslurm: its answer is not JSON")
    stand_in(tmp_path, monkeypatch, LOADS.format(json.dumps({"17": RECORDED["18"]})))
    assert pyslurm_view.ask("17", 20) == (b"", "pyslurm: its answer is not about this job")


def lost_scontrol(root: Path, patch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(root)
    cluster.sacct("25.11.7", SACCT.split(b"\n", 1)[0] + b"\n")
    cluster.remove("scontrol")
    cluster.use(patch)
    stand_in(root, patch, LOADS.format(json.dumps(RECORDED)))


def test_where_scontrol_is_missing_pyslurm_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost_scontrol(tmp_path, monkeypatch)
    monkeypatch.setattr(pyslurm_view, "installed", lambda: "25.11.2")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{Path(sys.executable).parent}")
    gathered = live.gather("24", timeout=20)
    view = next(e for e in gathered.parse()[0] if isinstance(e, ControllerJob))
    assert view.preempt_time is not None
    note = next(n.note for n in gathered.notes if n.file == "scontrol-job.txt")
    assert note == "could not be read: scontrol: command not found; pyslurm was asked instead"


@pytest.mark.parametrize("version", [None, "25.05.1"])
def test_where_it_is_absent_or_of_another_release_nothing_is_said_of_it(
    version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_scontrol(tmp_path, monkeypatch)
    monkeypatch.setattr(pyslurm_view, "installed", lambda: version)
    with pytest.raises(live.NotFound) as caught:
        live.gather("24", timeout=20)
    assert "pyslurm" not in str(caught.value)
    assert "scontrol: command not found" in str(caught.value)
