"""Which rank failed first by what launchers and ranks printed, and the echoes that must not be taken for it."""

from __future__ import annotations

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Strength

MANIFEST = b'slurm = "24.11.5"\nutc_offset = "+00:00"\n'


def _said(output: str, **files: str) -> Diagnosis:
    more = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return diagnose(from_files({"manifest.toml": MANIFEST, "job.out": output.encode(), **more}))


def _rank(output: str, **files: str) -> int | None:
    first = _said(output, **files).first_failure
    return first.rank if first is not None else None


def _torchrun(rank: int, host: str, time: str, code: str = "1") -> str:
    return (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\n"
        "train.py FAILED\n"
        "------------------------------------------------------------\n"
        "Failures:\n"
        "  <NO_OTHER_FAILURES>\n"
        "------------------------------------------------------------\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        f"  time      : {time}\n"
        f"  host      : {host}\n"
        f"  rank      : {rank} (local_rank: {rank % 8})\n"
        f"  exitcode  : {code} (pid: 4711)\n"
        "  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
        "============================================================\n"
    )


OPEN_MPI_4 = """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
with errorcode 1.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
"""
OPEN_MPI_5 = """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
  Proc: [[51296,1],3]
  Errorcode: 13

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
"""
HYDRA = """\
application called MPI_Abort(comm=0x84000000, 1) - process 3
In: PMI_Abort(1, application called MPI_Abort(comm=0x84000000, 1) - process 3)

===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 258840 RUNNING AT n12
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
"""
CRAY = """\
MPICH ERROR [Rank 3] [job id 77.0] [Mon Nov 30 15:10:44 2026] [n1] - Abort(1) (rank 3 in comm 0): application called \
MPI_Abort(MPI_COMM_WORLD, 1) - process 3

srun: error: n1: tasks 0-2,4-7: Terminated
srun: Terminating StepId=77.0
"""


@pytest.mark.parametrize("report", [OPEN_MPI_4, OPEN_MPI_5, HYDRA, CRAY])
def test_the_rank_that_called_mpi_abort(report: str) -> None:
    diagnosis = _said(report)
    assert (diagnosis.cause, diagnosis.strength) == ("mpi_abort", Strength.CONFIRMED)
    assert diagnosis.first_failure is not None and diagnosis.first_failure.rank == 3


def test_an_error_handler_that_aborts_proves_nothing() -> None:
    text = (
        "[n1:1234] *** An error occurred in MPI_Recv\n[n1:1234] *** reported by process [3472490497,2]\n"
        "[n1:1234] *** on communicator MPI_COMM_WORLD\n[n1:1234] *** MPI_ERR_OTHER: known error not in list\n"
        "[n1:1234] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n"
        "[n1:1234] ***    and potentially your MPI job)\n"
    )
    diagnosis = _said(text)
    assert (diagnosis.cause, diagnosis.strength, diagnosis.first_failure) == ("mpi_abort", Strength.LIKELY, None)


def test_the_signal_in_hydras_report() -> None:
    report = HYDRA.split("\n\n")[1] + "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {}\n"
    crash = _said(report.format("Segmentation fault (signal 11)"))
    assert (crash.cause, crash.strength) == ("app_segfault", Strength.CONFIRMED)
    assert _said(report.format("Killed (signal 9)")).cause == "external_signal"


def test_the_process_that_mpirun_names() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "x.py", line 3, in <module>\n'
        "    import horovod\n"
        "ModuleNotFoundError: No module named 'horovod'\n"
        "Primary job  terminated normally, but 1 process returned\n"
        "a non-zero exit code. Per user-direction, the job has been aborted.\n"
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n"
        "  Process name: [[19468,1],2]\n"
        "  Exit code:    1\n"
        "--------------------------------------------------------------------------\n"
    )
    diagnosis = _said(text)
    assert (diagnosis.cause, diagnosis.strength) == ("app_error", Strength.CONFIRMED)
    assert diagnosis.first_failure is not None and diagnosis.first_failure.rank == 2


def test_torchrun_names_the_worker_that_failed_first() -> None:
    one = _torchrun(10, "n1", "2026-11-30_15:10:45")
    assert _rank(one) == 10
    assert _rank(_torchrun(10, "n1", "2026-11-30_15:10:45", "-15")) is None, "it was told to end"
    later = _torchrun(3, "n0", "2026-11-30_15:10:52")
    assert _rank(later + one) == 10, "the earlier one of two nodes"
    assert _rank(_torchrun(3, "n0", "2026-11-30_15:10:45") + one) is None, "in the same second"


def test_torchrun_of_one_node_says_nothing_of_the_others() -> None:
    job = (
        "JobIDRaw|JobID|JobName|State|ExitCode|NNodes|NodeList|Start|End\n"
        "77|77|x|FAILED|1:0|4|n[0-3]|2026-11-30T15:10:44|2026-11-30T15:20:51\n"
    )
    assert _rank(_torchrun(10, "n1", "2026-11-30_15:10:45"), sacct_psv=job) is None


