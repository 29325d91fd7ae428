"""slurmpast (PyPI): a report on finished jobs, asked through `sacct.parse` and `diagnose.diagnose`.

It reads `sacct --parsable2` and the end of the job's log. Where a case has no such table, one is made for it from the
state and exit code that the case mentions, and with more than one GPU and node, because without them its rules for GPU
memory and NCCL are shut off. The mapping from its finding codes is this file; findings about what to request next time
(slack, idle cores, input and output) name no cause and count as none.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from tests.baselines import Baseline, Said, Texts, ask_outside, serve
from tests.baselines._accounting import exit_code, state

PACKAGE = "slurmpast"
FINDINGS: dict[str, tuple[str, ...]] = {
    "host-oom": ("memcg_oom", "memcg_oom_child_only", "mem_leak_growth", "global_oom"),
    "rss-above-limit": ("memcg_oom", "mem_leak_growth"),
    "task-memory-imbalance": ("memcg_oom",),
    "cuda-oom": ("gpu_oom",),
    "nccl": ("nccl_timeout_desync", "nccl_config", "peer_rank_died", "network_link"),
    "import-error": ("app_error",),
    "traceback": ("app_error",),
    "timeout-hang": ("hang_until_time_limit", "time_limit"),
    "timeout-real": ("time_limit",),
    "deadline": ("deadline",),
    "preempted": ("preempted",),
    "node-failed": ("node_fail",),
    "boot-failed": ("boot_fail",),
    "command-not-found": ("command_not_found",),
    "sigkill": ("external_signal", "global_oom", "memcg_oom"),
    "signal-kill": ("external_signal", "app_segfault", "illegal_instruction", "bus_error_io", "mpi_abort"),
    "cancelled-by-other": ("cancelled_by_user",),
    "cancelled": ("cancelled_by_user",),
    "exit-nonzero-nolog": ("app_error",),
    "noop-allocation": ("hang_until_time_limit",),
}
SEVERITIES = ("critical", "warning", "info")
FIELDS = [
    *("JobID", "JobName", "User", "UID", "State", "ExitCode", "Submit", "Start", "End", "Elapsed", "ElapsedRaw"),
    *("AllocTRES", "AllocCPUS", "NNodes", "TotalCPU"),
]


def _table(case: Texts) -> tuple[str, list[str]]:
    """Rows and names of columns: of the case, or made for it."""
    for text in case.values():
        lines = text.splitlines()
        head = lines[0].split("|") if lines else []
        if "JobID" in head:
            return "\n".join(lines[1:]) + "\n", head
    code, signal = exit_code(case)
    said = state(case) or "FAILED"
    if not (code or signal) and said == "FAILED":
        code = 1
    day = "2026-01-01T0{}:00:00"
    row = [
        "1",
        "case",
        "user",
        "1000",
        said,
        f"{code}:{signal}",
        day.format(0),
        day.format(0),
        day.format(1),
        "01:00:00",
    ]
    row += ["3600", "cpu=16,gres/gpu=8,mem=64G,node=2", "16", "2", "15:00:00"]
    return "|".join(row) + "\n", FIELDS


def answer(case: Texts) -> Said:
    """Runs in the baselines' venv. Its severities rank findings and say nothing of certainty: never confirmed."""
    sacct = importlib.import_module("slurmpast.sacct")
    diagnose = importlib.import_module("slurmpast.diagnose")
    rows, fields = _table(case)
    log = "\n".join(text for name, text in sorted(case.items()) if "JobID|" not in text) or None
    found = [f for job in sacct.parse(rows, fields=fields) for f in diagnose.diagnose(job, log).findings]
    found.sort(key=lambda f: SEVERITIES.index(f.severity) if f.severity in SEVERITIES else len(SEVERITIES))
    named = next((f for f in found if f.code in FINDINGS), None)
    return Said(FINDINGS[named.code], "likely", str(named.code)) if named else Said()


def ask(cases: Sequence[Texts]) -> list[Said]:
    """Raises `NotInstalled`, `BaselineError`."""
    return ask_outside("tests.baselines.slurmpast_adapter", PACKAGE, cases)


BASELINE = Baseline(PACKAGE, "its findings on accounting and log", ask)

if __name__ == "__main__":
    serve(answer)
