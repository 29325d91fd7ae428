"""Pieces of text by which a line of a job's output may tell why the job ended: small letters, no digits.

The engine's catalogs decide what a line means; this list only has to let those lines through that they know. It is
judged by measurement: `python -m tests.node.collect.excerpts` compares the verdicts of all recorded jobs with and
without.
"""

from __future__ import annotations

WORDS = (
    # how things fail
    b"error", b"err:", b"errno", b"exception", b"traceback", b"fail", b"fatal", b"abort", b"critical", b"panic",
    b"assert", b"fault", b"segv", b"segmentation", b"breakpoint trap", b"crash", b"corrupt", b"overflow", b"broken",
    b"died", b"dead", b"lost", b"halted", b"unexpected", b"smashing", b"double free", b"violation", b"not responding",
    b"noticed that process", b"what():", b"stop",
    # signals and ends
    b"signal", b"sigabrt", b"sigbus", b"sigcont", b"sigfpe", b"sigill", b"sighup", b"sigint", b"sigkill", b"sigterm",
    b"sigusr", b"sigxcpu", b"usr", b"got term", b"caught", b"hangup", b"kill", b"terminat", b"cancel", b"interrupt",
    b"exit", b"quit", b"preempt", b"reque", b"revoked", b"relinquish", b"status", b"return code", b"***",
    # want of something
    b"memory", b"alloc", b"oom", b"no space", b"quota", b"limit", b"exceed", b"exhaust", b"insufficient", b"enough",
    b"too many", b"unavailable", b"available", b"busy", b"expired", b"licen", b"ticket", b"credential", b"mmap",
    b"queued",
    # what is not there, not allowed, not fitting
    b"denied", b"not found", b"no such", b"permitted", b"cannot", b"can't", b"couldn't", b"could not", b"unable",
    b"missing", b"requir", b"undefined", b"unknown", b"unrecognized", b"invalid", b"illegal", b"unsupport",
    b"support", b"compatible", b"mismatch", b"not match", b"not built", b"lower than", b"is lower", b"lacks",
    b"too old", b"wrong", b"bad", b"stale", b"read-only", b"exists", b"divide", b"no_device", b"no device",
    b"nokernel", b"no interface", b"no route", b"no hip", b"no cuda", b"usage:", b"are not", b"aren't", b"not ready",
    b"not run", b"not yet",
    # time and peers
    b"timeout", b"timed", b"watchdog", b"barrier", b"collective", b"refused", b"unreachable", b"peer", b"closed",
    b"connection", b"resolution", b"retry", b"rendezvous", b"transport", b"socket", b"zero bytes", b"poll",
    # who says so
    b"slurm", b"srun", b"spank", b"container", b"enroot", b"pyxis", b"squashfuse", b"newuidmap", b"conda", b"module",
    b"lmod", b"forrtl", b"rosetta", b"qemu", b"mpi", b"pmi", b"prterun", b"ucx", b"ofi", b"fi_", b"nccl", b"nvls",
    b"cuda", b"hip", b"nvidia", b"nvlink", b"gpu", b"xid", b"nvrm", b"nvml", b"ecc", b"jemalloc", b"ibv_", b"worker",
    b"torch.save", b"zip_writer", b"streamwriter", b"hdwrite", b"hfd_", b"checkpoint", b"lustre", b"nfs", b"server",
    b"/dev/shm", b"systemd-oomd", b"tmpdir", b"execve", b"prolog", b"dataloader", b"local_rank", b"root cause",
    b"zsh:", b"env:", b"tcl_", b"ranks", b"interpreter", b"at line", b"     : ",
    b"process name", b"proc: [[", b"from other processes", b"running at", b"cleaning up", b"cleanup messages",
    b"problem with your", b"faq page", b"software.intel.com", b"wrote only",
    b"inconsistency in", b"callstack", b"prelude.", b"# v  [", b"# c  [", b".lua:", b"node.js v", b"i refuse to",
    b".pl line", b".pm line", b"-e line",
    b"exitcode", b"kernel", b"edac", b"machine check", b"link down", b"blocked for", b"resources", b"job step",
    b"step creation", b"job allocation", b"boot of",
    # what runs, where no traceback tells: what is advised has to fit it
    b"m a t l a b", b"mathworks", b"tensor model parallel", b"llm engine", b"+ torchrun", b"+ vllm",
)  # fmt: skip
