"""Writing the diagnosis beside the job's output, as the user. docs/explanation/delivery.md has the reasons.

Who the user is and where he writes is this node's own knowledge. The service says what, and gives ids for the name.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_triage import section_file, sections
from slurm_triage.node import as_user, local_place, output_paths
from slurm_triage.node.as_user import AsUserError
from slurm_triage.node.job import Job
from slurm_triage.report import mask
from slurm_triage.sections import Section

TEXT_LIMIT = 256 * 1024
"""Bytes of the longest text that is written; the report's own texts are a few KiB."""

_NAME = re.compile(r"[0-9]{1,10}(_[0-9]{1,10})?\.diagnosis\.txt")
_DONE = b"done"


@dataclass(frozen=True)
class Delivered:
    """What came of it. `written`: the file at `path` says it now, be it that it did before.

    `why` is a sentence: why it was not written, or why not in a better place. Both are for people: a user's paths, in
    which what cannot be seen is made visible.
    """

    path: str
    written: bool
    why: str = ""


def deliver(
    job: Job, name: str, section: Section, seconds: float = 10, *, local_ok: bool = False, first_uid: int | None = None
) -> Delivered:
    """Puts the section into the file `name` of the job's user: beside the output, or else in the work directory.

    `name` is `<job id>.diagnosis.txt`, or has `<array>_<task>` or `<array>` there, and the section is of the same. All
    of it takes no more than about `seconds`. `local_ok`: places of this node's own (/tmp, memory) are as good as
    others. `first_uid` as in `as_user.run`. Never raises; where nothing is written nothing has changed.
    """
    try:
        as_user.check(job, first_uid)
        shown = replace(section, text=_shown(section.text))
        _check_name(job, name, section)
        mounted = None if local_ok else local_place.mounts()
    except AsUserError as error:
        return Delivered("", False, str(error))
    except OSError as error:
        return Delivered("", False, f"this node's mounts cannot be read: {error.strerror or error}")
    places = output_paths.directories(job)
    reasons = [] if places else ["no record of this node says where the job wrote, nor its work directory"]
    deadline = time.monotonic() + seconds
    for index, directory in enumerate(places):
        left = max(0.0, deadline - time.monotonic()) / (len(places) - index)
        try:
            as_user.run(job, _work(job, directory, name, shown, mounted), left, len(_DONE), first_uid)
        except (AsUserError, OSError) as error:
            reasons.append(f"{mask.clean(directory)}: {error}")
        else:
            return Delivered(mask.clean(f"{directory.rstrip('/')}/{name}"), True, "; ".join(reasons))
    return Delivered("", False, "; ".join(reasons))


def _check_name(job: Job, name: str, section: Section) -> None:
    """Raises `AsUserError` unless the file is one of this job's."""
    stem = name[: -len(".diagnosis.txt")]
    known = {job.job} if job.array is None else {job.job, job.array[0], "_".join(job.array)}
    # Without a name nobody has told whether the job is a task of an array; its user it is in any case.
    unknown = job.array is None and not job.name
    if not _NAME.fullmatch(name) or not (stem in known or unknown) or section.job_name != stem:
        raise AsUserError(f"what the service sent is not of this job: {mask.clean(name[:80])}")


def _shown(text: str) -> str:
    """The text without anything that acts on a terminal. Raises `AsUserError` for one that is too long."""
    if len(text) <= TEXT_LIMIT:
        text = "\n".join(mask.clean(line) for line in text.split("\n"))
    if len(text) > TEXT_LIMIT:
        raise AsUserError(f"the text has more than {TEXT_LIMIT} characters")
    return text


# ------------------------------------------------------------------------------------------------ as the user


def _work(
    job: Job, directory: str, name: str, section: Section, mounted: list[tuple[str, str]] | None
) -> Callable[[], bytes]:
    """What the child does."""

    def work() -> bytes:
        # A link on the way is followed: it leads nowhere but where the user could write by himself.
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if mounted is not None:
            real = os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115
            why = local_place.why_local(os.path.normpath(directory), []) or local_place.why_local(real, mounted)
            if why:
                raise AsUserError(f"{why}: the user would not find it there")
        try:
            old = section_file.existing(handle, name, sections.FILE_LIMIT, job.uid)
        except section_file.Refused as error:
            raise AsUserError(str(error)) from error
        data, mode = old if old is not None else (b"", _mode(job, directory))
        new = sections.merge(data, section)
        if old is None or new != data:
            section_file.replace(handle, name, new, mode)
        return _DONE

    return work


def _mode(job: Job, directory: str) -> int:
    """Permission bits of a new file: the output's without the world's and without x, else 0640."""
    output = output_paths.expand(job.stdout, job) or ""
    # Elsewhere it may lie on a file system that hangs.
    if output.rpartition("/")[0].rstrip("/") == directory.rstrip("/"):
        with suppress(OSError, ValueError):
            found = Path(output).stat()
            if stat.S_ISREG(found.st_mode) and found.st_uid == job.uid:
                return found.st_mode & 0o660 | 0o600
    return section_file.NEW_MODE
