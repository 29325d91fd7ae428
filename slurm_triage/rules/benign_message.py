"""Rule: messages that look like failures and are none."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, any_of, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, confirm, owner, require, rule, summary, support

NOISE = frozenset({"srun_protocol_noise", "nvidia_fabric", "log_end", "log_tail", "log_empty", "kernel_boot"})

VERSIONS = range(20 << 8, 96 << 8)
"""Slurm's protocol numbers are (release << 8), 38 for 22.05, 45 for 26.05 (src/common/slurm_protocol_common.h)."""


@rule("benign_message")
def benign_message(job: Job) -> Said:
    """The evidence holds messages that look like a failure and are none, and nothing else.

    What happened: something that does not speak Slurm's protocol (a port scanner) knocked at srun's port, or the
    fabric manager found no NVSwitch to manage.

    Who acts: the administrator, to silence it: keep scanners away, disable the service on nodes without NVSwitch.

    Hardware or software: neither. The message is about nothing of the job.

    First check: what really ended the job, if it ended badly at all.

        sacct -j JOBID -o JobID,State,ExitCode,Elapsed

    As an administrator: who knocks at those ports.

        ss -tnp | grep srun
        journalctl -u nvidia-fabricmanager -n 20

    What to do: nothing for the job's sake.

    What this is not: the reason why a job ended.

    Check next: `app_error` or whatever the output ends on, if the job failed; `fabric_manager` if the node does have
    NVSwitches.

    Sources: https://slurm.schedmd.com/srun.html, https://slurm.schedmd.com/slurm.conf.html,
    https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
    """
    scanner = job.telling.said("srun refused messages that are not Slurm's", "srun_protocol_noise")
    fabric = job.kernel.seen("the fabric manager found no NVSwitch to manage", job.gpu.no_switch_to_manage)
    seen = any_of("a message that is known to be harmless", scanner, fabric)
    yield require(seen)
    alone = _nothing_else(job)
    yield confirm(
        all_of("srun refused what no Slurm would send, and nothing else is there", seen, _foreign(job), alone)
    )
    yield support(all_of("harmless messages are all that the evidence holds", seen, alone))
    yield owner(Owner.ADMIN)
    yield summary("The messages are known to be harmless; they end no job.")
    yield action("Nothing to do for the job; silence the source of the messages.")


def _foreign(job: Job) -> Fact:
    """The refused messages carry numbers that are no version of Slurm's protocol: it was no old daemon or client."""
    says = "the refused messages are not of any version of Slurm"
    lines = [s for s in job.log.of("srun_protocol_noise") if s.fields.get("version")]
    if lines and all(_no_version(int(s.fields["version"])) for s in lines):
        return true(says, lines[:2])
    return unknown(says, "the refused messages name no number", "compare srun --version on both sides")


def _no_version(number: int) -> bool:
    return number % 256 != 0 or number not in VERSIONS


def _nothing_else(job: Job) -> Fact:
    """No other line that any catalog knows, and no record of a bad end."""
    says = "nothing else in the evidence tells of a failure"
    other = [s for s in job.log.signs if s.id not in NOISE or ("failure" in s.fields or "gpu" in s.fields)]
    state = job.accounting.state
    noise = job.log.of("srun_protocol_noise", "nvidia_fabric")
    if noise and not other and state in (None, "RUNNING", "COMPLETED"):
        return true(says, noise[:2])
    return unknown(says, "other lines or the state tell of an end", job.accounting.how)
