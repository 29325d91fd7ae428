"""Rule: an assertion failed in GPU code."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import GPU_ECHOES, proven, told


@rule("cuda_device_assert", supersedes=(*GPU_ECHOES, "gpu_app_fault"))
def cuda_device_assert(job: Job) -> Said:
    """An assertion failed in GPU code, mostly an index or a label out of range.

    What happened: the kernel checked its input and stopped. Every later CUDA call of the process fails too, so that
    the traceback often names another place, and other ranks report NCCL errors.

    Who acts: the user.

    Hardware or software: software. A check in the program's own GPU code failed; a faulty card does not print an
    assertion.

    First check: run it so that the traceback names the right call, or on the CPU, where the message is plain.

        CUDA_LAUNCH_BLOCKING=1 python TRAIN.py
        CUDA_VISIBLE_DEVICES= python TRAIN.py

    What to do: check labels, token ids and sizes of embeddings against the data; rerun with CUDA_LAUNCH_BLOCKING=1.

    What this is not: an error of NCCL or of the GPU.

    Check next: `gpu_app_fault` if no assertion is named; `peer_rank_died` for the other ranks' messages.

    Sources: https://docs.pytorch.org/docs/stable/cuda_environment_variables.html,
    https://docs.pytorch.org/docs/stable/notes/cuda.html
    """
    kin = ("assertion_failed", "cuda_error_other", "nccl_system_error", "cpp_exception")
    yield from told(job, "an assertion failed in GPU code", "cuda_device_assert", kin=kin)
    lines = job.log.of("cuda_device_assert")
    yield from proven(job, "an assertion failed in GPU code", lines, *kin, died_of=(signals.SIGABRT,))
    yield owner(Owner.USER)
    yield summary("An assertion failed in GPU code (an index or a label out of range, most often).")
    yield action("Check indices, labels and token ids against the sizes in the model.")
    yield from fitting_advice(job, "gpu_fault")
