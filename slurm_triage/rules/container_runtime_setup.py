"""Rule: the container could not start."""

from slurm_triage.facts import Job
from slurm_triage.model import Owner
from slurm_triage.rules import Said, action, owner, rule, summary
from slurm_triage.rules._told import ECHOES, told

LINES = ("slurmd_pyxis", "pyxis_error", "enroot_error", "apptainer_error", "container_runtime_error")
IMAGE = ("could not open image", "failed to retrieve path", ".sqsh", ".sif", "manifest", "unauthorized", "not found")
"""Words of a message about the image, which the user names."""


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
    image = any(word in s.fields.get("message", "").lower() for s in lines for word in IMAGE)
    yield owner(Owner.USER if image else Owner.ADMIN)
    yield summary("The container runtime could not set up the job's container.")
    if image:
        yield action("Check the image's path, name and permissions in the message.")
    else:
        yield action("Check the directory or permission that the runtime names.", "enroot list; df -h")
