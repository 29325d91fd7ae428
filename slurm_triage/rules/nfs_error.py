"""Rule: NFS."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support, when
from slurm_triage.rules._told import ECHOES, first, outlived


@rule("nfs_error", supersedes=(*ECHOES, "unkillable_step"))
def nfs_error(job: Job) -> Said:
    """An NFS server did not answer, or a file was gone on the server while it was open (stale handle).

    What happened: with a hard mount processes hang until the server is back; a soft mount gives an error. A stale
    handle means that another process removed or replaced the file or its directory.

    Who acts: the administrator for a silent server; the user where the job's own processes replace shared files.

    What to do: for stale handles keep caches and lock files of each rank apart, on node-local storage.

    What this is not: a failure of the program's own code.
    """
    lines = (*job.storage.nfs_silent, *job.storage.hung(nfs=True))
    kernel = job.storage.seen("an NFS server did not answer", lines)
    stale = job.telling.said("a file was gone on its server (stale handle)", "stale_file_handle")
    trouble = any_of("a network file system failed under the job", kernel, stale)
    yield require(trouble)
    yield confirm(job.storage.proves("an NFS server was silent while the job ran, and the job felt it", lines))
    yield support(job.storage.tells("an NFS server did not answer, and nothing else is named", lines))
    yield support(job.telling.last_word("a stale handle was the last error", "stale_file_handle"))
    yield when(first(lines))
    yield from outlived(job, trouble)
    yield owner(Owner.ADMIN if kernel.holds else Owner.USER)
    yield summary("An NFS server did not answer." if kernel.holds else "A file was gone on its server (stale handle).")
    if kernel.holds:
        yield action("Check the NFS server and the network to it.", "nfsstat -m; mount | grep nfs")
    else:
        yield action("Keep caches and lock files of each rank apart, on node-local disk.")
