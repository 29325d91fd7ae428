"""The agent steps back for jobs: lowest priority for processor and disk, little memory, no core files."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from contextlib import suppress

MEMORY = 512 * 1024 * 1024
"""Bytes of address space; a job's share is far below (docs/howto/run-the-agent.md)."""
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "riscv64": 30}
_PROCESS, _IDLE = 1, 3 << 13
"""IOPRIO_WHO_PROCESS and the idle class, ioprio_set(2)."""


def step_back() -> None:
    """Lowers what this process may take. What the system does not allow is left as it is."""
    with suppress(OSError):
        os.nice(19)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, _PROCESS, 0, _IDLE)
    for what, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))
