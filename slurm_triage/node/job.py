"""One attempt of a job on this node, as this node's own records tell it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """What tickets and task records say; they lie in a folder of root and come from slurmd and slurmstepd.

    `start` and `end` are epochs in whole seconds, None where Slurm did not tell (22.05). `groups` are the supplementary
    groups as slurmctld sent them, None if no task record has them. `array` is (array id, task). Paths are as Slurm has
    them: `stdout` and `stderr` may hold patterns and be relative, and are empty if unknown. `nodes` is the folded list.
    `cgroup` is the name of the job's cgroup folder where that is not `job_<id>`.
    """

    job: str
    node: str
    uid: int
    gid: int
    start: int | None = None
    end: int | None = None
    groups: tuple[int, ...] | None = None
    user: str = ""
    name: str = ""
    array: tuple[str, str] | None = None
    work_dir: str = ""
    stdout: str = ""
    stderr: str = ""
    nodes: str = ""
    batch_host: bool = False
    cgroup: str = ""
