"""Rule: parallel file systems."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support, when
from slurm_triage.rules._told import ECHOES, first, outlived


@rule("parallel_fs_error", supersedes=(*ECHOES, "bus_error_io", "nfs_error", "unkillable_step"))
def parallel_fs_error(job: Job) -> Said:
    """The client of a parallel file system (Lustre, GPFS, BeeGFS) was evicted or lost its servers.

    What happened: the server dropped this client; open files fail with EIO, ESHUTDOWN or ESTALE, and data that was not
    written yet is lost. A connection that was lost and came back is harmless.
    Or the servers did not answer, and the kernel reports processes that were blocked for minutes inside the client.

    Who acts: the administrator.

    Hardware or software: either. A client is evicted when it does not answer in time: overloaded or cut off, mostly by
    the network or the servers. Disks of the servers are the servers' story.

    First check: which file system and minute; check files that were written then.

        df -h DIRECTORY
        lfs check servers 2>/dev/null
        sbatch JOBSCRIPT

    As an administrator: evictions on the client and the same minute on the servers; the network in between.

        journalctl -k | grep -E "LustreError|evicted|mmfs|beegfs"
        lctl get_param '*.*.import' | grep -E "state|target"
        lnetctl net show -v | grep -E "nid|status|drop"

    What to do: look at the servers and the network of that minute; check files written then.

    What this is not: an error of the program.

    Check next: `network_link` if the adapter complained first; `nfs_error` if the file system is NFS; `disk_quota` if
    the errno is EDQUOT; `unkillable_step` if processes hang in it; `bus_error_io` if a program died of SIGBUS.

    Sources: https://wiki.lustre.org/Lustre_Client_Eviction_Guide, https://doc.lustre.org/lustre_manual.xhtml
    """
    evicted = job.storage.evictions
    trouble = job.storage.evicted_or_said
    yield require(trouble)
    yield confirm(job.storage.proves("the client was evicted while the job ran, and the job felt it", evicted))
    signs = [w.sign for w in evicted]
    yield confirm(
        job.proof.sole_story("the kernel says that the client was evicted, and it is all there is", signs, "lustre")
    )
    yield support(job.storage.tells("the client was evicted, and nothing else is named", evicted))
    hung = job.storage.hung(nfs=False)
    yield support(job.storage.tells("a process hung in the file system's client, and nothing else is named", hung))
    yield support(job.telling.last_word("a lost file system was the last error", "lustre_error_text"))
    yield when(first(evicted))
    yield from outlived(job, trouble)
    yield owner(Owner.ADMIN)
    yield summary("The node lost a parallel file system under the job.")
    yield action("Check the file system's servers and network at that time.", "lfs check servers; mmgetstate -a")
    yield action("As the job's owner: check the files written then, and submit again.")
