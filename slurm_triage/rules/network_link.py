"""Rule: the network."""

from slurm_triage.facts import Job
from slurm_triage.facts.network import KIN, TRANSFER
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support, when
from slurm_triage.rules._told import ECHOES, first, not_an_echo, outlived


@rule("network_link", supersedes=ECHOES)
def network_link(job: Job) -> Said:
    """A network link or adapter failed, or transfers failed after all retries.

    What happened: the kernel reports a link that went down or an adapter that failed, or NCCL, UCX or libfabric say
    that the other side did not answer after all retries.

    Who acts: the administrator (cable, port, switch, firmware).

    Hardware or software: either: cable, port, switch or adapter, or their firmware and settings. One node again and
    again is its cable or adapter; many at once a switch. Retries that ran out alone may also be a peer that died.

    First check: which adapter and which pair of nodes the message names; go elsewhere.

        srun -w NODE -n1 bash -c 'ip -br link; ibstat 2>/dev/null | grep -E "CA|State|Rate"'
        sbatch --exclude=NODE JOBSCRIPT

    As an administrator: the port's counters on both sides and when the link went.

        journalctl -k | grep -E "mlx5|Link (down|up)|link is (down|up)"
        ibqueryerrors
        perfquery -x
        ethtool -S INTERFACE | grep -E "err|drop|discard|phy"

    What to do: look at the counters of the port that the message names, on both sides.

    What this is not: a failed completion or a lost peer alone; a rank that ended looks the same from here.

    Check next: `peer_rank_died` if a rank ended before the retries ran out; `pcie_error` if the adapter left the bus;
    `scale_dependent` if only large jobs fail; `nvlink_error` if it is inside the node.

    Sources: https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html,
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, https://github.com/openucx/ucx/issues/6000
    """
    lines, trouble = job.network.link_lines, job.network.trouble
    yield require(trouble)
    yield confirm(job.network.proven)
    yield support(job.network.likely)
    yield support(job.telling.last_word("a transfer failed after all retries, and nothing else", *TRANSFER, kin=KIN))
    yield when(first(lines))
    yield from outlived(job, trouble) if lines else not_an_echo(job, trouble)
    yield owner(Owner.ADMIN)
    yield summary("The network failed under the job (a link, an adapter, or transfers after all retries).")
    yield action("Check port, cable and counters of the nodes in the message.", "ibstat; ethtool -S DEV | grep -i err")
