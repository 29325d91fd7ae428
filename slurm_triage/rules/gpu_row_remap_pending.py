"""Rule: a row remap waits for a reset."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import true, unknown
from slurm_triage.facts.gpu import CONTAINED, MEMORY, OFF_BUS, ROW_REMAP, number
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, owner, refute, require, rule, summary, support
from slurm_triage.rules._told import gpu_name, outlived

WORSE = (CONTAINED, MEMORY, OFF_BUS)
SUMMARY = 154
"""The Xid with which the driver says what is to be done about another one."""


@rule("gpu_row_remap_pending")
def gpu_row_remap_pending(job: Job) -> Said:
    """A GPU has recorded a bad row of its memory and waits for a reset (Xid 63, 64, 156, 160, 161).

    What happened: the driver marked the row; the remap takes effect at the next reset. It is rarely the cause of a
    death: the error beside it (48, 94, 95) is.

    Who acts: the administrator, who resets the GPU when the node is free.

    Hardware or software: hardware. A row of the card's memory was found bad and is to be replaced by a spare. That is
    the card repairing itself, unless it says that the remap failed.

    First check: whether a remap is pending or failed.

        srun -w NODE --gpus-per-node=N nvidia-smi -q -d ROW_REMAPPER

    As an administrator: reset when idle; a failed remap means another card.

        nvidia-smi --format=csv --query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure
        nvidia-smi --gpu-reset -i PCI_ADDRESS

    What to do: look for the error beside it; Xid 64 or a failed remap means that the card is worn.

    What this is not: proof that this job died of it.

    Check next: `gpu_ecc_uncorrectable` if 48 or 95 stands beside it; `gpu_ecc_contained` if 94 does; `app_error` for
    why the job really died.

    Sources: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html
    """
    lines = job.gpu.xids(ROW_REMAP)
    seen = job.gpu.seen("the driver recorded a bad row of GPU memory", lines)
    yield require(seen)
    yield support(_nothing_else(job))
    if lines:
        yield refute(job.gpu.apart_from("the memory error itself was reported", *WORSE))
    yield from outlived(job, seen)
    yield owner(Owner.ADMIN)
    yield summary(f"{gpu_name(job, lines)} waits for a reset to remap a bad row of its memory.")
    yield action("Reset the GPU when the node is free.", "nvidia-smi -q -d ROW_REMAPPER")


def _nothing_else(job: Job) -> Fact:
    """Only a kernel log was read, and it holds nothing but such lines: then they are all there is to explain."""
    says = "the evidence holds nothing else"
    own = {w.sign.cite for w in job.gpu.xids(ROW_REMAP)}
    own |= {s.cite for s in job.log.of("nvidia_xid") if own and number(s) == SUMMARY}
    other = [s for s in job.log.signs if s.cite not in own and s.id not in ("nvidia_gpu_uuid", "kernel_boot")]
    if own and not other and not job.attempt.records:
        return true(says, own)
    return unknown(says, "there is other evidence of how the job ended", job.log.how)
