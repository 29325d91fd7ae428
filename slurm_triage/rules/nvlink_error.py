"""Rule: NVLink or NVSwitch."""

from collections.abc import Mapping

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import NVLINK, OFF_BUS
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver, gpu_name


@rule("nvlink_error", supersedes=(*GPU_ECHOES, "fabric_manager", "gpu_app_fault"))
def nvlink_error(job: Job) -> Said:
    """An NVLink or an NVSwitch failed (Xid 74, 136, 144 to 150, 155; a fatal SXid; the fabric manager's report).

    What happened: the link between GPUs, or the switch, reported a fault. When several GPUs report it in the same
    second, they mostly tell of one fault from its different ends.

    Who acts: the administrator (cables, trays, firmware); hardware where the fabric manager reports a failed switch.

    What to do: drain the node or rack part; look which link all lines have in common.

    What this is not: an error of NCCL or of the program.
    """
    lines = job.gpu.nvlink_lines
    quoted = (*job.gpu.quoted(*NVLINK), *(s for s in job.log.of("quoted_nvidia_sxid") if _fatal(s.fields)))
    worse = job.gpu.apart_from("a GPU was lost from the bus", *OFF_BUS) if lines else None
    yield from driver(job, "an NVLink or NVSwitch reported a fault", lines, quoted, ("cuda_nvlink_error",), worse)
    told = job.gpu.tells("an NVSwitch failed", lines).holds
    yield owner(Owner.HARDWARE if told and job.gpu.switch_failed else Owner.ADMIN)
    yield summary(f"NVLink or an NVSwitch reported a fault ({gpu_name(job, lines)}).")
    yield action("Drain the node and check links and switches.", "nvidia-smi nvlink -e; nvidia-smi topo -m")


def _fatal(fields: Mapping[str, str]) -> bool:
    return fields.get("class") == "Fatal"
