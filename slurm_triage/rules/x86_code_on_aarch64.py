"""Rule: x86 code on an Arm CPU."""

from slurm_triage.facts import Job
from slurm_triage.facts._logic import all_of, negation, true, unknown
from slurm_triage.model import Fact, Owner
from slurm_triage.rules import Said, action, confirm, owner, refute, require, rule, summary, support
from slurm_triage.rules._programs import exit_fits
from slurm_triage.rules._told import ECHOES, outlived


@rule("x86_code_on_aarch64", supersedes=(*ECHOES, "exec_format", "illegal_instruction", "command_not_found"))
def x86_code_on_aarch64(job: Job) -> Said:
    """Code for x86-64 reached an Arm CPU (an image, a wheel, a cache, a compiled checkpoint).

    What happened: the image's platform is amd64 and the host's arm64; or the emulator for x86 code did not find what
    it needs.

    Who acts: the user.

    Hardware or software: software. Code for another processor; no node is broken, and it fails on every Arm node.

    First check: what the node is, and what the file, the image or the cache is.

        srun -w NODE -n1 uname -m
        file -L PROGRAM
        python -c 'import platform; print(platform.machine())'
        ls -d ~/.triton ~/.cache/torch_extensions ~/.cache/torch/kernels 2>/dev/null

    What to do: pull or build the image for linux/arm64; clear caches that hold compiled code.

    What this is not: a broken node.

    Check next: `exec_format` if the file is for yet another machine; `illegal_instruction` if both are the same
    architecture; `container_runtime_setup` if the image could not be started at all; `page_size_mismatch` if jemalloc
    speaks of a page size.

    Sources: https://man7.org/linux/man-pages/man2/execve.2.html, https://docs.kernel.org/admin-guide/binfmt-misc.html,
    https://docs.docker.com/build/building/multi-platform/
    """
    mixed = _mixed(job)
    yield require(mixed)
    ended = exit_fits(job, 126, 8, "Exec format error", "exec_format_error", "image_platform_mismatch")
    yield confirm(all_of("the file was no program for this machine", mixed, job.launch.wrong_format, ended))
    yield support(mixed)
    if mixed.holds:
        yield refute(negation("the job's nodes are no Arm machines", job.machine.arm))
    yield from outlived(job, mixed)
    yield owner(Owner.USER)
    yield summary("Code for x86-64 was started on an Arm CPU.")
    yield action("Use an image or build for linux/arm64.", "uname -m; file PROGRAM")


def _mixed(job: Job) -> Fact:
    says = "code for x86-64 was started on an Arm host"
    lines = [
        s
        for s in job.log.of("image_platform_mismatch")
        if "error" in s.fields or ("amd64" in s.fields.get("image", "") and "arm64" in s.fields.get("host", ""))
    ]
    if lines:
        return true(says, lines)
    return unknown(says, "the output names no architectures", "uname -m on the node, file on the program")
