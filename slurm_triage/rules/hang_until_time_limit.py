"""Rule: a hang that ended at the time limit."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support
from slurm_triage.rules._advice import fitting_advice

SILENT_PART = 0.5
SILENT_AT_LEAST = 1800.0
"""A silence counts when it is half of the run and at least half an hour: programs may write rarely."""


@rule("hang_until_time_limit")
def hang_until_time_limit(job: Job) -> Said:
    """The job reached its time limit after a long silence.

    What happened: the last dated line of the output is much older than the end: the program waited or hung.

    Who acts: the user.

    Hardware or software: either. Mostly ranks that wait for each other or for a file system. A GPU or link that stopped
    leaves lines in the kernel log at the time of the last output.

    First check: the age of the last line of output at the end of the job; next time get stacks before the limit.

        ls -l --time-style=full-iso OUTPUT_FILE
        sacct -j JOBID -o JobID,End,Elapsed,TotalCPU,Timelimit
        srun --jobid=JOBID --overlap bash -c 'for p in $(pgrep -u $USER python); do py-spy dump --pid $p; done'

    As an administrator: what happened on the nodes when the output stopped.

        journalctl -k --since "6 hours ago" | grep -E "NVRM|mlx5|nfs: server|LustreError|blocked for more than"

    What to do: get stacks of all ranks while it hangs (py-spy dump, gdb -p); find who waits for whom.

    What this is not: a job that needs more time; a higher --time only lengthens the wait.

    Check next: `nccl_timeout_desync` if a collective is named; `nfs_error`, `parallel_fs_error` or `gpu_firmware_gsp`
    if the kernel log says so; `time_limit` if it worked till the end; `incomplete_launch` if it waited for ranks that
    never came.

    Sources: https://slurm.schedmd.com/sbatch.html, https://github.com/benfred/py-spy,
    https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
    """
    yield require(job.scheduling.time_limit)
    limit = job.scheduling.time_limit
    yield support(all_of("it was silent until the limit", limit, _silence(job)))
    yield owner(Owner.USER)
    yield summary("The job reached its time limit after a long silence of its output.")
    yield action("Get stacks of all ranks while it hangs.", "srun --overlap --jobid JOBID py-spy dump --pid PID")
    yield from fitting_advice(job, "hang")


def _silence(job: Job) -> Fact:
    says = "the output was silent for most of the run"
    start, end = job.attempt.start, job.attempt.end
    last = [s for s in job.log.of("log_end", "log_tail") if s.at is not None]
    told = [s for s in last if not s.cite.text.lstrip("[").startswith(("slurmstepd", "srun"))]
    if start is None or end is None or not told:
        return unknown(says, "the output has no dated lines near its end", "time stamps in the output; py-spy, sstat")
    run, gap = end.seconds_since(start), end.seconds_since(told[-1].at) if told[-1].at else None
    if run is not None and gap is not None and gap >= max(SILENT_AT_LEAST, SILENT_PART * run):
        return true(says, told[-1:])
    return unknown(says, "its last dated line is not old", "sstat or py-spy while it runs")
