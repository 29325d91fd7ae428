"""Rule: messages that look like failures and are none."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, any_of, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, owner, require, rule, summary, support

NOISE = frozenset({"srun_protocol_noise", "nvidia_fabric", "log_end", "log_tail", "log_empty", "kernel_boot"})


@rule("benign_message")
def benign_message(job: Job) -> Said:
    """The evidence holds messages that look like a failure and are none, and nothing else.

    What happened: something that does not speak Slurm's protocol (a port scanner) knocked at srun's port, or the
    fabric manager found no NVSwitch to manage.

    Who acts: the administrator, to silence it: keep scanners away, disable the service on nodes without NVSwitch.

    What to do: nothing for the job's sake.

    What this is not: the reason why a job ended.
    """
    scanner = job.telling.said("srun refused messages that are not Slurm's", "srun_protocol_noise")
    fabric = job.kernel.seen("the fabric manager found no NVSwitch to manage", job.gpu.no_switch_to_manage)
    seen = any_of("a message that is known to be harmless", scanner, fabric)
    yield require(seen)
    yield support(all_of("harmless messages are all that the evidence holds", seen, _nothing_else(job)))
    yield owner(Owner.ADMIN)
    yield summary("The messages are known to be harmless; they end no job.")
    yield action("Nothing to do for the job; silence the source of the messages.")


def _nothing_else(job: Job) -> Fact:
    """No other line that any catalog knows, and no record of a bad end."""
    says = "nothing else in the evidence tells of a failure"
    other = [s for s in job.log.signs if s.id not in NOISE or ("failure" in s.fields or "gpu" in s.fields)]
    state = job.accounting.state
    noise = job.log.of("srun_protocol_noise", "nvidia_fabric")
    if noise and not other and state in (None, "RUNNING", "COMPLETED"):
        return true(says, noise[:2])
    return unknown(says, "other lines or the state tell of an end", job.accounting.how)
