"""Rule: a limit of the network stack that only large jobs reach."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import ECHOES, told


@rule("scale_dependent", supersedes=(*ECHOES, "network_link"))
def scale_dependent(job: Job) -> Said:
    """A queue of the network stack was too small for so many peers.

    What happened: the completion or receive queue of the adapter grows with the number of ranks that talk to one; the
    default is enough up to some size only.

    Who acts: the user, with a setting of the MPI library.

    Hardware or software: software: a size that was enough so far. Hardware would follow a node; this follows the number
    of ranks.

    First check: halve the number of ranks; then raise the queue that the message names.

        sbatch --nodes=HALF JOBSCRIPT
        ucx_info -c | grep -iE "QUEUE|CQ|RX|TX" | head -30
        env | grep -E "^(UCX|FI|MPICH|OMPI)_"

    What to do: make the queue that the message names larger, or use fewer ranks or other patterns of messages.

    What this is not: a fault of one node; another rank reports it each time.

    Check next: `network_link` if one port or node is always named; `process_limit` if memory could not be locked;
    `file_descriptor_limit` if files were refused; `rendezvous_failed` if the ranks never met.

    Sources: https://openucx.readthedocs.io/en/master/faq.html, https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html
    """
    yield from told(job, "a queue of the network stack was used up", "mpi_cq_exhaustion")
    yield owner(Owner.USER)
    yield summary("A queue of the network stack was too small for the number of ranks.")
    yield action("Raise the queue size that the message names, or use fewer ranks.")
