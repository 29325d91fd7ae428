"""What was not read is not taken for what was not there, and little evidence still gives an answer."""

from __future__ import annotations

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    candidates,
    confirmed,
    failed,
    hook,
    job,
    job_view,
    manifest,
    sacct,
    step,
    told,
)


@pytest.mark.parametrize(
    ("code", "cause"),
    [(127, "app_error"), (132, "illegal_instruction"), (135, "bus_error_io"), (139, "app_segfault")],
)
def test_exit_code_that_is_only_a_convention(code: int, cause: str) -> None:
    """The program may have ended with that code by itself: neither it nor the convention is confirmed."""
    answer = told(failed("ok\n", code))
    assert (answer.cause, answer.owner) == (cause, Owner.USER)
    assert not confirmed(answer)


@pytest.mark.parametrize(
    "files",
    [
        {"sacct.psv": sacct(job("FAILED", "9:0"), step("batch", "FAILED", "9:0"))},
        {"env.epilog_slurmctld.txt": hook(137 << 8)},
    ],
    ids=["accounting-9-or-137", "hook-137"],
)
def test_code_that_may_be_a_kill_alone(files: dict[str, str]) -> None:
    answer = told(files)
    assert not {"confirmed", "likely"} & set(candidates(answer).values())
    assert not {"memcg_oom", "global_oom", "cancelled_by_user"} & set(candidates(answer))


@pytest.mark.parametrize(
    ("state", "code", "cause"),
    [
        ("FAILED Reason=NonZeroExitCode", "1:0", "app_error"),
        ("OUT_OF_MEMORY Reason=OutOfMemory", "0:125", "memcg_oom"),
    ],
)
def test_controllers_view_without_a_manifest(state: str, code: str, cause: str) -> None:
    answer = told({"scontrol.txt": job_view(state, code)})
    assert (answer.cause, answer.owner) == (cause, Owner.USER)
    assert not confirmed(answer)


def test_launcher_that_tells_of_a_kill_is_not_the_program() -> None:
    output = "mpirun noticed that process rank 3 with PID 0 on node c1 exited on signal 9 (Killed).\n"
    answer = told(failed(output, 137))
    assert answer.cause == "external_signal"
    assert answer.owner is Owner.UNKNOWN
    assert not confirmed(answer)  # the kernel's log was not read: it may have been the OOM killer


def test_accounting_alone_of_a_plain_failure_is_not_confirmed() -> None:
    rows = job("FAILED", "1:0"), step("batch", "FAILED", "1:0")
    answer = told({"manifest.toml": manifest(), "sacct.psv": sacct(*rows)})
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert not confirmed(answer)
