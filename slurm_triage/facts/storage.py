"""File systems: full, over quota, stale, gone."""

from __future__ import annotations

import re

from slurm_triage.facts._kernel import Kernel, Witness
from slurm_triage.facts._logic import any_of, true, unknown
from slurm_triage.facts._once import once
from slurm_triage.facts.log import Log
from slurm_triage.facts.machine import Machine
from slurm_triage.facts.telling import Telling
from slurm_triage.model import Fact, Sign

NODE_LOCAL = re.compile(
    r"/(?:tmp|var|dev|run|local|localscratch|scratch_local|local_scratch|ssd|nvme|raid|mnt/(?:ssd|nvme|local)\w*)(?:/|$)"
)
"""Paths that are by convention on the node itself (Filesystem Hierarchy Standard, and usual names of local disks)."""

PERSONAL = re.compile(r"/(?:home|users?|u|project|projects|work|group|groups|gpfs|lustre|nfs|beegfs)\d?(?:/|$)")
"""Paths that are by convention shared, with a quota for each user or project."""

DF_ROW = re.compile(r"(?P<device>\S{1,200})\s+(?:[\d.]+[KMGTP]?i?B?\s+){3}(?P<use>\d{1,3})%\s+(?P<mount>/\S{0,200})")
"""A row of df, with or without -h."""

QUOTED_PATH = re.compile(r"['‘`](/[^'’`]{1,400})['’`]")
"""A path in a message of the C library or of Python."""

OTHER_ROOM = re.compile(
    r"inotify|file watchers|user ?namespace|\bunshare\b|\bclone\b|\b(?:sem|shm|msg)get\b|semaphore"
    r"|shared memory segment",
    re.IGNORECASE,
)
"""ENOSPC of something else: watches, namespaces, System V IPC (inotify(7), user_namespaces(7), semget(2))."""

TEMPORARY = ("/", "/tmp", "/var/tmp", "/var", "/run")
"""Mount points of the node itself where programs put temporary files."""

NFS_MODULES = frozenset({"nfs", "nfsv3", "nfsv4", "sunrpc"})
"""Kernel modules of the NFS client; the other modules of `fs_client_frame` are those of parallel file systems."""
STACK = 60
"""Lines below a report of a blocked task that still belong to it (kernel/hung_task.c: header, registers, frames)."""
IO_KIN = ("io_error", "lustre_error_text", "stale_file_handle", "read_only_fs", "sigbus_text")
FULL = 98
"""Per cent of use at which a file system has no room for a program any more (ext4 keeps 5 % for root, df counts it)."""


