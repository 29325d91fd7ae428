"""Where a job writes its output, and so where its diagnosis goes. Pure: nothing is looked at on disk."""

from __future__ import annotations

from slurm_triage.filename_pattern import fill
from slurm_triage.node.job import Job
from slurm_triage.nodeset import expand as node_names

NOWHERE = "/dev/null"
PATH_LIMIT = 4096
"""Bytes of the longest path that the kernel takes (PATH_MAX)."""

_NO_OUTPUT = frozenset({"none", "null", "(null)", NOWHERE})
_NO_ARRAY_TASK = "4294967294"  # what Slurm prints for %a of a job that is no array


def expand(pattern: str, job: Job) -> str | None:
    """The absolute path that a filename pattern of sbatch stands for, of the job's batch script.

    None where the node does not know it for sure: a letter whose value it does not have, a relative path without a
    work directory, what the releases of Slurm treat differently, nothing at all. No output at all is `/dev/null`.
    """
    if pattern.lower() in _NO_OUTPUT:
        return NOWHERE
    if _is_number(pattern):
        return None
    if "\\" in pattern and not pattern.startswith("/"):
        return None  # some releases put such a name behind the work directory without a slash
    path = fill(pattern, _letters(job))
    return None if path is None else _absolute(path, job)


def directory(job: Job) -> str | None:
    """The directory for the diagnosis: the first of `directories`, None if there is none."""
    return next(iter(directories(job)), None)


def directories(job: Job) -> list[str]:
    """Directories for the diagnosis, the best first: that of stdout, or else of stderr; then the work directory."""
    told = [_directory_of(pattern, job) for pattern in (job.stdout, job.stderr)]
    found = [next((path for path in told if path), None), _usable(job.work_dir)]
    return [path for path in dict.fromkeys(found) if path]


def _directory_of(pattern: str, job: Job) -> str | None:
    path = expand(pattern, job)
    if path is None and "\\" not in pattern and not _is_number(pattern):
        # Letters of the base name do not matter (only a job name with a slash would make directories of it).
        head = fill(pattern[: pattern.rfind("/") + 1], _letters(job))
        path = None if head is None else _absolute(f"{head}-", job)
    if path is None or path.startswith("/dev/"):
        return None
    return path[: path.rindex("/")] or "/"


def _is_number(pattern: str) -> bool:
    """Whether it names the one task that may write, which some releases know, or is nothing at all."""
    return not pattern or (pattern.isascii() and pattern.isdigit())


def _absolute(path: str, job: Job) -> str | None:
    if path.startswith("/"):
        return _usable(path)
    base = _usable(job.work_dir)
    return _usable(f"{base.rstrip('/')}/{path}") if base else None


def _usable(path: str) -> str | None:
    fits = path.startswith("/") and "\0" not in path and len(path.encode("utf-8", "replace")) < PATH_LIMIT
    return path if fits else None


def _letters(job: Job) -> dict[str, str]:
    """What the letters stand for, as far as this node knows."""
    found = {"j": job.job, "J": job.job, "n": "0", "t": "0", "u": job.user, "x": job.name, "N": _batch_host(job)}
    if job.array:
        found.update(A=job.array[0], a=job.array[1], b=str(int(job.array[1]) % 10))
    elif job.name:  # who told the name (task records, EpilogSlurmctld) would have told the array, too
        found.update(A=job.job, a=_NO_ARRAY_TASK, b=_NO_ARRAY_TASK[-1])
    return {letter: value for letter, value in found.items() if value}


def _batch_host(job: Job) -> str:
    """The short name of the host that the batch script ran on."""
    names = node_names(job.nodes) or ()
    host = job.node if job.batch_host else names[0] if names else ""
    return host.partition(".")[0]
