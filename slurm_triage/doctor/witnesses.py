"""What writes down the end of jobs: the hooks that Slurm calls, the plugin, the spool and its folder's file system."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from slurm_triage.doctor import plugin, plugstack
from slurm_triage.doctor.finding import Finding, State, bad, ok, unknown, warn
from slurm_triage.doctor.host import Host, Role, listed
from slurm_triage.spool import NoSpool, Spool, SpoolError, usual_owner

LIBRARY = "/usr/lib/slurm-triage"
HOOKS = {"Epilog": f"{LIBRARY}/slurm-triage-epilog", "EpilogSlurmctld": f"{LIBRARY}/slurm-triage-epilogslurmctld"}
LOCAL = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "rootfs", "overlay", "zfs", "f2fs", "bcachefs", "jfs")
)
"""File systems that the plugin writes to (spank/local_mount.c): they wait for no other machine."""
SPOOLS = {Role.NODE: "/var/spool/slurm-triage", Role.CONTROLLER: "/var/spool/slurm-triage-ctld"}


def hooks(host: Host) -> Iterator[Finding]:
    """Whatever Epilog and EpilogSlurmctld name is there and can be run; a missing Epilog drains nodes."""
    if host.config.problem:
        return
    for name, role, harm in (
        ("Epilog", Role.NODE, "slurmd drains the node at the end of every job"),
        ("EpilogSlurmctld", Role.CONTROLLER, "slurmctld cannot run it"),
    ):
        if not host.has_role(role):
            continue
        for value in host.settings.get(name.lower(), []):
            found = _matched(host, value)
            broken = [path for path in found if not os.access(host.path(path), os.X_OK) or host.path(path).is_dir()]
            if not found:
                yield bad(
                    "hooks",
                    f"{name}={value} is not there: {harm}",
                    f"put it there, or take {name} out of slurm.conf and run `scontrol reconfigure`",
                )
            elif broken:
                yield bad(
                    "hooks",
                    f"{listed(broken)}, named by {name}, cannot be run: {harm}",
                    f"chmod 755 {' '.join(broken)}",
                )
            else:
                ours = "ours" if any(_calls(host, path, HOOKS[name]) for path in found) else "another's"
                yield ok("hooks", f"{name}={value} is there and can be run ({ours})")


def called(host: Host) -> Iterator[Finding]:
    """The controller's hook is called by something."""
    if host.config.problem or not host.has_role(Role.CONTROLLER):
        return
    if not _has_hook(host, "EpilogSlurmctld"):
        yield warn(
            "called",
            "slurmctld does not tell when a job ends: EpilogSlurmctld does not call ours",
            "`slurm-triage install --print --tier 4` shows the line",
        )


def _has_hook(host: Host, name: str) -> bool:
    values = host.settings.get(name.lower(), [])
    return any(_calls(host, path, HOOKS[name]) for value in values for path in _matched(host, value))


def _matched(host: Host, value: str) -> list[str]:
    """What a path or pattern of slurm.conf names on this host."""
    if not value.startswith("/"):
        return []
    if not re.search(r"[*?\[]", value):
        return [value] if host.path(value).exists() else []
    return [f"/{path.relative_to(host.root)}" for path in sorted(host.root.glob(value.lstrip("/")))]


def _calls(host: Host, path: str, hook: str) -> bool:
    """Whether a script is our hook, a link to it, or names it in a line that is no comment."""
    if path == hook:
        return True
    try:
        if host.path(path).is_symlink() and host.path(path).readlink().name == os.path.basename(hook):  # noqa: PTH119
            return True
        return any(hook in line and not line.lstrip().startswith("#") for line in host.text(path).splitlines())
    except OSError:
        return False


# ------------------------------------------------------------------------------------------------ plugin


def plugins(host: Host) -> Iterator[Finding]:
    """plugstack.conf names the plugin rightly, it is there, fits this Slurm, and slurmd knows of it."""
    if not host.has_role(Role.NODE):
        return
    file = plugstack.place(host)
    try:
        found = list(plugstack.lines(host, file))
    except FileNotFoundError:
        found = []
    except OSError as error:
        yield unknown("plugin", f"{file} cannot be read: {error.strerror or error}", "run it as root")
        return
    if not found:
        hook = not host.config.problem and _has_hook(host, "Epilog")
        yield Finding(
            State.WARN if hook else State.BAD,
            "plugin",
            f"{file} does not name the plugin: "
            + (
                "without it the wait status of tasks and what Slurm ended are not recorded"
                if hook
                else "nothing on this node records how jobs end"
            ),
            f"add the line `optional {LIBRARY}/{plugstack.PLUGIN}`, then restart slurmd (jobs go on)",
        )
        return
    if len(found) > 1:
        where = listed([line.where for line in found])
        yield bad("plugin", f"the plugin is named more than once: {where}", "leave one of the lines")
    for line in found[:1]:
        yield from _line(host, line)


