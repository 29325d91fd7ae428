"""The containers of the mini cluster, through the docker Python SDK."""

from __future__ import annotations

import importlib
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def streams(body: bytes) -> tuple[bytes, bytes]:
    """(stdout, stderr) of what the Docker Engine sends for a process without a terminal.

    Frames of eight bytes (1 = stdout, 2 = stderr, three zeros, length as big-endian 32 bits) and as many bytes of data
    (Docker Engine API, "Attach to a container", stream format). Raises `ClusterError` for anything else.
    """
    found = {1: b"", 2: b""}
    while body:
        kind, length = body[0], int.from_bytes(body[4:8], "big")
        if len(body) < 8 + length or kind not in found:
            raise ClusterError("the output of a command was cut off")
        found[kind] += body[8 : 8 + length]
        body = body[8 + length :]
    return found[1], found[2]


class Cluster:
    """The running mini cluster. Raises `ClusterError` if it does not run."""

    def __init__(self) -> None:
        # The SDK has no types, and without it its name is that of the folder `docker/` of the checkout.
        try:
            importlib.import_module("docker.errors")
            docker: Any = importlib.import_module("docker")
        except ImportError as error:
            raise ClusterError("the docker package is missing: pip install -e '.[cluster]'") from error
        self._failures: tuple[type[Exception], ...] = (docker.errors.DockerException, OSError)
        try:
            # A connection for every scenario under way, and more for their actions.
            self._client: Any = docker.from_env(timeout=900, max_pool_size=80)
            found = self._client.containers.list(filters={"label": f"com.docker.compose.project={PROJECT}"})
        except self._failures as error:
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
        api = self._client.api
        try:
            made = api.exec_create(
                self._containers[on].id,
                ["bash", "-c", command],
                user=user,
                workdir=home if user != "root" else "/",
                environment={"HOME": home, "USER": user, **(environment or {})},
            )
            # Not the SDK's exec_start: it takes over the socket behind the reader of the response's head, and loses what
            # that reader has already taken. Without the request for an upgrade this is a plain body until the end.
            url = f"{api.base_url}/v{api.api_version}/exec/{made['Id']}/start"
            answer = api.post(url, json={"Detach": False, "Tty": False}, timeout=900)
            answer.raise_for_status()
            status = api.exec_inspect(made["Id"])["ExitCode"]
        except self._failures as error:
            raise ClusterError(f"{on}: {error}") from error
        out, err = streams(answer.content)
        return status, out, err

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
        except self._failures as error:
            raise ClusterError(f"{name}: {error}") from error
        return bool(container.status == "running")

    def docker(self, order: str) -> None:
        """`kill f2` or `start f2`."""
        verb, name = order.split()
        if verb not in ("kill", "start"):
            raise ClusterError(f"no such order: {order}")
        try:
            getattr(self._containers[name], verb)()
        except self._failures as error:
            raise ClusterError(f"{order}: {error}") from error

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
