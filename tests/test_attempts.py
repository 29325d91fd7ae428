"""Whose an event is, from which run, and what a file is: `attempts.split`, `sources.parse`, `engine.join`."""

from __future__ import annotations

import time

import pytest

from slurm_triage import sources
from slurm_triage.attempts import MOST_UNRECORDED, Attempt, split
from slurm_triage.case import Case, from_files
from slurm_triage.engine import diagnose, study
from slurm_triage.model import Diagnosis, OomKill, Sign, Strength, TaskExit

COLUMNS = "JobIDRaw|JobID|JobName|User|State|ExitCode|Submit|Start|End|NodeList|StdOut|SubmitLine"
MANIFEST = 'slurm = "24.11.5"\nutc_offset = "+00:00"\nboot_epoch = 1796046400.0\n'
NO_CLOCK = 'slurm = "24.11.5"\n'
T0 = 1796047200.0
"""2026-11-30T14:00:00Z, 800 s after the boot."""
TRACEBACK = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\nKeyError: 'lr'\n"
SEGFAULT = "srun: error: c1: task 2: Segmentation fault\n"
OOM = (
    "[  899.000040] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/slurm/uid_1001/job_77,task_memcg=/slurm/uid_1001/job_77/step_batch/task_0,task=python3,pid=4242,uid=1001\n"
    "[  899.000050] Memory cgroup out of memory: Killed process 4242 (python3) total-vm:200000kB, anon-rss:97000kB, "
    "file-rss:100kB, shmem-rss:0kB, UID:1001 pgtables:300kB oom_score_adj:0\n"
)


