"""Rule: the fabric manager."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver

TEXTS = ("cuda_not_initialized_802", "nccl_nvls")


@rule("fabric_manager", supersedes=(*GPU_ECHOES, "gpu_app_fault"))
def fabric_manager(job: Job) -> Said:
    """The NVSwitch fabric was not up: fabric manager missing, restarted under running jobs, or of another version.

    What happened: GPUs got no fabric address (CUDA error 802), or NCCL could not set up NVLink SHARP (NVLS) because
    the fabric manager no longer knows the running processes.

    Who acts: the administrator.

    Hardware or software: software. A service or its version. If the fabric manager itself reports a failed switch, the
    fault is the switch: then see nvlink_error.

    First check: what the card says of its fabric; the user can only wait or go elsewhere.

        srun -w NODE --gpus-per-node=N bash -c 'nvidia-smi -q | grep -A4 -i fabric'

    As an administrator: the service and its version against the driver's.

        systemctl status nvidia-fabricmanager
        nv-fabricmanager --version
        cat /proc/driver/nvidia/version
        journalctl -u nvidia-fabricmanager --since today

    What to do: check that the fabric manager runs and has the driver's version; restart it only on an idle node.

    What this is not: an error of the program; NCCL_NVLS_ENABLE=0 may get it through until the fabric is repaired.

    Check next: `nvlink_error` if a link or switch failed; `driver_mismatch` if the driver was updated without a reboot;
    `nccl_config` if only NVLS or a setting is named.

    Sources: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/,
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    yield from driver(job, "the GPUs' fabric was not up", job.gpu.fabric_lines, texts=TEXTS)
    if job.gpu.fabric_lines:
        says = "a GPU had no address in the fabric, and the program could not start for it"
        yield confirm(job.gpu.kept_from_starting(says, job.gpu.fabric_lines))
    yield owner(Owner.ADMIN)
    yield summary("The GPUs' NVSwitch fabric was not up or not usable.")
    yield action("Check the fabric manager's state and version.", "systemctl status nvidia-fabricmanager")
