"""Rule: a GPU was lost from the PCIe bus."""

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import OFF_BUS
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver, gpu_name


@rule("gpu_fallen_off_bus", supersedes=(*GPU_ECHOES, "pcie_error", "gpu_firmware_gsp", "nvlink_error", "gpu_app_fault",
                                        "fabric_manager", "unkillable_step"))  # fmt: skip
def gpu_fallen_off_bus(job: Job) -> Said:
    """The driver could not reach a GPU over PCIe any more (Xid 79, or the same text without a number).

    What happened: power, heat, PCIe or the board. Xids 45, 74, 119 and 154 on the same node follow
    from it.

    Who acts: hardware: the node needs a reboot or power cycle, then a check of the card, its power and its slot.

    What to do: drain the node; look at temperature, power and AER lines before the Xid; submit again elsewhere.

    What this is not: an error of the program, whatever CUDA said in it.
    """
    lines = job.gpu.xids(*OFF_BUS)
    says = "the driver lost a GPU from the bus"
    yield from driver(job, says, lines, job.gpu.quoted(*OFF_BUS), ("gpu_lost_text",), alone=True)
    sure = job.gpu.blames(says, lines)
    yield owner(Owner.HARDWARE if sure else Owner.ADMIN)
    yield summary(f"The driver lost {gpu_name(job, lines)} from the PCIe bus.")
    yield action("Drain the node and power-cycle it; then check card, power and slot.", "nvidia-smi -q | grep -i xid")
    yield action("As the job's owner: submit again without that node.")
