"""Records of the project's SPANK plugin: the raw status decides, and a task without a record is not a task that failed."""

from __future__ import annotations

import pytest

from slurm_triage.model import Diagnosis, Owner
from tests.reasoning.build import (
    CONFIG,
    EPOCH,
    KEY_ERROR,
    candidates,
    clock,
    confirmed,
    counters,
    ended,
    hook,
    job,
    manifest,
    sacct,
    step,
    step_info,
    told,
)


def of(*rows: str, version: str = "24.11.5", **files: str) -> dict[str, str]:
    """Accounting and further files; `spank` and `out` name the task records and the job's output."""
    names = {"spank": "spank.txt", "out": "job.out"}
    return {
        "manifest.toml": manifest(version),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(*rows),
        **{names[key]: text for key, text in files.items()},
    }


def script(raw: int) -> str:
    """The record of a batch script that ended with this wait status."""
    return step_info(99, step="batch", stepd=400, tasks=1) + ended(99, 0, raw, step="batch", stepd=400)


def missing(answer: Diagnosis) -> str:
    return " ".join(item.fact for item in answer.missing)


# ------------------------------------------------------------------------------------------------ exit codes


@pytest.mark.parametrize("version", ["22.05.8", "24.11.5"])
@pytest.mark.parametrize(
    ("shown", "raw", "code", "signal", "core"),
    [
        ("9:0", 0x8900, 137, 0, None),
        ("9:0", 0x0900, 9, 0, None),
        ("1:0", 0x8100, 129, 0, None),
        ("1:0", 0x0100, 1, 0, None),
        ("127:0", 0x7F00, 127, 0, None),
        ("127:0", 0xFF00, 255, 0, None),
        ("126:0", 0x7E00, 126, 0, None),
        ("126:0", 0xFE00, 254, 0, None),
        ("0:9", 0x0009, 0, 9, False),
        ("0:6", 0x0086, 0, 6, True),
        ("0:6", 0x0006, 0, 6, False),
    ],
)
def test_what_sacct_leaves_open_the_wait_status_of_the_script_decides(
    version: str, shown: str, raw: int, code: int, signal: int, core: bool | None
) -> None:
    files = of(job("FAILED", shown), step("batch", "FAILED", shown), version=version, spank=script(raw))
    exit = told(files).job.exit
    assert (exit.code, exit.signal, exit.raw, exit.core_dumped) == (code, signal, raw, core)
    assert exit.shown_by_sacct == shown
    less = told({name: text for name, text in files.items() if name != "spank.txt"}).job.exit
    assert less.raw is None and (less.code is None) == (signal == 0) and less.core_dumped is None


def test_job_of_srun_alone_is_decided_by_its_only_step() -> None:
    rows = job("FAILED", "9:0"), step("0", "FAILED", "9:0", tasks=2)
    records = step_info(99, tasks=2, of=2) + ended(99, 1, 0x8900, clean=1)
    exit = told(of(*rows, spank=records)).job.exit
    assert (exit.code, exit.raw) == (137, 0x8900)
    both = records + ended(99.5, 0, 0x0900)
    assert told(of(*rows, spank=both)).job.exit.code is None  # one task ended with 9, one with 137


def test_status_of_a_step_says_nothing_of_the_script() -> None:
    """Only the failing step left records: its 137 is not the script's, which may have ended with 9."""
    rows = job("FAILED", "9:0"), step("batch", "FAILED", "9:0"), step("0", "FAILED", "9:0")
    answer = told(of(*rows, spank=step_info(50, tasks=1, of=1) + ended(50, 0, 0x8900)))
    assert answer.job.exit.code is None


def test_status_that_slurm_replaced_is_not_the_exit_of_the_job() -> None:
    rows = job("OUT_OF_MEMORY", "0:125"), step("batch", "OUT_OF_MEMORY", "0:125")
    answer = told(of(*rows, spank=script(0x0009)))
    assert answer.job.exit.shown_by_sacct == "0:125"
    assert answer.cause == "memcg_oom"


