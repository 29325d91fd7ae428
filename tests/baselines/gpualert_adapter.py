"""gpualert (PyPI): the classifier behind `gpualert run` and `gpualert slurm`, asked through `parse_errors`.

Its classifier reads a job's output and exit code and knows no other file; it is given every file of the case as
standard error. The mapping from its labels is this file.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from tests.baselines import Baseline, Said, Texts, all_text, ask_outside, serve
from tests.baselines._accounting import exit_code

PACKAGE = "gpualert"
LABELS: dict[str, tuple[str, ...]] = {
    "GPU out-of-memory (CUDA OOM)": ("gpu_oom",),
    "NCCL communication error": ("nccl_config", "nccl_timeout_desync", "peer_rank_died", "network_link"),
    "CUDA runtime error": (
        "gpu_app_fault",
        "cuda_device_assert",
        "gpu_ecc_uncorrectable",
        "gpu_fallen_off_bus",
        "driver_mismatch",
        "fabric_manager",
        "nvlink_error",
    ),
    "System out-of-memory (RAM)": ("malloc_failure", "memcg_oom", "global_oom", "page_size_mismatch"),
    "Segmentation fault": ("app_segfault", "checkpoint_segfault"),
    "File not found": ("app_error", "command_not_found", "chdir_failed"),
    "Permission denied": ("app_error", "exec_permission", "output_path_unwritable", "container_runtime_setup"),
    "Missing Python module": ("app_error",),
    "Division by zero": ("app_error",),
    "Tensor device mismatch": ("app_error",),
    "NaN detected in loss": ("app_error",),
    "Process killed by OS (OOM)": (
        "memcg_oom",
        "global_oom",
        "oom_numa_cpuset",
        "memcg_oom_child_only",
        "mem_leak_growth",
    ),
    "Assertion failed": ("app_error",),
    "Python RuntimeError": ("app_error",),
    "Python exception (traceback)": ("app_error",),
}


def answer(case: Texts) -> Said:
    """Runs in the baselines' venv. Its own confidence HIGH counts as confirmed, anything less as likely."""
    errors = importlib.import_module("gpualert.parse_errors")
    code, signal = exit_code(case)
    summary = str(errors.parse_errors("", all_text(case), code or signal or 1))
    label = summary.splitlines()[0] if summary else ""
    sure = str(errors.get_error_confidence(summary)) == "HIGH"
    return Said(LABELS.get(label, ()), "confirmed" if sure else "likely", label)


def ask(cases: Sequence[Texts]) -> list[Said]:
    """Raises `NotInstalled`, `BaselineError`."""
    return ask_outside("tests.baselines.gpualert_adapter", PACKAGE, cases)


BASELINE = Baseline(PACKAGE, "its classifier of output and exit code", ask)

if __name__ == "__main__":
    serve(answer)
