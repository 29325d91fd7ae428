"""Evidence folders on disk, made of the spool's records: one per attempt of a job, whole or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from slurm_triage.spool import Record, variables
from slurm_triage.spool_evidence import SAME_START, Attempt, attempts, files, names, start_of

_MOST_ATTEMPTS = 10_000


def keep(to: Path, job: str, records: Sequence[Record]) -> list[Path]:
    """Writes the records of one job below `to`; returns the folders, which are on disk for good then.

    The first attempt is `<jobid>`, later ones `<jobid>-2` and so on. What was written before is found again by the
    attempt's start or by equal content, so that records that come late, or a second time after a crash, join their
    attempt. Nothing is overwritten. Raises `OSError`.
    """
    if not records:
        return []
    to.mkdir(mode=0o700, exist_ok=True)
    _check(to)
    found = []
    for attempt in attempts(records):
        wanted = files(attempt.records)
        folder = next(place for place in _places(to, job) if not _exists(place) or _is_home(place, attempt))
        if _exists(folder):
            _join(folder, wanted)
        else:
            _make(folder, wanted)
        found.append(folder)
    return found


def _check(to: Path) -> None:
    """Whoever can rename things in a folder can lead what is written there elsewhere, which root must not be."""
    found = to.stat()
    others = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    if found.st_uid not in (0, os.geteuid()) or others:
        raise PermissionError(errno.EPERM, "another user could redirect what is written there", str(to))


def _places(to: Path, job: str) -> Iterator[Path]:
    yield to / job
    yield from (to / f"{job}-{number}" for number in range(2, _MOST_ATTEMPTS))
    raise FileExistsError(errno.EEXIST, "too many attempts of this job are there", str(to / job))


def _exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _is_home(folder: Path, attempt: Attempt) -> bool:
    """Whether a folder holds this attempt."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    have = [path.read_bytes() for path in folder.iterdir() if _is_evidence(path)]
    if any(record.data in data for record in attempt.records for data in have if record.data):
        return True
    if attempt.start is None:
        return False
    starts = [start_of(variables(data)) for data in have]
    return any(start is not None and abs(start - attempt.start) <= SAME_START for start in starts)


def _is_evidence(path: Path) -> bool:
    return path.suffix == ".txt" and not path.name.startswith(".") and path.is_file() and not path.is_symlink()


def _join(folder: Path, wanted: Mapping[str, bytes]) -> None:
    """Adds to a folder what is not in it yet."""
    have = [path.read_bytes() for path in folder.iterdir() if _is_evidence(path)]
    for name, data in wanted.items():
        if any(data in content for content in have) or (name == "manifest.toml" and (folder / name).exists()):
            continue
        file, fresh = tempfile.mkstemp(dir=folder, prefix=".")
        try:
            _fill(file, data)
            for free in names(name):
                if not _exists(folder / free):
                    Path(fresh).rename(folder / free)
                    break
            else:
                raise FileExistsError(errno.EEXIST, "too many files of this name are there", str(folder / name))
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
    _sync(folder)


def _make(folder: Path, wanted: Mapping[str, bytes]) -> None:
    """A new folder, which gets its name when everything is in it."""
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, data in wanted.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            _fill(os.open(fresh / name, flags, 0o600), data)
        _sync(fresh)
        fresh.rename(folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _sync(folder.parent)


def _fill(file: int, data: bytes) -> None:
    with os.fdopen(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
