"""Rule: a fault on the GPU that the program caused."""

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import CONTAINED, MEMORY, OFF_BUS
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, refute, rule, summary
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import GPU_ECHOES, driver, gpu_name

PROGRAM = "gpu_app_fault"
TEXTS = ("cuda_illegal_access", "cuda_launch_failed")


@rule("gpu_app_fault", supersedes=GPU_ECHOES)
def gpu_app_fault(job: Job) -> Said:
    """A kernel of the program faulted on the GPU (Xid 13, 31, 43; CUDA: illegal memory access, launch failure).

    What happened: GPU code touched memory that it may not, or raised an exception. Xids 43, 45 and 109 after it are
    the clean-up.

    Who acts: the user, or who maintains the GPU library.

    Hardware or software: software, in nearly all cases: the program or a library. It is hardware if the same card does
    it to different programs, or if the program runs clean on other cards with the same data; then test the card.

    First check: repeat it on another node, then find the kernel.

        sbatch --exclude=NODE JOBSCRIPT
        CUDA_LAUNCH_BLOCKING=1 compute-sanitizer --tool memcheck PROGRAM

    As an administrator: whether other users' jobs had it on the same card.

        journalctl -k --since "14 days ago" | grep -E "NVRM: Xid .*: (13|31|43)," | grep -oE "PCI:[0-9a-fA-F:]+" | sort
            | uniq -c
        dcgmi diag -r 3

    What to do: run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer to find the kernel; try another library version.

    What this is not: broken hardware, unless the same GPU does it to different programs.

    Check next: `cuda_device_assert` if an assertion is named; `pcie_error` if AER lines came before 31;
    `gpu_ecc_contained` if 94 or 63 stands beside it; `gpu_oom` if memory was refused.

    Sources: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
    https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer,
    https://docs.pytorch.org/docs/stable/cuda_environment_variables.html
    """
    lines = (*job.gpu.xids(PROGRAM), *job.gpu.mmu_faults)
    odd = job.gpu.left_open(PROGRAM)
    seen = bool(lines or job.log.of(*TEXTS))
    worse = job.gpu.apart_from("the GPU itself failed", OFF_BUS, MEMORY, CONTAINED) if seen else None
    quoted = job.gpu.quoted(PROGRAM)
    yield from driver(job, "GPU code of the program faulted", lines, quoted, TEXTS, worse, left_open=odd)
    if seen:
        yield refute(job.gpu.across_programs)
        yield refute(job.host.bus_erred)
    certain = lines or quoted or job.log.of(*TEXTS)
    yield owner(Owner.USER if certain else Owner.UNKNOWN)
    said = "GPU code of the program faulted (illegal access or exception)."
    yield summary(said if certain else f"A unit of {gpu_name(job, odd)} stopped with an error; what caused it is open.")
    yield action("Find the kernel with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer.")
    yield from fitting_advice(job, "gpu_fault")