def test_kill_from_outside() -> None:
    files = of(job("FAILED", "0:9"), step("batch", "FAILED", "0:9"), spank=script(0x0009), out="working\n")
    answer = told(files)
    assert answer.cause == "external_signal"
    assert (answer.job.exit.signal, answer.job.exit.raw) == (9, 9)


def test_array_tasks_by_raw_id() -> None:
    rows = [
        row
        for task, code in (("101", "9:0"), ("102", "9:0"))
        for row in (
            job("FAILED", code, id=task, shown=f"100_{task[2]}"),
            step("batch", "FAILED", code, id=task, shown=f"100_{task[2]}"),
        )
    ]
    records = "".join(
        step_info(99, step="batch", stepd=stepd, tasks=1, job=task)
        + ended(99, 0, raw, step="batch", stepd=stepd, job=task)
        for task, stepd, raw in (("101", 41, 0x8900), ("102", 42, 0x0900))
    )
    answer = told(of(*rows, spank=records))
    assert [part.job.exit.code for part in answer.parts] == [137, 9]


def test_component_of_a_heterogeneous_job() -> None:
    rows = (
        job("COMPLETED", "0:0", id="111", shown="111+0"),
        step("batch", id="111", shown="111+0"),
        step("0", id="111", shown="111+0"),
        job("FAILED", "11:0", id="112", shown="111+1"),
        step("0", "CANCELLED", "0:11", id="112", shown="111+1", tasks=2),
    )
    records = step_info(50, tasks=2, of=2, job="112") + ended(50, 1, 11, clean=1, job="112")
    first, second = told(of(*rows, spank=records, out="srun: error: c1: task 1: Segmentation fault\n")).parts
    assert first.cause == "no_failure" and first.first_failure is None
    assert second.cause == "app_segfault"
    assert second.first_failure is not None and second.first_failure.rank == 1


# ------------------------------------------------------------------------------------------------ the first rank


def four_ranks(records: str, *, nodes: str = "c[1-2]", out: str = "") -> dict[str, str]:
    """A step of four tasks on two nodes, with --kill-on-bad-exit: accounting has only the teardown."""
    rows = (
        job("FAILED", "15:0", nodes=nodes, count=2),
        step("batch", "FAILED", "15:0"),
        step("0", "CANCELLED", "0:15", nodes=nodes, count=2, tasks=4),
    )
    files = of(*rows, spank=script(0x8F00) + records)
    return {**files, "job.out": out} if out else files


def test_rank_that_died_first_on_the_other_node_while_srun_tore_the_rest_down() -> None:
    records = (
        step_info(50, node="c2", stepd=700, tasks=1)
        + ended(50, 2, 11, node="c2", stepd=700, local=0)
        + step_info(51, tasks=3)
        + ended(51, 0, 15)
        + ended(51.01, 1, 9)
        + ended(51.02, 3, 15, local=2)
    )
    answer = told(four_ranks(records))
    assert answer.first_failure is not None
    assert (answer.first_failure.rank, answer.first_failure.node) == (2, "c2")
    assert answer.cause == "app_segfault"
    assert not {"external_signal", "cancelled_by_user"} & confirmed(answer)
    # the records of its node were not collected: the torn-down ranks are not first
    rest = records[records.index("node=c1") - len("1796047251.000 ") :]
    assert told(four_ranks(rest)).first_failure is None


def test_clock_of_the_failing_node_is_ahead() -> None:
    """The teardown seems to come first: without srun's word nobody is named, and a kill is not ruled out either."""
    records = (
        step_info(50, node="c2", stepd=700, tasks=1)
        + ended(50, 2, 256, node="c2", stepd=700, local=0)
        + step_info(48, tasks=3)
        + ended(48, 0, 15)
        + ended(48.1, 1, 15)
        + ended(48.2, 3, 15, local=2)
    )
    answer = told(four_ranks(records))
    assert answer.first_failure is None
    assert "which rank failed first" in missing(answer) and "behind" in missing(answer)
    assert not confirmed(answer)
    out = "srun: error: c2: task 2: Exited with exit code 1\nsrun: error: c1: tasks 0-1,3: Terminated\n"
    sure = told(four_ranks(records, out=out))
    assert sure.first_failure is not None and sure.first_failure.rank == 2


