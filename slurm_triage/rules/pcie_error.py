"""Rule: PCIe errors of a device."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support, when
from slurm_triage.rules._told import GPU_ECHOES, first, outlived


@rule("pcie_error", supersedes=(*GPU_ECHOES, "gpu_app_fault", "gpu_firmware_gsp", "nvlink_error"))
def pcie_error(job: Job) -> Said:
    """A PCIe device reported uncorrected errors (AER) or was cut off from its port (DPC, Surprise Down).

    What happened: link, slot, riser, cable, power or the device itself. GPU faults (Xid 31) after it follow from it.

    Who acts: hardware where the error is fatal or the device did not come back; else the administrator.

    Hardware or software: hardware, if uncorrected: link, slot, riser, cable, power or the device. Corrected errors are
    repaired by the link itself and end nothing; a fatal report in the second of a shutdown or reset is harmless.

    First check: go elsewhere; nothing a program does causes it.

        sbatch --exclude=NODE JOBSCRIPT

    As an administrator: the device behind the port that reports, its counters, and what the link negotiated.

        journalctl -k | grep -E "AER|pcieport|DPC|Surprise"
        lspci -t
        lspci -vv -s PCI_ADDRESS | grep -E "LnkCap|LnkSta|UESta|CESta"
        grep . /sys/bus/pci/devices/PCI_ADDRESS/aer_dev_*

    What to do: find the device behind the reporting port (lspci -t); reseat or replace; look for corrected errors.

    What this is not: an error of the program. Corrected errors alone end no job, and a fatal report in the moment
    of a shutdown may be harmless.

    Check next: `gpu_fallen_off_bus` if the device is a GPU and gone; `network_link` if it is the network adapter;
    `gpu_app_fault` if only Xid 31 or 13 was printed; `node_fail` if the node went away.

    Sources: https://docs.kernel.org/PCI/pcieaer-howto.html,
    https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
    """
    lost = (*job.host.pcie_lost, *job.gpu.xids("pcie_error"))
    lines = (*job.host.pcie_uncorrected, *job.gpu.xids("pcie_error"))
    odd = job.gpu.left_open("pcie_error")
    seen = job.kernel.seen("a PCIe device reported uncorrected errors", (*lines, *odd))
    says = "a PCIe device failed under the job"
    yield require(seen)
    yield confirm(job.gpu.proves(says, lost))
    excerpt = "the excerpt of the kernel log tells of nothing but PCIe errors"
    yield confirm(job.proof.sole_story(excerpt, [w.sign for w in lines], "aer", "ghes"))
    yield support(job.gpu.tells(says, lines))
    yield when(first(lines))
    yield from outlived(job, seen)
    near = job.gpu.tells(says, job.kernel.near(lost, job.gpu.felt))
    yield owner(Owner.HARDWARE if near.holds else Owner.ADMIN)
    yield summary("A PCIe device reported errors that could not be corrected.")
    yield action("Find the device behind the port and check slot, riser and power.", "lspci -tv; dmesg | grep -i aer")
