"""Plain grep list: literal strings in a fixed order, the first that is anywhere in the files decides.

The list is what scripts of this kind grep for. The mapping is this file.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.baselines import Baseline, Said, Texts, all_text

LIST: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("oom-kill", ("memcg_oom", "memcg_oom_child_only", "global_oom", "oom_numa_cpuset", "mem_leak_growth")),
    ("oom_kill", ("memcg_oom", "memcg_oom_child_only", "mem_leak_growth")),
    ("Out of memory: Kill", ("global_oom", "memcg_oom", "oom_numa_cpuset")),
    ("OUT_OF_MEMORY", ("memcg_oom", "memcg_oom_child_only", "mem_leak_growth")),
    ("OOMKilled", ("memcg_oom", "mem_leak_growth")),
    ("CUDA out of memory", ("gpu_oom",)),
    ("OutOfMemoryError", ("gpu_oom",)),
    ("RESOURCE_EXHAUSTED", ("gpu_oom",)),
    ("DUE TO TIME LIMIT", ("time_limit", "hang_until_time_limit")),
    ("TIMEOUT", ("time_limit", "hang_until_time_limit")),
    ("DUE TO PREEMPTION", ("preempted",)),
    ("DUE TO NODE FAILURE", ("node_fail",)),
    ("NODE_FAIL", ("node_fail",)),
    ("fallen off the bus", ("gpu_fallen_off_bus",)),
    ("uncorrectable ECC", ("gpu_ecc_uncorrectable", "gpu_ecc_contained")),
    ("NVRM: Xid", ("gpu_app_fault", "gpu_firmware_gsp", "gpu_ecc_uncorrectable", "nvlink_error", "gpu_ecc_contained")),
    ("SXid", ("nvlink_error",)),
    ("device-side assert", ("cuda_device_assert",)),
    ("illegal memory access", ("gpu_app_fault",)),
    ("Driver/library version mismatch", ("driver_mismatch",)),
    ("Illegal instruction", ("illegal_instruction", "x86_code_on_aarch64")),
    ("Segmentation fault", ("app_segfault", "checkpoint_segfault")),
    ("segfault at", ("app_segfault", "checkpoint_segfault")),
    ("Bus error", ("shm_exhausted", "bus_error_io")),
    ("Disk quota exceeded", ("disk_quota",)),
    ("No space left on device", ("disk_full_node_local", "shm_exhausted", "disk_quota")),
    ("Stale file handle", ("nfs_error",)),
    ("LustreError", ("parallel_fs_error",)),
    ("Too many open files", ("file_descriptor_limit",)),
    ("Resource temporarily unavailable", ("process_limit",)),
    ("Exec format error", ("exec_format", "x86_code_on_aarch64")),
    ("command not found", ("command_not_found",)),
    ("Permission denied", ("exec_permission", "output_path_unwritable", "container_runtime_setup")),
    ("MPI_ABORT", ("mpi_abort",)),
    ("MPI_Abort", ("mpi_abort",)),
    ("Watchdog caught collective operation timeout", ("nccl_timeout_desync", "peer_rank_died")),
    ("NCCL error", ("nccl_config", "peer_rank_died", "network_link")),
    ("MemoryError", ("malloc_failure",)),
    ("Cannot allocate memory", ("malloc_failure",)),
    ("std::bad_alloc", ("malloc_failure",)),
    ("CANCELLED", ("cancelled_by_user",)),
    ("Traceback (most recent call last)", ("app_error",)),
    ("Error", ("app_error",)),
)


def answer(case: Texts) -> Said:
    """The first literal of the list that occurs."""
    text = all_text(case)
    return next((Said(causes, words=literal) for literal, causes in LIST if literal in text), Said())


def ask(cases: Sequence[Texts]) -> list[Said]:
    """Never absent."""
    return [answer(case) for case in cases]


BASELINE = Baseline("plain grep list", f"{len(LIST)} literals in a fixed order", ask)
