"""slurmctld's memory of the job through pyslurm, where scontrol could not be asked.

Optional: silent where it is not installed.

pyslurm is asked only if its release is the cluster's, and only in a child process: without a usable slurm.conf
`import pyslurm` ends the whole process (libslurm's `fatal`; seen with pyslurm 25.11.2). The answer is written in the
form of `scontrol show job`, with these corrections (each seen with pyslurm 25.11.2 beside sacct 25.11.7):

* 128 is subtracted from exit codes (11 for a script that exited 139), so that 11 may be 11 or 139, and 0 may be 0 or
  128: an exit code is given only with a signal, or 0 for a COMPLETED job;
* `pyslurm.db` keeps one record a job id and loses the attempts of a requeued job, and its QOS have no grace time:
  accounting and QOS are not taken from pyslurm at all.

Free text (name, comment, command) is left out: it could imitate other keys.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from slurm_triage.live._command import clean, run

CHILD = """
import sys
sys.path[:] = [p for p in sys.path if p]  # nothing from the current directory
import json
import pyslurm
keys = sys.argv[2].split(",")
job = pyslurm.Job.load(int(sys.argv[1]))
print(json.dumps({key: getattr(job, key, None) for key in keys}, default=str))
"""

KEYS = (
    "id", "array_id", "array_task_id", "heterogeneous_id", "heterogeneous_offset", "user_id", "user_name", "group_id",
    "group_name", "account", "qos", "state", "state_reason", "failed_node", "requeue_count", "is_batch_job",
    "is_requeueable", "exit_code", "exit_code_signal", "derived_exit_code", "derived_exit_code_signal", "run_time",
    "time_limit", "submit_time", "eligible_time", "start_time", "end_time", "deadline", "preempt_eligible_time",
    "preempt_time", "suspend_time", "pre_suspension_time", "last_sched_evaluation_time", "partition",
    "allocated_nodes", "batch_host", "num_nodes", "cpus", "working_directory", "standard_error", "standard_input",
    "standard_output",
)  # fmt: skip
"""Attributes of `pyslurm.Job` that are read."""

_PLAIN = re.compile(r"[!-~]+")


def installed() -> str | None:
    """The version of pyslurm that is installed, None if it is not. Does not import it."""
    try:
        return importlib.metadata.version("pyslurm")
    except importlib.metadata.PackageNotFoundError:
        return None


def matches(pyslurm: str, cluster: str | None) -> bool:
    """Whether both are of one release (`25.11.2` and `25.11.7`: yes)."""
    return cluster is not None and _release(pyslurm) is not None and _release(pyslurm) == _release(cluster)


def _release(version: str) -> tuple[int, int] | None:
    match = re.match(r"(\d{1,2})\.(\d{1,2})(?:\D|$)", version)
    return (int(match[1]), int(match[2])) if match else None


def ask(raw_id: str, timeout: float) -> tuple[bytes, str]:
    """(record in the form of `scontrol show job`, why there is none). `raw_id` is a plain number."""
    reply = run([sys.executable, "-c", CHILD, raw_id, ",".join(KEYS)], timeout, 1 << 20)
    if reply.problem:
        return b"", f"pyslurm: {reply.problem.partition(': ')[2]}"
    try:
        values = json.loads(reply.output)
    except (ValueError, RecursionError):
        return b"", "pyslurm: its answer is not JSON"
    if not isinstance(values, dict) or str(values.get("id")) != raw_id:
        return b"", "pyslurm: its answer is not about this job"
    return record(values).encode("utf-8"), ""


def record(values: Mapping[str, Any]) -> str:
    """The record of one job, from the attributes of `pyslurm.Job` (times in epoch seconds, limits in minutes)."""

    def word(key: str, nothing: str = "(null)") -> str:
        value = values.get(key)
        text = "" if value is None else str(value)
        return text if _PLAIN.fullmatch(text) else nothing

    def moment(key: str, nothing: str = "Unknown") -> str:
        value = values.get(key)
        if not isinstance(value, (int, float)) or not 0 < value < 1e11:
            return nothing
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(value))

    def path(key: str) -> str:
        """One line; a path with a line break is not given, else it would be another path."""
        value = values.get(key)
        return value if isinstance(value, str) and value and clean(value, 4096) == value else "(null)"

    lines = [
        " ".join([f"JobId={word('id')}", *_parts(word), "JobName="]),
        f"UserId={word('user_name')}({word('user_id')}) GroupId={word('group_name')}({word('group_id')}) MCS_label=N/A",
        f"Account={word('account')} QOS={word('qos')}",
        f"JobState={word('state')} Reason={word('state_reason', 'None')} FailedNode={word('failed_node')}",
        f"Requeue={_flag(values, 'is_requeueable')} Restarts={word('requeue_count', '0')} "
        f"BatchFlag={_flag(values, 'is_batch_job')}{_exit(values, 'ExitCode', 'exit_code')}",
        f"RunTime={_span(values.get('run_time'))} TimeLimit={_limit(values.get('time_limit'))}",
        f"SubmitTime={moment('submit_time')} EligibleTime={moment('eligible_time')}",
        f"StartTime={moment('start_time')} EndTime={moment('end_time')} Deadline={moment('deadline', 'N/A')}",
        f"PreemptEligibleTime={moment('preempt_eligible_time', 'None')} PreemptTime={moment('preempt_time', 'None')}",
        f"SuspendTime={moment('suspend_time', 'None')} SecsPreSuspend={word('pre_suspension_time', '0')} "
        f"LastSchedEval={moment('last_sched_evaluation_time')}",
        f"Partition={word('partition')}",
        f"NodeList={word('allocated_nodes')}",
        f"BatchHost={word('batch_host')}",
        f"NumNodes={word('num_nodes', '0')} NumCPUs={word('cpus', '0')}",
        f"WorkDir={path('working_directory')}",
        f"StdErr={path('standard_error')}",
        f"StdIn={path('standard_input')}",
        f"StdOut={path('standard_output')}",
    ]
    # `Account=` leads no line of scontrol; its line starts with the priority, which is not read here
    lines[2] = f"Priority=0 Nice=0 {lines[2]}"
    return "\n   ".join(lines) + "\n"


def _parts(word: Callable[[str], str]) -> list[str]:
    pairs = (
        ("ArrayJobId", "array_id"),
        ("ArrayTaskId", "array_task_id"),
        ("HetJobId", "heterogeneous_id"),
        ("HetJobOffset", "heterogeneous_offset"),
    )
    return [f"{key}={word(name)}" for key, name in pairs if word(name) not in ("(null)", "4294967294")]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _flag(values: Mapping[str, Any], key: str) -> int:
    return 1 if values.get(key) is True else 0


def _exit(values: Mapping[str, Any], label: str, key: str) -> str:
    """` ExitCode=0:15`, or nothing where 128 may have been subtracted."""
    code, signal = values.get(key), values.get(f"{key}_signal")
    if not _is_number(code) or not _is_number(signal):
        return ""
    certain = bool(signal) or (code == 0 and values.get("state") == "COMPLETED")
    return f" {label}={code}:{signal}" if certain else ""


def _span(value: Any) -> str:
    if not _is_number(value) or not 0 <= value < 1e10:
        return "00:00:00"
    days, rest = divmod(int(value), 86400)
    return (f"{days}-" if days else "") + f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _limit(minutes: Any) -> str:
    return _span(minutes * 60) if _is_number(minutes) and minutes < 1e8 else "UNLIMITED"
