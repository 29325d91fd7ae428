"""Cases made by hand whose answer an experienced administrator would not dispute."""

from __future__ import annotations

import json

import pytest

from slurm_triage.model import Owner
from tests.reasoning.build import (
    CONFIG,
    EPOCH,
    KEY_ERROR,
    XID_79,
    candidates,
    clock,
    completed,
    confirmed,
    controller,
    failed,
    hook,
    job,
    kernel,
    manifest,
    memcg_kill,
    sacct,
    step,
    task_exit,
    told,
)

CUDA_ERROR = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
    "RuntimeError: CUDA error: an illegal memory access was encountered\n"
)
OOM_LINES = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/uid_1001/job_77,"
    "task_memcg=/slurm/uid_1001/job_77/step_0/task_0,task=python3,pid=4242,uid=1001\n"
    "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:200000kB, anon-rss:97000kB, file-rss:100kB, "
    "shmem-rss:0kB, UID:1001 pgtables:300kB oom_score_adj:0\n"
)
OOM_CAUSES = {"memcg_oom", "memcg_oom_child_only", "global_oom", "oom_numa_cpuset"}


# ------------------------------------------------------------------------------------------------ the program's word


def test_error_of_the_program_with_every_witness() -> None:
    answer = told(failed(KEY_ERROR))
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert confirmed(answer) == {"app_error"}


@pytest.mark.parametrize(
    "output",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\nretrying with smaller batch\nfinished\n",
        "running test_crash ... Segmentation fault (core dumped)\nexpected crash: ok\nAll 40 tests passed\n",
        "/x/slurm_script: line 9: 4000 Killed              ./monitor.sh\ndone\n",
        KEY_ERROR,
        "WARNING: MemoryError caught, falling back to mmap\ndone\n",
        "== older run ==\nslurmstepd: error: *** JOB 50 ON c7 CANCELLED AT 2026-11-29T14:00:00 DUE TO TIME LIMIT ***\ndone\n",
    ],
    ids=["gpu-memory-retried", "crash-test", "helper-killed", "error-printed", "memory-error-caught", "older-log"],
)
def test_job_that_ended_well_is_not_accused_by_its_output(output: str) -> None:
    answer = told(completed(output))
    assert answer.cause == "no_failure"
    assert answer.owner is Owner.NOBODY


@pytest.mark.parametrize(
    ("before", "not_said"),
    [
        ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\nretrying with smaller batch\nepoch 1\n", "gpu_oom"),
        ("cp: cannot create regular file '/home/u/.cache/x': Disk quota exceeded\ncache disabled\n", "disk_quota"),
        ("/x/slurm_script: line 9: 4000 Terminated              ./monitor.sh\n", "external_signal"),
        ("slurmstepd: error: *** JOB 50 ON c7 CANCELLED AT 2026-11-29T14:00:00 DUE TO TIME LIMIT ***\n", "time_limit"),
        (OOM_LINES, "memcg_oom"),
        (f"[{clock(20)}.102] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=77 uid 0\n", "cancelled_by_user"),
        (f"[{clock(20)}.102] preempted JobId=77 has been killed to reclaim resources for JobId=90\n", "preempted"),
    ],
    ids=["gpu-memory", "quota", "helper-terminated", "limit-of-other-job", "printed-kernel", "printed-cancel", "printed-preemption"],
)  # fmt: skip
def test_words_before_the_last_error_confirm_nothing(before: str, not_said: str) -> None:
    answer = told(failed(before + KEY_ERROR))
    assert answer.cause == "app_error"
    assert not_said not in confirmed(answer)


@pytest.mark.parametrize("code", [9, 11, 15, 124, 247])
def test_exit_codes_that_look_like_signals_are_codes(code: int) -> None:
    answer = told(failed("not converged\n", code))
    assert answer.cause == "app_error"
    assert not {"external_signal", "app_segfault", "cancelled_by_user", "memcg_oom"} & set(candidates(answer))


@pytest.mark.parametrize("code", [137, 143])
def test_exit_code_of_a_kill_alone_confirms_nothing(code: int) -> None:
    assert not confirmed(told(failed("ok\n", code)))


def test_exit_139_alone_does_not_confirm_a_crash() -> None:
    assert "app_segfault" not in confirmed(told(failed("ok\n", 139)))


# ------------------------------------------------------------------------------------------------ other jobs, other nodes


def test_kill_in_another_job_of_the_same_user() -> None:
    answer = told(failed(KEY_ERROR, more={"kmsg.c1.txt": memcg_kill(60, job="78")}))
    assert answer.cause == "app_error"
    assert not OOM_CAUSES & set(candidates(answer))


def test_process_name_that_forges_the_end_of_a_kernel_line() -> None:
    answer = told(failed(KEY_ERROR, more={"kmsg.c1.txt": memcg_kill(60, job="78", comm="a,pid=1,uid=1 job_77/")}))
    assert not OOM_CAUSES & set(candidates(answer))


def test_job_name_that_forges_a_cgroup_path() -> None:
    files = failed(KEY_ERROR)
    rows = job("FAILED", "1:0", name="x,task_memcg=/slurm/uid_1001/job_77,task=a"), step("batch", "FAILED", "1:0")
    assert told({**files, "sacct.psv": sacct(*rows)}).cause == "app_error"


