"""The words a job ended on prove their cause (decision 12), and what takes the proof away.

Each line below is unmistakable and proves its cause as the last act. Each story told beside it in real jobs must take
that proof away, whatever the cause: a program that lived on, an end that somebody else brought about, another failure.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.facts.proof import FOLLOWERS, SILENT
from slurm_triage.model import Diagnosis, Strength
from slurm_triage.sources._catalog import folders, load

LAST_ACTS = {
    "page_size_mismatch": "<jemalloc>: Unsupported system page size\nmemory allocation of 48 bytes failed\n",
    "disk_quota": "rsync: write failed on \"/home/user1/x\": Disk quota exceeded (122)\n",
    "disk_full_node_local": "OSError: [Errno 28] No space left on device: '/tmp/spill/part-3'\n",
    "file_descriptor_limit": "OSError: [Errno 24] Too many open files: '/proj/shards/17.tar'\n",
    "process_limit": "-bash: fork: Resource temporarily unavailable\n",
    "mpi_abort": "application called MPI_Abort(MPI_COMM_WORLD, 17) - process 3\n",
    "nccl_config": "n1:77:90 [0] init.cc:795 NCCL WARN Duplicate GPU detected : rank 0 and rank 4 both on CUDA device 81000\n",
    "cuda_device_assert": "RuntimeError: CUDA error: device-side assert triggered\n",
    "nccl_timeout_desync": "[rank2]: RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running "
    "collective: CollectiveFingerPrint(SequenceNumber=12, OpType=BROADCAST)\n",
    "container_runtime_setup": "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /etc/x at /run/x: No such "
    "file or directory\nslurmstepd: error: pyxis: container start failed with error code: 1\n",
    "node_misconfigured": "slurmstepd: error: container_p_join: open failed /local/77/.ns: No such file or directory\n",
    "app_error": "Traceback (most recent call last):\n  File \"fit.py\", line 3, in <module>\n    import gurobipy\n"
    "ModuleNotFoundError: No module named 'gurobipy'\n",
    "launch_failed": "srun: error: Unable to create step for job 77: Memory required by task is not available\n",
    "rendezvous_failed": "RuntimeError: The server socket has failed to listen on any local network address. The server "
    "socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n",
    "command_not_found": "/var/spool/slurmd/job00077/slurm_script: line 9: orterun: command not found\n",
    "exec_permission": "slurmstepd: error: execve(): ./solve: Permission denied\n",
    "exec_format": "slurmstepd: error: execve(): ./solve: Exec format error\n",
}  # fmt: skip

SACCT = "JobIDRaw|JobID|JobName|State|ExitCode|Start|End\n77|77|x|{}|{}|2026-11-30T15:10:44|2026-11-30T15:20:51\n"
XID = "[Mon Nov 30 15:20:50 2026] NVRM: Xid (PCI:0000:cb:00): 79, pid=1, GPU has fallen off the bus.\n"
OOM = (
    "[Mon Nov 30 15:20:50 2026] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"
    "oom_memcg=/slurm/uid_1/job_77,task_memcg=/slurm/uid_1/job_77/step_0,task=python,pid=5,uid=1\n"
    "[Mon Nov 30 15:20:50 2026] Memory cgroup out of memory: Killed process 5 (python) total-vm:8kB, anon-rss:4kB\n"
)

BEFORE = {
    "a task was killed first": "srun: error: n3: task 9: Killed\n",
    "a task crashed first": "srun: error: n3: task 9: Segmentation fault (core dumped)\n",
    "Slurm counted an OOM kill": "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks "
    "have been OOM Killed.\n",
    "a peer was lost first": "n3:5:6 [0] socket.cc:538 NCCL WARN Net : Connection closed by remote peer n4<47861>\n",
    "a collective hung first": "[rank0]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, "
    "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600003 milliseconds before timing out\n",
    "the GPU had no memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
    "another error was named": "[rank5]: ValueError: could not convert string to float: 'NaN,'\n",
    "the program said ERROR before": "ERROR: negative density in cell 51223\n",
    "a quoted Xid": "NVRM: Xid (PCI:0000:cb:00): 48, pid=7, DBE (double bit error)\n",
    "a stale handle": "cat: /proj/run.lock: Stale file handle\n",
    "the working directory was missing": "slurmstepd: error: couldn't chdir to `/proj/x': No such file or directory: "
    "going to /tmp instead\n",
}
AFTER = {
    "progress": "step 1200 loss 2.31\n",
    "one more word of the program": "Falling back to the default cache directory.\n",
    "a table that goes on": "   41   0.1220E+03   0.8812E-02\n",
    "the end of a run": "Total wall time: 1:20:31\n",
    "a time limit": "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-11-30T15:20:51 DUE TO TIME LIMIT ***\n",
    "a preemption": "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-11-30T15:20:51 DUE TO PREEMPTION ***\n",
    "a cancellation": "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-11-30T15:20:51 ***\n",
    "a lost node": "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-11-30T15:20:51 DUE TO NODE FAILURE ***\n",
    "a crash": "srun: error: n3: task 9: Bus error\n",
    "another error": "ValueError: not enough values to unpack\n",
    "another family": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
}
BESIDE: dict[str, Mapping[str, str]] = {
    "it completed": {"sacct.psv": SACCT.format("COMPLETED", "0:0")},
    "it still runs": {"sacct.psv": SACCT.format("RUNNING", "0:0").replace("2026-11-30T15:20:51", "Unknown")},
    "it reached its limit": {"sacct.psv": SACCT.format("TIMEOUT", "0:0")},
    "somebody cancelled it": {"sacct.psv": SACCT.format("CANCELLED by 1001", "0:15")},
    "it was out of memory": {"sacct.psv": SACCT.format("OUT_OF_MEMORY", "0:125")},
    "its node was lost": {"sacct.psv": SACCT.format("NODE_FAIL", "1:0")},
    "it was killed": {"sacct.psv": SACCT.format("FAILED", "0:9")},
    "it crashed": {"sacct.psv": SACCT.format("FAILED", "0:11")},
    "a GPU fell off the bus": {"kmsg.txt": XID},
    "a GPU fell off the bus in its time": {"kmsg.txt": XID, "sacct.psv": SACCT.format("FAILED", "1:0")},
    "the OOM killer was there": {"kmsg.txt": OOM},
    "another file names a crash": {"job.err": "srun: error: n3: task 9: Segmentation fault (core dumped)\n"},
    "another file names another error": {"job.err": "Fatal error in PMPI_Allreduce: Other MPI error, error stack:\n"},
}


def _diagnosis(output: str, beside: Mapping[str, str] | None = None) -> Diagnosis:
    files = {"job.out": output, **(beside or {})}
    manifest = b'slurm = "24.11.5"\nutc_offset = "+00:00"\n'
    return diagnose(from_files({"manifest.toml": manifest, **{name: text.encode() for name, text in files.items()}}))


def _confirmed(diagnosis: Diagnosis) -> set[str]:
    found = {v.cause for v in diagnosis.also if v.strength is Strength.CONFIRMED}
    return found | ({diagnosis.cause} if diagnosis.strength is Strength.CONFIRMED else set())


@pytest.mark.parametrize("cause", LAST_ACTS)
def test_the_last_act_is_a_proof(cause: str) -> None:
    diagnosis = _diagnosis("reading input\n" + LAST_ACTS[cause])
    assert (diagnosis.cause, diagnosis.strength) == (cause, Strength.CONFIRMED)
    assert any(cite.text in LAST_ACTS[cause] for cite in diagnosis.evidence)


@pytest.mark.parametrize("story", BEFORE)
@pytest.mark.parametrize("cause", LAST_ACTS)
def test_another_story_before_it(cause: str, story: str) -> None:
    assert cause not in _confirmed(_diagnosis("reading input\n" + BEFORE[story] + LAST_ACTS[cause]))


@pytest.mark.parametrize("story", AFTER)
@pytest.mark.parametrize("cause", LAST_ACTS)
def test_what_follows_it(cause: str, story: str) -> None:
    assert cause not in _confirmed(_diagnosis(LAST_ACTS[cause] + AFTER[story]))


@pytest.mark.parametrize("story", BESIDE)
@pytest.mark.parametrize("cause", LAST_ACTS)
def test_another_file_tells_another_story(cause: str, story: str) -> None:
    assert cause not in _confirmed(_diagnosis(LAST_ACTS[cause], BESIDE[story]))


@pytest.mark.parametrize("word", ["WARNING: ", "[INFO] ", "Retrying in 5 s: ", "ignored: "])
@pytest.mark.parametrize("cause", ["disk_quota", "file_descriptor_limit", "cuda_device_assert"])
def test_a_line_that_says_it_goes_on(cause: str, word: str) -> None:
    assert cause not in _confirmed(_diagnosis(word + LAST_ACTS[cause]))


@pytest.mark.parametrize("cause", LAST_ACTS)
def test_what_others_say_after_it_is_no_other_story(cause: str) -> None:
    echoes = (
        "n3:5:6 [0] socket.cc:538 NCCL WARN Net : Connection closed by remote peer n4<47861>\n"
        "srun: error: n1: task 3: Exited with exit code 1\n"
        "srun: Terminating StepId=77.0\n"
        "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-11-30T15:20:51 ***\n"
        "srun: error: n1: tasks 0-2,4-7: Terminated\n"
    )
    diagnosis = _diagnosis(LAST_ACTS[cause] + echoes)
    assert (diagnosis.cause, diagnosis.strength) == (cause, Strength.CONFIRMED)


STAY_LIKELY = {
    "a stale handle may be of Lustre": "OSError: [Errno 116] Stale file handle: '/proj/x'\n",
    "no room, but where?": "OSError: [Errno 28] No space left on device\n",
    "threads are refused for want of memory too": "pthread_create failed: EAGAIN\n",
    "a redirection says the same": "./job.sh: line 3: out/log: Permission denied\n",
    "a peer may have been killed": "Abort(1) on node 5 (rank 5 in comm 0): Fatal error in PMPI_Recv: Other MPI error\n",
    "a lost peer": "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n",
    "an interface may be down": "NCCL WARN Bootstrap : no socket interface found\n",
    "the quota of the kernel's keys": "docker: unable to join session keyring: create session key: disk quota exceeded\n",
    "what runs in the container is missing": "slurmstepd: error: pyxis: child 7 failed with error code: 1\n",
    "the driver, handed on": "nvidia-container-cli: initialization error: nvml error: driver not loaded\n",
    "a library of another class": "ImportError: libfoo.so: wrong ELF class: ELFCLASS32\n",
    "a binding that the user asked for": "slurmstepd: error: Failed to invoke task plugins: task_p_pre_launch error\n",
    "steps that wait for each other": "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n",
    "an assertion may ask for the GPU": "AssertionError: no usable device\n",
    "what failed before gave None": "AttributeError: 'NoneType' object has no attribute 'shape'\n",
    "an index into what was not there": "IndexError: list index out of range\n",
    "a missing file may be a missing mount": "FileNotFoundError: [Errno 2] No such file or directory: '/proj/a.h5'\n",
    "a library may be of the driver": "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n",
    "why the node could not start it": "srun: error: Task launch for StepId=7.0 failed on node n1: Unspecified error\n",
    "a notebook has a port too": "OSError: [Errno 98] Address already in use\n",
    "the launcher's teardown": "srun: error: n1: tasks 0-7: Terminated\n",
    "a broken pipe": "BrokenPipeError: [Errno 32] Broken pipe\n",
}  # fmt: skip


@pytest.mark.parametrize("line", STAY_LIKELY.values(), ids=STAY_LIKELY.keys())
def test_lines_that_other_causes_print_too(line: str) -> None:
    assert not _confirmed(_diagnosis(line))


def test_every_family_of_the_lists_is_one_of_a_catalog() -> None:
    known = {signature.id for folder in folders() for signature in load(folder).signatures}
    assert known >= (SILENT | FOLLOWERS) - {"log_end", "log_tail", "log_empty", "error_frame", "error_message"}


def test_a_prompt_after_it_ends_the_command() -> None:
    text = "$ enroot start img true\ncp: error writing 'x': Disk quota exceeded\n$ ls -la\ntotal 0\n"
    assert _diagnosis(text).strength is Strength.CONFIRMED
    assert _diagnosis(text.replace("$ ls -la\n", "")).strength is not Strength.CONFIRMED


def test_a_task_that_exits_after_its_own_words() -> None:
    text = "cp: cannot stat 'run5.nc': No such file or directory\nsrun: error: n1: task 0: Exited with exit code 1\n"
    assert (_diagnosis(text).cause, _diagnosis(text).strength) == ("app_error", Strength.CONFIRMED)
    mount = text.replace("'run5.nc'", "'/data/run5.nc'")
    assert _diagnosis(mount).strength is not Strength.CONFIRMED, "a mount may be missing"
    odd = "the device does not answer\n" + text
    assert _diagnosis(odd).strength is not Strength.CONFIRMED, "a line that was not understood"
    assert _diagnosis(text.replace("code 1\n", "code 137\n")).strength is not Strength.CONFIRMED


def test_an_exit_code_of_sysexits() -> None:
    job = SACCT.format("FAILED", "65:0")
    files = {"sacct.psv": job}
    assert _diagnosis("sample 9 is no BAM file\n", files).strength is Strength.CONFIRMED
    assert "app_error" not in _confirmed(_diagnosis("sample 9 is no BAM file\n", {**files, "kmsg.txt": XID}))
    assert "app_error" not in _confirmed(_diagnosis("x\n", {"sacct.psv": job.replace("65:0", "11:0")}))


EVICTED = (
    "LustreError: 167-0: proj-MDT0000-mdc: This client was evicted by proj-MDT0000; in progress operations will fail\n"
)


def test_an_excerpt_of_the_kernel_log_alone() -> None:
    kernel = {"kmsg.txt": "[Mon Nov 30 15:20:50 2026] " + EVICTED}
    manifest = b'slurm = "24.11.5"\nutc_offset = "+00:00"\n'

    def said(**files: str) -> Diagnosis:
        named = {name.replace("_", "."): text.encode() for name, text in files.items()}
        return diagnose(from_files({"manifest.toml": manifest, **named}))

    alone = said(kmsg_txt=kernel["kmsg.txt"])
    assert (alone.cause, alone.strength) == ("parallel_fs_error", Strength.CONFIRMED)
    assert "parallel_fs_error" not in _confirmed(said(kmsg_txt=kernel["kmsg.txt"] + XID))
    lnet = (
        "[Mon Nov 30 15:20:40 2026] LNetError: 2141:0:(o2iblnd_cb.c:3335:kiblnd_check_txs_locked()) Timed out tx: x\n"
    )
    assert "parallel_fs_error" not in _confirmed(said(kmsg_txt=lnet + kernel["kmsg.txt"])), "the network may be it"
    assert "parallel_fs_error" not in _confirmed(said(kmsg_txt=kernel["kmsg.txt"], job_out="step 9 loss 2\n"))
    job = SACCT.format("FAILED", "1:0")
    assert "parallel_fs_error" not in _confirmed(said(kmsg_txt=kernel["kmsg.txt"], sacct_psv=job))
