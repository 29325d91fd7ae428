"""Rule: uncorrectable error of GPU memory."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts.gpu import KIN, MEMORY_UNCORRECTABLE, OFF_BUS
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, cuda_aborts, driver, gpu_name, proven

TEXT = "cuda_ecc"


@rule("gpu_ecc_uncorrectable", supersedes=(*GPU_ECHOES, "gpu_ecc_contained", "gpu_firmware_gsp", "gpu_app_fault",
                                           "nvlink_error"))  # fmt: skip
def gpu_ecc_uncorrectable(job: Job) -> Said:
    """The memory of a GPU lost data (Xid 48, 95, 140, 171, 172, or CUDA's own uncorrectable ECC error).

    What happened: a double-bit error in the GPU's memory. Xids 63 and 64 beside it record the row, 45 and 154 follow.

    Who acts: hardware: reset the GPU, then field diagnostics if it comes back.

    What to do: drain the node, reset the GPU, look at remapped rows; submit again elsewhere.

    What this is not: an error of the program; 63 alone would be no cause of a death.
    """
    lines = job.gpu.xids(*MEMORY_UNCORRECTABLE)
    says = "a GPU reported an uncorrectable memory error"
    worse = job.gpu.apart_from("the GPU was lost from the bus", *OFF_BUS) if lines else None
    yield from driver(job, says, lines, job.gpu.quoted(*MEMORY_UNCORRECTABLE), (TEXT,), worse, alone=True)
    yield from proven(job, says, job.log.of(TEXT), *KIN, *cuda_aborts(job), died_of=(signals.SIGABRT,))
    by_kernel = job.gpu.blames(says, lines)
    by_cuda = job.telling.last_word("CUDA reports an uncorrectable ECC error", TEXT).holds
    yield owner(Owner.HARDWARE if by_kernel or by_cuda else Owner.ADMIN)
    yield summary(f"The memory of {gpu_name(job, lines)} had an uncorrectable error.")
    yield action("Drain the node, reset the GPU and check its remapped rows.", "nvidia-smi -q -d ECC,ROW_REMAPPER")
    yield action("As the job's owner: submit again without that node.")
