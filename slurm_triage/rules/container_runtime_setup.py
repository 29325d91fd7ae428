"""Rule: the container could not start."""

import re

from slurm_triage.facts import Job
from slurm_triage.model import Owner, Sign
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import ECHOES, proven, told

LINES = ("slurmd_pyxis", "pyxis_error", "enroot_error", "apptainer_error", "container_runtime_error")
IMAGE = ("could not open image", "failed to retrieve path", ".sqsh", ".sif", "manifest", "unauthorized", "not found")
"""Words of a message about the image, which the user names."""
START = re.compile(
    r"couldn't mkdir|cannot create|user namespace|newuidmap|squash|rootfs|overlay|mount|image"
    r"|container (?:creation|start)|/etc/enroot/hooks\.d/|entering container|namespaces?\b",
    re.IGNORECASE,
)
"""What only the set-up of a container says."""
ELSEWHERE = re.compile(r"nvidia-container-cli|executable file not found|stat .{1,200}: no such file|spank-epilog")
"""The GPU driver, the program in the container, the clean-up after the job: the runtime only hands these on."""
KIN = ("slurm_plugin_stack", "slurmd_plugin_stack", "slurm_task_plugin", "srun_launch_failed")
"""What Slurm says when the runtime's plugin has failed."""


@rule("container_runtime_setup", supersedes=(*ECHOES, "launch_failed", "node_misconfigured", "unkillable_step"))
def container_runtime_setup(job: Job) -> Said:
    """pyxis, enroot, Apptainer or another runtime could not set up the job's container.

    What happened: a directory that the runtime needs is missing or not writable, user namespaces are off, a hook
    failed, or the image cannot be read.

    Who acts: the administrator; the user where the image itself is missing or wrong.

    What to do: read the first line of the runtime, not the last; try the same image with a plain `true`.

    What this is not: an error of the program in the container, which never started.
    """
    yield from told(job, "the container runtime says that it could not set up the container", *LINES)
    lines = job.log.of(*LINES)
    yield from proven(job, "the container was never set up", filter(_of_the_start, lines), *KIN, *LINES)
    image = any(word in s.fields.get("message", "").lower() for s in lines for word in IMAGE)
    yield owner(Owner.USER if image else Owner.ADMIN)
    yield summary("The container runtime could not set up the job's container.")
    if image:
        yield action("Check the image's path, name and permissions in the message.")
    else:
        yield action("Check the directory or permission that the runtime names.", "enroot list; df -h")


def _of_the_start(line: Sign) -> bool:
    """Whether the runtime speaks of its own set-up, and of nothing that it only hands on."""
    return bool(START.search(line.cite.text)) and not ELSEWHERE.search(line.cite.text)