class Storage:
    """What programs and the kernel say of file systems."""

    def __init__(self, log: Log, telling: Telling, kernel: Kernel, machine: Machine) -> None:
        self.machine = machine
        self.log = log
        self.telling = telling
        self.kernel = kernel

    # ------------------------------------------------------------------------------------------ room

    @once
    def no_room(self) -> tuple[Sign, ...]:
        """Lines that say ENOSPC and mean a file system, not shared memory."""
        shm = {(s.cite.file, s.cite.line) for s in self.log.of("shm_too_small")}
        found = [s for s in self.log.of("no_space") if (s.cite.file, s.cite.line) not in shm]
        found = [s for s in found if not OTHER_ROOM.search(s.cite.text)]
        return tuple(s for s in found if not _path(s).startswith("/dev/shm"))

    @once
    def full_shared(self) -> Fact:
        """What is full is a shared or personal file system: by the path in the message, or by a row of df."""
        says = "the file system that is full is a shared or personal one"
        named = [s for s in self.no_room if PERSONAL.match(_path(s))]
        if named:
            return true(says, named)
        rows = [sign for sign, device, mount in self._df if ":" in device or PERSONAL.match(mount)]
        local = [sign for sign, device, mount in self._df if device.startswith("/dev/") or NODE_LOCAL.match(mount)]
        if self.no_room and rows and not local:
            return true(says, [*rows, self.no_room[-1]])
        return unknown(
            says, "the message does not say where", "df -h and the quota of the paths that the job writes to"
        )

    @once
    def named_local(self) -> tuple[Sign, ...]:
        """Lines that say ENOSPC of a file system of the node: by their path, or beside a row of df that is full."""
        named = [s for s in self.no_room if NODE_LOCAL.match(_path(s))]
        rows = [s for s, device, mount in self._df if device.startswith(("/dev/", "tmpfs")) or NODE_LOCAL.match(mount)]
        return (*named, *rows, *self.no_room[-1:]) if named or (rows and self.no_room) else ()

    @once
    def full_local(self) -> Fact:
        """What is full is a file system of the node itself, by the path in the message or by a row of df.

        Where the messages name no path, a local place for temporary files that was still full when the agent measured
        it after the end says it too.
        """
        says = "the file system that is full is one of the node"
        if self.named_local:
            return true(says, self.named_local)
        still_full = self.machine.full(*TEMPORARY)
        if still_full and self.no_room and not any(_path(s) for s in self.no_room):
            return true(says, still_full)
        return unknown(says, "the message does not say where", "df -h on the node while such a job runs")

    @once
    def _df(self) -> list[tuple[Sign, str, str]]:
        """Rows of df at the end of the output that show a full file system: (line, device, mount point)."""
        found = []
        for sign in self.log.of("log_tail"):
            row = DF_ROW.fullmatch(sign.fields.get("text", "").strip()[:500])
            if row and int(row["use"]) >= FULL:
                found.append((sign, row["device"], row["mount"]))
        return found

    # ------------------------------------------------------------------------------------------ shared file systems

    @once
    def felt(self) -> Fact:
        """A program of the job failed at reading or writing."""
        return self.telling.last_word("the program failed at reading or writing", *IO_KIN)

    @once
    def evictions(self) -> tuple[Witness, ...]:
        """Kernel lines that say that the client of a parallel file system was thrown out or stopped."""
        gone = self.kernel.of("lustre", where=lambda s: s.fields.get("event", "").lower() == "evicted")
        return gone + self.kernel.of("gpfs")

    @once
    def lustre_trouble(self) -> tuple[Witness, ...]:
        """Lost connections and failed requests of a Lustre client: it retries, most jobs survive them."""
        return self.kernel.of("lustre", where=lambda s: s.fields.get("event", "").lower() != "evicted")

    @once
    def nfs_silent(self) -> tuple[Witness, ...]:
        """An NFS server that did not answer, and no later line that it is back."""
        last: dict[tuple[str, str], str] = {}
        for sign in self.log.of("nfs"):
            last[(sign.cite.file, sign.fields.get("server", ""))] = sign.fields.get("what", "")

        def silent(sign: Sign) -> bool:
            what = sign.fields.get("what", "")
            if "timed out" in what:  # a soft mount: the program got the error whatever came later
                return True
            return what != "OK" and last[(sign.cite.file, sign.fields.get("server", ""))] != "OK"

        return self.kernel.of("nfs", where=silent)

    @once
    def _waits(self) -> dict[tuple[str, int], bool]:
        """Reports of a blocked task whose stack leads into a network file system: place -> whether that is NFS."""
        frames = self.log.of("fs_client_frame")
        found: dict[tuple[str, int], bool] = {}
        for task in self.log.of("cpu_lockup"):
            if not task.cite.text.count(" blocked "):
                continue
            below = (f for f in frames if f.cite.file == task.cite.file and 0 < f.cite.line - task.cite.line <= STACK)
            first = next(below, None)
            if first is not None:
                found[(task.cite.file, task.cite.line)] = first.fields["module"] in NFS_MODULES
        return found

    def hung(self, nfs: bool) -> tuple[Witness, ...]:
        """Tasks that the kernel found blocked inside the client of NFS, or of a parallel file system."""
        return self.kernel.of("cpu_lockup", where=lambda s: self._waits.get((s.cite.file, s.cite.line)) is nfs)

    @once
    def broken_local(self) -> tuple[Witness, ...]:
        """A local file system shut down or turned read-only after errors."""
        ext4 = self.kernel.of("ext4", lasting=True)
        return ext4 + self.kernel.of("xfs", where=lambda s: "hutting down" in s.cite.text, lasting=True)

    def seen(self, says: str, witnesses: tuple[Witness, ...]) -> Fact:
        """Whether the kernel printed it."""
        return self.kernel.seen(says, witnesses)

    def tells(self, says: str, witnesses: tuple[Witness, ...]) -> Fact:
        """It likely ended the job."""
        return self.kernel.tells(says, witnesses, self.felt, *IO_KIN)

    def proves(self, says: str, witnesses: tuple[Witness, ...]) -> Fact:
        """It surely ended the job."""
        return self.kernel.proves(says, witnesses, self.felt)

    @once
    def lost_text(self) -> Fact:
        """The program itself says that a parallel file system dropped it."""
        return self.telling.said("the program lost a parallel file system", "lustre_error_text")

    @once
    def evicted_or_said(self) -> Fact:
        """Kernel or program."""
        lines = (*self.evictions, *self.lustre_trouble, *self.hung(nfs=False))
        return any_of(
            "a parallel file system failed", self.seen("the kernel reports trouble of it", lines), self.lost_text
        )


def _path(sign: Sign) -> str:
    """The path that a message names, empty if it names none."""
    found = QUOTED_PATH.search(sign.cite.text)
    return sign.fields.get("path") or (found[1] if found else "")