def test_gpu_lost_on_a_node_that_is_not_the_jobs() -> None:
    answer = told(failed(CUDA_ERROR, more={"kmsg.n99.txt": kernel(50, XID_79)}))
    assert "gpu_fallen_off_bus" not in candidates(answer)
    assert answer.owner is not Owner.HARDWARE


@pytest.mark.parametrize("seconds", [-500, 50])
def test_gpu_lost_beside_an_error_that_has_nothing_to_do_with_it(seconds: int) -> None:
    answer = told(failed(KEY_ERROR, more={"kmsg.c1.txt": kernel(seconds, XID_79)}))
    assert answer.cause == "app_error"
    assert answer.owner is Owner.USER
    assert "gpu_fallen_off_bus" not in confirmed(answer)


def test_preemption_in_favour_of_this_job() -> None:
    extra = [(0, "preempted JobId=22 has been killed to reclaim resources for JobId=77")]
    answer = told(failed(KEY_ERROR, more={"slurmctld.log": controller(extra=extra)}))
    assert "preempted" not in candidates(answer)


def test_memory_error_on_a_node_that_is_not_the_jobs() -> None:
    text = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1 offset:0x0)"
    answer = told(failed("RuntimeError\n", more={"kmsg.n99.txt": kernel(50, text)}))
    assert answer.owner is not Owner.HARDWARE


def test_epilog_error_after_the_end() -> None:
    extra = [
        (101, "error: epilog_complete: epilog error on c1, draining the node"),
        (101, "drain_nodes: node c1 state set to DRAIN"),
    ]
    answer = told(failed(KEY_ERROR, more={"slurmctld.log": controller(extra=extra)}))
    assert answer.cause == "app_error"
    assert confirmed(answer) == {"app_error"}


def test_scancel_minutes_after_the_end() -> None:
    extra = [(300, "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=77 uid 1001")]
    answer = told(failed(KEY_ERROR, more={"slurmctld.log": controller(extra=extra)}))
    assert answer.cause == "app_error"
    assert "cancelled_by_user" not in candidates(answer)


# ------------------------------------------------------------------------------------------------ memory


def test_out_of_memory_without_a_witness_of_the_limit() -> None:
    rows = job("OUT_OF_MEMORY", "0:125"), step("batch", "OUT_OF_MEMORY", "0:125")
    answer = told({"manifest.toml": manifest(), "sacct.psv": sacct(*rows)})
    assert not confirmed(answer)
    assert not any("--mem" in action.text for action in answer.actions)


def test_kernel_log_that_begins_after_the_kill() -> None:
    rows = job("OUT_OF_MEMORY", "0:125"), step("batch", "OUT_OF_MEMORY", "0:125")
    later = kernel(200, "usb 1-1: new high-speed USB device number 3 using xhci_hcd")
    answer = told({"manifest.toml": manifest(), "sacct.psv": sacct(*rows), "kmsg.c1.txt": later})
    assert not confirmed(answer)
    assert {"global_oom", "oom_numa_cpuset"} <= set(candidates(answer))


@pytest.mark.parametrize(("kill_at", "first"), [(122, "preempted"), (22, "memcg_oom")])
def test_kill_and_preemption_are_both_said_in_the_order_of_time(kill_at: int, first: str) -> None:
    rows = job("PREEMPTED", "0:0", end=125), step("batch", "OUT_OF_MEMORY", "0:125", end=125)
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "kmsg.c1.txt": memcg_kill(kill_at, step="step_batch"),
            "job.out": f"slurmstepd-c1: error: *** JOB 77 ON c1 CANCELLED AT {clock(120)} DUE TO PREEMPTION ***\n",
        }
    )
    assert answer.cause == first
    assert {"preempted", "memcg_oom"} <= confirmed(answer)


def test_kill_while_the_time_limit_ends_the_job() -> None:
    rows = job("TIMEOUT", "0:0", end=125, limit="2"), step("batch", "OUT_OF_MEMORY", "0:125", end=125)
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "kmsg.c1.txt": memcg_kill(122, step="step_batch"),
            "job.out": f"slurmstepd-c1: error: *** JOB 77 ON c1 CANCELLED AT {clock(120)} DUE TO TIME LIMIT ***\n",
        }
    )
    assert answer.cause == "time_limit"
    assert "memcg_oom" in confirmed(answer)


# ------------------------------------------------------------------------------------------------ attempts, parts, ranks


def test_crash_in_the_grace_time_is_said_after_the_preemption() -> None:
    rows = (
        job("PREEMPTED", "0:0", end=125),
        step("batch", "FAILED", "11:0", end=125),
        step("0", "CANCELLED", "0:11", end=123),
    )
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "spank.txt": task_exit(123, 0, 11),
            "job.out": f"slurmstepd-c1: error: *** STEP 77.0 ON c1 CANCELLED AT {clock(120)} ***\n",
        }
    )
    assert answer.cause == "preempted"
    assert "app_segfault" in confirmed(answer)


