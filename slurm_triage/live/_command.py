"""Runs one command of the system: no shell, no input, a time limit, a limit of output, its words in plain English."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

OUTPUT_LIMIT = 64 * 1024 * 1024
"""Most bytes of output that are kept of one command."""

ERROR_LIMIT = 16 * 1024
"""Most bytes kept of what a command prints on standard error."""

FORMATS = (
    "SLURM_TIME_FORMAT",
    "SACCT_FORMAT",
    "SACCT_FEDERATION",
    "SACCT_LOCAL",
    "SLURM_JSON",
    "SLURM_YAML",
    "SLURM_BITSTR_LEN",
    "SINFO_FORMAT",
    "SQUEUE_FORMAT",
)
"""Variables of the caller that change how Slurm's tools print; they are taken out."""


@dataclass(frozen=True)
class Reply:
    """What a command answered.

    `output` is what it printed, at most the limit (`cut` says that there was more). `problem` is "" when it ended with
    status 0, else one line that says why there is no full answer: its own words where it said something.
    """

    output: bytes = b""
    problem: str = ""
    cut: bool = False
    error: str = ""


def clean(text: str, limit: int = 300) -> str:
    """One line of printable text, at most `limit` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def environment(given: Mapping[str, str], more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for Slurm's tools: the caller's, in the C locale, without what changes the form of the output."""
    kept = {k: v for k, v in given.items() if k not in FORMATS and not k.startswith("LC_")}
    return {**kept, "LC_ALL": "C", **(more or {})}


def run(
    argv: Sequence[str], timeout: float, limit: int = OUTPUT_LIMIT, variables: Mapping[str, str] | None = None
) -> Reply:
    """Runs `argv[0]`, found on PATH, for at most `timeout` seconds. Never raises for what the command does.

    `variables` are set for it beside the caller's environment. The whole process group is killed when time is up or the
    output is full.
    """
    name = argv[0]
    program = shutil.which(name)
    if program is None:
        return Reply(problem=f"{name}: command not found")
    try:
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(os.environ, variables),
            start_new_session=True,
        )
    except OSError as error:
        return Reply(problem=f"{name}: {error.strerror or error}")
    with process:
        output, error_text, why = _collect(process, time.monotonic() + timeout, limit)
        if why:
            _kill(process)
    if why == "full":
        return Reply(output, f"{name}: printed more than {limit >> 20} MiB, the rest was left", True)
    if why:
        return Reply(output, f"{name}: no answer within {timeout:g} seconds", False, error_text)
    if process.returncode:
        ended = f"signal {-process.returncode}" if process.returncode < 0 else f"exit status {process.returncode}"
        return Reply(output, f"{name}: {_words(error_text, name) or ended}", False, error_text)
    return Reply(output, "", False, error_text)


def _words(error_text: str, name: str) -> str:
    """What the command said on standard error, without its own name in front of each line: what was fatal, else all."""
    lines = [line.removeprefix(f"{name}: ").removeprefix("error: ") for line in error_text.splitlines() if line.strip()]
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return clean("; ".join(dict.fromkeys(fatal or lines)))


def _collect(process: subprocess.Popen[bytes], deadline: float, limit: int) -> tuple[bytes, str, str]:
    """(output, standard error, why it was stopped: "", "full" or "late")."""
    assert process.stdout is not None
    assert process.stderr is not None
    kept: dict[int, bytearray] = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    out, err = (kept[stream.fileno()] for stream in (process.stdout, process.stderr))
    why = ""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream.fileno(), selectors.EVENT_READ)
        while selector.get_map() and not why:
            left = deadline - time.monotonic()
            if left <= 0:
                why = "late"
                break
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fd)
                    continue
                room = (ERROR_LIMIT if kept[key.fd] is err else limit) - len(kept[key.fd])
                kept[key.fd] += data[: max(room, 0)]
                if kept[key.fd] is out and len(data) > room:
                    why = "full"
    if not why:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:  # closed its output and went on
            why = "late"
    return bytes(out), err.decode("utf-8", "replace"), why


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
