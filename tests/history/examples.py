"""Documents of the form that the report writes. The values are made up, their forms are those of Slurm 24.11.5."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Ask = Callable[..., tuple[int, str, str]]
"""Asks the command; its exit code, and what it wrote to standard output and standard error."""
CONTRACT = "slurm-triage/diagnosis/1"

OOM: dict[str, Any] = {
    "schema": CONTRACT,
    "cause": "memcg_oom",
    "owner": "user",
    "strength": "confirmed",
    "summary": "The job reached its own memory limit of 80 MiB and the kernel killed python3 on c1.",
    "actions": [{"text": "Ask for more memory.", "command": "sbatch --mem=160M job.sh"}],
    "evidence": [
        {
            "source": "kernel_log",
            "node": "c1",
            "file": "kmsg.txt",
            "line": 12,
            "time": "2026-11-30T15:11:40Z",
            "text": "Memory cgroup out of memory: Killed process 9931 (python3) total-vm:103000kB, anon-rss:71000kB",
        },
        {"source": "sacct", "node": None, "file": "sacct.psv", "line": 3, "time": None, "text": "1107.0|OUT_OF_MEMORY"},
    ],
    "timeline": [
        {
            "time": "2026-11-30T15:11:18Z",
            "what": "job starts",
            "source": "sacct",
            "file": "sacct.psv",
            "line": 2,
            "node": None,
        }
    ],
    "first_failure": {"rank": 2, "node": "c1", "time": "2026-11-30T15:11:40Z", "what": "killed by signal 9"},
    "not": [
        {
            "cause": "node_oom",
            "because": "the kernel names the job's own limit",
            "evidence": [
                {
                    "source": "kernel_log",
                    "node": "c1",
                    "file": "kmsg.txt",
                    "line": 11,
                    "time": None,
                    "text": "oom-kill:constraint=CONSTRAINT_MEMCG",
                }
            ],
        }
    ],
    "missing": [{"fact": "memory of the node", "would_settle": "node_oom", "how": "read /proc/meminfo"}],
    "also": [{"cause": "preempted_by_qos", "strength": "likely"}],
    "coverage": [],
    "job": {
        "cluster": "mini",
        "job_id": "1107",
        "shown_id": "1107",
        "array": None,
        "array_task": None,
        "het": None,
        "het_offset": None,
        "attempt": 1,
        "attempts": 1,
        "user": "user1",
        "account": "acc",
        "partition": "main",
        "qos": "normal",
        "name": "train",
        "state": "OUT_OF_MEMORY",
        "submit": "2026-11-30T15:11:09Z",
        "start": "2026-11-30T15:11:18Z",
        "end": "2026-11-30T15:11:41Z",
        "nodes": ["c1", "c2"],
        "exit": {
            "code": 0,
            "signal": 9,
            "core_dumped": False,
            "raw": 9,
            "shown_by_sacct": "0:125",
            "meaning": "out of memory",
        },
    },
    "parts": [],
}


def document(**changes: Any) -> dict[str, Any]:
    """The OOM document with changes; `job_x=...` changes member `x` of its job."""
    made = copy.deepcopy(OOM)
    for key, value in changes.items():
        if key.startswith("job_"):
            made["job"][key.removeprefix("job_")] = value
        else:
            assert key in made
            made[key] = value
    return made


def whole(*parts: dict[str, Any]) -> dict[str, Any]:
    """A folder's document with these parts."""
    made = document(cause="array_mixed", parts=list(parts))
    made["job"] = {**made["job"], "job_id": None, "shown_id": None}
    return made
