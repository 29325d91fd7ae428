"""Rule: an allocation was refused, nobody was killed."""

import re

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.model import Fact, Owner, Sign
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import proven

SIGNS = ("python_memory_error", "cpp_bad_alloc", "fork_enomem", "java_oom", "alloc_failed")
REFUSED = ("python_memory_error", "cpp_bad_alloc", "fork_enomem")
"""Of these, the ones by which the run time itself says that it got no memory; Java's heap has a limit of its own."""
NO_MEMORY = re.compile(
    r"Cannot allocate memory|\bENOMEM\b|Error allocating \d|cannot allocate vector of size|insufficient virtual memory|"
    r"fatal error: runtime: |OutOfMemoryError\(\)|you tried to allocate \d|Octave's index type|reserve enough space"
)
"""Other programs' words for the same: the system's own (ENOMEM), and those of languages that ask it for memory."""
NOT_PLAIN = re.compile(
    r"\b(?:ibv_|mlx|verbs|rdma|ucx|ucp|uct|libfabric|fi_|mlock|memlock|reg_mr|[qc]p\b)", re.IGNORECASE
)
"""Adapters and locked memory: there ENOMEM is a limit of its own (ulimit -l)."""
SAID_AGAIN = (("runtime_panic", "Execution halted"), ("language_error", "error: called from"))
"""With these lines R and Octave close every report of an error."""


@rule("malloc_failure", supersedes=("app_error",))
def malloc_failure(job: Job) -> Said:
    """An allocation was refused (MemoryError, std::bad_alloc, ENOMEM) without any OOM kill.

    What happened: the program asked for memory and was told no: by ulimit -v, by strict overcommit, by a size that no
    machine has, or by a bug in the size. The kernel killed nobody.

    Who acts: the user.

    Hardware or software: software. The kernel said no to a request; it hurt nothing. No fault of memory makes an
    allocation fail in this way.

    First check: look at the limits inside a job and at the size in the message. A size of many terabytes is a bug in
    the size, not a need.

        srun -w NODE -n1 bash -c 'ulimit -v -d -s; cat /proc/sys/vm/overcommit_memory; grep Commit /proc/meminfo'

    What to do: look at how much was asked for in that line, at ulimit -v in the job, and at the array's shape.

    What this is not: a kill at the job's memory limit; raising --mem alone may change nothing.

    Check next: `memcg_oom` if the kernel killed somebody; `page_size_mismatch` if jemalloc speaks of a page size;
    `process_limit` if fork or a thread was refused; `gpu_oom` if the message is CUDA's.

    Sources: https://man7.org/linux/man-pages/man3/malloc.3.html,
    https://man7.org/linux/man-pages/man2/getrlimit.2.html, https://docs.kernel.org/admin-guide/sysctl/vm.html
    """
    kin = tuple(id for id, words in SAID_AGAIN if all(words in sign.cite.text for sign in job.log.of(id)))
    seen = job.telling.last_word("a program's last word is that an allocation was refused", *SIGNS, kin=kin)
    yield require(seen)
    yield confirm(all_of("it ended by itself of that", seen, _uncaught(job), job.program.nothing_else_seen))
    yield from proven(job, seen.says, _refused(job), *SIGNS, *kin, died_of=(signals.SIGABRT,))
    yield support(seen)
    yield refute(job.memory.oom_killed)
    yield refute(job.accounting.ended_well)
    yield owner(Owner.USER)
    yield summary("A request for memory was refused inside the program; no OOM killer was involved.")
    yield action("Compare the size asked for with `ulimit -v` inside the job.")
    yield action("Check the sizes that lead to it: array shapes, file lengths, a wrong unit.")
    yield from fitting_advice(job, "host_memory")


def _refused(job: Job) -> list[Sign]:
    """Lines that can mean nothing but memory that was not given."""
    words = (s for s in job.log.of("alloc_failed") if NO_MEMORY.search(s.cite.text))
    return [*job.log.of(*REFUSED), *(s for s in words if not NOT_PLAIN.search(s.cite.text))]


def _uncaught(job: Job) -> Fact:
    """The exit is the one of the uncaught error: 1 of Python's traceback, abort of C++'s bad_alloc."""
    says = "the job ended with the exit of an uncaught allocation error"
    code = job.exits.possible_codes
    python = job.log.of("python_memory_error") if code == (1,) and job.log.of("python_traceback") else ()
    cpp = job.log.of("cpp_bad_alloc") if job.exits.ended_by(signals.SIGABRT).holds else ()
    if python or cpp:
        return true(says, [*python, *cpp])
    return unknown(says, "the program may have caught it and gone on", job.log.how)