def test_two_nodes_within_the_spread_of_their_clocks() -> None:
    records = (
        step_info(50, node="c2", stepd=700, tasks=2)
        + ended(50, 2, 11, node="c2", stepd=700, local=0)
        + ended(52, 3, 15, node="c2", stepd=700, local=1)
        + step_info(50.1, tasks=2)
        + ended(50.1, 0, 256)
        + ended(52, 1, 15)
    )
    answer = told(four_ranks(records))
    assert answer.first_failure is None
    assert "too close together" in missing(answer)


def test_records_outside_their_step_show_that_clocks_differ() -> None:
    records = (
        step_info(50, node="c2", stepd=700, tasks=2)
        + ended(50, 2, 11, node="c2", stepd=700, local=0)
        + ended(52, 3, 15, node="c2", stepd=700, local=1)
        + step_info(150, tasks=2)
        + ended(150, 0, 256)
        + ended(152, 1, 15)
    )
    assert told(four_ranks(records)).first_failure is None


def test_monotonic_clock_orders_one_node_when_the_wall_clock_is_set_back() -> None:
    records = (
        step_info(50)
        + ended(50, 3, 11, mono=8050.0, local=3)
        + ended(47, 0, 256, mono=8050.4)
        + ended(47.1, 1, 256, mono=8050.5)
        + ended(47.2, 2, 15, mono=8050.6)
    )
    answer = told(four_ranks(records, nodes="c1"))
    assert answer.first_failure is not None and answer.first_failure.rank == 3


@pytest.mark.parametrize(("first", "second", "named"), [(0, 3, None), (3, 0, 3)])
def test_tasks_reaped_together_come_in_the_order_of_their_fork(first: int, second: int, named: int | None) -> None:
    """The lower one of two that are dead is reaped first: only if the higher one comes first it died first."""
    records = (
        step_info(50, tasks=4) + ended(50, first, 256, mono=8050.0) + ended(50, second, 256, mono=8050.0008)
    ) + "".join(ended(51, rank, 15) for rank in (1, 2))
    answer = told(four_ranks(records, nodes="c1"))
    assert (answer.first_failure.rank if answer.first_failure else None) == named
    assert ("which rank failed first" in missing(answer)) == (named is None)


def test_clean_tasks_without_a_record_leave_no_doubt_on_one_node() -> None:
    """Two tasks ended with 0 before, one has not ended: none of them can have failed earlier on this node."""
    rows = job("FAILED", "3:0"), step("batch", "FAILED", "3:0"), step("0", "FAILED", "3:0", tasks=4)
    answer = told(of(*rows, spank=step_info(50) + ended(50, 2, 0x0300, clean=2)))
    assert answer.first_failure is not None and answer.first_failure.rank == 2


def test_node_without_records_is_unknown() -> None:
    rows = (
        job("FAILED", "3:0", nodes="c[1-2]", count=2),
        step("batch", "FAILED", "3:0"),
        step("0", "FAILED", "3:0", nodes="c[1-2]", count=2, tasks=4),
    )
    answer = told(of(*rows, spank=step_info(50, tasks=2) + ended(50, 1, 0x0300, clean=1)))
    assert answer.first_failure is None
    assert "not all nodes" in missing(answer)


def test_step_that_failed_and_was_tolerated() -> None:
    """Step 1 ended well and left no record; the script then failed on its own."""
    rows = (
        job("FAILED", "3:0"),
        step("batch", "FAILED", "3:0"),
        step("0", "CANCELLED", "0:11", start=1, end=20, tasks=2),
        step("1", start=30, end=90, tasks=2),
    )
    records = step_info(20, tasks=2, of=2) + ended(20, 1, 11, clean=1) + script(0x0300)
    files = of(*rows, spank=records, out=KEY_ERROR)
    answer = told({**files, "env.epilog_slurmctld.txt": hook(3 << 8)})
    assert (answer.cause, answer.owner) == ("app_error", Owner.USER)
    assert answer.first_failure is None
    assert "app_segfault" not in confirmed(answer)


