"""Rule: PCIe errors of a device."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support, when
from slurm_triage.rules._told import GPU_ECHOES, first, outlived


@rule("pcie_error", supersedes=(*GPU_ECHOES, "gpu_app_fault", "gpu_firmware_gsp", "nvlink_error"))
def pcie_error(job: Job) -> Said:
    """A PCIe device reported uncorrected errors (AER) or was cut off from its port (DPC, Surprise Down).

    What happened: link, slot, riser, cable, power or the device itself. GPU faults (Xid 31) after it follow from it.

    Who acts: hardware where the error is fatal or the device did not come back; else the administrator.

    What to do: find the device behind the reporting port (lspci -t); reseat or replace; look for corrected errors.

    What this is not: an error of the program. Corrected errors alone end no job, and a fatal report in the moment
    of a shutdown may be harmless.
    """
    lines = job.host.pcie_uncorrected
    seen = job.host.bus_erred
    says = "a PCIe device failed under the job"
    yield require(seen)
    yield confirm(all_of(says, job.host.device_lost, job.gpu.proves(says, job.host.pcie_lost)))
    excerpt = "the excerpt of the kernel log tells of nothing but PCIe errors"
    yield confirm(job.proof.sole_story(excerpt, [w.sign for w in lines], "aer", "ghes"))
    yield support(job.gpu.tells(says, lines))
    yield when(first(lines))
    yield from outlived(job, seen)
    near = job.gpu.tells(says, job.kernel.near(job.host.pcie_lost, job.gpu.felt))
    yield owner(Owner.HARDWARE if near.holds else Owner.ADMIN)
    yield summary("A PCIe device reported errors that could not be corrected.")
    yield action("Find the device behind the port and check slot, riser and power.", "lspci -tv; dmesg | grep -i aer")
