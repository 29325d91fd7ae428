"""A line of the kernel of another boot than the one in which the job ran is not about the job."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.reasoning.build import START, XID_79, candidates, failed, job, kernel, sacct, step, told

BOOT = "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12) #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1"
UNCORRECTED = (
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x12345 offset:0x0 "
    "grain:32 syndrome:0x0)"
)
ECC = "NVRM: Xid (PCI:0000:17:00): 48, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer."
UNKNOWN_ERROR = "RuntimeError: CUDA error: unknown error\n"


def journal(seconds: float, text: str) -> str:
    """A line of journalctl -k -o short-iso."""
    return f"{(START + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S+0000')} c1 kernel: {text}\n"


def lost(*lines: str) -> dict[str, str]:
    """A job that Slurm ended as NODE_FAIL 100 seconds after its start, with these lines of the node's journal."""
    rows = job("NODE_FAIL", "0:0"), step("batch", "CANCELLED", "0:15")
    return failed("", more={"kmsg.c1.txt": "".join(lines), "sacct.psv": sacct(*rows)})


def gpu_failed(*lines: str) -> dict[str, str]:
    """A job that failed at the GPU after 100 seconds."""
    return failed(UNKNOWN_ERROR, more={"kmsg.c1.txt": "".join(lines)})


@pytest.mark.parametrize(
    ("text", "cause"),
    [(XID_79, "gpu_fallen_off_bus"), (ECC, "gpu_ecc_uncorrectable"), (UNCORRECTED, "memory_ecc_uncorrected")],
)
def test_after_the_node_has_booted_again(text: str, cause: str) -> None:
    assert cause in candidates(told(lost(journal(40, text))))
    assert cause not in candidates(told(lost(journal(-900, "eth0: up"), journal(50, BOOT), journal(60, text))))


def test_a_lasting_state_ends_with_the_boot_before_the_job() -> None:
    assert "gpu_fallen_off_bus" in candidates(told(gpu_failed(journal(-900, XID_79))))
    booted = gpu_failed(journal(-900, XID_79), journal(-300, BOOT))
    assert "gpu_fallen_off_bus" not in candidates(told(booted))


def test_the_boot_in_which_the_job_ran_takes_nothing_away() -> None:
    assert "gpu_fallen_off_bus" in candidates(told(gpu_failed(journal(-300, BOOT), journal(90, XID_79))))


def test_stamps_that_begin_again_are_of_a_later_boot() -> None:
    """The stamps of the first boot reach into the job, so the second boot, whose time nobody tells, came after it."""
    first = kernel(30, "NVRM: GPU at PCI:0000:c1:00: GPU-01234567-89ab-cdef-0123-456789abcdef")
    later = f"[    0.000000] {BOOT}\n[    9.000000] {XID_79}\n"
    assert "gpu_fallen_off_bus" not in candidates(told(gpu_failed(first, later)))


def test_what_the_firmware_tells_of_the_crash_is_kept() -> None:
    report = (
        journal(51, "BERT: Error records from previous boot:"),
        journal(51, "[Hardware Error]: event severity: fatal"),
        journal(51, "[Hardware Error]:   section_type: memory error"),
    )
    assert "memory_ecc_uncorrected" in candidates(told(lost(journal(50, BOOT), *report)))
