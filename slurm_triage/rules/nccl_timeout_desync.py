"""Rule: a collective that not all ranks reached."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._told import not_an_echo, proven

LINES = ("nccl_timeout", "gloo_timeout", "nccl_mismatch")


@rule("nccl_timeout_desync", supersedes=("app_error", "mpi_abort", "peer_rank_died", "external_signal"))
def nccl_timeout_desync(job: Job) -> Said:
    """A collective operation did not finish: a rank is slow, missing, or in another collective.

    What happened: the watchdog waited for its time-out and ended the job. The rank that reports it is the one that
    waited, not the one at fault.

    Who acts: the user, unless another rank's failure is found.

    Hardware or software: software first: one rank is late or elsewhere. It is hardware only if links, GPUs or disks
    complain in the same minutes, or if the late rank is always on the same node.

    First check: who is missing: compare the last sequence number of each rank; in the next run get the stacks while it
    hangs.

        grep -hoE "last (enqueued|completed) (NCCL )?work:? *[0-9]+" OUTPUT_FILE | sort | uniq -c
        TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DESYNC_DEBUG=1 srun PROGRAM
        srun --jobid=JOBID --overlap py-spy dump --pid PID

    As an administrator: the node of the late rank.

        journalctl -k | grep -E "NVRM|mlx5|AER|blocked for more than"
        dcgmi diag -r 1

    What to do: find the rank that did not join (highest lag in sequence numbers); look for paths that only some ranks
    take, uneven data, a slow save on rank 0.

    What this is not: a reason for a longer time-out, and not proof of a network fault.

    Check next: `peer_rank_died` if a rank ended before; `hang_until_time_limit` if nothing was printed at all;
    `network_link` or `nvlink_error` if a link complains; `parallel_fs_error` if rank 0 was saving;
    `checkpoint_segfault` if a rank crashed while saving.

    Sources: https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html,
    https://docs.pytorch.org/docs/stable/distributed.html,
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    late = job.distributed.late_collective
    yield require(late)
    differ = [s for s in job.log.of("nccl_mismatch") if "Detected mismatch" in s.cite.text]
    yield from proven(job, "the ranks were in different collectives", differ)
    yield support(job.telling.last_word("a collective was the last thing to fail", *LINES))
    yield from not_an_echo(job, late)
    yield owner(Owner.USER)
    split = bool(job.distributed.ranks_disagree.holds)
    yield summary("The ranks were in different collectives." if split else "A collective did not finish on all ranks.")
    yield action("Find the rank that did not join the collective, and why.", "grep -n 'Watchdog\\|collective' LOG")
    yield from fitting_advice(job, "collective_timeout")
