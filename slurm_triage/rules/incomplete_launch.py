"""Rule: fewer ranks than requested."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, any_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._told import not_an_echo

BARRIERS = ("store_barrier_timeout", "rendezvous_timeout", "connection_refused_rendezvous")


@rule("incomplete_launch")
def incomplete_launch(job: Job) -> Said:
    """A start barrier counted fewer ranks than it waited for.

    What happened: the ranks that were there waited for the rest in vain. Whether the rest was never started, died
    early, or could not connect, the count alone does not say.

    Who acts: unknown until the missing ranks are found.

    Hardware or software: either. Processes that were never started are a matter of settings; a node on which none came
    may be broken.

    First check: which ranks never wrote a line, and on which node they should be.

        sacct -j JOBID -o JobID,NTasks,NNodes,State,ExitCode,NodeList
        grep -hoE "rank[ =:]*[0-9]+" OUTPUT_FILE | sort -V | uniq -c | head -40

    As an administrator: what slurmd says on the nodes without a rank.

        grep -E "JOBID|error" /var/log/slurm/slurmd.log | tail -30

    What to do: list the ranks that never wrote a line; see on which nodes they should have been.

    What this is not: the fault of the rank that reports it.

    Check next: `rendezvous_failed` if all were started; `launch_failed` if srun said so; `node_misconfigured` or
    `node_fail` if one node has none; `peer_rank_died` if a rank ended early.

    Sources: https://slurm.schedmd.com/srun.html, https://docs.pytorch.org/docs/stable/elastic/run.html,
    https://slurm.schedmd.com/mpi_guide.html
    """
    missing = job.distributed.missing_ranks
    waited = any_of(missing.says, missing, job.telling.said("a start barrier waited in vain", *BARRIERS))
    pods = all_of("ranks waited in vain, and fewer pods ran than were asked for", waited, job.pods.fewer_than_wanted)
    short = any_of("fewer ranks or pods came than were asked for", missing, pods) if pods.holds else missing
    yield require(short)
    never = job.distributed.never_started
    yield support(all_of("the ranks that are missing were never started", missing, never))
    if pods.holds:
        yield support(pods)
    yield from not_an_echo(job, short)
    yield owner(Owner.UNKNOWN)
    if pods.holds:
        yield summary("Ranks waited at the start for others that never came: fewer pods ran than were asked for.")
        yield action("See why the pods that are missing found no place.", "kubectl get pods,events")
    else:
        yield summary("Fewer ranks came to the start barrier than it waited for.")
    yield action("List the ranks that never wrote a line, and their nodes.")
