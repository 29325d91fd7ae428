"""Rule: a kill from outside."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, negation, true
from slurm_triage.facts.shortage import daemon_killed, daemon_may_have_killed
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, refute, require, rule, summary, support


@rule("external_signal")
def external_signal(job: Job) -> Said:
    """A SIGKILL or SIGTERM that neither Slurm nor an OOM record explains.

    What happened: something outside Slurm's own acts sent it: the job's own script, a daemon such as earlyoom or
    systemd-oomd, an administrator on the node, a wrapper with a timeout.

    Who acts: unknown until the sender is found.

    Hardware or software: neither. A process sent it. Hardware sends SIGBUS, SIGSEGV or SIGILL, never SIGKILL or SIGTERM
    by itself.

    First check: look in the script for what may send it, and whether Slurm counted a kill for memory.

        grep -nE "kill|timeout|trap" JOBSCRIPT
        sacct -j JOBID -o JobID,State,ExitCode,ReqMem,MaxRSS,Elapsed,Timelimit

    As an administrator: daemons that kill, and who was logged in.

        journalctl --since "1 hour ago" | grep -iE "earlyoom|systemd-oomd|oom-kill|session opened"

    What to do: look in the job's script for kill, pkill and timeout; ask for the node's journal around that time.

    What this is not: proof of a memory kill. 137 alone says SIGKILL, no more.

    Check next: `memcg_oom` or `global_oom` if the kernel log has an OOM line; `cancelled_by_user` if slurmctld's log
    has a request; `time_limit` if the elapsed time is the limit; `liveness_probe_kill` under Kubernetes.

    Sources: https://man7.org/linux/man-pages/man7/signal.7.html, https://man7.org/linux/man-pages/man2/kill.2.html,
    https://slurm.schedmd.com/job_exit_code.html
    """
    program, scheduling, cancel = job.program, job.scheduling, job.cancel
    yield require(program.ended_by_kill_signal)
    yield confirm(
        all_of(
            "it ended by SIGKILL or SIGTERM, and nothing that Slurm or the kernel does explains it",
            program.ended_by_kill_signal,
            negation("no OOM killer was involved", job.memory.oom_killed),
            negation("slurmctld logged no kill request", cancel.request_logged),
            negation("Slurm did not preempt the job", scheduling.preempted),
            negation("no time limit was reached", scheduling.time_limit),
            negation("no node was lost", job.node.lost),
            negation("slurmstepd printed no cancellation", cancel.cancel_message),
        )
    )
    daemon, maybe = daemon_killed(job), daemon_may_have_killed(job)
    if daemon.holds:
        yield confirm(all_of("a daemon killed it because memory was short", program.ended_by_kill_signal, daemon))
    yield support(program.ended_by_kill_signal)
    yield refute(job.memory.oom_killed)
    yield refute(scheduling.preempted)
    yield refute(scheduling.time_limit)
    yield refute(cancel.by_state)
    yield refute(cancel.request_logged)
    yield refute(job.node.lost)
    calls = [s for s in job.log.of("mpi_abort") if "application called MPI_Abort" in s.cite.text]
    if calls:
        yield refute(true("a rank called MPI_Abort, so that its launcher killed the others", calls))
    yield refute(job.log.has("srun tore the step down by itself", "srun_terminating", "slurm_task_failure"))
    yield owner(Owner.UNKNOWN)
    if daemon.holds or maybe.holds:
        yield summary("A daemon of the node (systemd-oomd, earlyoom) killed a process because memory was short.")
        yield action("Use less memory, or ask for a node of one's own; the administrator says what the daemon guards.")
        yield note((daemon if daemon.holds else maybe).cites[0].text)
        return
    yield summary("A process of the job got SIGKILL or SIGTERM, and nothing that Slurm or the kernel did explains it.")
    yield action("Look for kill, pkill and timeout in the job's own scripts.")
    yield action("Ask for the node's journal of that moment (systemd-oomd, earlyoom, an administrator).")
