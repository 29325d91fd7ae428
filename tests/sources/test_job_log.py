"""The job's own output: what Slurm's and the program's lines say, and what they do not."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import EvidenceFile, Manifest, from_files
from slurm_triage.clock import Clock, offset_of
from slurm_triage.model import Sign, StackLine, Voice
from slurm_triage.sources import Context, _messages, job_log, parse
from slurm_triage.sources._finder import Finder, fragment_of
from slurm_triage.sources._messages import job_and_step, label_of, node_name
from slurm_triage.sources._names import is_output_name

CONTEXT = Context(Clock(offset_of("Z")), Manifest())
ENDS = {"log_tail", "log_end", "log_empty", "error_frame"}


def signs(text: str | bytes, name: str = "job.out") -> list[Sign]:
    data = text.encode() if isinstance(text, str) else text
    found = list(job_log.parse(EvidenceFile(name, data=data), CONTEXT))
    assert all(isinstance(event, (Sign, StackLine)) for event in found)
    return [event for event in found if isinstance(event, Sign)]


def said(text: str, name: str = "job.out") -> list[Sign]:
    return [s for s in signs(text, name) if s.id not in ENDS]


def ids(text: str) -> list[str]:
    return [s.id for s in said(text)]


# ------------------------------------------------------------------------------------------------ Slurm's lines

SLURM = [
    ("slurmstepd-c1: error: *** JOB 1008 ON c1 CANCELLED AT 2026-11-30T15:00:12 ***", "slurm_cancelled"),
    (
        "slurmstepd-p1: error: *** STEP 1138.0 ON p1 CANCELLED AT 2026-11-30T15:00:42 DUE TO PREEMPTION ***",
        "slurm_preempted",
    ),
    (
        "slurmstepd-c1: error: *** JOB 1119 ON c1 CANCELLED AT 2026-11-30T15:02:33 DUE TO TIME LIMIT ***",
        "slurm_time_limit",
    ),
    (
        "[2026-11-30T14:49:54.018] error: *** JOB 1008 ON c1 CANCELLED AT 2026-11-30T14:49:54 DUE to SIGNAL Terminated ***",
        "slurm_cancelled_signal",
    ),
    (
        "slurmstepd-f1: error: *** JOB 1014 ON f1 CANCELLED AT 2026-11-30T15:00:54 DUE TO NODE FAILURE, "
        "SEE SLURMCTLD LOG FOR DETAILS ***",
        "slurm_node_failure",
    ),
    (
        "slurmstepd: error: *** JOB 31182239 ON node001 CANCELLED AT 2018-11-05T10:35:06 DUE TO JOB REQUEUE ***",
        "slurm_requeue",
    ),
    (
        "[2026-04-29T23:36:37.809] error: *** STEP 52222788.0 ON node288 CANCELLED AT 2026-04-29T23:36:37 "
        "DUE TO TASK FAILURE ***",
        "slurm_task_failure",
    ),
    ("srun: error: c1: task 0: Out Of Memory", "srun_task_oom"),
    ("srun: error: c2: task 0: Exited with exit code 1", "srun_task_exit"),
    ("srun: error: c1: task 1: Segmentation fault", "srun_task_signal"),
    ("srun: error: c1: task 0: User defined signal 2", "srun_task_signal"),
    ("srun: Force Terminated StepId=1161.0", "srun_force_terminated"),
    ("Error running slurm prolog: 1", "slurm_prolog_failed"),
    ("[client exit status 124]", "client_exit"),
]


@pytest.mark.parametrize(("line", "id"), SLURM)
def test_a_line_of_slurm_belongs_to_one_family(line: str, id: str) -> None:
    found = said(line)
    assert [s.id for s in found] == [id]
    assert found[0].voice is Voice.SLURM
    assert found[0].cite.text == line and found[0].cite.line == 1


@pytest.mark.parametrize(("line", "id"), SLURM)
def test_a_rank_label_or_a_progress_bar_before_it_changes_nothing(line: str, id: str) -> None:
    if id == "client_exit":
        return  # it is a whole line by definition
    assert id in ids(f" 3: {line}")
    assert id in ids(f" 45%|████▌     | 723/1602 [2:12:45<2:59:53, 12.28s/it]{line}")
    assert id in ids(f"step 1\rstep 2\r{line}\x1b[0m")


def test_who_when_and_where() -> None:
    (sign,) = said("slurmstepd-p1: error: *** STEP 1138.0 ON p1 CANCELLED AT 2026-11-30T15:00:42 DUE TO PREEMPTION ***")
    assert (sign.job, sign.step, sign.node) == ("1138", "0", "p1")
    assert sign.at is not None and sign.at.lo == 1796050842.0
    (sign,) = said(
        "slurmstepd-c2: error: Detected 1 oom_kill event in StepId=1147.batch. Some of the step tasks have been OOM Killed."
    )
    assert (sign.job, sign.step, sign.node, sign.fields["count"]) == ("1147", "batch", "c2", "1")
    (sign,) = said("srun: error: node001: tasks 0-5,7: Exited with exit code 3")
    assert (sign.fields["tasks"], sign.fields["code"], sign.node) == ("0-5,7", "3", "node001")
    (sign,) = said("slurmstepd: error: *** JOB 494583 ON ... CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***")
    assert sign.node is None, "an excerpt's dots are no node"


def test_interleaved_messages() -> None:
    """Step's and job's message of a preemption, written into each other (public report)."""
    found = said(
        " 45%|████▌     | 723/1602 [2:12:45<2:59:53, 12.28s/it][2026-03-25T10:34:07.530] error: *** STEP 11509447.0 ON "
        "node001 CANCELLED [2026-03-25T10:34:07.531] error: *** JOB 11509447 ON node001 CANCELLED AT "
        "2026-03-25T10:34:07 DUE TO PREEMPTION ***\nAT 2026-03-25T10:34:07 DUE TO PREEMPTION ***\n"
    )
    assert [s.id for s in found] == ["slurm_preempted", "slurm_preempted"]
    assert found[0].job == "11509447" and found[1].job is None


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd-c1: error: Detected 1 oom-kill event(s) in StepId=1143.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 3495064.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        "[2026-11-30T14:49:45.644] error: Detected 1 oom_kill event in StepId=1146.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 2 oom_kill events in StepId=53023285.interactive. Some of the step tasks have been OOM Killed.",
    ],
)
def test_oom_in_every_wording(line: str) -> None:
    (sign,) = said(line)
    assert sign.id == "slurm_oom_detected" and sign.job and sign.step


# ------------------------------------------------------------------------------------------------ the program's word


def test_traceback_names_its_exception() -> None:
    found = said(
        "epoch 0\nTraceback (most recent call last):\n"
        '  File "/shared/bin/train.py", line 2, in load\n'
        "    def load(cfg): return cfg['dataset']['path']\n"
        "                          ~~~^^^^^^^^^^^\n"
        "KeyError: 'dataset'\n"
    )
    assert [s.id for s in found] == ["python_traceback", "python_exception"]
    assert found[1].fields == {"type": "KeyError", "message": "'dataset'", "traceback": "1"}
    assert found[1].voice is Voice.PROGRAM and found[1].cite.line == 6


def test_an_exception_of_any_name_ends_a_traceback_of_its_own_rank() -> None:
    found = said(
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "a.py", line 1, in <module>\n'
        "step 7 done\n"
        "[rank1]: queue.Empty\n"
    )
    assert [s.id for s in found] == ["python_traceback", "python_exception"]
    assert found[1].fields == {"type": "queue.Empty", "rank": "1", "traceback": "1"}
    assert ids("queue.Empty") == [], "without a traceback these are just words"
    assert ids('Traceback (most recent call last):\n  File "a"\nepoch 3 finished') == ["python_traceback"]


@pytest.mark.parametrize(
    "line",
    [
        "INFO:root:ValueError: seen before",
        "2026-06-08 19:04:36,139 - root - INFO - retrying after KeyError: 'x'",
        "    raise ValueError('x')",
        "/a/b.py:3: UserWarning: old",
        "epoch 3 Error: 0.12",
        "0 errors, 0 warnings",
        "Killed by user request",
        "Quit the loop when done",
        "Terminated normally",
        "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "the job was not Killed",
        "got terms from the dictionary",
    ],
)
def test_look_alikes_say_nothing(line: str) -> None:
    assert ids(line) == []


def test_shells_name_the_signal_and_the_command() -> None:
    (sign,) = said(
        "/var/slurmd/spool/slurmd/job3801897/slurm_script: line 15: 259449 Killed                  ./mem_test.x"
    )
    assert sign.id == "shell_signal"
    assert sign.fields == {"line": "15", "pid": "259449", "signal": "Killed", "command": "./mem_test.x"}
    (sign,) = said("Segmentation fault (core dumped)")
    assert sign.id == "shell_bare_signal" and sign.fields["signal"] == "Segmentation fault" and sign.fields["core"]


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu_oom"),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.", "gpu_oom"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_illegal_access"),
        ("  what():  CUDA error: uncorrectable ECC error encountered", "cuda_ecc"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda_device_assert"),
        ("Failed to initialize NVML: Driver/library version mismatch", "nvml_driver_mismatch"),
        ("RuntimeError: DataLoader worker (pid 22358) is killed by signal: Killed.", "dataloader_worker_killed"),
        ("RuntimeError: unable to write to file </torch_1394_2747491098>", "shm_too_small"),
        ("OSError: [Errno 122] Disk quota exceeded", "disk_quota"),
        ("sed: couldn't close stdout: No space left on device", "no_space"),
        ("[rank1]: OSError: [Errno 116] Stale file handle: xxx", "stale_file_handle"),
        ("node101: OSError: [Errno 24] Too many open files", "too_many_open_files"),
        ("OpenBLAS blas_thread_init: pthread_create: Resource temporarily unavailable", "process_limit"),
        ("slurm_script: line 3: gmx_mpi: command not found", "command_not_found"),
        ("/var/spool/slurmd/job1026/slurm_script: 4: /no/such/prog: not found", "command_not_found"),
        ("slurm_script: line 3: /tmp/t.py: Permission denied", "permission_denied_exec"),
        ('standard_init_linux.go:211: exec user process caused "exec format error"', "exec_format_error"),
        ("./solver: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by ./solver)", "glibc_not_found"),
        ("NCCL WARN Bootstrap: no socket interface found", "nccl_config"),
        ("<jemalloc>: Unsupported system page size", "jemalloc_page_size"),
        (
            "mpirun noticed that process rank 3 with PID 12345 on node n2 exited on signal 9 (Killed).",
            "mpirun_task_signal",
        ),
        ("forrtl: severe (174): SIGSEGV, segmentation fault occurred", "fortran_runtime"),
        ("chk: /tmp/chk.c:4: main: Assertion `n>0' failed.", "assertion_failed"),
    ],
)
def test_the_programs_word(line: str, id: str) -> None:
    found = said(line)
    assert id in [s.id for s in found]
    assert all(s.voice is Voice.PROGRAM for s in found)


def test_a_gpus_memory_is_not_the_hosts() -> None:
    assert not {"alloc_failed", "python_memory_error", "slurm_oom_detected"} & set(
        ids("RuntimeError: CUDA error: out of memory")
    )
    assert "gpu_oom" not in ids("RESOURCE_EXHAUSTED: Received message larger than max (5000000 vs. 4194304)")
    assert "io_error" not in ids(
        "OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:Input/output error - CANCELED)"
    )


def test_kernel_lines_that_were_printed_there_are_only_quoted() -> None:
    found = said(
        "[ 1234.567890] solver[4711]: segfault at 0 ip 000055d0c0c4 sp 00007ffd error 4 in solver[55d0c0c+1000]"
    )
    assert found and all(s.voice is Voice.PROGRAM and s.id.startswith("quoted_") for s in found)


def test_torchruns_root_cause_is_joined_from_its_lines() -> None:
    found = said(
        "Failures:\n[1]:\n  host      : node007\n  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 102932)\n"
        "------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-06-08_19:04:45\n  host      : node001\n"
        "  rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: 102930)\n"
    )
    (root,) = [s for s in found if s.id == "torchrun_root_cause"]
    assert root.fields["rank"] == "0" and root.fields["exitcode"] == "-9" and root.fields["host"] == "node001"


def test_ranks_of_labels() -> None:
    assert label_of("[rank3]: x").rank == "3"
    assert (label_of("[default3]: x").rank, label_of("[default3]: x").local) == ("3", True)
    assert label_of(" 93: !!!").rank == "93"
    assert label_of("[3] x").rank is None and label_of("3 x").rank is None and label_of("12:30:00 x").rank is None


# ------------------------------------------------------------------------------------------------ how it ends


def test_the_end_is_always_cited() -> None:
    found = signs("a\nb\n\nc\nd\ne\nf\n\n")
    assert [(s.id, s.fields["text"], s.cite.line) for s in found] == [
        ("log_tail", "b", 2),
        ("log_tail", "c", 4),
        ("log_tail", "d", 5),
        ("log_tail", "e", 6),
        ("log_tail", "f", 7),
        ("log_end", "f", 7),
    ]
    for empty in ("", "\n \n\t\n"):
        (sign,) = signs(empty)
        assert (sign.id, sign.cite.line, sign.cite.text) == ("log_empty", 1, "")


def test_a_terminal_is_marked() -> None:
    assert {s.fields.get("terminal") for s in signs("[client exit status 1]\n", "client.out")} == {"1"}
    assert {s.fields.get("terminal") for s in signs("[client exit status 1]\n")} == {None}


def test_a_message_repeated_for_ever_keeps_its_first_and_last_lines() -> None:
    found = [s for s in signs("Killed\n" * 5000) if s.id == "shell_bare_signal"]
    assert len(found) == 400
    assert found[0].cite.line == 1 and found[199].cite.line == 200 and found[200].cite.line == 4801
    assert found[-1].cite.line == 5000


# ------------------------------------------------------------------------------------------------ recognising


@pytest.mark.parametrize(
    ("name", "head", "at_least", "at_most"),
    [
        ("job.out", ["hello"], 0.6, 0.7),
        ("job.out", [], 0.6, 0.7),
        ("out/a.b.c", ["hello"], 0.6, 0.7),
        ("slurm-17_3.out", ["hello"], 0.6, 0.7),
        ("client.out", ["srun: error: c1: task 0: Killed"], 0.7, 0.8),
        ("train.log", ["hello"], 0.5, 0.5),
        ("notes.txt", ["hello"], 0.0, 0.0),
        ("paste.txt", ["srun: error: c1: task 0: Out Of Memory"], 0.5, 0.5),
        ("slurmctld.log", ["hello"], 0.0, 0.0),
        ("slurmd.c1.log", ["srun: error: c1: task 0: Out Of Memory"], 0.0, 0.2),
        ("kmsg.txt", ["x"], 0.0, 0.0),
        ("job.out", ['cause = "memcg_oom"', "n = 1"], 0.0, 0.0),
        ("x.txt", ['{"jobs": [', '{"id": 1}]}'], 0.0, 0.0),
        ("x.txt", ['{"meta":{"a":"CUDA out of memory. Tried to allocate 2.00 GiB"}}'], 0.0, 0.0),
        ("x.txt", ["[", '  {"a": 1}', "]"], 0.0, 0.0),
        ("x.psv", ["JobID|JobName|State|ExitCode", "1|srun: error: task 0: Out Of Memory|x|y"], 0.0, 0.0),
        ("job.out", ['{"epoch": 1}', '{"epoch": 2}'], 0.6, 0.7),
        (
            "job.out",
            ["[2026-11-30T14:49:54.018] error: *** JOB 1008 ON c1 CANCELLED AT 2026-11-30T14:49:54 ***"],
            0.7,
            0.7,
        ),
    ],
)
def test_recognise(name: str, head: Sequence[str], at_least: float, at_most: float) -> None:
    assert at_least <= job_log.recognise(name, head) <= at_most


def test_names() -> None:
    assert is_output_name("job.out") and is_output_name("a/out/17") and is_output_name("slurm-17.out")
    assert not is_output_name("slurmd.c1.out") and not is_output_name("sacct.txt") and not is_output_name("outline.md")


# ------------------------------------------------------------------------------------------------ floods


def test_a_flood_of_one_rank_hides_no_other() -> None:
    """Rank 0 prints for ever; ranks 1 to 999 print their exception once, in its midst."""
    lines = ["0: ValueError: again"] * 1000
    lines += [
        line for rank in range(1, 1000) for line in (f"{rank}: KeyError: 'k{rank}'", *["0: ValueError: again"] * 20)
    ]
    context = Context(Clock(), Manifest())
    file = EvidenceFile("job.out", data="\n".join(lines).encode())
    found = [e for e in job_log.parse(file, context) if isinstance(e, Sign) and e.id == "python_exception"]
    assert {e.fields["rank"] for e in found} == {str(rank) for rank in range(1000)}
    assert all(lines[e.cite.line - 1] == e.cite.text for e in found)
    assert len(found) < 2000
    assert f"python_exception {1000 + 999 * 21} ({len(found)} used)" in context.notes[0]


def test_what_was_left_out_of_a_flood_stands_in_the_coverage() -> None:
    case = from_files({"job.out": b"ValueError: again\n" * 1000 + b"Killed\n"})
    (entry,) = parse(case)[1]
    assert "python_exception 1000 (400 used)" in entry.note
    assert "Killed" not in entry.note and entry.lines == 1001
    (entry,) = parse(from_files({"job.out": b"ValueError: again\n" * 400}))[1]
    assert entry.note == ""


def test_a_flood_of_ranks_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_messages, "MOST_OF_RANKS", 50)
    data = "".join(f"{rank}: KeyError: x\n" for rank in range(3000)).encode()
    assert sum(s.id == "python_exception" for s in signs(data)) == 450


# ------------------------------------------------------------------------------------------------ robustness


def test_job_and_step() -> None:
    assert job_and_step({"id": "1088.0."}) == ("1088", "0")
    assert job_and_step({"id": "1111+1.batch"}) == ("1111+1", "batch")
    assert job_and_step({"id": "1001_4(1005)"}) == ("1005", None)
    assert job_and_step({"id": "xxxx"}) == (None, None)
    assert job_and_step({}) == (None, None)
    assert (
        node_name("c1") == "c1"
        and node_name("c[1-2]") is None
        and node_name("(null)") is None
        and node_name("") is None
    )


@given(st.binary(max_size=3000))
@settings(max_examples=150, deadline=None)
def test_any_bytes(data: bytes) -> None:
    file = EvidenceFile("job.out", data=data)
    assert 0.0 <= job_log.recognise(file.name, file.head()) <= 1.0
    found = signs(data)
    assert sum(s.id in ("log_end", "log_empty") for s in found) == 1


@given(
    st.lists(st.sampled_from([line for line, _ in SLURM] + ["", "Traceback (most recent call last):", "x 1", "Killed"]))
)
@settings(max_examples=60, deadline=None)
def test_the_order_of_lines_and_crlf_change_no_line(lines: list[str]) -> None:
    def shown(end: str) -> list[tuple[str, int, str]]:
        return [(s.id, s.cite.line, s.cite.text) for s in signs(end.join(lines))]

    assert shown("\n") == shown("\r\n")
    numbers = [line for _, line, _ in shown("\n")]
    alone = [s.id for line in lines for s in said(line)]
    assert sorted(i for i, _, _ in shown("\n") if i not in ENDS and i != "python_exception") == sorted(alone)
    assert numbers == sorted(numbers) or numbers[-1] <= len(lines)


def test_the_fast_filter_finds_what_a_slow_search_finds() -> None:
    """Repeated shapes with other digits: a hint with a digit in it must not be lost."""
    lines = [f"OSError: [Errno {n}] x" for n in (3, 122, 4, 28, 116, 5)] * 50
    found = Finder(("program",)).marked(lines)
    assert all({f.id for f in found[i]} >= {"python_exception"} for i in range(len(lines)))
    assert all(("disk_quota" in {f.id for f in found[i]}) == ("[Errno 122]" in line) for i, line in enumerate(lines))
    with pytest.raises(ValueError, match="without a letter"):
        fragment_of("802")


@pytest.mark.parametrize("filler", ["a", " ", "1", "*** JOB ", "srun: error: ", "Error: ", "\r", "[Errno 5] ", "pod/"])
def test_a_line_of_a_mebibyte_is_quick(filler: str) -> None:
    line = filler * (1024 * 1024 // len(filler))
    start = time.process_time()
    signs(line + "\nKilled\n")
    assert time.process_time() - start < 2.0


def test_a_large_log_without_hits_is_quick() -> None:
    line = "step {:7d} | loss 0.{:05d} | lr 3.0e-04 | grad norm 1.{:03d} | tokens per second {:4d}"
    data = "\n".join(line.format(n, n * 7919 % 99991, n % 997, 1000 + n % 8999) for n in range(60000)).encode()
    start = time.process_time()
    assert {s.id for s in signs(data)} == {"log_tail", "log_end"}
    assert len(data) / 1e6 / (time.process_time() - start) > 5, "MB/s; 50 and more on an idle core"
