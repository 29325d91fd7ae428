"""Processes that the kernel found blocked inside the client of a network file system."""

from __future__ import annotations

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Strength

MANIFEST = b'slurm = "24.11.5"\nutc_offset = "+00:00"\n'
BLOCKED = "[Mon Nov 30 15:19:50 2026] INFO: task python3:4711 blocked for more than 120 seconds.\n"
HEAD = (
    "[Mon Nov 30 15:19:50 2026]       Not tainted 5.14.0-503.el9.x86_64 #1\n"
    '[Mon Nov 30 15:19:50 2026] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n'
    "[Mon Nov 30 15:19:50 2026] task:python3         state:D stack:0     pid:4711  ppid:4700   flags:0x00000084\n"
    "[Mon Nov 30 15:19:50 2026] Call Trace:\n[Mon Nov 30 15:19:50 2026]  __schedule+0x2d1/0x860\n"
)
FRAMES = {
    "parallel_fs_error": "[Mon Nov 30 15:19:50 2026]  ptlrpc_queue_wait+0x83/0x230 [ptlrpc]\n",
    "nfs_error": "[Mon Nov 30 15:19:50 2026]  rpc_wait_bit_killable+0x1e/0xa0 [sunrpc]\n",
}
OTHER = "[Mon Nov 30 15:19:50 2026]  xfs_log_force+0x8e/0x200 [xfs]\n"


def _said(kernel: str, output: str = "") -> Diagnosis:
    files = {"kmsg.txt": kernel.encode()} | ({"job.out": output.encode()} if output else {})
    return diagnose(from_files({"manifest.toml": MANIFEST, **files}))


@pytest.mark.parametrize("cause", FRAMES)
def test_a_task_that_waits_for_the_servers(cause: str) -> None:
    diagnosis = _said(BLOCKED + HEAD + FRAMES[cause])
    assert (diagnosis.cause, diagnosis.strength, diagnosis.owner.value) == (cause, Strength.LIKELY, "admin")
    assert any("blocked for more than" in cite.text for cite in diagnosis.evidence)


@pytest.mark.parametrize("cause", FRAMES)
def test_what_is_no_such_wait(cause: str) -> None:
    assert _said(BLOCKED + HEAD + OTHER).cause != cause, "a local file system"
    assert _said(HEAD + FRAMES[cause]).cause != cause, "a stack that nobody called blocked"
    assert _said(BLOCKED + HEAD + OTHER * 70 + FRAMES[cause]).cause != cause, "the stack of something later"
    soft = "[Mon Nov 30 15:19:50 2026] watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:22]\n"
    assert _said(soft + HEAD + FRAMES[cause]).cause != cause, "a CPU that runs"


@pytest.mark.parametrize("cause", FRAMES)
def test_the_programs_own_error_counts_more(cause: str) -> None:
    diagnosis = _said(BLOCKED + HEAD + FRAMES[cause], "torch.OutOfMemoryError: CUDA out of memory.\n")
    assert diagnosis.cause == "gpu_oom"
