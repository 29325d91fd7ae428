"""A crash at the end is the cause only if nothing else was told before it: processes crash while others tear them down."""

from __future__ import annotations

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Strength

CRASHES = {
    "app_segfault": "srun: error: n2: task 5: Segmentation fault (core dumped)\n",
    "bus_error_io": "srun: error: n2: task 5: Bus error\n",
    "illegal_instruction": "./job.sh: line 3: 4711 Illegal instruction     (core dumped) ./solver\n",
}
CAUSES = {
    "gpu_oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
    "disk_quota": "OSError: [Errno 122] Disk quota exceeded\n",
    "memcg_oom": "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n",
    "gpu_fallen_off_bus": "NVRM: Xid (PCI:0000:cb:00): 79, pid=1, GPU has fallen off the bus.\n",
    "app_error": "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    x = y['lr']\nKeyError: 'lr'\n",
}  # fmt: skip
HARMLESS = {
    "a warning of the loader": "ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded: ignored.\n",
    "a module that is not there": "./job.sh: line 1: module: command not found\n",
}


def _said(output: str, **files: str) -> Diagnosis:
    more = {name.replace("_", "."): text.encode() for name, text in files.items()}
    manifest = b'slurm = "24.11.5"\nutc_offset = "+00:00"\n'
    return diagnose(from_files({"manifest.toml": manifest, "job.out": output.encode(), **more}))


def _confirmed(diagnosis: Diagnosis) -> set[str]:
    found = {v.cause for v in diagnosis.also if v.strength is Strength.CONFIRMED}
    return found | ({diagnosis.cause} if diagnosis.strength is Strength.CONFIRMED else set())


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_alone(crash: str) -> None:
    diagnosis = _said("reading input\n" + CRASHES[crash])
    assert (diagnosis.cause, diagnosis.strength) == (crash, Strength.CONFIRMED)
    echoes = (
        "srun: error: n1: tasks 0-4: Terminated\nn1:5:6 [0] NCCL WARN Net : Connection closed by remote peer n2<1>\n"
    )
    assert _said(CRASHES[crash] + echoes).strength is Strength.CONFIRMED, "what follows is its echo"


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_after_another_cause(crash: str, cause: str) -> None:
    diagnosis = _said(CAUSES[cause] + CRASHES[crash])
    assert diagnosis.cause == cause
    assert crash not in _confirmed(diagnosis)


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_after_a_kill(crash: str) -> None:
    assert crash not in _confirmed(_said("srun: error: n1: task 3: Killed\n" + CRASHES[crash]))


@pytest.mark.parametrize("before", HARMLESS)
@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_after_something_that_may_mean_nothing(crash: str, before: str) -> None:
    diagnosis = _said(HARMLESS[before] + CRASHES[crash])
    assert (diagnosis.cause, diagnosis.strength) == (crash, Strength.LIKELY)


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_while_a_device_failed(crash: str) -> None:
    xid = "[Mon Nov 30 15:20:50 2026] NVRM: Xid (PCI:0000:cb:00): 79, pid=1, GPU has fallen off the bus.\n"
    assert crash not in _confirmed(_said(CRASHES[crash], kmsg_txt=xid))
