"""What the hooks do, for tests: a spool as they leave it."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

UID = os.geteuid()


def make(path: Path) -> Path:
    """An empty spool."""
    path.mkdir(mode=0o700)
    for name in ("tmp", "new"):
        (path / name).mkdir(mode=0o700)
    return path


def ticket(job: str = "1004", uid: str = "1001", **more: str) -> bytes:
    """The environment of a hook, NUL-separated. `more` goes behind."""
    values = {"SLURM_JOB_ID": job, "SLURM_JOB_UID": uid, **more}
    return b"".join(f"{key}={value}".encode() + b"\0" for key, value in values.items())


def epilog(job: str = "1004", node: str = "c1", start: int | None = 1796051442, **more: str) -> bytes:
    """A ticket of Epilog, of a job that exited 1."""
    times = {"SLURM_JOB_START_TIME": str(start)} if start is not None else {}
    return ticket(
        job,
        SLURM_SCRIPT_CONTEXT="epilog_slurmd",
        SLURMD_NODENAME=node,
        SLURM_CLUSTER_NAME="mini",
        SLURM_JOB_EXIT_CODE="256",
        SLURM_JOB_EXIT_CODE2="1:0",
        **times,
        **more,
    )


def epilogslurmctld(job: str = "1004", start: int | None = 1796051442) -> bytes:
    """A ticket of EpilogSlurmctld."""
    times = {"SLURM_JOB_START_TIME": str(start)} if start is not None else {}
    return ticket(
        job, SLURM_SCRIPT_CONTEXT="epilog_slurmctld", SLURM_JOB_NAME="prep", SLURM_JOB_EXIT_CODE="256", **times
    )


TASKS = (
    b"1796051466.587 node=c1 stepd=43 step_info job=1004 step=0 uid=1001 gid=1001 restart=0 tasks=2 of=2 nodes=1 "
    b"array=0 slurm=24.11.5\n"
    b"1796051466.588 node=c1 stepd=43 task_exit job=1004 step=0 rank=1 local=1 pid=79 status=0x0009 mono=8123.000512 "
    b"clean=1\n"
)


@contextmanager
def reachable() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own are not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def as_nobody(what: Callable[[], object]) -> object:
    """What a function returns, or the message of what it raises, in a process of another user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            said = repr(what())
        except Exception as error:
            said = repr(str(error))
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    return ast.literal_eval(said)


def put(spool: Path, name: str, data: bytes, folder: str = "new", at: float | None = None) -> Path:
    """A file of the spool, last written at the epoch `at`."""
    path = spool / folder / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    if at is not None:
        os.utime(path, (at, at))
    return path


def names(spool: Path, folder: str) -> list[str]:
    """What lies in a folder of the spool."""
    path = spool / folder
    return sorted(entry.name for entry in path.iterdir()) if path.exists() else []
