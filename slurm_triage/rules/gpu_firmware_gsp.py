"""Rule: the GPU's firmware did not answer."""

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import FIRMWARE, MEMORY_UNCORRECTABLE, OFF_BUS
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, note, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver, gpu_name


@rule("gpu_firmware_gsp", supersedes=(*GPU_ECHOES, "gpu_app_fault", "nvlink_error"))
def gpu_firmware_gsp(job: Job) -> Said:
    """The firmware of a GPU crashed or did not answer the driver (Xid 61, 62, 119, 120).

    What happened: the driver waited for the GPU's own processor (GSP, PMU) and gave up. The GPU stays unusable until a
    reset.

    Who acts: the administrator: reset the GPU or reboot; a newer driver if it comes back.

    What to do: note the driver's version; the process named in the line only asked, it is not the culprit.

    What this is not: an error of the process that the line names; nor a broken card by itself.
    """
    lines = job.gpu.xids(*FIRMWARE)
    says = "the GPU was lost or lost data before"
    worse = job.gpu.apart_from(says, *OFF_BUS, *MEMORY_UNCORRECTABLE) if lines else None
    yield from driver(job, "the firmware of a GPU did not answer", lines, job.gpu.quoted(*FIRMWARE), unless=worse)
    yield owner(Owner.ADMIN)
    yield summary(f"The firmware of {gpu_name(job, lines)} crashed or did not answer the driver.")
    yield action("Reset the GPU or reboot the node; check the driver's version.", "nvidia-smi -q | head")
    yield note("The process named in the Xid line only made the request that was not answered.")
