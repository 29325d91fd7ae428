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

    Hardware or software: either. A server that does not answer may be overloaded, stopped, or cut off. A stale handle
    is no hardware: somebody removed or replaced the file.

    First check: whether the mount answers now, and whether ranks replace files that others have open.

        srun -w NODE -n1 bash -c 'timeout 10 stat -f DIRECTORY; findmnt -T DIRECTORY -o SOURCE,FSTYPE,OPTIONS'

    As an administrator: since when the server does not answer, from how many nodes.

        journalctl -k | grep -E "nfs: server .*(not responding|OK)"
        nfsstat -rc
        nfsiostat 1 3

    What to do: for stale handles keep caches and lock files of each rank apart, on node-local storage.

    What this is not: a failure of the program's own code.

    Check next: `parallel_fs_error` if the file system is Lustre, GPFS or BeeGFS; `unkillable_step` if processes hang
    and the node was drained; `hang_until_time_limit` if the job waited till its limit; `disk_quota` if the errno is
    EDQUOT.

    Sources: https://man7.org/linux/man-pages/man5/nfs.5.html, https://man7.org/linux/man-pages/man8/nfsstat.8.html
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
