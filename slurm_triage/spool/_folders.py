"""Folders that nobody else can redirect, and moves between them that never overwrite."""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_WALK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOREPLACE = 1  # RENAME_NOREPLACE of linux/fs.h
_LIBC = ctypes.CDLL(None, use_errno=True)

PLACES = ("/var/spool/slurm-triage", "/var/spool/slurm-triage-ctld", "/run/slurm-triage")
"""Where a spool lies: on a node, on the controller's host, on a node without a disk."""

HOPELESS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What goes wrong with the whole spool or with this process, not with one record."""


class SpoolError(Exception):
    """The spool cannot be used. The message is a sentence: what is wrong, where, and what to do."""


class NoSpool(SpoolError):
    """There is no folder at that path."""


@dataclass(frozen=True)
class Entry:
    """Something in a folder, as lstat(2) saw it."""

    name: str
    stat: os.stat_result

    @property
    def regular(self) -> bool:
        """Whether it is a plain file: no link, folder, pipe, socket or device."""
        return stat.S_ISREG(self.stat.st_mode)


def user(uid: int) -> str:
    """The name of a user, the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"uid {uid}"


def usual_owner(path: str) -> int:
    """The uid that owns the spool at `path`, if nobody has to be asked about it: root, the caller, or the user `slurm`.

    Raises `SpoolError` for any other owner, `NoSpool` when there is nothing.
    """
    try:
        owner = os.lstat(path).st_uid
    except OSError as error:
        raise _refused(path, error) from error
    usual = {0, os.geteuid()}
    with suppress(KeyError):
        usual.add(pwd.getpwnam("slurm").pw_uid)
    if owner not in usual:
        raise SpoolError(f"{path}: belongs to {user(owner)}. If that is the user of its writers, name it with --owner")
    return owner


def open_spool(path: str, owner: int) -> int:
    """A descriptor of the folder at `path`, which is to belong to the uid `owner`.

    Every folder on the way must be one that only root and the owner can change; a sticky one such as /tmp will do.
    Raises `SpoolError`, or `NoSpool` where there is nothing.
    """
    full = path if path.startswith("/") else f"{os.getcwd()}/{path}"  # noqa: PTH109 (a string: the path is walked here)
    names = [name for name in full.split("/") if name not in ("", ".")]
    if ".." in names or not names:
        raise SpoolError(f"{path}: is no path for a spool. Name its folder without '..'")
    at, seen = os.open("/", _WALK), ""
    try:
        for name in names[:-1]:
            _check_way(at, seen or "/", owner)
            below = _enter(at, name, f"{seen}/{name}", _WALK)
            os.close(at)
            at, seen = below, f"{seen}/{name}"
        _check_way(at, seen or "/", owner)
        spool = _enter(at, names[-1], f"{seen}/{names[-1]}", _LIST)
    finally:
        os.close(at)
    return _checked(spool, full, owner)


def open_below(spool: int, name: str, shown: str, owner: int, *, make: bool) -> int | None:
    """A descriptor of a folder of the spool; None if it is missing and not to be made. Raises `SpoolError`."""
    try:
        os.stat(name, dir_fd=spool, follow_symlinks=False)
    except FileNotFoundError:
        if not make:
            return None
        _make(spool, name, shown)
    except OSError as error:
        raise _refused(shown, error) from error
    folder = _enter(spool, name, shown, _LIST)
    if make and os.geteuid() == 0 and os.fstat(folder).st_uid == 0 and owner != 0:
        os.fchown(folder, owner, -1)  # root made it, or was killed before this line
    return _checked(folder, shown, owner)


def _make(spool: int, name: str, shown: str) -> None:
    try:
        with suppress(FileExistsError):  # another reader or a writer was faster
            os.mkdir(name, 0o700, dir_fd=spool)
    except OSError as error:
        raise _refused(shown, error) from error


