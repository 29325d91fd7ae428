"""Signals and exit codes: names, meanings, Slurm's pseudo signals.

Numbers are those of Linux on x86-64 and arm64. Slurm stores some of its own errors in the signal field of a job's
status: `0:53` is error 4021 (ESLURMD_IO_ERROR) cut to seven bits, not signal 53 (slurm source, slurm_errno.h).
"""

from __future__ import annotations

SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE = range(
    1, 14
)
SIGALRM, SIGTERM = 14, 15
SIGXCPU, SIGXFSZ, SIGSYS = 24, 25, 31

NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    16: "SIGSTKFLT", 17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU",
    23: "SIGURG", 24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO",
    30: "SIGPWR", 31: "SIGSYS",
}  # fmt: skip

STRSIGNAL = {
    "Hangup": 1, "Interrupt": 2, "Quit": 3, "Illegal instruction": 4, "Trace/breakpoint trap": 5, "Aborted": 6,
    "Bus error": 7, "Floating point exception": 8, "Killed": 9, "User defined signal 1": 10, "Segmentation fault": 11,
    "User defined signal 2": 12, "Broken pipe": 13, "Alarm clock": 14, "Terminated": 15, "CPU time limit exceeded": 24,
    "Cputime limit exceeded": 24, "File size limit exceeded": 25, "Bad system call": 31,
}  # fmt: skip
"""strsignal(3) of glibc in the C locale, as srun and shells print it."""

OOM = 125
"""Slurm's out-of-memory status SIG_OOM = 253 seen as a signal."""

PSEUDO = {
    42: "Slurm could not create the batch directory",
    46: "Slurm could not set up the job's environment",
    48: "Slurm could not set the user or group id",
    52: "Slurm could not start the program (execve failed)",
    53: "Slurm could not open the job's output or input file",
    54: "a prolog failed",
    55: "an epilog failed",
    OOM: "Slurm counted an out-of-memory kill",
}

_MEANING = {
    4: "illegal instruction",
    6: "abort (assertion, uncaught C++ exception, glibc check)",
    7: "bus error",
    8: "arithmetic fault",
    9: "killed, cannot be caught",
    11: "segmentation fault",
    13: "wrote into a closed pipe",
    15: "polite request to end",
    24: "CPU time limit of the process (ulimit -t)",
    25: "file size limit (ulimit -f)",
}


def name(number: int) -> str:
    """`SIGSEGV` for 11; `signal 40` for one without a name here."""
    return NAMES.get(number) or f"signal {number}"


def number_of(text: str) -> int | None:
    """The number of a signal written as `Segmentation fault`, `SIGSEGV`, `SEGV` or `11`; None if it is none."""
    word = text.strip()
    if word in STRSIGNAL:
        return STRSIGNAL[word]
    upper = word.upper()
    for number, known in NAMES.items():
        if upper in (known, known[3:]):
            return number
    return int(word) if word.isascii() and word.isdigit() and 0 < int(word) < 65 else None


def meaning(code: int | None, signal: int | None) -> str:
    """What an exit means by convention, for people."""
    if signal:
        if signal in PSEUDO:
            return PSEUDO[signal]
        text = _MEANING.get(signal, "")
        return f"died of {name(signal)}" + (f" ({text})" if text else "")
    if code is None:
        return "exit code not known"
    if code == 0:
        return "exited normally"
    if code == 126:
        return "exit 126: found but not executable (shell convention)"
    if code == 127:
        return "exit 127: command not found (shell convention)"
    if 128 < code < 160:
        number = code - 128
        return f"exit {code}: by shell convention 128 + {number}, a program below the script died of {name(number)}"
    return f"exited with code {code}"
