"""Rule: open files."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import ECHOES, proven, told


@rule("file_descriptor_limit", supersedes=ECHOES)
def file_descriptor_limit(job: Job) -> Said:
    """The limit on open files was reached.

    What happened: the process (or, with `in system`, the whole node) had too many files, sockets or shared memory
    segments open. Data loaders and all-to-all connections need more of them with every worker and rank.

    Who acts: the user (ulimit -n, sharing strategy, fewer workers); the administrator where it is the node's limit.

    Hardware or software: software: a limit.

    First check: the limit inside a job, and how many a process has open while it runs.

        srun -w NODE -n1 bash -c 'ulimit -Sn; ulimit -Hn; cat /proc/sys/fs/file-nr'
        ls /proc/PID/fd | wc -l

    As an administrator: what slurmd hands on to jobs.

        systemctl show slurmd -p LimitNOFILE
        scontrol show config | grep PropagateResourceLimits
        sysctl fs.file-max

    What to do: ulimit -n inside the job; PyTorch: set_sharing_strategy('file_system').

    What this is not: a full disk.

    Check next: `process_limit` if processes or threads were refused; `rendezvous_failed` if it struck while the ranks
    connected; `shm_exhausted` if the message is about shared memory.

    Sources: https://man7.org/linux/man-pages/man2/getrlimit.2.html,
    https://docs.pytorch.org/docs/stable/multiprocessing.html, https://docs.kernel.org/admin-guide/sysctl/fs.html
    """
    lines = job.log.of("too_many_open_files")
    yield from told(job, "the program says that too many files are open", "too_many_open_files")
    files = [s for s in lines if s.fields.get("error") and "inotify" not in s.cite.text]  # that has its own limit
    yield from proven(job, "too many files are open", files)
    node = any("system" in s.fields for s in lines)
    yield owner(Owner.ADMIN if node else Owner.USER)
    yield summary("The limit on open files was reached" + (" (of the whole node)." if node else "."))
    yield action("Raise the soft limit in the job or open fewer files.", "ulimit -Sn; ulimit -Hn")
    yield from fitting_advice(job, "file_descriptors")
