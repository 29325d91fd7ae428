"""How full the node's own file systems are: `filesystems.<node>.txt`. Measured after the job's end.

Only file systems known to be local are asked: statvfs(2) of a server that is gone never returns. What the job filled
and removed at its end is not seen any more; what is still full is.
"""

from __future__ import annotations

import os
import re
import time

from slurm_triage.node.collect import Budget, Collected, _files, _readings, _slurm_conf
from slurm_triage.node.job import Job

MOUNTS = "/proc/self/mountinfo"
LOCAL = frozenset({
    "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "rootfs", "overlay", "zfs", "f2fs", "bcachefs", "jfs",
})  # fmt: skip
"""Types that never wait for another machine, as the SPANK plugin knows them (spank/local_mount.c)."""
PLACES = ("/", "/dev/shm", "/tmp", "/var/tmp", "/run")
_OCTAL = re.compile(r"\\([0-7]{3})")


def collect(job: Job, budget: Budget) -> Collected:
    """Room and inodes of the places that programs, Slurm and this agent write to."""
    name = f"filesystems.{job.node}.txt"
    table = _files.text(MOUNTS, 4 * 1024 * 1024)
    if not table:
        return Collected(not_seen=[f"{name}: {MOUNTS} cannot be read, so it is not known which file systems are local"])
    mounts = types(table)
    found = Collected()
    lines: list[_readings.Line] = []
    seen: set[str] = set()
    for path in places(job, budget):
        mount = max((at for at in mounts if _below(path, at)), key=len, default="")
        if mounts.get(mount) not in LOCAL:
            found.not_seen.append(f"{name}: {path} is on {mounts.get(mount, 'nothing known')}: not asked, it may hang")
        elif mount not in seen:
            seen.add(mount)
            try:
                lines.append(("file_system", _measured(mount, mounts[mount])))
            except OSError as error:
                found.not_seen.append(f"{name}: {mount}: {error.strerror}")
    found.files[name] = _readings.written(job.node, time.time(), lines)
    return found


def places(job: Job, budget: Budget) -> list[str]:
    """The paths whose file systems are looked at; TmpFS of slurm.conf is where jobs find their TMPDIR."""
    told = _slurm_conf.settings(budget)
    ours = [told.get("tmpfs", "/tmp"), told.get("slurmdspooldir", "/var/spool/slurmd"), budget.state]
    paths = [os.path.normpath(_slurm_conf.path(path, job.node)) for path in (*PLACES, *ours)]
    return [path for path in dict.fromkeys(paths) if path.startswith("/")]


def types(table: str) -> dict[str, str]:
    """Mount point to type, of /proc/self/mountinfo (proc(5)); where several are mounted, the last one."""
    found = {}
    for line in table.splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if dash and len(fields) > 4:
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
            found[point] = after.split(" ", 1)[0]
    return found


def _below(path: str, mount: str) -> bool:
    return mount == "/" or path == mount or path.startswith(f"{mount}/")


def _measured(mount: str, kind: str) -> dict[str, object]:
    """Bytes and inodes. `free` is what is left for users (ext4 keeps 5 % for root)."""
    state = os.statvfs(mount)
    return {
        "path": mount,
        "type": kind,
        "size": state.f_blocks * state.f_frsize,
        "free": state.f_bavail * state.f_frsize,
        "files": state.f_files or None,
        "files_free": state.f_favail if state.f_files else None,
        "read_only": "yes" if state.f_flag & os.ST_RDONLY else None,
    }
