"""Rule: driver and library."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support
from slurm_triage.rules._told import ECHOES, outlived, proven

PROOFS = (
    "version mismatch", "DriverMismatch", "DRIVER_MISMATCH", "unsupported display driver",
    "driver on your system is too old", "unsupported toolchain", "unsatisfied condition",
)  # fmt: skip
"""Words that compare two versions. `driver version is insufficient` does not: without any driver (a node without GPU, a
container without --nv) cudaGetDeviceCount says the same; and a driver that does not answer may have lost its GPU."""
LINES = ("nvml_driver_mismatch", "nvidia_smi_failed", "cuda_driver_insufficient")


@rule("driver_mismatch", supersedes=(*ECHOES, "container_runtime_setup"))
def driver_mismatch(job: Job) -> Said:
    """The GPU driver is not loaded, or its version does not fit the library that talks to it.

    What happened: packages were updated without a reload of the kernel module, the module is not loaded, a container
    brings its own library, or the driver is older than the program's CUDA needs.

    Who acts: the administrator; the user can take a build for the driver that is there.

    Hardware or software: software. Versions, or a module that is not loaded. A card that is gone prints Xid 79 instead.

    First check: both versions, inside the container too.

        srun -w NODE --gpus-per-node=N bash -c 'cat /proc/driver/nvidia/version; nvidia-smi | head -4; ldconfig -p |
            grep libcuda'
        python -c 'import torch; print(torch.version.cuda, torch.cuda.get_arch_list())'

    As an administrator: reload the module when no job runs, or reboot.

        modinfo -F version nvidia
        lsmod | grep nvidia
        journalctl -k | grep -i "API mismatch"

    What to do: compare the version of the loaded module with that of the library.

    What this is not: a broken GPU.

    Check next: `gpu_fallen_off_bus` if the card is gone; `fabric_manager` if error 802 is named;
    `container_runtime_setup` if only the container lacks the driver.

    Sources: https://docs.nvidia.com/deploy/cuda-compatibility/, https://docs.nvidia.com/deploy/nvidia-smi/index.html
    """
    says = "the driver and its library do not fit, or the driver is not loaded"
    lines = job.log.of(*LINES)
    refused = job.kernel.of("nvidia_api_mismatch")
    seen = any_of(says, job.telling.given(says, lines), job.kernel.seen(says, refused))
    compared = [s for s in lines if any(words in s.cite.text for words in PROOFS)]
    last = job.telling.last_of("the program's last word is that the versions do not fit", compared)
    yield require(seen)
    yield support(job.telling.last_of(f"{says}, and names no other error after it", lines))
    yield from proven(job, "versions of driver and library do not fit", compared, *LINES)
    if refused:
        yield support(job.kernel.tells(says, refused, last, *LINES))
        yield confirm(
            job.kernel.proves("the kernel's module refused a library, and the program felt it", refused, last)
        )
        excerpt = "the excerpt of the kernel log tells of nothing but a refused library"
        yield confirm(job.proof.sole_story(excerpt, [w.sign for w in refused]))
    yield from outlived(job, seen)
    yield owner(Owner.ADMIN)
    yield summary("The GPU driver is not loaded, or its version does not fit the library.")
    yield action("Compare the loaded module with the library; reload or reboot.", "cat /proc/driver/nvidia/version")
    yield action("As the job's owner: a build for an older CUDA may run with the driver that is there.")
