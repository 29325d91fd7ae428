"""Rule: contained error of GPU memory."""

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import CONTAINED, MEMORY, OFF_BUS
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver, gpu_name


@rule("gpu_ecc_contained", supersedes=(*GPU_ECHOES, "gpu_app_fault"))
def gpu_ecc_contained(job: Job) -> Said:
    """A GPU memory error was contained (Xid 94): one process lost its data, the others may go on.

    What happened: the driver ended only the process that used the bad memory. A row remap waits for the next reset.

    Who acts: the administrator, who resets the GPU when the node is free.

    Hardware or software: hardware. A cell of the card's memory is bad; the driver kept the damage to one process.

    First check: submit again; the card can be used until it is reset.

        srun -w NODE --gpus-per-node=N nvidia-smi -q -d ECC,ROW_REMAPPER

    As an administrator: see that a remap is pending and not failed, drain, reset when the node is free.

        nvidia-smi --format=csv --query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure
        scontrol update nodename=NODE state=drain reason="GPU row remap pending"
        nvidia-smi --gpu-reset -i PCI_ADDRESS

    What to do: submit the job again; drain and reset the GPU soon.

    What this is not: an error of the program.

    Check next: `gpu_ecc_uncorrectable` if 48 or 95 stands beside it; `gpu_row_remap_pending` if nothing died of it;
    `gpu_app_fault` if only 13, 31 or 43 was printed.

    Sources: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
    https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html
    """
    lines = job.gpu.xids(CONTAINED)
    worse = job.gpu.apart_from("the GPU reported a worse error too", MEMORY, OFF_BUS) if lines else None
    quoted = job.gpu.quoted(CONTAINED)
    yield from driver(job, "a GPU reported a contained memory error", lines, quoted, unless=worse, alone=True)
    yield owner(Owner.ADMIN)
    yield summary(f"A memory error of {gpu_name(job, lines)} ended one process (Xid 94, contained).")
    yield action("Submit the job again; reset the GPU when the node is free.", "nvidia-smi -q -d ROW_REMAPPER")
