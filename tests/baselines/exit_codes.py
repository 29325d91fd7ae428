"""Exit-code table: the state and the exit code alone, as a help page lists them. The mapping is this file."""

from __future__ import annotations

from collections.abc import Sequence

from tests.baselines import Baseline, Said, Texts
from tests.baselines._accounting import exit_code, state

STATE = {
    "OUT_OF_MEMORY": ("memcg_oom", "memcg_oom_child_only", "mem_leak_growth", "global_oom"),
    "TIMEOUT": ("time_limit", "hang_until_time_limit"),
    "PREEMPTED": ("preempted", "preempt_suspend"),
    "NODE_FAIL": ("node_fail",),
    "BOOT_FAIL": ("boot_fail",),
    "DEADLINE": ("deadline",),
    "CANCELLED": ("cancelled_by_user",),
}
SIGNAL = {
    4: ("illegal_instruction", "x86_code_on_aarch64"),
    6: ("app_error", "mpi_abort"),
    7: ("bus_error_io", "shm_exhausted"),
    9: ("memcg_oom", "global_oom", "mem_leak_growth", "external_signal"),
    10: ("warning_signal_unhandled",),
    11: ("app_segfault", "checkpoint_segfault"),
    12: ("warning_signal_unhandled",),
    15: ("cancelled_by_user", "external_signal", "time_limit"),
    53: ("output_path_unwritable",),
}
CODE = {
    2: ("app_error", "command_not_found"),
    13: ("exec_permission",),
    126: ("exec_permission", "exec_format"),
    127: ("command_not_found",),
}


def answer(case: Texts) -> Said:
    """The state first, then the signal (also as 128+n), then the code; any other code is an error of the program."""
    said = state(case)
    if said in STATE:
        return Said(STATE[said], words=said)
    code, signal = exit_code(case)
    signal = signal or (code - 128 if 128 < code < 192 else 0)
    if signal:
        return Said(SIGNAL.get(signal, ()), words=f"signal {signal}")
    if code:
        return Said(CODE.get(code, ("app_error",)), words=f"exit code {code}")
    return Said(("no_failure", "memcg_oom_child_only", "accounting_state_wrong") if said == "COMPLETED" else ())


def ask(cases: Sequence[Texts]) -> list[Said]:
    """Never absent."""
    return [answer(case) for case in cases]


BASELINE = Baseline("exit-code table", "state and exit code only", ask)
