"""Rule: open files."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import ECHOES, proven, told


@rule("file_descriptor_limit", supersedes=ECHOES)
def file_descriptor_limit(job: Job) -> Said:
    """The limit on open files was reached.

    What happened: the process (or, with `in system`, the whole node) had too many files, sockets or shared memory
    segments open. Data loaders and all-to-all connections need more of them with every worker and rank.

    Who acts: the user (ulimit -n, sharing strategy, fewer workers); the administrator where it is the node's limit.

    What to do: ulimit -n inside the job; PyTorch: set_sharing_strategy('file_system').

    What this is not: a full disk.
    """
    lines = job.log.of("too_many_open_files")
    yield from told(job, "the program says that too many files are open", "too_many_open_files")
    yield from proven(job, "too many files are open", lines)
    node = any("system" in s.fields for s in lines)
    yield owner(Owner.ADMIN if node else Owner.USER)
    yield summary("The limit on open files was reached" + (" (of the whole node)." if node else "."))
    yield action("Raise the soft limit in the job or open fewer files.", "ulimit -Sn; ulimit -Hn")
