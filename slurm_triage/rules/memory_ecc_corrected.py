"""Rule: corrected errors of the host's memory."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, confirm, note, owner, refute, require, rule, summary, support
from slurm_triage.rules._told import outlived

KIN = ("mce", "edac", "ghes", "rasdaemon", "mcelog_threshold", "thermal_throttle")
"""What stands beside corrected errors: the same event told again, or nothing that ends a job."""


@rule("memory_ecc_corrected")
def memory_ecc_corrected(job: Job) -> Said:
    """The host's memory had errors that were corrected.

    What happened: ECC repaired single bits; no data was lost and no process was hurt. Many of them on one module
    announce a failing one.

    Who acts: the administrator, who watches the count and replaces the module in time.

    Hardware or software: hardware, yet without harm: the error was repaired. It explains no death.

    First check: what really ended the job; this did not.

        sacct -j JOBID -o JobID,State,ExitCode,NodeList

    As an administrator: errors of each module, and whether they grow.

        grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_ce_count
        ras-mc-ctl --errors | tail
        ipmitool sel elist | grep -i ecc

    What to do: count them for each module.

    What this is not: the cause of a job's death.

    Check next: `memory_ecc_uncorrected` if one was not corrected; `app_error` or whatever the output ends on for the
    job's own failure.

    Sources: https://docs.kernel.org/admin-guide/RAS/main.html, https://github.com/mchehab/rasdaemon
    """
    seen = job.kernel.seen("the kernel reports corrected memory errors", job.host.corrected)
    yield require(seen)
    yield support(all_of("corrected errors are all that the evidence holds", seen, job.host.nothing_else))
    excerpt = "the excerpt of the kernel log tells of nothing but corrected memory errors"
    named = [w.sign for w in job.host.corrected if w.sign.id != "mce"]  # without a memory module it may be a cache
    yield confirm(job.proof.sole_story(excerpt, named, *KIN))
    if seen.holds and job.host.uncorrected:
        yield refute(job.kernel.seen("an uncorrected error was reported too", job.host.uncorrected))
    yield from outlived(job, seen)
    worn = job.host.worn_module
    yield owner(Owner.HARDWARE if worn and job.host.nothing_else.holds else Owner.ADMIN)
    if worn:
        yield summary(f"{worn[0]} had {worn[1]} errors that ECC corrected: it is failing, though they end no process.")
        yield action(f"Replace the module {worn[0]} at the next occasion.")
    else:
        yield summary("The host's memory had errors that ECC corrected; they end no process.")
    yield action("Count the errors of each module; replace one that has many.", "ras-mc-ctl --error-count")
    grew = job.machine.grew("the node counted corrected memory errors", "edac", "ce")
    if grew.holds:
        yield note(f"The node's own counter: {grew.cites[0].text}")
    yield note("Corrected errors do not explain why a job died.")