def _line(host: Host, line: plugstack.Line) -> Iterator[Finding]:
    if line.required:
        yield bad(
            "plugin",
            f"{line.where} says `required`: where the plugin is missing or does not fit, no job starts",
            "write `optional` instead",
        )
    if not line.path.startswith("/"):
        yield bad(
            "plugin",
            f"{line.where} does not give the full path of the plugin",
            f"write `optional {LIBRARY}/{plugstack.PLUGIN}`",
        )
        return
    yield from _file(host, line)
    yield from _run_in_job(host, line)
    for pid in host.processes("slurmd"):
        started = host.started(pid)
        if started is None:
            yield unknown("plugin", "when slurmd was started cannot be told")
        elif started < line.changed:
            yield warn(
                "plugin",
                f"slurmd is older than the last change of {line.file}: it may not tell the plugin when a job ends",
                "restart slurmd (jobs go on)",
            )


def _file(host: Host, line: plugstack.Line) -> Iterator[Finding]:
    try:
        built = plugin.release(host.path(line.path))
    except FileNotFoundError:
        yield bad(
            "plugin",
            f"{line.path}, named in {line.where}, is not there",
            "install slurm-triage-spank, or run `tools/witnesses.sh install` of the checkout",
        )
        return
    except (plugin.NoPlugin, OSError) as error:
        yield bad("plugin", f"{line.path} cannot be loaded by Slurm: {error}", "install it again")
        return
    if host.release is None:
        yield unknown("plugin", "the release of Slurm on this host cannot be told (`scontrol --version`)")
    elif built != host.release:
        here, there = (f"{major}.{minor:02}" for major, minor in (host.release, built))
        yield bad(
            "plugin",
            f"{line.path} was built for Slurm {there}, this is {here}: it is passed over",
            f"build it against Slurm {here} and put it in its place",
        )
    else:
        yield ok("plugin", f"{line.where} names the plugin, which fits Slurm {built[0]}.{built[1]:02}")


def _run_in_job(host: Host, line: plugstack.Line) -> Iterator[Finding]:
    if host.config.problem:
        return
    flags = [flag.lower() for flag in host.setting("PrologFlags").replace(" ", "").split(",")]
    if "runinjob" in flags and "runinjob" not in line.options:
        yield bad(
            "runinjob",
            "PrologFlags has RunInJob, so slurmd does not tell the plugin when a job ends",
            f"add the word `runinjob` to {line.where}",
        )
    elif "runinjob" in line.options and "runinjob" not in flags:
        yield warn(
            "runinjob",
            f"{line.where} says `runinjob`, but PrologFlags does not have RunInJob",
            "take the word away: without it the end of a job is recorded with its exit code",
        )


# ------------------------------------------------------------------------------------------------ spool


def spools(host: Host) -> Iterator[Finding]:
    """The spool of each role is there, root's or SlurmUser's alone, on a local disk, and takes records."""
    for role, usual in SPOOLS.items():
        if host.has_role(role):
            yield from _spool(host, role, _named_spool(host) if role is Role.NODE else usual)


def _named_spool(host: Host) -> str:
    """The spool that plugstack.conf names, else the usual one."""
    try:
        found = [
            word[6:]
            for line in plugstack.lines(host, plugstack.place(host))
            for word in line.options
            if word.startswith("spool=/")
        ]
    except OSError:
        found = []
    return found[0] if found else SPOOLS[Role.NODE]


def _spool(host: Host, role: Role, name: str) -> Iterator[Finding]:
    path = str(host.path(name))
    try:
        with Spool(path, usual_owner(path)) as spool:
            state = spool.state()
    except NoSpool:
        yield bad(
            "spool",
            f"{name} is not there: nothing is recorded",
            f"install slurm-triage-{role.value}, or run `tools/witnesses.sh install` of the checkout",
        )
        return
    except SpoolError as error:
        looked = "permission denied" not in str(error)
        yield Finding(State.BAD if looked else State.UNKNOWN, "spool", str(error), "" if looked else "run this as root")
        return
    kind = file_system(host, name)
    if kind is None:
        yield unknown("spool", f"on what file system {name} lies cannot be told")
    elif kind not in LOCAL:
        yield bad(
            "spool",
            f"{name} lies on {kind}, which may wait for another machine: the plugin does not write there",
            "put it on a local disk or on a tmpfs (docs/howto/install-the-witnesses.md)",
        )
    if state.disabled:
        yield bad("spool", f"{name} is switched off: nothing is recorded", f"rm {name}/disabled")
    lost = sum(state.dropped.values())
    if lost:
        yield warn(
            "spool",
            f"{name}: {lost} records were dropped so far, because it was full or nobody took them",
            "see that the agent works (`slurm-triage agent status`)",
        )
    for problem in state.problems:
        yield warn("spool", f"{name}: {problem}", "see who writes there")
    if kind in LOCAL and not state.disabled:
        waiting = state.folders["new"].files
        yield ok("spool", f"{name} takes records; {waiting or 'none'} wait{'s' if waiting == 1 else ''}")


def file_system(host: Host, name: str) -> str | None:
    """The type of the file system at a path, from the list of mounts, without touching it. None if unknown."""
    best, kind = -1, None
    try:
        table = host.text("/proc/self/mountinfo")
    except OSError:
        return None
    for line in table.splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        mount = re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), fields[4])
        below = mount == "/" or name == mount or name.startswith(mount + "/")
        length = 0 if mount == "/" else len(mount)
        if below and length >= best:  # of two mounts on one place the later one counts
            best, kind = length, after.split(" ")[0]
    return kind


CHECKS = [hooks, called, plugins, spools]
