"""Rule: ranks that did not find each other."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import any_of, unknown
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._told import not_an_echo, proven

LINES = ("rendezvous_timeout", "store_barrier_timeout", "address_in_use", "mpi_launch_failed")
WEAK = ("connection_refused_rendezvous", "network_unreachable")
"""Lines that retries print too while all is well: they make it possible, not likely."""

SERVER = "server socket has failed to listen on any local network address"
"""PyTorch's TCPStore; other servers of a job (notebooks, dashboards) have ports too and say less."""


@rule("rendezvous_failed", supersedes=("app_error", "mpi_abort", "peer_rank_died", "nccl_timeout_desync"))
def rendezvous_failed(job: Job) -> Said:
    """The processes of the job did not find each other at the start.

    What happened: a rank waited for the others and gave up, the port was taken (several launchers on one node, an
    earlier run), the address is wrong, or MPI was not built for this launcher.

    Who acts: the user.

    Hardware or software: software, mostly: addresses, ports, how many processes were started. A node that cannot be
    reached by any job is the network's.

    First check: the address and port that the ranks were given, whether its name resolves on the other nodes, and,
    while they wait, whether they reach it.

        echo $MASTER_ADDR $MASTER_PORT
        srun -w NODE -n1 getent hosts $MASTER_ADDR
        srun --jobid=JOBID --overlap nc -zv $MASTER_ADDR $MASTER_PORT

    As an administrator: whether a firewall lets the nodes talk to each other on that port.

        ss -ltnp | grep PORT
        nft list ruleset | head

    What to do: one launcher per node; a port of its own for each job; MASTER_ADDR that all nodes can reach.

    What this is not: a failure of the training code, which had not begun.

    Check next: `incomplete_launch` if fewer processes came than were asked for; `nccl_config` if the wrong interface is
    used; `launch_failed` if srun could not start the step; `network_link` if the nodes do not reach each other.

    Sources: https://docs.pytorch.org/docs/stable/distributed.html,
    https://docs.pytorch.org/docs/stable/elastic/run.html, https://slurm.schedmd.com/mpi_guide.html
    """
    says = "the ranks did not find each other"
    any_ = any_of(says, job.telling.said(says, *LINES), job.telling.said("a connection at the start failed", *WEAK))
    yield require(any_)
    taken = [s for s in job.log.of("address_in_use") if SERVER in s.cite.text]
    yield from proven(job, "the port of the ranks' meeting place was taken", taken)
    last = job.telling.last_word("the start-up was the last thing to fail", *LINES)
    if not job.log.of(*LINES):
        last = unknown(last.says, "only lines that retries print too were seen", job.log.how)
    yield support(last)
    yield from not_an_echo(job, any_)
    yield owner(Owner.USER)
    yield summary("The processes of the job did not find each other at the start.")
    yield action("Check that one launcher runs per node, its address and port.", "srun -l hostname")
