"""Rule: the GPU's firmware did not answer."""

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import MEMORY, OFF_BUS
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, note, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver, gpu_name

FIRMWARE = "gpu_firmware_gsp"


@rule("gpu_firmware_gsp", supersedes=(*GPU_ECHOES, "gpu_app_fault", "nvlink_error"))
def gpu_firmware_gsp(job: Job) -> Said:
    """The firmware of a GPU crashed or did not answer the driver (Xid 61, 62, 119, 120).

    What happened: the driver waited for the GPU's own processor (GSP, PMU) and gave up. The GPU stays unusable until a
    reset.

    Who acts: the administrator: reset the GPU or reboot; a newer driver if it comes back.

    Hardware or software: either. Mostly a bug of driver or firmware; the same card again and again with a current
    driver, or 79 and AER lines beside it, is the card or its bus.

    First check: run elsewhere, and note the driver's version for the ticket.

        srun -w NODE --gpus-per-node=N nvidia-smi --query-gpu=driver_version,pci.bus_id,name --format=csv
        sbatch --exclude=NODE JOBSCRIPT

    As an administrator: what was printed first on that card, then reset; a report for the vendor if it comes back.

        journalctl -k | grep -E "NVRM|Xid" | head -50
        nvidia-smi --gpu-reset -i PCI_ADDRESS
        nvidia-bug-report.sh

    What to do: note the driver's version; the process named in the line only asked, it is not the culprit.

    What this is not: an error of the process that the line names; nor a broken card by itself.

    Check next: `gpu_fallen_off_bus` if 79 came first; `pcie_error` if AER lines did; `driver_mismatch` if the versions
    differ; `unkillable_step` if processes hang in the driver.

    Sources: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
    https://github.com/NVIDIA/open-gpu-kernel-modules, https://docs.nvidia.com/deploy/nvidia-smi/index.html
    """
    lines = (*job.gpu.xids(FIRMWARE), *job.kernel.of("nvidia_gsp_limited"))
    says = "the GPU was lost or lost data before"
    worse = job.gpu.apart_from(says, OFF_BUS, MEMORY) if lines else None
    yield from driver(job, "the firmware of a GPU did not answer", lines, job.gpu.quoted(FIRMWARE),
                      unless=worse, left_open=job.gpu.left_open(FIRMWARE))  # fmt: skip
    yield owner(Owner.ADMIN)
    yield summary(f"The firmware of {gpu_name(job, lines)} crashed or did not answer the driver.")
    yield action("Reset the GPU or reboot the node; check the driver's version.", "nvidia-smi -q | head")
    yield note("The process named in the Xid line only made the request that was not answered.")
