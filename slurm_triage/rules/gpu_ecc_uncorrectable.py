"""Rule: uncorrectable error of GPU memory."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts.gpu import KIN, MEMORY, OFF_BUS
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

    Hardware or software: hardware. The card itself reports that data was lost. A program cannot cause it.

    First check: move away from the card.

        srun -w NODE --gpus-per-node=N nvidia-smi -q -d ECC,ROW_REMAPPER
        sbatch --exclude=NODE JOBSCRIPT

    As an administrator: counters and remapped rows, then reset when the card is idle; a failed remap or errors that
    come back mean another card.

        nvidia-smi --format=csv --query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure
        scontrol update nodename=NODE state=drain reason="GPU ECC"
        nvidia-smi --gpu-reset -i PCI_ADDRESS
        dcgmi diag -r 3

    What to do: drain the node, reset the GPU, look at remapped rows; submit again elsewhere.

    What this is not: an error of the program; 63 alone would be no cause of a death.

    Check next: `gpu_ecc_contained` if it was 94 only; `gpu_row_remap_pending` if only 63 or 64 was printed;
    `gpu_fallen_off_bus` if 79 stands beside it; `memory_ecc_uncorrected` if it is the host's memory.

    Sources: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html,
    https://docs.nvidia.com/deploy/nvidia-smi/index.html
    """
    lines = job.gpu.xids(MEMORY)
    says = "a GPU reported an uncorrectable memory error"
    worse = job.gpu.apart_from("the GPU was lost from the bus", OFF_BUS) if lines else None
    yield from driver(job, says, lines, job.gpu.quoted(MEMORY), (TEXT,), worse, alone=True)
    yield from proven(job, says, job.log.of(TEXT), *KIN, *cuda_aborts(job), died_of=(signals.SIGABRT,))
    by_kernel = job.gpu.blames(says, lines)
    by_cuda = job.telling.last_word("CUDA reports an uncorrectable ECC error", TEXT).holds
    yield owner(Owner.HARDWARE if by_kernel or by_cuda else Owner.ADMIN)
    yield summary(f"The memory of {gpu_name(job, lines)} had an uncorrectable error.")
    yield action("Drain the node, reset the GPU and check its remapped rows.", "nvidia-smi -q -d ECC,ROW_REMAPPER")
    yield action("As the job's owner: submit again without that node.")