def clock(seconds: float) -> str:
    """Local time so long after 14:00:00."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(T0 + seconds))


def row(
    id: str, shown: str = "", state: str = "FAILED", exit: str = "1:0", start: float = 0, end: float = 100,
    nodes: str = "c1", stdout: str = "", submit_line: str = "",
) -> str:  # fmt: skip
    """A job line and its batch line."""
    shown = shown or id
    times = f"{clock(-10)}|{clock(start)}|{clock(end)}"
    return (
        f"{id}|{shown}|wrap|user1|{state}|{exit}|{times}|{nodes}|{stdout}|{submit_line}\n"
        f"{id}.batch|{shown}.batch|batch||{state}|{exit}|{times}|{nodes}||\n"
    )


def case_of(files: dict[str, str]) -> Case:
    return from_files({name: text.encode() for name, text in files.items()})


def attempts_of(files: dict[str, str]) -> list[Attempt]:
    case = case_of(files)
    return split(*sources.parse(case), case.manifest.version, case.manifest.cluster)


def said(attempt: Attempt) -> set[tuple[str, str]]:
    """File and id of all signs of an attempt."""
    return {(e.cite.file, e.id) for e in attempt.events if isinstance(e, Sign)}


def everything(diagnosis: Diagnosis) -> set[str]:
    """Causes that are confirmed on top or besides."""
    own = {diagnosis.cause} if diagnosis.strength is Strength.CONFIRMED else set()
    return own | {v.cause for v in diagnosis.also if v.strength is Strength.CONFIRMED}


# ------------------------------------------------------------------------------------------------ parts


def array(*states: str) -> str:
    rows = [row(str(101 + i), f"100_{i + 1}", s, "0:0" if s == "COMPLETED" else "1:0") for i, s in enumerate(states)]
    return COLUMNS + "\n" + "".join(rows)


@pytest.mark.parametrize(
    "name", ["slurm-100_3.out", "out/run_100_3.out", "slurm-103.out", "out/103/log.out", "a-100-3.out"]
)
def test_an_output_named_after_a_task_is_that_tasks(name: str) -> None:
    parts = attempts_of({"manifest.toml": MANIFEST, "sacct.psv": array("FAILED", "FAILED", "FAILED"), name: TRACEBACK})
    assert [(name, "python_exception") in said(p) for p in parts] == [False, False, True]
    assert [any(file == name for file, _ in said(p)) for p in parts] == [False, False, True]


def test_the_array_id_in_a_name_is_not_the_task_with_that_raw_id() -> None:
    # The last task of an array has the array's own id as raw id.
    table = COLUMNS + "\n" + row("101", "100_1") + row("102", "100_2") + row("100", "100_3")
    files = {"manifest.toml": MANIFEST, "sacct.psv": table, "slurm-100_2.out": TRACEBACK, "slurm-100_9.out": SEGFAULT}
    parts = {a.job_id: said(a) for a in attempts_of(files)}
    assert ("slurm-100_2.out", "python_exception") in parts["102"]
    assert not parts["100"] and not parts["101"]
    assert not any(file == "slurm-100_9.out" for signs in parts.values() for file, _ in signs)


def test_components_of_a_heterogeneous_job_have_their_own_files() -> None:
    table = COLUMNS + "\n" + row("111", "111+0", "COMPLETED", "0:0") + row("112", "111+1")
    files = {"manifest.toml": MANIFEST, "sacct.psv": table, "slurm-111+1.out": TRACEBACK, "job.out": SEGFAULT}
    leader, other = attempts_of(files)
    assert ("slurm-111+1.out", "python_exception") in said(other)
    assert not said(leader)
    assert not any(file == "job.out" for file, _ in said(other))


def test_a_line_of_a_shared_output_that_names_no_part_is_nobodys() -> None:
    out = SEGFAULT + "slurmstepd-c1: error: *** STEP 102.0 ON c1 CANCELLED AT 2026-11-30T14:01:30 ***\n"
    parts = attempts_of({"manifest.toml": MANIFEST, "sacct.psv": array("FAILED", "FAILED"), "job.out": out})
    assert [said(p) for p in parts] == [set(), {("job.out", "slurm_cancelled")}]


def test_stdout_of_accounting_names_the_file_of_a_task() -> None:
    rows = [row(str(100 + i), f"100_{i}", stdout="/home/user1/%x.%A/task%3a.txt") for i in (1, 2)]
    files = {"manifest.toml": MANIFEST, "sacct.psv": COLUMNS + "\n" + "".join(rows), "task002.txt": TRACEBACK}
    first, second = attempts_of(files)
    assert ("task002.txt", "python_exception") in said(second)
    assert not said(first)


def test_one_path_for_all_tasks_is_nobodys() -> None:
    rows = [row(str(100 + i), f"100_{i}", stdout="/home/user1/all.txt") for i in (1, 2)]
    files = {"manifest.toml": MANIFEST, "sacct.psv": COLUMNS + "\n" + "".join(rows), "all.txt": TRACEBACK}
    assert [said(a) for a in attempts_of(files)] == [set(), set()]


def segfault(pid: int, at: float = 850.0) -> str:
    text = f"solver[{pid}]: segfault at 0 ip 0000000000401136 sp 00007ffe error 6 in solver[401000+1000]"
    return f"[{at:12.6f}] {text} likely on CPU 1 (core 1, socket 0)\n"


def test_a_kernel_line_without_a_job_is_no_proof_for_every_task() -> None:
    files = {"manifest.toml": MANIFEST, "sacct.psv": array("FAILED", "FAILED", "FAILED"), "kmsg.c1.txt": segfault(555)}
    assert [said(a) for a in attempts_of(files)] == [set(), set(), set()]
    assert not any("app_segfault" in everything(p) for p in diagnose(case_of(files)).parts)


def test_a_kernel_line_with_the_pid_of_a_task_is_that_tasks() -> None:
    spank = (
        f"{T0 + 50:.3f} node=c1 stepd=500 task_exit job=102 step=0 rank=0 local=0 pid=555 status=0x000b "
        "exit=0 signal=11 core=0\n"
    )
    files = {"manifest.toml": MANIFEST, "sacct.psv": array("FAILED", "FAILED"), "kmsg.c1.txt": segfault(555) + OOM}
    first, second = attempts_of({**files, "spank.txt": spank})
    assert ("kmsg.c1.txt", "x86_segfault") in said(second)
    assert ("kmsg.c1.txt", "x86_segfault") not in said(first)
    for attempt in (first, second):  # OOM kills are told apart by their cgroup
        assert any(isinstance(e, OomKill) for e in attempt.events)


def test_a_kernel_line_is_of_the_only_part_that_was_on_the_node_then() -> None:
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    table = COLUMNS + "\n" + row("101", "100_1") + row("102", "100_2", start=200, end=300)
    table += row("103", "100_3", start=200, end=300, nodes="c2")
    files = {"manifest.toml": MANIFEST, "sacct.psv": table, "kmsg.c1.txt": f"[ 1050.000000] {xid}"}
    assert [bool(said(a)) for a in attempts_of(files)] == [False, True, False]
    nowhere = {**files, "kmsg.txt": files["kmsg.c1.txt"]}
    del nowhere["kmsg.c1.txt"]
    assert [bool(said(a)) for a in attempts_of(nowhere)] == [False, False, False]


def test_a_thousand_tasks_are_told_apart_in_linear_time() -> None:
    files = {"manifest.toml": MANIFEST, "sacct.psv": COLUMNS + "\n", "slurmctld.log": "", "kmsg.c1.txt": ""}
    for i in range(1000):
        files["sacct.psv"] += row(str(1000 + i), f"1000_{i}")
        files["slurmctld.log"] += f"[{clock(100)}.100] _job_complete: JobId=1000_{i}({1000 + i}) WEXITSTATUS 1\n"
        files["kmsg.c1.txt"] += segfault(i)
        files[f"slurm-1000_{i}.out"] = TRACEBACK
    events, coverage = sources.parse(case_of(files))
    began = time.process_time()
    attempts = split(events, coverage)
    assert time.process_time() - began < 5.0
    assert [a.job_id for a in attempts] == [str(1000 + i) for i in range(1000)]
    for i, attempt in enumerate(attempts):
        assert {e.cite.file for e in attempt.events} == {f"slurm-1000_{i}.out", "slurmctld.log"}


# ------------------------------------------------------------------------------------------------ runs


def requeued(**more: str) -> str:
    first = row("77", state="REQUEUED", exit="0:0", start=0, end=100, **more)
    return COLUMNS + "\n" + first + row("77", start=300, end=400, **more)


def hook(start: float) -> str:
    return (
        f"SLURM_JOB_ID=77\nSLURM_JOB_EXIT_CODE2=1:0\nSLURM_JOB_START_TIME={T0 + start:.0f}\n"
        "SLURM_JOB_NAME=wrap\nSLURM_SCRIPT_CONTEXT=epilog_slurmctld\n"
    )


@pytest.mark.parametrize("manifest", [NO_CLOCK, NO_CLOCK + "boot_epoch = 1796046400.0\n"])
def test_a_kill_whose_time_cannot_be_compared_is_of_no_run(manifest: str) -> None:
    files = {"manifest.toml": manifest, "sacct.psv": requeued(), "kmsg.txt": OOM, "job.out": TRACEBACK}
    first, last = attempts_of(files)
    assert not any(isinstance(e, OomKill) for a in (first, last) for e in a.events)
    assert ("job.out", "python_exception") in said(last)  # Slurm truncates the output at the start of a run
    assert not said(first)
    assert not any("memcg_oom" in everything(p) for p in diagnose(case_of(files)).parts)


def test_a_kill_with_a_time_is_of_its_run() -> None:
    files = {"manifest.toml": MANIFEST, "sacct.psv": requeued(), "kmsg.txt": OOM}
    first, last = attempts_of(files)
    assert [any(isinstance(e, OomKill) for e in a.events) for a in (first, last)] == [True, False]


def test_task_exits_are_of_no_run_without_the_offset_and_of_theirs_with_it() -> None:
    spank = "".join(
        f"{T0 + at:.3f} node=c1 stepd=500 task_exit job=77 step=0 rank={rank} local=0 pid=9 status=0x{status:04x} "
        f"exit={status >> 8} signal={status & 127} core=0\n"
        for at, rank, status in ((50, 0, 11), (399, 1, 256))
    )
    files = {"sacct.psv": requeued(), "spank.txt": spank}
    blind = attempts_of({"manifest.toml": NO_CLOCK, **files})
    assert not any(isinstance(e, TaskExit) for a in blind for e in a.events)
    seeing = attempts_of({"manifest.toml": NO_CLOCK, **files, "env.epilog_slurmctld.txt": hook(300)})
    assert [[e.rank for e in a.events if isinstance(e, TaskExit)] for a in seeing] == [[0], [1]]


def test_what_has_no_time_is_of_the_only_run_that_started() -> None:
    waiting = f"77|77|wrap|user1|PENDING|0:0|{clock(150)}|Unknown|Unknown|None assigned||\n"
    files = {"manifest.toml": NO_CLOCK, "sacct.psv": COLUMNS + "\n" + row("77") + waiting, "kmsg.txt": OOM}
    ran, pending = attempts_of(files)
    assert any(isinstance(e, OomKill) for e in ran.events)
    assert not pending.events


APPENDED = "run 1\n" + SEGFAULT + "requeueing\nrun 2\n" + TRACEBACK


@pytest.mark.parametrize(
    ("setting", "submit_line", "runs"),
    [
        ("0", "", [False, True]),
        ("1", "", [False, False]),
        ("0", "sbatch --open-mode=append a.sh", [False, False]),
        ("1", "sbatch --open-mode=truncate a.sh", [False, True]),
    ],
)
def test_an_output_that_is_appended_to_may_be_of_any_run(setting: str, submit_line: str, runs: list[bool]) -> None:
    config = f"Configuration data as of 2026-11-30T14:00:00\nClusterName             = mini\nJobFileAppend           = {setting}\n"
    files = {
        "manifest.toml": MANIFEST,
        "scontrol-config.txt": config,
        "sacct.psv": requeued(submit_line=submit_line),
        "job.out": APPENDED,
    }
    assert [("job.out", "srun_task_signal") in said(a) for a in attempts_of(files)] == runs


def test_lines_before_the_dated_end_of_a_run_are_of_that_run() -> None:
    end = "slurmstepd-c1: error: *** JOB 77 ON c1 CANCELLED AT 2026-11-30T14:01:40 DUE TO PREEMPTION ***\n"
    files = {"manifest.toml": MANIFEST, "sacct.psv": requeued(), "job.out": SEGFAULT + end + TRACEBACK}
    first, last = attempts_of(files)
    assert {id for _, id in said(first)} >= {"srun_task_signal", "slurm_preempted"}
    assert not {id for _, id in said(last)} & {"srun_task_signal", "slurm_preempted"}
    assert "python_exception" in {id for _, id in said(last)}
    assert "python_exception" not in {id for _, id in said(first)}
    assert "app_segfault" not in everything(diagnose(case_of(files)).parts[-1])


def test_a_dated_line_that_ends_no_run_leaves_the_lines_after_it_open() -> None:
    note = "[2026-11-30T14:00:05.100] error: couldn't chdir to `/x': No such file or directory: going to /tmp instead\n"
    files = {"manifest.toml": MANIFEST, "sacct.psv": requeued(), "job.out": note + SEGFAULT}
    first, last = attempts_of(files)
    assert ("job.out", "slurm_chdir") in said(first)
    assert not any(("job.out", "srun_task_signal") in said(a) for a in (first, last))


def test_a_time_that_a_program_prints_in_another_zone_hides_nothing() -> None:
    out = (
        "2026-11-30 09:01:00,123 ERROR something\n2026-11-30 09:01:01,000 CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    (attempt,) = attempts_of({"manifest.toml": MANIFEST, "sacct.psv": COLUMNS + "\n" + row("77"), "job.out": out})
    assert {id for _, id in said(attempt)} >= {"log_end"}
    assert any(
        e.cite.line == 2 and e.id != "log_end" and e.id != "log_tail" for e in attempt.events if isinstance(e, Sign)
    )


# ------------------------------------------------------------------------------------------------ what a file is


def kinds(files: dict[str, str]) -> dict[str, str | None]:
    return {c.file: c.kind for c in sources.parse(case_of(files))[1]}


@pytest.mark.parametrize(
    "text", [OOM, f"[{clock(20)}.102] preempted JobId=77 has been killed to reclaim resources for JobId=90\n"]
)
@pytest.mark.parametrize(
    "namer",
    [
        {"sacct.psv": COLUMNS + "\n" + row("77", stdout="/shared/%x-%j.txt")},
        {"env.epilog_slurmctld.txt": hook(0) + "SLURM_JOB_STDOUT=/shared/%x-%J.txt\n"},
        {
            "scontrol_show_job.txt": "JobId=77 JobName=wrap\n   JobState=FAILED Reason=None\n   StdOut=/shared/wrap-77.txt\n"
        },
    ],
)
def test_the_jobs_own_output_is_never_another_witness(text: str, namer: dict[str, str]) -> None:
    files = {"manifest.toml": MANIFEST, **namer, "wrap-77.txt": text + TRACEBACK}
    assert kinds(files)["wrap-77.txt"] == "job_log"
    coverage = sources.parse(case_of(files))[1]
    assert any(c.file == "wrap-77.txt" and "names it so" in c.note for c in coverage)
    assert not {"memcg_oom", "preempted"} & everything(diagnose(case_of(files)))
    other = {**files, "kernel-77.txt": text}
    assert kinds(other)["kernel-77.txt"] in ("kernel_log", "slurmctld_log")  # no other file is taken for the output


def test_patterns_per_node_task_and_step_are_filled_in() -> None:
    table = COLUMNS + "\n" + row("77", nodes="c[1-2]", stdout="/shared/%j.%s.%N.%2t.txt")
    files = {
        "manifest.toml": MANIFEST,
        "sacct.psv": table,
        "77.0.c2.11.txt": OOM,
        "77.0.c9.11.txt": OOM,
        "77.x.c2.1.txt": OOM,
    }
    found = kinds(files)
    assert found["77.0.c2.11.txt"] == "job_log"
    assert found["77.0.c9.11.txt"] == found["77.x.c2.1.txt"] == "kernel_log"


def test_a_file_that_names_itself_stays_what_it_is_and_an_output_names_nothing() -> None:
    table = COLUMNS + "\n" + row("77", stdout="/home/user1/sacct.psv")
    assert kinds({"manifest.toml": MANIFEST, "sacct.psv": table})["sacct.psv"] == "sacct"
    forged = "JobId=77 JobName=wrap\n   JobState=FAILED Reason=None\n   StdOut=/x/sacct.psv\n   StdErr=/x/kmsg.c1.txt\n"
    table = COLUMNS + "\n" + row("77", stdout="/home/user1/notes.txt")
    found = kinds({"manifest.toml": MANIFEST, "sacct.psv": table, "notes.txt": forged, "kmsg.c1.txt": OOM})
    assert found == {"kmsg.c1.txt": "kernel_log", "notes.txt": "job_log", "sacct.psv": "sacct"}


def test_a_path_full_of_patterns_costs_nothing() -> None:
    table = COLUMNS + "\n" + row("77", nodes="c[1-64]", stdout="/x/" + "%N" * 20000)
    began = time.process_time()
    assert kinds({"manifest.toml": MANIFEST, "sacct.psv": table})["sacct.psv"] == "sacct"
    assert time.process_time() - began < 2.0


def test_stamps_in_brackets_do_not_make_a_kernel_log() -> None:
    printed = "".join(f"[   {i}.123456] epoch {i} loss 0.5\n" for i in range(20))
    score = sources.by_kind()["kernel_log"].recognise("notes.txt", printed.splitlines())
    assert score <= 0.4
    assert kinds({"notes.txt": printed + TRACEBACK})["notes.txt"] == "job_log"
    assert kinds({"kmsg.c1.txt": printed})["kmsg.c1.txt"] == "kernel_log"  # the name says it
    booted = "[    0.000000] Linux version 6.1.0-18-amd64 (gcc) #1 SMP\n[    0.000000] Command line: quiet\n"
    assert kinds({"node1.log": booted + OOM})["node1.log"] == "kernel_log"
    assert kinds({"node1.log": OOM})["node1.log"] == "kernel_log"


def test_a_word_of_the_kubelet_does_not_make_kubectl_output() -> None:
    text = "Error: ErrImagePull\n" + TRACEBACK
    assert kinds({"notes.txt": text})["notes.txt"] == "job_log"
    layout = "Name:         train-0\nRestart Count:  3\nLast State:     Terminated\n  Reason:       OOMKilled\n"
    assert kinds({"notes.txt": layout})["notes.txt"] == "kubectl"


def test_a_later_boot_is_not_dated_by_the_first() -> None:
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    banner = "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) #1 SMP"
    log = f"[  850.000000] {xid}\n[    0.000000] {banner}\n[  860.000000] {xid}\n"
    files = {"manifest.toml": MANIFEST, "kmsg.c1.txt": log}
    signs = [e for e in sources.parse(case_of(files))[0] if isinstance(e, Sign) and e.id == "nvidia_xid"]
    assert [e.at is not None for e in signs] == [True, False]
    first = {"manifest.toml": MANIFEST, "kmsg.c1.txt": log.split("\n", 1)[1]}  # begins with its boot
    signs = [e for e in sources.parse(case_of(first))[0] if isinstance(e, Sign) and e.id == "nvidia_xid"]
    assert [e.at is not None for e in signs] == [True]
    separated = f"[  850.000000] {xid}\n-- Boot {'a1' * 16} --\n[  860.000000] {xid}\n"
    signs = [e for e in sources.parse(case_of({**files, "kmsg.c1.txt": separated}))[0] if isinstance(e, Sign)]
    assert [e.at is not None for e in signs if e.id == "nvidia_xid"] == [True, False]


# ------------------------------------------------------------------------------------------------ several jobs


CONTROLLER = (
    f"[{clock(0)}.120] preempted JobId=22 has been killed to reclaim resources for JobId=23\n"
    f"[{clock(0)}.200] sched: Allocate JobId=23 NodeList=c1 #CPUs=1 Partition=high\n"
    f"[{clock(90)}.120] _job_complete: JobId=23 WEXITSTATUS 1\n"
)


def test_jobs_of_a_bare_controller_log_are_kept_apart() -> None:
    found = study(case_of({"manifest.toml": MANIFEST, "slurmctld.log": CONTROLLER}))
    by_id = {a.job_id: {id for _, id in said(a)} for a in found.attempts}
    assert by_id == {"22": {"ctld_preempted"}, "23": {"ctld_start", "ctld_complete"}}
    assert found.diagnosis.job.job_id == "23"  # it ended badly, and last
    assert found.diagnosis.cause != "preempted"
    assert [p.cause == "preempted" for p in found.diagnosis.parts] == [True, False]


def test_a_line_that_names_another_job_is_never_ours() -> None:
    out = "srun: error: c1: task 0: Exited with exit code 1\nslurmstepd-c1: error: *** STEP 23.0 ON c1 CANCELLED AT 2026-11-30T14:01:30 ***\n"
    (attempt,) = attempts_of({"manifest.toml": MANIFEST, "slurmctld.log": CONTROLLER, "job.out": out})
    assert attempt.job_id == "23"
    assert ("slurmctld.log", "ctld_complete") in said(attempt)
    assert ("slurmctld.log", "ctld_preempted") not in said(attempt)


def test_a_long_controller_log_says_that_it_was_not_looked_at_whole() -> None:
    log = "".join(f"[{clock(i)}.120] _job_complete: JobId={i} WEXITSTATUS 1\n" for i in range(1, 201))
    attempts = attempts_of({"manifest.toml": MANIFEST, "slurmctld.log": log})
    assert [a.job_id for a in attempts] == [str(i) for i in range(201 - MOST_UNRECORDED, 201)]
    assert any("200 jobs" in c.note for c in attempts[0].coverage)


def test_unrelated_jobs_are_no_array() -> None:
    table = COLUMNS + "\n" + row("71", end=50) + row("72", state="TIMEOUT", exit="0:0", end=90) + row("73", end=70)
    found = diagnose(
        case_of({"manifest.toml": MANIFEST, "sacct.psv": table + row("74", state="COMPLETED", exit="0:0")})
    )
    assert found.cause == "time_limit"
    assert found.job.job_id == "72"
    assert [p.job.job_id for p in found.parts] == ["71", "72", "73", "74"]


def test_tasks_of_one_array_that_fail_differently_are_summed_up() -> None:
    table = COLUMNS + "\n" + row("101", "100_1") + row("102", "100_2", state="TIMEOUT", exit="0:0")
    found = diagnose(case_of({"manifest.toml": MANIFEST, "sacct.psv": table}))
    assert found.cause == "array_mixed"
    assert found.job.shown_id == "100"


def test_an_array_is_known_from_slurmctlds_memory_too() -> None:
    view = "".join(
        f"JobId={101 + i} ArrayJobId=100 ArrayTaskId={i} JobName=wrap\n   JobState={state} Reason=None\n"
        f"   StartTime={clock(0)} EndTime={clock(100)} Deadline=N/A\n   ExitCode={code}\n\n"
        for i, (state, code) in enumerate([("TIMEOUT", "0:0"), ("NODE_FAIL", "1:0")])
    )
    found = diagnose(case_of({"manifest.toml": MANIFEST, "scontrol_show_job.txt": view}))
    assert found.cause == "array_mixed"
    assert [p.job.array for p in found.parts] == ["100", "100"]
