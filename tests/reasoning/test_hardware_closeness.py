"""Hardware errors that stand beside a failure, and are not it."""

from __future__ import annotations

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    XID_79,
    confirmed,
    controller,
    failed,
    hook,
    job,
    kernel,
    manifest,
    sacct,
    step,
    task_exit,
    told,
)


def test_kernel_names_another_process_and_the_program_names_shared_memory() -> None:
    rows = job("FAILED", "7:0"), step("batch", "FAILED", "7:0"), step("0", "FAILED", "0:7")
    poisoned = "Memory failure: 0x12345: Sending SIGBUS to qemu-kvm:31337 due to hardware memory corruption"
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "env.epilog_slurmctld.txt": hook(135 << 8),
            "slurmctld.log": controller("WEXITSTATUS 135"),
            "spank.txt": task_exit(99, 0, 7, pid=900),
            "job.out": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
            "memory (shm).\nsrun: error: c1: task 0: Bus error\n",
            "kmsg.c1.txt": kernel(40, poisoned),
        }
    )
    assert (answer.cause, answer.owner) == ("shm_exhausted", Owner.USER)
    assert "memory_ecc_uncorrected" not in confirmed(answer)


def test_gpu_lost_after_a_later_boot() -> None:
    """Stamps begin anew with a boot: the same number is another time."""
    later = f"[    0.000000] Linux version 6.1.0 (gcc)\n[ 1050.000000] {XID_79}\n"
    error = (
        'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    answer = told(failed(error, more={"kmsg.c1.txt": kernel(50, "usb 1-1: new device") + later}))
    assert "gpu_fallen_off_bus" not in confirmed(answer)
    assert answer.owner is not Owner.HARDWARE
