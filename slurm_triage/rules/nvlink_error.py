"""Rule: NVLink or NVSwitch."""

from slurm_triage.facts import Job
from slurm_triage.facts.gpu import NVLINK, OFF_BUS, is_fatal
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, rule, summary
from slurm_triage.rules._told import GPU_ECHOES, driver, gpu_name


@rule("nvlink_error", supersedes=(*GPU_ECHOES, "fabric_manager", "gpu_app_fault"))
def nvlink_error(job: Job) -> Said:
    """An NVLink or an NVSwitch failed (Xid 74, 136, 144 to 150, 155; a fatal SXid; the fabric manager's report).

    What happened: the link between GPUs, or the switch, reported a fault. When several GPUs report it in the same
    second, they mostly tell of one fault from its different ends.

    Who acts: the administrator (cables, trays, firmware); hardware where the fabric manager reports a failed switch.

    Hardware or software: either. One link or one card that comes back again and again is hardware (cable, tray, board).
    Many cards in the same second are one fault seen from many sides: a switch, or a partner that was reset. After 79 or
    a reset of a neighbour it is an echo.

    First check: run elsewhere; which links are down.

        srun -w NODE --gpus-per-node=N nvidia-smi nvlink --status
        sbatch --exclude=NODE JOBSCRIPT

    As an administrator: the link that all lines have in common, its error counters, and the fabric manager's view.

        journalctl -k | grep -E "NVRM: Xid|SXid"
        nvidia-smi nvlink --errorcounters
        journalctl -u nvidia-fabricmanager --since "1 hour ago"
        dcgmi diag -r 3

    What to do: drain the node or rack part; look which link all lines have in common.

    What this is not: an error of NCCL or of the program.

    Check next: `gpu_fallen_off_bus` if 79 came first; `fabric_manager` if the service was restarted;
    `nccl_timeout_desync` if no link reports anything; `network_link` if it is the network between nodes.

    Sources: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
    https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/,
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    lines = job.gpu.nvlink_lines
    quoted = (*job.gpu.quoted(NVLINK), *(s for s in job.log.of("quoted_nvidia_sxid") if is_fatal(s)))
    worse = job.gpu.apart_from("a GPU was lost from the bus", OFF_BUS) if lines else None
    yield from driver(job, "an NVLink or NVSwitch reported a fault", lines, quoted, ("cuda_nvlink_error",), worse,
                      left_open=job.gpu.nvlink_left_open)  # fmt: skip
    if job.gpu.switch_failed:
        yield confirm(job.gpu.kept_from_starting("a switch had failed, and the program could not start for it", lines))
    told = job.gpu.tells("an NVSwitch failed", lines).holds
    yield owner(Owner.HARDWARE if told and job.gpu.switch_failed else Owner.ADMIN)
    yield summary(f"NVLink or an NVSwitch reported a fault ({gpu_name(job, lines)}).")
    if job.gpu.gpus_at_once > 1:
        yield note(
            f"{job.gpu.gpus_at_once} GPUs report it in the same second: that is one event of the fabric between them, "
            "not as many broken GPUs."
        )
    if job.gpu.first_of_peers:
        yield note(f"GPU {job.gpu.first_of_peers} alone names a reason of its own: look at it and its link first.")
    yield action("Drain the node and check links and switches.", "nvidia-smi nvlink -e; nvidia-smi topo -m")
