"""Rule: a child was OOM-killed, the main process went on."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support, when
from slurm_triage.rules._advice import fitting_advice
from slurm_triage.rules._memory import OOM_ECHOES, ask, first_kill, own_limit_advice, use_and_limit, victim


@rule("memcg_oom_child_only", supersedes=("memcg_oom", "no_failure", *OOM_ECHOES))
def memcg_oom_child_only(job: Job) -> Said:
    """A process was killed at the job's memory limit, but the script or the main program went on to a normal end.

    What happened: the kernel killed one process at the memory limit; its parent did not stop. The job may show
    OUT_OF_MEMORY with exit code 0, FAILED 1:0, or even COMPLETED 0:0 with only the step marked 0:125.

    Who acts: the user. Results may be incomplete although the job looks finished.

    Hardware or software: software. As for every kill at a memory limit: a limit was reached, nothing is broken.

    First check: see which step has `0:125` although the job looks well, and whether the part of the output that it
    should have written is there.

        sacct -j JOBID -o JobID,JobName,State,ExitCode,DerivedExitCode,ReqMem,MaxRSS

    As an administrator: the kernel's line names the process that was killed.

        journalctl -k --since "1 hour ago" | grep "oom-kill:"

    What to do: check the output for the killed part, make the script stop on errors (set -e, check srun's exit code),
    and give the job the memory it needs.

    What this is not: a job that was killed as a whole.

    Check next: `memcg_oom` if the main process was killed too; `accounting_state_wrong` if the step failed without a
    kill; `mem_leak_growth` if the helper grew with every input.

    Sources: https://slurm.schedmd.com/job_exit_code.html, https://slurm.schedmd.com/sacct.html,
    https://docs.kernel.org/admin-guide/cgroup-v2.html
    """
    survived = all_of(
        "a process was killed and the main one went on", job.memory.oom_killed, job.memory.program_went_on
    )
    yield require(survived)
    yield confirm(all_of("it survived a kill at the job's own limit", survived, job.memory.own_limit_hit))
    yield support(all_of("it survived a kill that Slurm counted", survived, job.memory.slurm_counted_kill))
    yield refute(job.memory.elsewhere_only)
    yield refute(job.memory.killed_below_limit)
    yield owner(Owner.USER)
    yield when(first_kill(job, "MEMCG"))
    yield summary(
        f"{victim(job)} was killed at the memory limit ({use_and_limit(job)}), but the job went on: "
        "its results may be incomplete."
    )
    yield action("Do not trust the results yet: see what the killed process left out.", ask(job))
    yield from own_limit_advice(job)
    yield from fitting_advice(job, "host_memory")
