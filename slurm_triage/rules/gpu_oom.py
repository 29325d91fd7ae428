"""Rule: GPU memory ran out."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import GPU_ECHOES, cuda_aborts, proven, told

OF_ALLOCATOR = ("OutOfMemoryError", "out of memory. Tried to allocate")
"""Errors of PyTorch's and CuPy's allocators of GPU memory (c10/cuda/CUDACachingAllocator.cpp, cupy/cuda/memory.pyx).

CUDA's own `out of memory` is no such proof: pinned memory of the host that is refused gives the same code."""
KIN = ("alloc_failed",)


@rule("gpu_oom", supersedes=(*GPU_ECHOES, "malloc_failure"))
def gpu_oom(job: Job) -> Said:
    """An allocation on the GPU failed: its memory was used up.

    What happened: the framework asked the driver for more memory than the GPU had free: the model and its batch are too
    large, memory is fragmented, or another process uses the same GPU.

    Who acts: the user.

    Hardware or software: software. The card works: it said no. Bad memory of a GPU gives Xid 48, 63, 64, 94 or 95 and a
    CUDA ECC error instead.

    First check: read the message: asked for, free, in use by this process, in use by others. Then see who else is on
    the card.

        srun -w NODE --gpus-per-node=N nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv
        python -c 'import torch; print(torch.cuda.mem_get_info())'

    What to do: compare size asked for, free and total in the message; smaller batch, sharding or offload; look for
    other processes on the GPU. What is larger than the whole card never fits.

    What this is not: host memory; --mem changes nothing.

    Check next: `gpu_app_fault` if it was an illegal access; `memcg_oom` if a host process was killed;
    `gpu_ecc_uncorrectable` if an Xid of the memory stands beside it.

    Sources: https://docs.pytorch.org/docs/stable/notes/cuda.html,
    https://docs.pytorch.org/docs/stable/torch_cuda_memory.html, https://docs.nvidia.com/deploy/nvidia-smi/index.html
    """
    yield from told(job, "the program says that the GPU's memory is used up", "gpu_oom", kin=KIN)
    lines = (s for s in job.log.of("gpu_oom") if any(words in s.cite.text for words in OF_ALLOCATOR))
    yield from proven(
        job, "the GPU's allocator found no memory", lines, *KIN, *cuda_aborts(job), died_of=(signals.SIGABRT,)
    )
    yield owner(Owner.USER)
    yield summary("The GPU's memory was used up.")
    yield action("Use less GPU memory: smaller batch, sharding, or offload.", "nvidia-smi")
    yield action("If another process is named in the message, make sure that only one job uses the GPU.")
    yield from fitting_advice(job, "gpu_memory")
