"""Lines that look like a cause and are of another one, or of none: what real programs print, written anew."""

from __future__ import annotations

import pytest

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis, Strength


def _said(output: str) -> Diagnosis:
    return diagnose(from_files({"manifest.toml": b'slurm = "24.11.5"\n', "job.out": output.encode()}))


def _confirmed(diagnosis: Diagnosis) -> set[str]:
    found = {v.cause for v in diagnosis.also if v.strength is Strength.CONFIRMED}
    return found | ({diagnosis.cause} if diagnosis.strength is Strength.CONFIRMED else set())


ANOTHER_CAUSE = {
    "the kernel's keys have a quota, the disk's is fine": (
        "docker: Error response from daemon: OCI runtime create failed: runc create failed: unable to start container "
        "process: unable to join session keyring: unable to create session key: disk quota exceeded: unknown.\n",
        "container_runtime_setup",
    ),
    "user namespaces ran out, not a disk": (
        "FATAL:   container creation failed: while setting up user namespace: no space left on device\n",
        "container_runtime_setup",
    ),
    "the image's program is missing, the container is fine": (
        'FATAL:   "python3": executable file not found in $PATH\n',
        "command_not_found",
    ),
    "the image is of another machine": ("FATAL:   exec /bin/bash failed: exec format error\n", "exec_format"),
    "the runtime asked the driver": (
        "slurmstepd: error: pyxis: container start failed with error code: 1\n"
        "slurmstepd: error: pyxis:     nvidia-container-cli: initialization error: nvml error: driver/library version "
        "mismatch\nslurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1\n",
        "driver_mismatch",
    ),
    "an import of an image was killed for memory": (
        "slurmstepd: error: pyxis: failed to import docker image\n"
        "slurmstepd: error: pyxis:     /usr/lib/enroot/docker.sh: line 90: 4711 Killed  mksquashfs\n"
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n",
        "memcg_oom",
    ),
    "a script that missed a command after its program was killed": (
        "/var/spool/slurmd/job00077/slurm_script: line 5:   123 Killed                  python train.py\n"
        "/var/spool/slurmd/job00077/slurm_script: line 9: seff: command not found\n",
        "external_signal",
    ),
    "a crash that MPI then aborted on": (
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
        "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n",
        "app_segfault",
    ),
    "memory that was refused before MPI was aborted": (
        "terminate called after throwing an instance of 'std::bad_alloc'\n"
        "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n",
        "malloc_failure",
    ),
    "a GPU error that the program aborted on": (
        "Fatal error: CUDA error in cudaMemcpy: an illegal memory access was encountered\n"
        "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
        "gpu_app_fault",
    ),
}


@pytest.mark.parametrize("case", ANOTHER_CAUSE.values(), ids=ANOTHER_CAUSE.keys())
def test_of_another_cause(case: tuple[str, str]) -> None:
    output, cause = case
    diagnosis = _said(output)
    assert diagnosis.cause == cause
    assert _confirmed(diagnosis) <= {cause}


NOT_PROVEN = {
    "watches of files": "Error: ENOSPC: System limit for number of file watchers reached, watch '/tmp/x'\n",
    "a namespace": "unshare: unshare failed: No space left on device\n",
    "watches again": "tail: inotify resources exhausted\ntail: inotify cannot be used: Too many open files\n",
    "the reason is in words that no catalog knows": " 0: Not enough memory to allocate the wavefunctions\n"
    " 0: application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0\n",
    "a heading, then the reason": "Fatal error:\nThere is no domain decomposition for 64 ranks\n"
    "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
    "the program of a simulation says ERROR": "ERROR on proc 0: Cannot open file data.lj (src/read_data.cpp:512)\n"
    "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
    "an exception of Python in MPI": "mpi4py.MPI.Exception: MPI_ERR_TRUNCATE: message truncated\n"
    "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
    "Python goes on after a finaliser": "Exception ignored in: <function _Iter.__del__ at 0x7f>\n"
    'Traceback (most recent call last):\n  File "loader.py", line 1466, in __del__\n    self._shutdown()\n'
    "AttributeError: '_Iter' object has no attribute '_workers'\n",
    "Python goes on after its logging failed": "--- Logging error ---\nTraceback (most recent call last):\n"
    '  File "log.py", line 1, in emit\n    flush()\nOSError: [Errno 122] Disk quota exceeded\n',
    "at exit": "Error in atexit._run_exitfuncs:\nTraceback (most recent call last):\n"
    '  File "x.py", line 1, in close\nKeyError: \'handle\'\n',
    "an optional package": "ModuleNotFoundError: No module named 'apex'\nUsing native AMP instead.\n",
    "a variable of the launcher": "KeyError: 'MASTER_ADDR'\n",
    "the runtime could not ask the driver": "slurmstepd: error: pyxis: container start failed with error code: 1\n"
    "slurmstepd: error: pyxis:     nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1\n"
    "slurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1\n",
    "the program goes on with another step": "Caught exception: CUDA error: device-side assert triggered; skipping batch\n",
    "a server that tries again": "[WARNING] accept4() failed: Too many open files, retrying in 1s\n",
    "a licence": "Licensed number of users already reached\nERROR: the solver's license request failed\n",
    "a file that may be an input": "/var/spool/slurmd/job00077/slurm_script: line 20: /apps/x/vasp_std: No such file or "
    "directory\n",
    "a task was set up wrongly, by whom?": "slurmstepd: error: Failed to invoke task plugins: one of task_p_pre_setuid "
    "functions returned error\nslurmstepd: error: job_manager: exiting abnormally: Slurmd could not execve job\n",
}  # fmt: skip