def test_failing_step_alone_does_not_say_that_it_was_the_last() -> None:
    records = step_info(20, tasks=2, of=2) + ended(20, 1, 11, clean=1)
    answer = told({"manifest.toml": manifest(), "env.epilog_slurmctld.txt": hook(3 << 8), "spank.txt": records})
    assert not confirmed(answer)
    assert answer.first_failure is None


def test_helper_step_that_the_script_ended_on_purpose() -> None:
    rows = job("COMPLETED", "0:0"), step("batch"), step("0", "CANCELLED by 1001", "0:9"), step("1")
    answer = told(of(*rows, spank=step_info(90, tasks=1, of=1) + ended(90, 0, 9), out="done\n"))
    assert answer.cause == "no_failure"
    assert answer.first_failure is None


def test_external_step_is_no_task_of_the_job() -> None:
    rows = job("COMPLETED", "0:0"), step("batch"), step("extern")
    extern = step_info(100, step="extern", tasks=1, of=1) + ended(100, 0, 9, step="extern")
    answer = told(of(*rows, spank=extern, out="done\n"))
    assert answer.cause == "no_failure"
    assert not any("extern" in moment.cite.text for moment in answer.timeline)


def test_lines_of_the_plugin_in_the_output_are_the_programs_words() -> None:
    forged = step_info(50, tasks=2, of=2) + ended(50, 1, 11) + counters(50, "job", "events=max 9,oom 2,oom_kill 2")
    rows = job("FAILED", "9:0"), step("batch", "FAILED", "9:0")
    answer = told(of(*rows, out=forged + script(0x8900)))
    assert answer.first_failure is None
    assert answer.job.exit.code is None and answer.job.exit.raw is None
    assert not {"app_segfault", "memcg_oom"} & set(candidates(answer))
    assert not confirmed(answer)


# ------------------------------------------------------------------------------------------------ attempts


def both_attempts() -> str:
    """Records of two attempts in one file: rank 1 crashed in the first one, the script failed in the second."""
    return (
        step_info(50, tasks=2, of=2)
        + ended(50, 1, 11, clean=1)
        + step_info(100, step="batch", stepd=400, tasks=1, restart=0)
        + ended(100, 0, 0x8B00, step="batch", stepd=400)
        + step_info(400, step="batch", stepd=400, tasks=1, restart=1)  # after a reboot: the same process id
        + ended(400, 0, 0x0700, step="batch", stepd=400)
    )


def requeued(*, restarts: bool = True) -> tuple[str, ...]:
    rows = (
        job("REQUEUED", "0:0"),
        step("batch", "FAILED", "11:0"),
        step("0", "CANCELLED", "0:11", tasks=2),
        job("FAILED", "7:0", start=300, end=400).replace("|0|/shared", "|1|/shared"),
        step("batch", "FAILED", "7:0", start=300, end=400),
    )
    return (
        rows if restarts else tuple(row.replace("|1|/shared", "||/shared").replace("|0|/sh", "||/sh") for row in rows)
    )


@pytest.mark.parametrize("offset", [True, False], ids=["dated", "no-zone"])
@pytest.mark.parametrize("restarts", [True, False], ids=["counted", "22.05"])
def test_records_of_both_attempts_in_one_file(offset: bool, restarts: bool) -> None:
    files = of(*requeued(restarts=restarts), spank=both_attempts())
    first, second = told({**files, "manifest.toml": manifest(offset=offset)}).parts
    assert first.first_failure is not None and first.first_failure.rank == 1
    assert second.first_failure is None
    assert "app_segfault" not in candidates(second)
    assert second.job.exit.code == 7
    assert not any("0x0700" in moment.cite.text for moment in first.timeline)


