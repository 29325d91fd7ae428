"""Rule: uncorrected error of the host's memory."""

from slurm_triage.facts import Job
from slurm_triage.facts._kernel import HOW
from slurm_triage.facts._logic import all_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support, when
from slurm_triage.rules._told import ECHOES, first, outlived

KIN = ("sigbus_text", "io_error")
REPORTS = ("edac", "mce", "ghes", "rasdaemon", "memory_failure", "kernel_panic")
"""The same event as told by the memory controller, the processor, the firmware and the kernel."""


@rule("memory_ecc_uncorrected", supersedes=(*ECHOES, "bus_error_io", "shm_exhausted", "memory_ecc_corrected"))
def memory_ecc_uncorrected(job: Job) -> Said:
    """The host's memory lost data (EDAC UE, uncorrected machine check, Memory failure, fatal firmware report).

    What happened: a memory error that ECC could not repair. The process that used the page gets SIGBUS, or the node
    goes down.

    Who acts: hardware: the module is replaced.

    Hardware or software: hardware. Memory of the host lost data. The kernel's line is the proof; without it a bus error
    is mostly about files or /dev/shm.

    First check: submit again without the node.

        sbatch --exclude=NODE JOBSCRIPT

    As an administrator: which module, then drain and replace.

        journalctl -k | grep -iE "Memory failure|Hardware Error|EDAC|mce"
        grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_ue_count
        scontrol update nodename=NODE state=drain reason="uncorrected memory error"
        ipmitool sel elist | tail

    What to do: drain the node; the line names the module or the address.

    What this is not: an error of the program, and not a full /dev/shm, which gives the same signal and no such line.

    Check next: `memory_ecc_corrected` if all were corrected; `shm_exhausted` or `bus_error_io` if the kernel log has no
    such line; `gpu_ecc_uncorrectable` if it is the GPU's memory.

    Sources: https://docs.kernel.org/admin-guide/RAS/main.html, https://docs.kernel.org/mm/hwpoison.html
    """
    lines = job.host.uncorrected
    seen = job.kernel.seen("the kernel reports an uncorrected memory error", lines, HOW)
    felt, within = job.host.memory_felt, job.host.memory_within
    near = job.kernel.near(lines, felt, within)
    says = "memory of the host failed under the job"
    yield require(seen)
    yield confirm(job.kernel.proves("memory failed while the job ran, and it felt it", lines, felt, within=within))
    excerpt = "the excerpt of the kernel log tells of nothing but memory that lost data"
    yield confirm(job.proof.sole_story(excerpt, [w.sign for w in lines], *REPORTS))
    yield support(job.kernel.tells(says, lines, felt, *KIN, within=within))
    yield support(
        all_of(
            "the node counted uncorrected memory errors, and the job felt one",
            job.machine.grew("the node counted uncorrected memory errors", "edac", "ue"),
            felt,
        )
    )
    yield when(first(lines))
    yield from outlived(job, seen)
    yield owner(Owner.HARDWARE if job.kernel.tells(says, near, felt, *KIN, within=within).holds else Owner.ADMIN)
    yield summary("The host's memory had an error that could not be corrected.")
    yield action("Drain the node and replace the memory module that the line names.", "ras-mc-ctl --errors")