@pytest.mark.parametrize("output", NOT_PROVEN.values(), ids=NOT_PROVEN.keys())
def test_not_proven(output: str) -> None:
    assert not _confirmed(_said(output))


WORKERS = {"Killed": "external_signal", "Segmentation fault": "app_segfault", "Bus error": "shm_exhausted"}


@pytest.mark.parametrize("signal", WORKERS)
def test_a_worker_of_a_loader_that_was_killed(signal: str) -> None:
    tail = " It is possible that dataloader's workers are out of shared memory." if signal == "Bus error" else ""
    text = f"RuntimeError: DataLoader worker (pid 22358) is killed by signal: {signal}.{tail}\n"
    assert _said(text).cause == WORKERS[signal]


@pytest.mark.parametrize(
    "line", ["socket.gaierror: [Errno -2] Name or service not known\n", "connect: Connection refused\n"]
)
def test_what_retries_print_too_makes_it_possible(line: str) -> None:
    diagnosis = _said(line)
    found = {v.cause: v.strength for v in diagnosis.also} | {diagnosis.cause: diagnosis.strength}
    assert found["rendezvous_failed"] is Strength.POSSIBLE


LANGUAGES = {
    "Java": 'Exception in thread "main" java.lang.NullPointerException\n\tat com.foo.Main.main(Main.java:5)\n',
    "MATLAB": "Error using load\nUnable to find file or directory 'a.mat'.\n",
    "Octave": "error: 'x' undefined\n",
    "Perl": "Can't locate Foo/Bar.pm in @INC (you may need to install the Foo::Bar module) at x.pl line 2.\n",
    "Ruby": "x.rb:3:in `require': cannot load such file -- foo (LoadError)\n",
    "Rust": "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 3 but the index is 99\n",
    "R": "Error in library(foo) : there is no package called 'foo'\nExecution halted\n",
    "Julia": "ERROR: LoadError: UndefVarError: `foo` not defined\n",
    "Fortran": "At line 12 of file solver.f90 (unit = 10, file = 'in.dat')\nFortran runtime error: End of file\n",
    "a licence server": "Licensed number of users already reached\n",
}


@pytest.mark.parametrize("output", LANGUAGES.values(), ids=LANGUAGES.keys())
def test_an_error_in_any_language(output: str) -> None:
    assert _said(output).cause == "app_error"


ENDS_IT = {
    "no code for this GPU": "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n",
    "a build for a newer system": "./app: /lib64/libm.so.6: version `GLIBC_2.29' not found (required by ./app)\n",
    "a wrong argument": "usage: a.py [-h] --config CONFIG\na.py: error: the following arguments are required: --config\n",
}


@pytest.mark.parametrize("output", ENDS_IT.values(), ids=ENDS_IT.keys())
def test_an_error_that_ends_the_program(output: str) -> None:
    diagnosis = _said(output)
    assert (diagnosis.cause, diagnosis.strength) == ("app_error", Strength.CONFIRMED)


def test_neither_a_disk_nor_open_files() -> None:
    assert "disk_full_node_local" not in {v.cause for v in _said(NOT_PROVEN["watches of files"]).also}
    assert _said(NOT_PROVEN["a namespace"]).cause != "disk_full_node_local"