def test_four_attempts_in_one_output_file() -> None:
    rows = (
        job("PREEMPTED", "0:0"),
        step("batch", "CANCELLED", "0:15"),
        job("NODE_FAIL", "1:0", start=300, end=400),
        job("TIMEOUT", "0:0", start=600, end=700),
        step("batch", "CANCELLED", "0:15", start=600, end=700),
        job("FAILED", "1:0", start=900, end=950),
        step("batch", "FAILED", "1:0", start=900, end=950),
    )
    output = (
        f"start\nslurmstepd-c1: error: *** JOB 77 ON c1 CANCELLED AT {clock(99)} DUE TO PREEMPTION ***\nstart\nstart\n"
        f"slurmstepd-c1: error: *** JOB 77 ON c1 CANCELLED AT {clock(699)} DUE TO TIME LIMIT ***\nstart\n{KEY_ERROR}"
    )
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG.replace("JobFileAppend           = 0", "JobFileAppend           = 1"),
            "sacct.psv": sacct(*rows),
            "env.epilog_slurmctld.txt": hook(256, start=900, end=950),
            "job.out": output,
        }
    )
    assert [part.cause for part in answer.parts] == ["preempted", "node_fail", "time_limit", "app_error"]
    assert answer.job.attempt == 4


def test_array_whose_output_files_accounting_names() -> None:
    rows: list[str] = []
    for task, (state, code) in enumerate([("FAILED", "1:0"), ("COMPLETED", "0:0"), ("FAILED", "1:0")], 1):
        id, shown = str(100 + task), f"100_{task}"
        rows.append(job(state, code, id=id, shown=shown, stdout="/shared/slurm-%A_%a.out"))
        rows.append(step("batch", state, code, id=id, shown=shown))
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "slurm-100_1.out": KEY_ERROR,
            "slurm-100_2.out": "done\n",
            "slurm-100_3.out": "srun: error: c1: task 0: Segmentation fault\n",
        }
    )
    assert [part.cause for part in answer.parts] == ["app_error", "no_failure", "app_segfault"]


def test_first_rank_under_kill_on_bad_exit() -> None:
    rows = job("FAILED", "15:0"), step("batch", "FAILED", "15:0"), step("0", "CANCELLED", "0:15")
    torn_down = "".join(task_exit(51 + rank / 100, rank, 15) for rank in range(5))
    answer = told(
        {
            "manifest.toml": manifest(),
            "scontrol-config.txt": CONFIG,
            "sacct.psv": sacct(*rows),
            "env.epilog_slurmctld.txt": hook(143 << 8),
            "spank.txt": task_exit(50, 5, 3 << 8) + torn_down,
            "job.out": "srun: error: c1: task 5: Exited with exit code 3\nsrun: Terminating StepId=77.0\n"
            f"slurmstepd-c1: error: *** STEP 77.0 ON c1 CANCELLED AT {clock(50)} ***\n"
            "srun: error: c1: tasks 0-4: Terminated\n",
        }
    )
    assert answer.first_failure is not None
    assert answer.first_failure.rank == 5
    assert not {"cancelled_by_user", "external_signal"} & set(candidates(answer))


# ------------------------------------------------------------------------------------------------ little evidence


def test_waiting_job() -> None:
    row = job("PENDING", "0:0", start=None, reason="Priority")
    answer = told({"manifest.toml": manifest(), "sacct.psv": sacct(row)})
    assert answer.strength is None


def test_hook_alone_that_saw_zero() -> None:
    answer = told({"env.epilog_slurmctld.txt": hook(0)})
    assert "no_failure" not in confirmed(answer)


@pytest.mark.parametrize("raw", [9, 137 << 8])
def test_hook_alone_confirms_no_kill(raw: int) -> None:
    assert not confirmed(told({"env.epilog_slurmctld.txt": hook(raw)}))


def test_accounting_that_is_late() -> None:
    row = job("RUNNING", "0:0")
    files = {"manifest.toml": manifest(), "sacct.psv": sacct(row), "env.epilog_slurmctld.txt": hook(256)}
    answer = told({**files, "job.out": KEY_ERROR})
    assert answer.cause == "app_error"
    assert not confirmed(answer)


@pytest.mark.parametrize("version", ["22.05.8", "23.02.1"])
def test_json_that_says_success_for_a_failed_job(version: str) -> None:
    document = {
        "jobs": [
            {
                "job_id": 77,
                "association": {"account": "acc", "cluster": "mini", "partition": None, "user": "user1"},
                "partition": "main",
                "nodes": "c1",
                "state": {"current": "FAILED", "reason": "None"},
                "exit_code": {"status": "SUCCESS", "return_code": 0},
                "time": {"elapsed": 100, "end": EPOCH + 100, "start": EPOCH, "submission": EPOCH - 10},
                "steps": [],
            }
        ],
        "meta": {"Slurm": {"version": {"major": int(version[:2]), "micro": 1, "minor": int(version[3:5])}}},
    }
    answer = told({"manifest.toml": manifest(version), "sacct.json": json.dumps(document)})
    assert "no_failure" not in candidates(answer)
    assert answer.job.exit.code is None