def _enter(at: int, name: str, shown: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=at)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            link = stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
            what = "a symbolic link, which is not followed" if link else "not a folder"
            raise SpoolError(f"{shown}: is {what}. Name the folder itself") from error
        raise _refused(shown, error) from error


def _refused(shown: str, error: OSError) -> SpoolError:
    """The sentence for a folder that cannot be entered, looked at or made."""
    if error.errno == errno.ENOENT:
        return NoSpool(f"{shown}: there is no such folder")
    if error.errno in (errno.EACCES, errno.EPERM):
        return SpoolError(f"{shown}: permission denied. A spool is read as root or as its owner")
    return SpoolError(f"{shown}: cannot be used: {error.strerror or error}")


def _check_way(folder: int, shown: str, owner: int) -> None:
    found = os.fstat(folder)
    if found.st_uid not in (0, owner):
        raise SpoolError(f"{shown}: belongs to {user(found.st_uid)}, who could put another spool there")
    if found.st_mode & OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        raise SpoolError(f"{shown}: can be changed by its group or by all. Take that away: chmod go-w {shown}")


def _checked(folder: int, shown: str, owner: int) -> int:
    found = os.fstat(folder)
    problem = ""
    if found.st_uid != owner:
        problem = f"belongs to {user(found.st_uid)}, not to {user(owner)}. Make it the owner's: chown {owner} {shown}"
    elif found.st_mode & OTHERS_WRITE:
        problem = f"can be changed by its group or by all. Take that away: chmod go-w {shown}"
    if problem:
        os.close(folder)
        raise SpoolError(f"{shown}: {problem}")
    return folder


def entries(folder: int | None) -> list[Entry]:
    """What lies in a folder (None: nothing). Raises `OSError` when it cannot be listed."""
    found = []
    if folder is not None:
        # A descriptor keeps its place in the list: two readers of one process must not share it.
        again = os.open(".", _LIST, dir_fd=folder)
        try:
            names = os.listdir(again)  # noqa: PTH208 (a descriptor, not a path)
        finally:
            os.close(again)
        for name in names:
            try:
                found.append(Entry(name, os.stat(name, dir_fd=folder, follow_symlinks=False)))
            except FileNotFoundError:  # moved on meanwhile
                continue
    return found


def move(source: int, name: str, target: int, new_name: str) -> None:
    """Renames between two folders of one file system, in one step, never over something that is there.

    renameat2(2): plain rename would overwrite, and link and unlink are two steps, between which a crash leaves the
    record in both folders. Raises `FileExistsError`, `FileNotFoundError` (another was faster) and other `OSError`.
    """
    call = getattr(_LIBC, "renameat2", None)
    code = errno.ENOSYS
    if call is not None:
        if call(source, os.fsencode(name), target, os.fsencode(new_name), _NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):
        raise SpoolError("this file system or C library cannot rename without overwriting (renameat2); use ext4, xfs, "
                         "btrfs or tmpfs, and glibc 2.28 or later")  # fmt: skip
    raise OSError(code, os.strerror(code), name)


def move_to_free(source: int, name: str, target: int, names: Iterable[str]) -> str:
    """Moves to the first of `names` that is free in the target, and returns it. Raises as `move`."""
    for new_name in names:
        try:
            move(source, name, target, new_name)
        except FileExistsError:
            continue
        return new_name
    raise FileExistsError(errno.EEXIST, "no free name is left for it", name)


def replace_file(folder: int, name: str, data: bytes, owner: int) -> None:
    """Writes a small file anew: readers see the old content or the new one. Whoever calls holds the folder's lock."""
    fresh = f"{name}.new"
    with suppress(FileNotFoundError):  # never written into: it could be another name of a file of root's
        os.unlink(fresh, dir_fd=folder)
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        if os.geteuid() == 0 and owner != 0:
            os.fchown(file, owner, -1)  # the owner's own reader must be able to go on with it
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
