"""Rule: a fault on the GPU that the program caused."""

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import CHANNEL_RESET, CONTAINED, MEMORY_UNCORRECTABLE, OFF_BUS, PROGRAM
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, refute, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver

TEXTS = ("cuda_illegal_access", "cuda_launch_failed")


@rule("gpu_app_fault", supersedes=GPU_ECHOES)
def gpu_app_fault(job: Job) -> Said:
    """A kernel of the program faulted on the GPU (Xid 13, 31, 43; CUDA: illegal memory access, launch failure).

    What happened: GPU code touched memory that it may not, or raised an exception. Xids 43, 45 and 109 after it are
    the clean-up.

    Who acts: the user, or who maintains the GPU library.

    What to do: run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to find the kernel; try another library version.

    What this is not: broken hardware, unless the same GPU does it to different programs.
    """
    lines = (*job.gpu.xids(*PROGRAM, CHANNEL_RESET), *job.kernel.of("nvidia_mmu_fault"))
    seen = bool(lines or job.log.of(*TEXTS))
    worse = job.gpu.apart_from("the GPU itself failed", *OFF_BUS, *MEMORY_UNCORRECTABLE, *CONTAINED) if seen else None
    quoted = job.gpu.quoted(*PROGRAM, CHANNEL_RESET)
    yield from driver(job, "GPU code of the program faulted", lines, quoted, TEXTS, worse)
    if seen:
        yield refute(job.host.bus_erred)
    yield owner(Owner.USER)
    yield summary("GPU code of the program faulted (illegal access or exception).")
    yield action("Find the kernel with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer.")
