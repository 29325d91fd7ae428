"""Rule: a binary built for another page size."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, negation
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, rule, summary
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import ECHOES, proven, told_by


@rule("page_size_mismatch", supersedes=(*ECHOES, "malloc_failure"))
def page_size_mismatch(job: Job) -> Said:
    """The program (its jemalloc) was built for smaller memory pages than this kernel uses.

    What happened: jemalloc fixes the page size when it is built. On a kernel with 16 or 64 KiB pages (many aarch64 and
    ppc64le nodes) every allocation fails, which looks like a lack of memory.

    Who acts: the user, or who builds the image.

    Hardware or software: software. A build does not fit the kernel; the node works. It happens on every node with that
    page size, and on none with another.

    First check: compare the page size of the node with that of the machine where the program was built or works.

        srun -w NODE -n1 bash -c 'getconf PAGESIZE; uname -rm'

    What to do: use a build for this page size (jemalloc's --with-lg-page=16), or a node with 4 KiB pages.

    What this is not: a lack of memory; more of it changes nothing.

    Check next: `malloc_failure` if nothing speaks of a page size; `x86_code_on_aarch64` if the program was built for
    another processor; `memcg_oom` if the kernel killed somebody.

    Sources: https://github.com/jemalloc/jemalloc/blob/dev/INSTALL.md,
    https://github.com/jemalloc/jemalloc/blob/dev/src/pages.c
    """
    says = "the program's allocator does not support the page size"
    said = job.log.of("jemalloc_page_size")
    yield from told_by(job, says, said, KIN)
    yield from proven(job, says, said, *KIN, died_of=ALLOCATOR_ENDS)
    if said:
        last = job.telling.last_of(f"{says}, and names no other error after it", said, *KIN)
        yield confirm(all_of(f"{says}, and the node's pages are larger than usual", last, job.machine.large_pages))
        yield refute(negation("the pages of all nodes have the usual 4 KiB", job.machine.large_pages))
    yield owner(Owner.USER)
    yield summary("The program's allocator was built for another page size than the node's kernel uses.")
    yield action("Use a build for this node's page size.", "getconf PAGESIZE; uname -m")
    yield from fitting_advice(job, "page_size")


ALLOCATOR_ENDS = (signals.SIGABRT, signals.SIGTRAP)
"""How programs end whose allocator gives them nothing, where they look at what they got."""

KIN = ("alloc_failed", "runtime_panic", "cpp_bad_alloc", "python_memory_error", "malloc_enomem")
"""How the refused allocations are told further up."""
