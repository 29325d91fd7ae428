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

    Hardware or software: hardware. The card did not answer on PCIe. Only a driver being reloaded or a node on its way
    down can look like it: then other cards go at the same time, and shutdown lines stand beside it.

    First check: which card is missing, and where else the job can run. An ordinary user cannot repair it.

        srun -w NODE --gpus-per-node=N nvidia-smi -L
        sbatch --exclude=NODE JOBSCRIPT

    As an administrator: what came before it on the bus, then drain, power-cycle, and test before it comes back.

        journalctl -k | grep -E "NVRM: Xid|AER|pcieport|fallen off"
        lspci -vv -s PCI_ADDRESS | grep -E "LnkSta|UESta|CESta"
        scontrol update nodename=NODE state=drain reason="GPU PCI_ADDRESS Xid 79"
        dcgmi diag -r 3

    What to do: drain the node; look at temperature, power and AER lines before the Xid; submit again elsewhere.

    What this is not: an error of the program, whatever CUDA said in it.

    Check next: `pcie_error` if AER lines came first; `gpu_firmware_gsp` if only 119 or 120 was printed; `nvlink_error`
    if several cards report at once; `node_fail` if the node went away.

    Sources: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
    https://docs.nvidia.com/deploy/nvidia-smi/index.html,
    https://docs.nvidia.com/datacenter/dcgm/latest/reference/command-line-reference/dcgmi/dcgmi-diag.html
    """
    lines = job.gpu.xids(OFF_BUS)
    says = "the driver lost a GPU from the bus"
    yield from driver(job, says, lines, job.gpu.quoted(OFF_BUS), ("gpu_lost_text",), alone=True)
    sure = job.gpu.blames(says, lines)
    yield owner(Owner.HARDWARE if sure else Owner.ADMIN)
    yield summary(f"The driver lost {gpu_name(job, lines)} from the PCIe bus.")
    yield action("Drain the node and power-cycle it; then check card, power and slot.", "nvidia-smi -q | grep -i xid")
    yield action("As the job's owner: submit again without that node.")
