"""Rule: processes survived SIGKILL."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, refute, require, rule, summary, support


@rule("unkillable_step", supersedes=("cancelled_by_user",))
def unkillable_step(job: Job) -> Said:
    """Processes of the job did not die after SIGKILL and the node was drained ("Kill task failed").

    What happened: processes sat in the kernel (a hung file system, a GPU driver, a full core dump) and could not be
    ended within UnkillableStepTimeout.

    Who acts: the administrator.

    Hardware or software: either. A process that cannot die waits in the kernel: for a file system, a driver, or a
    device that broke. The hung task lines name the function; Xid or NVMe lines beside them point at a device.

    First check: whether the node was drained for it, and what else ran there.

        sinfo -R -n NODE
        sacct -j JOBID -o JobID,State,ExitCode,NodeList

    As an administrator: what the processes wait for, before the node is rebooted.

        ps -eo pid,stat,wchan:32,comm | awk '$2 ~ /^D/'
        journalctl -k | grep -A20 "blocked for more than"
        cat /proc/PID/stack

    What to do: find what the processes waited for (hung task lines in the kernel log), then resume the node.

    What this is not: a fault of the program's logic; and if the job had been cancelled before, that ended it.

    Check next: `nfs_error` or `parallel_fs_error` if the stack shows a file system; `gpu_firmware_gsp` or
    `gpu_fallen_off_bus` if it shows the GPU driver; `cancelled_by_user` for why the job was to end at all.

    Sources: https://slurm.schedmd.com/slurm.conf.html, https://slurm.schedmd.com/troubleshoot.html,
    https://docs.kernel.org/admin-guide/sysctl/kernel.html
    """
    yield require(job.node.unkillable)
    yield confirm(job.node.stepd_gave_up)
    yield refute(job.cancel.by_state)
    yield support(job.node.reason_down)
    blocked = job.kernel.of("cpu_lockup", where=lambda s: " blocked" in s.cite.text)
    yield owner(Owner.ADMIN)
    yield summary("Processes of the job did not die after SIGKILL; Slurm drains the node for that.")
    yield action("Find what they waited for (hung task lines), then resume the node.")
    if blocked:
        yield note(f"The kernel names one that waited: {blocked[0].sign.cite.text}")
