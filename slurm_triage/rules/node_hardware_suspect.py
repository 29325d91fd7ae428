"""Rule: failures that follow one node."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of, unknown
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support


@rule("node_hardware_suspect", supersedes=("app_error", "gpu_app_fault"))
def node_hardware_suspect(job: Job) -> Said:
    """The tasks of one node died of unlike faults while those of other nodes did not.

    What happened: one program with one defect mostly dies of one fault everywhere. Different faults on one node only
    make the node suspect.

    Who acts: the administrator, who compares with other jobs on that node.

    Hardware or software: either. One node fails where others do not: that may be memory, a processor, a disk, or only
    an image or a mount that differs there. Nothing names a component yet.

    First check: the same job without that node; then the same job on that node alone.

        sbatch --exclude=NODE JOBSCRIPT
        sacct -N NODE -S now-14days -o JobID,State,ExitCode,End

    As an administrator: failures of other users there, and what the board knows.

        sacct -a -X -N NODE -S now-14days -o JobID,User,State,ExitCode,End
        journalctl -k -p err
        ipmitool sel elist | tail
        grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_*e_count

    What to do: ask the history for failures on that node; run the same job without it.

    What this is not: more than a suspicion. One job cannot prove it.

    Check next: `memory_ecc_uncorrected`, `pcie_error` or `gpu_ecc_uncorrectable` if the log names a component;
    `app_segfault` if it happens on other nodes as well; `node_misconfigured` if an image or mount differs.

    Sources: https://slurm.schedmd.com/sacct.html, https://docs.kernel.org/admin-guide/RAS/main.html
    """
    repeats, odd = job.gpu.across_programs, job.gpu.left_open("node_hardware_suspect")
    facts = [job.host.unlike_faults, repeats]
    facts += [job.gpu.seen("the driver reports trouble with the wires of a GPU's memory", odd)] if odd else []
    yield require(any_of("failures follow one node", *facts))
    yield support(repeats)
    yield confirm(
        unknown(
            "other programs failed on that node too",
            "the evidence is about one job",
            "sacct -N NODE -s F,NF -X -o JobID,User,State,ExitCode",
        )
    )
    yield owner(Owner.ADMIN)
    if repeats.holds:
        yield summary("One GPU faults under programs that have nothing in common; the GPU is suspect.")
        yield action("Take that GPU out of service and run its vendor's diagnostics.", "dcgmi diag -r 3")
    else:
        yield summary("One node stands out; the node is suspect.")
    yield action("Compare with other jobs on that node; rerun without it.", "sinfo -R")
