"""Pieces of text that kernel lines worth keeping hold, plain and without regard to case.

Every line that the catalog of the engine knows holds one (a test says so): what is dropped for want of room when none
is in it would not have been used.
"""

from __future__ import annotations

MEMORY = (
    b"oom", b"killed process", b": kill process", b"out of memory", b"memory cgroup",
    b"killed as a result of limit", b"page allocation failure", b"systemd-oomd", b"due to memory",
    b"shmem ", b" to process ",
)  # fmt: skip
"""Of the OOM killer and of failed allocations."""

LASTING = (
    b"xid", b"nvrm", b"nvlink", b"nvswitch", b"gpu", b"fallen off", b"fabric", b"amdgpu", b"edac", b"mce",
    b"machine check", b"hardware error", b"memory failure", b"soft offline", b"corrected error", b"memory error",
    b"deferred error",
    b"fatal error", b"info error", b"bert:", b"ext4-fs", b"xfs (", b"btrfs", b"read-only", b"i/o error",
    b" error, dev ", b"nvme", b"controller is down", b"link is down", b"linux version ", b" time ",
)  # fmt: skip
"""Of a state that stays: it may have struck before the job began."""

OTHERS = (
    b"segfault", b" trap ", b"general protection", b"unhandled", b"mmu fault", b"fault_", b"lockup",
    b"blocked for more", b"info: task ", b"rcu_", b"bug:", b"oops", b"panic", b"callbacks suppressed",
    b"messages dropped", b"kernel messages", b"pcie", b"aer", b"dpc:", b"error status/mask", b"surprise down",
    b"sdes", b"cmpltto", b"completion timeout", b"malftlp", b"malformed tlp", b"timer timeout", b"timeout,",
    b"mlx5", b"infiniband", b"nfs", b": server ", b"lustre", b"lnet", b"evicted", b"11-0:", b": connection to ",
    b"mmfs", b"gpfs", b"temperature", b"sigbus", b"warning:", b"slurm", b"[ptlrpc]", b"[sunrpc]",
)  # fmt: skip
"""Of what happens at one moment."""

ALL = MEMORY + LASTING + OTHERS
