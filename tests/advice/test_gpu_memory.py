"""Whether a refused allocation on the GPU failed for want of memory or for its pieces."""

from __future__ import annotations

import pytest

from tests.advice.jobs import GPU_OOM, TORCH, TRACE, advised, failed, job_of, of

OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate {} (GPU 0; 15.78 GiB total capacity; {} already allocated; "
    "10.00 MiB free; {} reserved in total by PyTorch)\n"
)


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        (GPU_OOM.format("6.50 GiB"), True),
        (GPU_OOM.format("512.00 MiB"), False),
        (GPU_OOM.format("2.00 GiB"), False),
        (OLD.format("20.00 MiB", "10.50 GiB", "14.60 GiB"), True),
        (OLD.format("6.00 GiB", "10.50 GiB", "14.60 GiB"), False),
        ("RuntimeError: CUDA error: out of memory\n", None),
        (GPU_OOM.format("1.2.3 GiB"), None),
    ],
)
def test_fragmented(line: str, holds: bool | None) -> None:
    fact = job_of(failed(line)).gpu_memory.fragmented
    assert fact.holds is holds
    assert bool(fact.cites) == (holds is not None)


def test_the_last_message_counts() -> None:
    log = GPU_OOM.format("6.50 GiB") + GPU_OOM.format("10.00 MiB")
    assert job_of(failed(log)).gpu_memory.fragmented.holds is False
    assert job_of(failed("x\n")).gpu_memory.fragmented.holds is None


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        (GPU_OOM.format("6.50 GiB"), False),
        (GPU_OOM.format("6.50 GiB").replace("allocate 2.00 GiB", "allocate 124.68 GiB"), True),
        (OLD.format("20.00 GiB", "10.50 GiB", "14.60 GiB"), True),
        (OLD.format("20.00 MiB", "10.50 GiB", "14.60 GiB"), False),
        ("RuntimeError: CUDA error: out of memory\n", None),
    ],
)
def test_oversized(line: str, holds: bool | None) -> None:
    assert job_of(failed(line)).gpu_memory.oversized.holds is holds


def test_a_tensor_that_never_fits_is_no_matter_of_the_batch() -> None:
    line = GPU_OOM.format("100.00 GiB").replace("allocate 2.00 GiB", "allocate 124.68 GiB")
    text = advised(of(failed(TRACE + TORCH + line)))
    assert "larger than the GPU" in text
    assert "accumulate" not in text and "expandable_segments" not in text
