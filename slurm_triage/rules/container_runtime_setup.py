"""Rule: the container could not start."""

import re

from slurm_triage.facts import Job
from slurm_triage.model import Owner, Sign
from slurm_triage.rules import Said, action, owner, refute, rule, summary
from slurm_triage.rules._told import ECHOES, proven, told_by

LINES = ("slurmd_pyxis", "pyxis_error", "enroot_error", "apptainer_error", "container_runtime_error")
IMAGE = ("could not open image", "failed to retrieve path", ".sqsh", ".sif", "manifest", "unauthorized", "not found")
"""Words of a message about the image, which the user names."""
START = re.compile(
    r"couldn't mkdir|cannot create|user namespace|newuidmap|squash|rootfs|overlay|mount|image"
    r"|container (?:creation|start)|entering container|namespaces?\b",
    re.IGNORECASE,
)
"""What only the set-up of a container says. A hook's bare exit status is not among it: a full disk ends hooks, too."""
HOOK = re.compile(r"hooks\.d/\S{1,200} exited with return code")
HANDED_ON = re.compile(r"executable file not found|exec \S{1,200} failed: exec format error")
"""What is wrong with the program in the container."""
ELSEWHERE = re.compile(r"nvidia-container-cli|stat .{1,200}: no such file|spank-epilog")
"""The GPU driver, a path in the container, the clean-up after the job."""
KIN = ("slurm_plugin_stack", "slurmd_plugin_stack", "slurm_task_plugin", "srun_launch_failed")
"""What Slurm says when the runtime's plugin has failed."""


@rule("container_runtime_setup", supersedes=(*ECHOES, "launch_failed", "node_misconfigured", "unkillable_step"))
def container_runtime_setup(job: Job) -> Said:
    """pyxis, enroot, Apptainer or another runtime could not set up the job's container.

    What happened: a directory that the runtime needs is missing or not writable, user namespaces are off, a hook
    failed, or the image cannot be read.

    Who acts: the administrator; the user where the image itself is missing or wrong.

    Hardware or software: software. The container never started. If it starts on other nodes, the node's set-up differs.

    First check: the same image with a program that does nothing.

        srun -w NODE -n1 --container-image=IMAGE true
        srun -w NODE -n1 apptainer exec IMAGE true
        df -h ~/.cache /tmp
        id
        cat /proc/sys/user/max_user_namespaces

    As an administrator: what the runtime needs of the kernel and of its directories.

        sysctl -e user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns
        grep -E "^ENROOT_" /etc/enroot/enroot.conf

    What to do: read the first line of the runtime, not the last; try the same image with a plain `true`.

    What this is not: an error of the program in the container, which never started.

    Check next: `disk_quota` or `disk_full_node_local` if the message says so; `exec_format` or `x86_code_on_aarch64` if
    the image is of another platform; `prolog_failed` if a prolog prepares the directories.

    Sources: https://github.com/NVIDIA/pyxis, https://github.com/NVIDIA/enroot/blob/master/doc/requirements.md,
    https://apptainer.org/docs/user/latest/, https://slurm.schedmd.com/containers.html
    """
    driver = bool(job.log.of("nvml_driver_mismatch"))  # the runtime's hook asks the driver and says what it hears
    lines = tuple(s for s in job.log.of(*LINES) if not (driver or HANDED_ON.search(s.cite.text)))
    yield from told_by(job, "the container runtime says that it could not set up the container", lines)
    if lines:
        yield refute(job.memory.oom_killed)
    yield from proven(job, "the container was never set up", _of_the_start(lines), *KIN, *LINES)
    image = any(word in s.fields.get("message", "").lower() for s in lines for word in IMAGE)
    yield owner(Owner.USER if image else Owner.ADMIN)
    yield summary("The container runtime could not set up the job's container.")
    if image:
        yield action("Check the image's path, name and permissions in the message.")
    else:
        yield action("Check the directory or permission that the runtime names.", "enroot list; df -h")


def _of_the_start(lines: tuple[Sign, ...]) -> list[Sign]:
    """Lines in which the runtime speaks of its own set-up; none where one of them hands on what something else said."""
    if any(ELSEWHERE.search(line.cite.text) for line in lines):
        return []
    return [line for line in lines if START.search(line.cite.text) and not HOOK.search(line.cite.text)]
