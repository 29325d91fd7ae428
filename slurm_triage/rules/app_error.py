"""Rule: the program itself ended with an error."""

from slurm_triage import signals
from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, any_of, negation
from slurm_triage.facts.program import ERROR_LINES, OWN_FAULT
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support
from slurm_triage.rules._own_error import own_error
from slurm_triage.rules._spoken import named, spoken

TOLD = (
    *ERROR_LINES, "error_line", "r_error", "file_exists", "file_permission", "program_not_found", "sigabrt_text",
    "cpp_exception",
    "module_not_found", "floating_point_text", "x86_trap", "mpi_error", "conda_error", "cuda_no_device", "io_error",
)  # fmt: skip
"""How programs name errors that have no finer cause."""


@rule("app_error")
def app_error(job: Job) -> Said:
    """The program or the job script ended with an error of its own.

    What happened: a positive exit code (or an abort, an arithmetic fault, a closed pipe, its own ulimit), and nothing
    outside the program that explains it. Its last message usually names the reason.

    Who acts: the user.

    Hardware or software: software. The program ended by itself with an error; hardware would leave a signal or a line
    of the kernel or driver. Results that are wrong without any error are another matter.

    First check: the end of the output; in a parallel job the first error, not the last.

        tail -50 OUTPUT_FILE
        grep -nE "Traceback|Error|error:|FATAL|Abort" OUTPUT_FILE | head
        sacct -j JOBID -o JobID,JobName,State,ExitCode,DerivedExitCode

    What to do: read the end of the output; in a parallel job the first error counts, not the last.

    What this is not: a fault of the node or of Slurm.

    Check next: `peer_rank_died` if the message is about a lost connection; `gpu_oom`, `malloc_failure`, `disk_quota` or
    `command_not_found` if it names one of these; `accounting_state_wrong` if the job looks well though a step failed.

    Sources: https://slurm.schedmd.com/job_exit_code.html, https://docs.python.org/3/tutorial/errors.html,
    https://docs.pytorch.org/docs/stable/elastic/errors.html
    """
    program, own = job.program, own_error(job)
    yield require(any_of("the program ended with an error of its own", program.failed_by_itself, own))
    yield confirm(own)
    yield confirm(
        all_of(
            "the exit was the program's own, and neither its output nor the node's kernel log names a finer cause",
            program.nothing_else_seen,
            job.telling.no_finer_cause,
            any_of(
                "nothing else is told, or it was outlived",
                job.proof.unopposed("nothing else is told", program.failed_by_itself, *TOLD, died_of=OWN_FAULT),
                job.proof.last_told("the program's own error is what is told last", *TOLD, died_of=OWN_FAULT),
            ),
            negation("it did not fail right after a pause", job.scheduling.failed_after_pause),
            negation("no trouble of device or file system fell into the job's time", job.kernel.trouble_inside),
        )
    )
    yield support(named(job))
    yield support(program.named_error)
    yield support(program.kernel_fault(signals.SIGFPE))
    yield support(program.kernel_fault(signals.SIGTRAP))
    yield support(
        all_of(
            "it ended with an error and not by SIGKILL or SIGTERM",
            program.failed_by_itself,
            negation("neither SIGKILL nor SIGTERM ended it", program.ended_by_kill_signal),
        )
    )
    yield refute(program.ended_by_kill_signal)
    yield refute(job.memory.oom_killed)
    yield refute(job.scheduling.preempted)
    yield refute(job.scheduling.time_limit)
    yield refute(job.cancel.by_state)
    yield refute(job.node.lost)
    yield refute(job.launch.output_status)
    yield refute(job.launch.prolog_status)
    yield owner(Owner.USER)
    yield summary(f"The program ended with an error of its own: {_what(job)}.")
    job_id = job.attempt.job_id or "JOBID"
    yield action(
        "Read the first error in the job's output.",
        f"sacct -j {job_id} -o JobID,JobName,State,ExitCode,DerivedExitCode",
    )


def _what(job: Job) -> str:
    """The error with its frame if it is named, else the exit in words."""
    error = spoken(job)
    info = job.exits.job_exit[0]
    how = info.meaning if info.shown_by_sacct or info.code is not None else "exit code not seen"
    own = [d for d in job.exits.deaths if d.signal in (signals.SIGABRT, signals.SIGFPE, signals.SIGXCPU)]
    if own and own[0].signal:
        how = signals.meaning(None, own[0].signal)
    return f"{error.text} ({how})" if error is not None else how