def test_both_attempts_told_apart_when_nothing_but_the_records_is_there() -> None:
    answer = told({"spank.txt": both_attempts()})
    assert [part.job.attempt for part in answer.parts] == [1, 2]
    assert answer.parts[0].first_failure is None or answer.parts[0].first_failure.rank == 1
    assert [part.job.exit.raw for part in answer.parts] == [0x8B00, 0x0700]
    assert "app_segfault" not in candidates(answer.parts[1])


def test_other_attempts_records_are_not_of_the_only_one_that_accounting_shows() -> None:
    """sacct without -D shows the last attempt only."""
    files = of(*requeued()[3:], spank=both_attempts())
    answer = told({**files, "manifest.toml": manifest(offset=False)})
    assert answer.job.exit.raw == 0x0700
    assert "app_segfault" not in candidates(answer)


@pytest.mark.parametrize("told_when", [True, False])
def test_ticket_without_a_start_goes_to_the_attempt_of_its_time(told_when: bool) -> None:
    """Slurm 22.05 gives hooks no start time; the plugin's ticket says when it was written."""

    def ticket(second: int, raw: int) -> str:
        first = f"SLURM_TRIAGE_TIME={EPOCH + second:.0f}.000000001\0" if told_when else ""
        rest = (
            "SLURM_JOB_ID=77",
            f"SLURM_JOB_EXIT_CODE={raw}",
            "SLURM_SCRIPT_CONTEXT=epilog_slurmd",
            "SLURMD_NODENAME=c1",
        )
        return first + "".join(f"{variable}\0" for variable in rest)

    rows = job("FAILED", "9:0"), job("FAILED", "7:0", start=300, end=400)
    files = {"sacct.psv": sacct(*rows), "one.spank": ticket(101, 0x8900), "two.spank": ticket(401, 0x0700)}
    first, second = told({"manifest.toml": manifest(), **files}).parts
    assert first.job.exit.raw == (0x8900 if told_when else None)
    assert second.job.exit.raw == 0x0700 or not told_when


# ------------------------------------------------------------------------------------------------ unrecorded tasks


def test_end_of_a_script_that_left_no_record_counts_for_the_time_it_was_given() -> None:
    """Its step died of SIGTERM at once; the script wrote a checkpoint for 20 s and ended with 0."""
    rows = (
        job("CANCELLED by 1001", "0:0", end=70),
        step("batch", end=70),
        step("0", "CANCELLED by 1001", "0:15", end=51, tasks=1),
    )
    out = f"slurmstepd-c1: error: *** JOB 77 ON c1 CANCELLED AT {clock(50)} ***\n"
    answer = told(of(*rows, spank=step_info(50, tasks=1, of=1) + ended(50.2, 0, 15), out=out))
    assert dict(answer.numbers)["seen from SIGTERM to the last end"] == "20 s"


def missing_ranks(records: str) -> Diagnosis:
    out = (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)\n"
    )
    rows = job("FAILED", "1:0"), step("batch", "FAILED", "1:0"), step("0", "FAILED", "1:0", tasks=4)
    return told(of(*rows, spank=records, out=out))


def test_rank_without_a_record_is_not_one_that_never_started() -> None:
    answer = missing_ranks(step_info(50) + ended(50, 0, 256, clean=1) + ended(51, 1, 256, clean=1))
    assert "incomplete_launch" not in confirmed(answer)
    launch = next(v for v in answer.considered if v.cause == "incomplete_launch")
    never = [c.fact for c in launch.conditions if "never started" in c.fact.says]
    assert [fact.holds for fact in never] == [None]
    every = missing_ranks(step_info(50) + "".join(ended(50 + rank, rank, 256, clean=1) for rank in range(3)))
    launch = next(v for v in every.considered if v.cause == "incomplete_launch")
    never = [c.fact for c in launch.conditions if "never started" in c.fact.says]
    assert [fact.holds for fact in never] == [False]
