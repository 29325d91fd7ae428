"""What comes through the serial port of the emulated machine: whole, cut off, damaged, stopped early."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

import pytest

from tests.cluster import vm
from tests.cluster.record import FIELDS
from tests.cluster.scenarios import load

SACCT = (
    b"JobIDRaw|JobID|State|ExitCode|Submit|Start|End|NodeList\n"
    b"1|1|FAILED|5:0|2026-11-30T15:47:54|2026-11-30T15:47:55|2026-11-30T15:48:18|ctl\n"
)
SCENARIO = """\
[[scenario]]
name = "exit5"
notes = "exit 5"
options = "--mem=50"
script = "exit 5"
[scenario.expect]
cause = "app_error"
owner = ["user"]
"""


def sent(files: dict[str, bytes], end: bytes = b"END-OF-ANSWERS\r\n") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"answers/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return base64.encodebytes(packed.getvalue()).replace(b"\n", b"\r\n") + end


def ticket(context: str, why: str = "") -> bytes:
    lines = (why, "SLURM_JOB_ID=1", "SLURM_JOB_UID=1001", f"SLURM_SCRIPT_CONTEXT={context}")
    return "".join(f"{line}\0" for line in lines if line).encode()


def answers(result: bytes = b"complete\n") -> dict[str, bytes]:
    job = "jobs/00-exit5/"
    return {
        "result": result,
        "version": b"slurm 24.11.5\n",
        "fields": b"JobIDRaw,JobID\n",
        "utc_offset": b"+00:00\n",
        "boot_epoch": b"1796053670.0\n",
        "cluster/scontrol-config.txt": b"KillWait = 4 sec\n",
        "slurmctld.log": b"[2026-11-30T15:48:18.000] _job_complete: JobId=1 WEXITSTATUS 5\n",
        "slurmd.log": b"[2026-11-30T15:48:18.000] [1.batch] done with step\n",
        "dmesg": b"[    1.000000] early\n[   10.000000] in time\n",
        "spool-node/1.1001.1796053698.9.spank": ticket("epilog_slurmd", "SLURM_TRIAGE_WHY=exit"),
        "spool-node/1.1001.1796053698.8.epilog": ticket("epilog_slurmd"),
        "spool-ctld/1.1001.1796053698.7.epilogslurmctld": ticket("epilog_slurmctld"),
        f"{job}id": b"1\n",
        f"{job}psv": SACCT,
        f"{job}json": b'{"jobs": []}',
        f"{job}scontrol": b"",
        f"{job}output": b"working\n",
    }


def test_what_was_sent_arrives() -> None:
    assert vm.unpack(sent(answers())) == answers()


def test_cut_off_and_damaged_answers_are_errors() -> None:
    with pytest.raises(vm.VmError, match="to the end"):
        vm.unpack(sent(answers(), end=b""))
    with pytest.raises(vm.VmError, match="damaged"):
        vm.unpack(b"\x00" + sent(answers()))
    with pytest.raises(vm.VmError, match="damaged"):
        vm.unpack(b"aGVsbG8=\nEND-OF-ANSWERS")


def test_jobs_are_recorded_and_judged(tmp_path: Path) -> None:
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIO)
    out = tmp_path / "out"
    out.mkdir()
    (outcome,) = vm.check(answers(), load(file), out)
    assert outcome.wrong == ()
    assert (out / "1-exit5" / "job.out").read_bytes() == b"working\n"
    assert (out / "1-exit5" / "kmsg.txt").read_bytes() == b"[   10.000000] in time\n"
    file.write_text(SCENARIO.replace("app_error", "memcg_oom"))
    other = tmp_path / "other"
    other.mkdir()
    (outcome,) = vm.check(answers(), load(file), other)
    assert outcome.wrong == ("cause app_error, not memcg_oom",)


def test_a_machine_that_stopped_early_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(vm.VmError, match="no slurmdbd"):
        vm.check(answers(b"no slurmdbd\n"), (), tmp_path)


def test_the_machine_is_given_every_job(tmp_path: Path) -> None:
    scenarios = load(vm.FILE)
    vm.give(tmp_path / "jobs", scenarios)
    assert len(scenarios) >= 3
    assert (tmp_path / "jobs" / "fields").read_text().split() == list(FIELDS)
    for number, scenario in enumerate(scenarios):
        folder = tmp_path / "jobs" / f"{number:02}-{scenario.name}"
        assert scenario.script in (folder / "script").read_text()
        assert not scenario.actions
        assert not scenario.client
