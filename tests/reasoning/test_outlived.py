"""What a program outlived, where its output is all that was read."""

from __future__ import annotations

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Strength

PROGRESS = "".join(f"step {step} loss {2 / (step + 1):.4f}\n" for step in range(40))
WELL = "Training finished successfully.\n"
LINES = [
    "run.sh: line 4: 22510 Segmentation fault      python3 probe.py",
    "BlockingIOError: [Errno 11] Resource temporarily unavailable",
    "bash: line 1: module: command not found",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "OSError: [Errno 122] Disk quota exceeded: '/home/user1/.cache/x'",
]


def said(output: str, **files: str) -> Diagnosis:
    more = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return diagnose(from_files({"job.out": output.encode(), **more}))


@pytest.mark.parametrize("line", LINES)
def test_long_life_and_a_good_end_after_it(line: str) -> None:
    assert said(f"{line}\n{PROGRESS}{WELL}").cause == "unknown"


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    "after",
    [
        "",
        WELL,
        PROGRESS,
        PROGRESS + "done\n",
        PROGRESS + "2 passed, 1 failed\n",
        PROGRESS + "Upload was not successful\n",
    ],
    ids=["last", "at-once", "no-word", "done", "failed", "not-successful"],
)
def test_an_end_that_does_not_say_so(line: str, after: str) -> None:
    assert said(f"{line}\n{after}").cause != "unknown"


@pytest.mark.parametrize("line", LINES)
def test_the_error_stands_at_the_end(line: str) -> None:
    assert said(f"{PROGRESS}{WELL}{line}\n").cause != "unknown"


@pytest.mark.parametrize(
    ("after", "strength"),
    [("", Strength.CONFIRMED), ("done\n", Strength.CONFIRMED), (PROGRESS, Strength.LIKELY)],
    ids=["last", "a-word-more", "long-life"],
)
def test_crash_that_only_the_shell_tells_of(after: str, strength: Strength) -> None:
    answer = said(f"{LINES[0]}\n{after}")
    assert (answer.cause, answer.strength) == ("app_segfault", strength)


def test_who_counted_what_failed_speaks_of_the_line_above() -> None:
    assert said(f"ok 1\n{LINES[0]}\nok 2 - a crash is seen as 139\nAll 2 tests passed.\n").cause == "unknown"


def test_other_evidence_decides_then() -> None:
    kernel = (
        "[ 5236.4] probe[22510]: segfault at 0 ip 000055e80f5491b9 sp 00007ffe80740e90 error 6 in probe[11b9,55e80f+1]"
    )
    answer = said(f"{LINES[0]}\n{PROGRESS}{WELL}", kmsg_txt=kernel)
    assert answer.cause == "app_segfault"


def test_what_slurm_says_is_kept() -> None:
    answer = said(f"srun: error: c1: task 1: Segmentation fault\n{PROGRESS}{WELL}")
    assert answer.cause == "app_segfault"


def test_table_of_errors() -> None:
    table = (
        "7 E2BIG Argument list too long\n8 ENOEXEC Exec format error\n12 ENOMEM Cannot allocate memory\n"
        "13 EACCES Permission denied\n24 EMFILE Too many open files\n28 ENOSPC No space left on device\n"
        "116 ESTALE Stale file handle\n122 EDQUOT Disk quota exceeded\nKeyError: 'x'\nSegmentation fault\n"
        "x.sh: line 1: y: command not found\nImportError: libx.so.1: cannot open shared object file: No such file or "
        "directory\nCUDA out of memory. Tried to allocate 2.00 GiB\nNVRM: Xid (PCI:0000:1b:00): 79, pid=1\n"
        "CUDA error: device-side assert triggered\nCUDA error: an illegal memory access was encountered\n"
        "RuntimeError: NCCL error in: ncclRemoteError\nMPI_ABORT was invoked on rank 0\n"
    )
    assert said(table).cause == "unknown"
    assert said(table.splitlines()[7] + "\n").cause == "disk_quota"


def test_proof_needs_no_more_than_before() -> None:
    assert said(f"{PROGRESS}{LINES[4]}\n").strength is Strength.CONFIRMED


@pytest.mark.parametrize("line", LINES)
def test_finished_is_said_of_the_work_not_of_the_script(line: str) -> None:
    assert said(f"{line}\n{PROGRESS}Training finished.\n").cause == "unknown"
    assert said(f"{line}\n{PROGRESS}Job finished at Mon Mar  2 10:00:00 CET 2026\n").cause != "unknown"
    assert said(f"{line}\nTraining finished.\n").cause != "unknown"


@pytest.mark.parametrize(
    "last", ["Run was not completed", "3 of 10 epochs completed", "Finished with errors", "couldn't be finished"]
)
def test_finished_in_part_or_not_at_all(last: str) -> None:
    assert said(f"{LINES[3]}\n{PROGRESS}{last}\n").cause == "gpu_oom"


def test_finished_below_another_failure() -> None:
    fails = "RuntimeError: CUDA error: device-side assert triggered\n"
    assert said(f"{PROGRESS}{LINES[3]}\n{PROGRESS}{fails}Training finished.\n").cause == "cuda_device_assert"
    srun = "srun: error: c1: task 1: Segmentation fault\n"
    assert said(f"{srun}{LINES[3]}\n{PROGRESS}Training finished.\n").cause != "unknown"


GOES_ON = [
    "CUDA out of memory, reducing batch size to 16 and retrying",
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (caught; skipping this batch)",
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node1]:29500 "
    "(errno: 111 - Connection refused). Will retry.",
    "srun: Job 8812345 step creation temporarily disabled, retrying (Requested nodes are busy)",
    "  Example: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "| 122 | EDQUOT | Disk quota exceeded |",
]


@pytest.mark.parametrize("line", GOES_ON)
def test_line_that_says_that_it_goes_on(line: str) -> None:
    assert said(f"{line}\n{PROGRESS}").cause == "unknown"
    assert said(f"{PROGRESS}{line}\n").cause != "unknown"


def test_retry_that_was_not_the_last_one() -> None:
    lost = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert said(f"{GOES_ON[0]}\n{PROGRESS}{lost}").cause == "gpu_oom"
    assert said(f"{lost}{PROGRESS}").cause == "gpu_oom"


def test_number_before_an_error_that_is_measured_counts_none() -> None:
    assert said(f"{LINES[0]}\n{PROGRESS}0 failed\nstep 100 error: 0.0123\nThe end\n").cause == "unknown"
    assert said(f"{LINES[0]}\n{PROGRESS}0 failed\n3 errors\nThe end\n").cause == "app_segfault"
