"""Builds the plugin's driver once, and lays out the places that a slurmstepd sees."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "spank"
MOUNTS = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin with AddressSanitizer and UndefinedBehaviorSanitizer, behind spank/tests/driver.c."""
    target = tmp_path_factory.mktemp("spank") / "driver"
    made = subprocess.run(
        ["make", "-C", str(SOURCE), f"BUILD={target.parent}", str(target)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, f"the plugin does not build (is a C compiler there?):\n{made.stderr}"
    return target


class Node:
    """A compute node as the plugin sees it: folder, spool, cgroups."""

    def __init__(self, root: Path, driver: Path) -> None:
        self.root = root
        self.driver = driver
        self.spool = root / "spool"
        self.spool.mkdir(mode=0o700)
        self.spool.chmod(0o700)
        (root / "mountinfo").write_text(MOUNTS)
        self.cgroup_v2(7, "0", {0: 0})

    def cgroup_v2(self, job: int, step: str, kills: Mapping[int, int], *, hit: int = 0, name: str = "") -> None:
        """Cgroups of version 2: OOM kills by rank; `hit` is how often the job reached its limit; `name` is its folder's."""
        base = self.root / "cgroup" / "system.slice" / "slurmstepd.scope"
        top = name or f"job_{job}"
        names = {top: (sum(kills.values()), hit), f"{top}/step_{step}": (sum(kills.values()), 0)}
        names |= {f"{top}/step_{step}/user/task_{rank}": (kill, 0) for rank, kill in kills.items()}
        for path, (kill, limit) in names.items():
            folder = base / path
            folder.mkdir(parents=True, exist_ok=True)
            local = kill if "task" in path else 0
            for file, oom_kill in (("memory.events", kill), ("memory.events.local", local)):
                (folder / file).write_text(
                    f"low 0\nhigh 0\nmax {limit}\noom {limit}\noom_kill {oom_kill}\noom_group_kill 0\n"
                )
            (folder / "memory.peak").write_text("83886080\n")
            (folder / "memory.max").write_text("83886080\n" if path == top else "max\n")
            (folder / "memory.swap.max").write_text("max\n")
            (folder / "memory.swap.events").write_text("high 0\nmax 0\nfail 0\n")
        where = f"0::/system.slice/slurmstepd.scope/{top}/step_{step}/slurm\n"
        (self.root / "self_cgroup").write_text(where)

    def cgroup_v1(self, job: int, step: str, kills: Mapping[int, int]) -> None:
        """Cgroups of version 1: OOM kills by rank, which count in the task's own folder only."""
        base = self.root / "cgroup" / "memory" / "slurm" / "uid_1001" / f"job_{job}"
        for folder in (base, base / f"step_{step}", *(base / f"step_{step}" / f"task_{rank}" for rank in kills)):
            folder.mkdir(parents=True, exist_ok=True)
            rank = folder.name.removeprefix("task_")
            count = kills.get(int(rank), 0) if rank.isdigit() else 0
            (folder / "memory.failcnt").write_text("0\n")
            (folder / "memory.max_usage_in_bytes").write_text("83886080\n")
            (folder / "memory.limit_in_bytes").write_text("83886080\n")
            (folder / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {count}\n")
        path = f"/slurm/uid_1001/job_{job}/step_{step}"
        (self.root / "self_cgroup").write_text(f"9:cpu,cpuacct:/\n4:memory:{path}\n1:name=systemd:/init.scope\n0::/\n")

    def call(self, *calls: str, **environment: str) -> str:
        """Calls the plugin in a process of its own; what the driver printed. Fails for a crash or another return than 0."""
        command = [str(self.driver), f"spool={self.spool}", f"cgroup={self.root / 'cgroup'}", *calls]
        env = {"ASAN_OPTIONS": "detect_leaks=0", **environment}
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        assert done.stderr == b"", done.stderr  # slurmstepd's standard error is the user's
        return done.stdout.decode()

    def files(self) -> dict[str, bytes]:
        """All files of the spool by path below it."""
        paths = sorted(p for p in self.spool.rglob("*") if p.is_file() or p.is_symlink())
        return {str(p.relative_to(self.spool)): b"" if p.is_symlink() else p.read_bytes() for p in paths}

    def lines(self, job: int = 7) -> list[str]:
        """The task records of a job that still runs.

        There can be empty lines: who appends while another's record of several pages is being written sees no newline
        at the end, and begins with one.
        """
        return [line for line in (self.spool / "tmp" / f"{job}.tasks").read_text().splitlines() if line]


@pytest.fixture
def node(tmp_path: Path, driver: Path) -> Node:
    """A node with an empty spool and a job 7 of one task on cgroup v2."""
    # Above the spool nothing may be writable for others, and it is the superuser who runs the tests in CI.
    tmp_path.chmod(0o755)
    return Node(tmp_path, driver)
