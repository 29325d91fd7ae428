"""The containers of the mini cluster, through the docker Python SDK."""

from __future__ import annotations

import importlib
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

docker: Any = importlib.import_module("docker")
"""The SDK has no types, and for a type checker its name is that of the folder `docker/` of the checkout."""
PROJECT = "slurm-triage"
LIVE = frozenset(
    (
        *("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"),
        *("RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SPECIAL_EXIT"),
    )
)
"""States of squeue in which something may still happen to a job (Slurm's documentation of squeue, JOB STATE CODES)."""


class ClusterError(Exception):
    """The cluster is not there, or did not do what it was told; the message says what."""


@dataclass(frozen=True)
class JobState:
    """One line of squeue: the raw id, the id as shown, the state, the reason, and when it was asked."""

    raw: str
    shown: str
    state: str
    reason: str

    @property
    def base(self) -> str:
        """The id that sbatch printed: without array task and het component."""
        return re.split(r"[_+]", self.shown, maxsplit=1)[0]


class Cluster:
    """The running mini cluster. Raises `ClusterError` if it does not run."""

    def __init__(self) -> None:
        try:
            # A connection for every scenario under way, and more for their actions.
            self._client: Any = docker.from_env(timeout=900, max_pool_size=80)
            found = self._client.containers.list(filters={"label": f"com.docker.compose.project={PROJECT}"})
        except docker.errors.DockerException as error:
            raise ClusterError(f"Docker does not answer: {error}") from error
        self._containers: Mapping[str, Any] = {c.labels["com.docker.compose.service"]: c for c in found}
        if not {"ctl", "login"} <= set(self._containers):
            raise ClusterError("no cluster runs: make cluster")
        self._jobs: tuple[JobState, ...] = ()
        self._asked = 0.0
        self._asking = threading.Lock()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the compute nodes."""
        return tuple(sorted(n for n in self._containers if n not in ("db", "dbd", "ctl", "login")))

    def ask(
        self, on: str, command: str, *, user: str = "root", environment: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, bytes]:
        """(exit status, stdout, stderr) of a line of shell on a container."""
        home = f"/shared/home/{user}" if user != "root" else "/root"
        try:
            answer = self._containers[on].exec_run(
                ["bash", "-c", command],
                user=user,
                workdir=home if user != "root" else "/",
                environment={"HOME": home, "USER": user, **(environment or {})},
                demux=True,
            )
        except docker.errors.DockerException as error:
            raise ClusterError(f"{on}: {error}") from error
        out, err = answer.output
        return answer.exit_code, out or b"", err or b""

    def tell(self, on: str, command: str, *, user: str = "root", environment: Mapping[str, str] | None = None) -> bytes:
        """As `ask`, for commands that have to succeed: their output. Raises `ClusterError`."""
        status, out, err = self.ask(on, command, user=user, environment=environment)
        if status:
            raise ClusterError(f"{on}: {command!r} ended with {status}: {err.decode('utf-8', 'replace').strip()}")
        return out

    def alive(self, name: str) -> bool:
        """Whether a container runs."""
        container = self._containers[name]
        try:
            container.reload()
        except docker.errors.DockerException as error:
            raise ClusterError(f"{name}: {error}") from error
        return bool(container.status == "running")

    def docker(self, order: str) -> None:
        """`kill f2` or `start f2`."""
        verb, name = order.split()
        if verb not in ("kill", "start"):
            raise ClusterError(f"no such order: {order}")
        getattr(self._containers[name], verb)()

    def jobs(self) -> tuple[JobState, ...]:
        """What squeue says now, asked at most once a second for all scenarios together."""
        with self._asking:
            if time.monotonic() - self._asked >= 1:
                out = self.tell("login", "squeue -h -a -r -t all -o '%A|%i|%T|%r'").decode("utf-8", "replace")
                lines = (line.split("|", 3) for line in out.splitlines())
                self._jobs = tuple(JobState(*words) for words in lines if len(words) == 4)
                self._asked = time.monotonic()
            return self._jobs

    def read(self, on: str, path: str) -> bytes | None:
        """The bytes of a file on a container, None if it is not there."""
        status, out, _ = self.ask(on, f"cat {path}")
        return None if status else out
