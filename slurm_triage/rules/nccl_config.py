"""Rule: NCCL's settings."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import ECHOES, proven, told

OWN_SETTINGS = ("Duplicate GPU detected", "Mismatched NCCL version detected", "mismatched NCCL version detected")
"""Nothing but the launch brings these about. An interface that is not found may be down, or be named wrongly."""


@rule("nccl_config", supersedes=ECHOES)
def nccl_config(job: Job) -> Said:
    """NCCL could not communicate because of how it was set up.

    What happened: no usable network interface (NCCL_SOCKET_IFNAME names one that does not exist here), two ranks on
    one GPU, or different NCCL versions.

    Who acts: the user.

    Hardware or software: software. Settings that fit another machine. A link that is down is seen by the system, too
    (see network_link).

    First check: what NCCL chose, with nothing set by hand.

        env | grep -E "^(NCCL|UCX|GLOO|MASTER)_"
        srun -w NODE -n1 ip -br addr
        NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET srun PROGRAM

    As an administrator: which interfaces and adapters a node has, against what a module or image sets.

        ip -br link
        ibstat
        grep -r NCCL_ /etc/nccl.conf /etc/environment.d 2>/dev/null

    What to do: unset NCCL_* variables that an image or script pins; give each rank its own GPU; one NCCL for all.

    What this is not: a broken network.

    Check next: `network_link` if an interface is down; `process_limit` if memory could not be locked;
    `rendezvous_failed` if the ranks never met; `fabric_manager` if NVLS is named.

    Sources: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html,
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    """
    yield from told(job, "NCCL says that its settings do not fit", "nccl_config", kin=("nccl_system_error",))
    sure = [s for s in job.log.of("nccl_config") if s.fields.get("error") in OWN_SETTINGS]
    yield from proven(job, "NCCL names the setting that does not fit", sure, "nccl_system_error")
    yield owner(Owner.USER)
    yield summary("NCCL could not communicate: its settings do not fit this node or this launch.")
    yield action("Print and check the NCCL_* variables; rerun with NCCL_DEBUG=INFO.", "env | grep NCCL_; ip -br addr")
