"""Rule: driver and library."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import ECHOES, told

LINES = ("nvml_driver_mismatch", "nvidia_smi_failed", "cuda_driver_insufficient")


@rule("driver_mismatch", supersedes=(*ECHOES, "container_runtime_setup"))
def driver_mismatch(job: Job) -> Said:
    """The GPU driver is not loaded, or its version does not fit the library that talks to it.

    What happened: packages were updated without a reload of the kernel module, the module is not loaded, a container
    brings its own library, or the driver is older than the program's CUDA needs.

    Who acts: the administrator; the user can take a build for the driver that is there.

    What to do: compare the version of the loaded module with that of the library.

    What this is not: a broken GPU.
    """
    yield from told(job, "the driver and its library do not fit, or the driver is not loaded", *LINES)
    yield owner(Owner.ADMIN)
    yield summary("The GPU driver is not loaded, or its version does not fit the library.")
    yield action("Compare the loaded module with the library; reload or reboot.", "cat /proc/driver/nvidia/version")
    yield action("As the job's owner: a build for an older CUDA may run with the driver that is there.")
