"""Made-up cases about lines of the kernel: whose device, which process, how long before the end."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    KEY_ERROR,
    XID_79,
    candidates,
    clock,
    confirmed,
    controller,
    ended,
    failed,
    hook,
    job,
    job_view,
    kernel,
    manifest,
    sacct,
    step,
    step_info,
    task_exit,
    told,
)

DAY = 90000
"""Seconds that the long jobs of these cases ran: 25 hours."""
GPU_FAULT = (
    "NVRM: Xid (PCI:0000:17:00): 31, pid=900, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS "
    "GPCCLIENT_T1_0 faulted @ 0x7f32_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
)
ILLEGAL = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
    "RuntimeError: CUDA error: an illegal memory access was encountered\n"
)
UNCORRECTED = (
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x12345 offset:0x0 "
    "grain:32 syndrome:0x0)"
)
LINK_DOWN = "mlx5_core 0000:53:00.0 enp83s0f0np0: Link down"
LINK_UP = "mlx5_core 0000:53:00.0 enp83s0f0np0: Link up"
LATE = (
    "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)
QUERY = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nRuntimeError: device query failed\n'


def lost(pci: str) -> str:
    """The driver lost the GPU with this address; it names no process."""
    return XID_79.replace("0000:c1:00", pci)


def bus_error(end: int, kmsg: str, output: str = "srun: error: c1: task 0: Bus error\n") -> dict[str, str]:
    """Task 0 (pid 900) of step 0 died of SIGBUS one second before the end."""
    return {
        "manifest.toml": manifest(),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(
            job("FAILED", "7:0", end=end), step("batch", "FAILED", "7:0", end=end), step("0", "FAILED", "0:7", end=end)
        ),
        "env.epilog_slurmctld.txt": hook(135 << 8, end=end),
        "slurmctld.log": controller("WEXITSTATUS 135", at=end),
        "spank.txt": task_exit(end - 1, 0, 7, pid=900),
        "job.out": output,
        "kmsg.c1.txt": kmsg,
    }


def long_failed(output: str, kmsg: str) -> dict[str, str]:
    """A job that failed with exit code 1 after 25 hours."""
    return {
        **failed(output),
        "sacct.psv": sacct(job("FAILED", "1:0", end=DAY), step("batch", "FAILED", "1:0", end=DAY)),
        "env.epilog_slurmctld.txt": hook(256, end=DAY),
        "slurmctld.log": controller(at=DAY),
        "kmsg.c1.txt": kmsg,
    }


# ------------------------------------------------------------------------------------------------ GPUs


def test_another_gpu_of_the_node_was_lost_a_minute_before_the_programs_own_fault() -> None:
    lines = kernel(30, lost("0000:ca:00")) + kernel(98, GPU_FAULT)
    spank = task_exit(99, 0, 1 << 8, step="batch", pid=900)
    answer = told(failed(ILLEGAL, more={"kmsg.c1.txt": lines, "spank.txt": spank}))
    assert (answer.cause, answer.owner) == ("gpu_app_fault", Owner.USER)
    assert confirmed(answer) == {"gpu_app_fault"}
    assert candidates(answer).get("gpu_fallen_off_bus") in (None, "possible")


def test_the_same_gpu_was_lost() -> None:
    lines = kernel(97, lost("0000:17:00.0")) + kernel(98, GPU_FAULT)
    spank = task_exit(99, 0, 1 << 8, step="batch", pid=900)
    answer = told(failed(ILLEGAL, more={"kmsg.c1.txt": lines, "spank.txt": spank}))
    assert (answer.cause, answer.owner) == ("gpu_fallen_off_bus", Owner.HARDWARE)
    assert confirmed(answer) == {"gpu_fallen_off_bus"}


def test_another_gpu_of_a_job_with_several_tasks_may_be_the_jobs() -> None:
    lines = kernel(97, lost("0000:ca:00")) + kernel(98, GPU_FAULT)
    spank = task_exit(99, 0, 1 << 8, pid=900) + task_exit(99, 1, 1 << 8, pid=901)
    answer = told(failed(ILLEGAL, more={"kmsg.c1.txt": lines, "spank.txt": spank}))
    assert not {"gpu_fallen_off_bus", "gpu_app_fault"} & confirmed(answer)


@pytest.mark.parametrize("tasks", [1, 2])
def test_another_gpu_of_a_job_whose_other_task_left_no_record(tasks: int) -> None:
    """The project's plugin records what went wrong: one record does not make the task the job's only one."""
    lines = kernel(97, lost("0000:ca:00")) + kernel(98, GPU_FAULT)
    rows = job("FAILED", "1:0"), step("batch", "FAILED", "1:0"), step("0", "FAILED", "1:0", tasks=tasks)
    spank = step_info(99, tasks=tasks, of=tasks) + ended(99, 0, 1 << 8)
    more = {"kmsg.c1.txt": lines, "spank.txt": spank, "sacct.psv": sacct(*rows)}
    sure = {"gpu_fallen_off_bus", "gpu_app_fault"} & confirmed(told(failed(ILLEGAL, more=more)))
    assert sure == ({"gpu_app_fault"} if tasks == 1 else set())


def test_driver_names_a_process_of_that_number_on_another_node() -> None:
    spank = task_exit(99, 0, 1 << 8, step="batch", pid=900, node="c2")
    rows = job("FAILED", "1:0", nodes="c[1-2]", count=2), step("batch", "FAILED", "1:0")
    more = {"kmsg.c1.txt": kernel(98, GPU_FAULT), "spank.txt": spank, "sacct.psv": sacct(*rows)}
    assert "gpu_app_fault" not in confirmed(told(failed(KEY_ERROR, more=more)))


def test_gpu_lost_a_day_before_a_fault_of_the_program() -> None:
    answer = told(long_failed(ILLEGAL, kernel(50, lost("0000:ca:00"))))
    assert "gpu_fallen_off_bus" not in confirmed(answer)
    assert answer.owner is not Owner.HARDWARE


def test_gpu_lost_at_the_end_of_a_long_job() -> None:
    answer = told(long_failed(ILLEGAL, kernel(DAY - 3, XID_79)))
    assert (answer.cause, answer.owner) == ("gpu_fallen_off_bus", Owner.HARDWARE)
    assert confirmed(answer) == {"gpu_fallen_off_bus"}


# ------------------------------------------------------------------------------------------------ memory of the host


def test_memory_error_a_day_before_a_bus_error() -> None:
    answer = told(bus_error(DAY, kernel(50, UNCORRECTED)))
    assert answer.cause == "bus_error_io"
    assert "memory_ecc_uncorrected" not in confirmed(answer)
    assert answer.owner is Owner.USER


def test_memory_error_in_the_second_of_a_bus_error() -> None:
    answer = told(bus_error(DAY, kernel(DAY - 1, UNCORRECTED)))
    assert (answer.cause, answer.owner) == ("memory_ecc_uncorrected", Owner.HARDWARE)
    assert confirmed(answer) == {"memory_ecc_uncorrected"}


@pytest.mark.parametrize(("pid", "ours"), [(900, True), (31337, False)])
def test_kernel_names_the_process_that_lost_its_memory(pid: int, ours: bool) -> None:
    named = kernel(98, UNCORRECTED) + kernel(
        98, f"Memory failure: 0x12345: Sending SIGBUS to solver:{pid} due to hardware memory corruption"
    )
    answer = told(bus_error(100, named))
    assert ("memory_ecc_uncorrected" in confirmed(answer)) is ours
    assert (answer.owner is Owner.HARDWARE) is ours


def test_node_that_died_of_its_memory_is_given_up_minutes_later() -> None:
    rows = job("NODE_FAIL", "1:0", end=400), step("batch", "CANCELLED", "0:0", end=400)
    files = {"manifest.toml": manifest(), "scontrol-config.txt": CONFIG + "SlurmdTimeout           = 300 sec\n"}
    answer = told({**files, "sacct.psv": sacct(*rows), "kmsg.c1.txt": kernel(80, UNCORRECTED)})
    assert {"memory_ecc_uncorrected", "node_fail"} <= confirmed(answer)


# ------------------------------------------------------------------------------------------------ network


def test_link_that_was_away_for_seconds_a_day_before_a_time_out() -> None:
    answer = told(long_failed(LATE, kernel(50, LINK_DOWN) + kernel(55, LINK_UP)))
    assert "network_link" not in confirmed(answer)
    assert candidates(answer).get("network_link") in (None, "possible")


def test_link_that_was_away_for_seconds_while_the_ranks_waited() -> None:
    answer = told(long_failed(LATE, kernel(DAY - 500, LINK_DOWN) + kernel(DAY - 495, LINK_UP)))
    assert "network_link" not in confirmed(answer)


def test_link_that_stayed_down_while_the_ranks_waited() -> None:
    answer = told(long_failed(LATE, kernel(DAY - 600, LINK_DOWN)))
    assert (answer.cause, answer.owner) == ("network_link", Owner.ADMIN)
    assert confirmed(answer) == {"network_link"}


# ------------------------------------------------------------------------------------------------ times that are not known


def test_lost_gpu_that_cannot_be_dated() -> None:
    files = failed(QUERY, more={"kmsg.c1.txt": kernel(98, XID_79)})
    files["manifest.toml"] = 'slurm = "24.11.5"\n'
    answer = told(files)
    assert not confirmed(answer)


def test_lost_gpu_in_the_hour_that_daylight_saving_time_gives_back() -> None:
    start = datetime(2026, 10, 25, 0, 0, tzinfo=timezone.utc).timestamp()  # 02:00 at +02:00; it ends at 02:30 of +01:00
    times = "2026-10-25T02:00:00|2026-10-25T02:30:00|5400"
    rows = (
        f"77|77|wrap|user1|1001|acc|main|normal|FAILED|1:0|0:0|2026-10-25T01:59:00|{times}|UNLIMITED|None|1|c1|||100M||0|||",
        f"77.batch|77.batch|batch|||acc|||FAILED|1:0||2026-10-25T02:00:00|{times}|||1|c1||1||4M||||",
    )
    boot = start - 1000.0
    answer = told(
        {
            "manifest.toml": f'slurm = "26.05.5"\nutc_offset = "+02:00"\nboot_epoch = {boot}\n',
            "sacct.psv": sacct(*rows),
            "job.out": QUERY,
            "kmsg.c1.txt": f"[{5390 + 1000.0:12.6f}] {XID_79}\n",
        }
    )
    assert not confirmed(answer)
    assert {"app_error", "gpu_fallen_off_bus"} <= set(candidates(answer))


# ------------------------------------------------------------------------------------------------ standard error of its own


PATHS = "   WorkDir=/shared\n   StdErr=/shared/{}\n   StdIn=/dev/null\n   StdOut=/shared/job.out\n"


def test_standard_error_that_was_not_read() -> None:
    more = {
        "scontrol_show_job_final.txt": job_view("FAILED Reason=NonZeroExitCode", "1:0", more=PATHS.format("77.err"))
    }
    answer = told(failed("epoch 1\nepoch 2\n", more=more))
    assert answer.cause == "app_error"
    assert not confirmed(answer)
    assert any("StdErr" in missing.how for missing in answer.missing)


@pytest.mark.parametrize(
    ("named", "files"),
    [("77.err", {"77.err": KEY_ERROR}), ("77.err", {"job.err": KEY_ERROR}), ("job.out", {}), ("", {})],
    ids=["read", "read-renamed", "the-same", "empty"],
)
def test_standard_error_that_was_read(named: str, files: dict[str, str]) -> None:
    paths = PATHS.format(named) if named else PATHS.replace("/shared/{}", "")
    more = {"scontrol_show_job_final.txt": job_view("FAILED Reason=NonZeroExitCode", "1:0", more=paths), **files}
    assert confirmed(told(failed("epoch 1\n" if files else KEY_ERROR, more=more))) == {"app_error"}


# ------------------------------------------------------------------------------------------------ the controller alone


@pytest.mark.parametrize(
    ("state", "exit_code", "cause", "owner"),
    [
        ("FAILED Reason=NonZeroExitCode", "1:0", "app_error", Owner.USER),
        ("OUT_OF_MEMORY Reason=OutOfMemory", "0:125", "memcg_oom", Owner.USER),
        ("TIMEOUT Reason=TimeLimit", "0:0", "time_limit", Owner.USER),
        ("FAILED Reason=NonZeroExitCode", "0:11", "app_segfault", Owner.USER),
        ("COMPLETED Reason=None", "0:0", "no_failure", Owner.NOBODY),
    ],
)
def test_controllers_view_alone(state: str, exit_code: str, cause: str, owner: Owner) -> None:
    answer = told({"manifest.toml": manifest(), "scontrol_show_job.txt": job_view(state, exit_code)})
    assert (answer.cause, answer.owner) == (cause, owner)
    assert answer.job.state == state.split()[0]
    assert answer.job.nodes == ("c1",)
    assert any("JobState=" in cite.text for cite in answer.evidence)


def test_exit_code_of_the_controller_is_uncut() -> None:
    answer = told(
        {"manifest.toml": manifest(), "scontrol_show_job.txt": job_view("FAILED Reason=NonZeroExitCode", "137:0")}
    )
    assert answer.job.exit.code == 137


@pytest.mark.parametrize("state", ["RUNNING Reason=None", "COMPLETING Reason=None"])
def test_controllers_view_of_a_job_that_has_not_ended(state: str) -> None:
    answer = told({"manifest.toml": manifest(), "scontrol_show_job.txt": job_view(state, "0:0", end=clock(60))})
    assert answer.strength is None
    assert answer.job.exit.code is None


def test_final_record_of_accounting_outdoes_the_controllers_view() -> None:
    more = {"scontrol_show_job.txt": job_view("COMPLETED Reason=None", "0:0")}
    answer = told(failed(KEY_ERROR, more=more))
    assert answer.cause == "app_error"
    assert "no_failure" not in confirmed(answer)


def test_controllers_view_ends_a_job_that_accounting_still_calls_running() -> None:
    answer = told(
        {
            "manifest.toml": manifest(),
            "sacct.psv": sacct(job("RUNNING", "0:0")),
            "scontrol_show_job.txt": job_view("TIMEOUT Reason=TimeLimit", "0:0"),
        }
    )
    assert answer.cause == "time_limit"
    assert answer.job.state == "TIMEOUT"


def _given(tres: str, counted: str, output: str = KEY_ERROR) -> dict[str, str]:
    """A job that failed by itself while a GPU of its node was lost; what Slurm gave it, and what Slurm counts."""
    files = failed(output)
    head, *rows = files["sacct.psv"].splitlines()
    table = "\n".join([f"{head}|AllocTRES", *(f"{row}|{tres}" for row in rows)]) + "\n"
    config = f"{CONFIG}AccountingStorageTRES   = {counted}\n"
    return {
        **files,
        "sacct.psv": table,
        "scontrol-config.txt": config,
        "kmsg.c1.txt": kernel(99.7, lost("0000:c1:00")),
    }


def test_a_lost_gpu_of_the_node_is_not_that_of_a_job_that_had_none() -> None:
    said = told(_given("cpu=1,mem=100M,node=1", "cpu,mem,node,gres/gpu"))
    assert said.cause == "app_error" and said.owner is Owner.USER
    assert candidates(said).get("gpu_fallen_off_bus") in (None, "possible")


@pytest.mark.parametrize(
    ("tres", "counted"),
    [
        ("cpu=1,gres/gpu=1,node=1", "cpu,mem,node,gres/gpu"),
        ("cpu=1,gres/gpu:a100=1,node=1", "cpu,mem,node,gres/gpu"),
        ("cpu=1,mem=100M,node=1", "cpu,mem,node"),  # GPUs are not counted here: nobody knows
        ("", "cpu,mem,node,gres/gpu"),
    ],
)
def test_whether_a_job_had_a_gpu_must_be_known(tres: str, counted: str) -> None:
    without = told({**failed(KEY_ERROR), "kmsg.c1.txt": kernel(99.7, lost("0000:c1:00"))})
    said = told(_given(tres, counted))
    assert (said.cause, said.strength) == (without.cause, without.strength)


def test_a_program_that_tells_of_a_gpu_had_one_whatever_slurm_counts() -> None:
    said = told(_given("cpu=1,mem=100M,node=1", "cpu,mem,node,gres/gpu", ILLEGAL))
    assert said.cause != "app_error" or candidates(said).get("gpu_fallen_off_bus") is not None