def _traceback(rank: int, error: str) -> str:
    return (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/proj/train.py", line 10, in <module>\n'
        f"[rank{rank}]:     step()\n"
        f"[rank{rank}]: {error}\n"
    )


REMOTE = "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
ECHOES = [
    REMOTE,
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.1.2.3]:22563",
    "RuntimeError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by "
    "key '0', but store->get('0') got error: Connection reset by peer",
    "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    "BrokenPipeError: [Errno 32] Broken pipe",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "EOFError",
]


@pytest.mark.parametrize("echo", ECHOES)
def test_the_rank_with_an_error_of_its_own_among_echoes(echo: str) -> None:
    own = _traceback(5, "KeyError: 'label'")
    diagnosis = _said(_traceback(0, echo) + own + _traceback(7, echo))
    assert diagnosis.cause == "app_error"
    assert diagnosis.first_failure is not None and diagnosis.first_failure.rank == 5
    after = _said(own + _traceback(0, echo) + _traceback(7, echo))
    assert (after.cause, after.strength) == ("app_error", Strength.CONFIRMED)
    assert _rank(_traceback(0, echo) + _traceback(7, echo)) is None


TAGS = ["[1,{}]<stderr>:", "[1,{}]<stderr>: ", "[prterun-n1-77@1,{}]<stderr>: "]


@pytest.mark.parametrize("label", ["{}: ", " {}: ", "[{}]: ", "[rank{}]: ", *TAGS])
def test_labels_of_launchers(label: str) -> None:
    def of(rank: int, error: str) -> str:
        lines = ["Traceback (most recent call last):", '  File "/proj/a.py", line 1, in <module>', error]
        return "".join(label.format(rank) + line + "\n" for line in lines)

    text = of(2, "KeyError: 'label'") + of(0, REMOTE)
    assert _said(text).cause == "app_error"
    assert _rank(text) == (None if label == "[{}]: " else 2), "a bare [2] may be anything"


KILLING = "[2026-11-30 15:20:51,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711\n"
ENDED = "[2026-11-30 15:20:52,123] [ERROR] [launch.py:325:sigkill_handler] ['/env/bin/python3', 't.py'] exits with return code = {}\n"


def test_the_launcher_of_deepspeed() -> None:
    own = _said(_traceback(1, "NameError: name 'foo' is not defined") + KILLING * 7 + ENDED.format(1))
    assert (own.cause, own.strength) == ("app_error", Strength.CONFIRMED)
    assert own.first_failure is not None and own.first_failure.rank == 1
    crash = _said(KILLING + ENDED.format(-11))
    assert (crash.cause, crash.strength) == ("app_segfault", Strength.CONFIRMED)
    assert _said(KILLING + ENDED.format(-9)).cause == "external_signal"


def test_the_launcher_of_lightning() -> None:
    line = "[rank: 3] Child process with PID 4711 terminated with code {}. Forcefully terminating all other processes\n"
    assert _rank(line.format(1)) == 3
    assert _rank(line.format(-15)) is None, "it was told to end"
    assert _said(line.format(-11)).cause == "app_segfault"


def test_the_label_of_a_role_is_the_rank_within_a_node() -> None:
    for role in ("default", "trainer"):
        text = _traceback(3, "KeyError: 'nx'").replace("[rank3]", f"[{role}3]")
        assert _said(text).strength is Strength.CONFIRMED
        assert _rank(text) is None


def test_witnesses_that_do_not_agree_name_nobody() -> None:
    assert _rank(_traceback(5, "KeyError: 'a'") + _traceback(6, "ValueError: b")) is None
    assert _rank(_traceback(5, "KeyError: 'a'") + _torchrun(6, "n1", "2026-11-30_15:10:45")) is None
    assert _rank(_traceback(6, "KeyError: 'a'") + _torchrun(6, "n1", "2026-11-30_15:10:45")) == 6


FAILURE = "slurmstepd: error: *** STEP 52.0 ON n8 CANCELLED AT 2026-04-29T23:36:37 DUE TO TASK FAILURE ***\n"


def test_the_one_task_that_the_teardown_did_not_end() -> None:
    assert _rank(FAILURE + "srun: error: n8: tasks 0-57,59-63: Terminated\n") == 58
    assert _rank(FAILURE + "srun: error: n8: tasks 0-9: Terminated\nsrun: error: n9: tasks 11-19: Killed\n") == 10
    assert _rank(FAILURE + "srun: error: n8: tasks 0-56,59-63: Terminated\n") is None, "two are missing"
    assert _rank("srun: error: n8: tasks 0-57,59-63: Terminated\n") is None, "nobody says that a task failed"
    assert _rank(FAILURE + "srun: error: n8: tasks 0-63: Terminated\n") is None, "how many there are is not known"
