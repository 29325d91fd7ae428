"""A cluster of small scripts: sacct, scontrol, sacctmgr, dmesg and journalctl that replay recorded output."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slurm_triage.live import job_output, kernel
from slurm_triage.model import Event

NAMES = ("sacct", "scontrol", "sacctmgr", "dmesg", "journalctl")


@dataclass
class Cluster:
    """Scripts in `root/bin`, the job's files below `root`. `calls` are the command lines that were run."""

    root: Path

    def __post_init__(self) -> None:
        (self.root / "bin").mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            self.script(name, "echo 'not available here' >&2; exit 1")

    def script(self, name: str, body: str) -> None:
        """The command `name`, as the body of a shell script."""
        path = self.root / "bin" / name
        log = shlex.quote(str(self.root / "calls"))
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{log}\n{body}\n', "utf-8")
        path.chmod(0o755)

    def remove(self, name: str) -> None:
        """Take a command away."""
        (self.root / "bin" / name).unlink()

    def answer(self, text: bytes | None) -> str:
        """The lines of a script that prints `text`, or fails as Slurm does for a job that it does not know."""
        if text is None:
            return "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
        path = self.root / f"answer{len(list(self.root.glob('answer*')))}"
        path.write_bytes(text)
        return f"exec /bin/cat {shlex.quote(str(path))}"

    def sacct(self, version: str, table: bytes, document: bytes | None = None) -> None:
        """sacct of a version: the columns of `table`'s header are those that it knows."""
        header = table.split(b"\n", 1)[0].replace(b"|", b" ")
        json = (
            self.answer(document)
            if document is not None
            else "echo \"sacct: unrecognized option '--json'\" >&2; exit 1"
        )
        self.script(
            "sacct",
            f'case " $* " in\n*" --version "*) echo "slurm {version}";;\n*" --helpformat "*) {self.answer(header)};;\n'
            f'*" --json "*) {json};;\n*) {self.answer(table)};;\nesac',
        )

    def scontrol(self, job: bytes | None, config: bytes = b"", partition: bytes = b"") -> None:
        """scontrol that shows a job, the configuration and the partitions."""
        self.script(
            "scontrol",
            f'case "$2" in\njob) {self.answer(job)};;\nconfig) {self.answer(config)};;\n*) {self.answer(partition)};;\nesac',
        )

    @property
    def calls(self) -> list[str]:
        """The command lines that were run, in the order of their start."""
        path = self.root / "calls"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def use(self, patch: pytest.MonkeyPatch, *, own_files: bool = True) -> None:
        """Puts the scripts on PATH, alone. `own_files`: whoever runs the test counts as the job's owner."""
        patch.setenv("PATH", str(self.root / "bin"))
        patch.setenv("TZ", "UTC")
        if own_files:
            found = job_output.outputs

            def owned(events: Sequence[Event]) -> list[job_output.Output]:
                return [replace(output, uid=os.getuid()) for output in found(events)]

            patch.setattr(job_output, "outputs", owned)

    def host(self, patch: pytest.MonkeyPatch, name: str, boot_epoch: float) -> None:
        """This host's name and boot time."""
        patch.setattr("socket.gethostname", lambda: name)
        patch.delenv("SLURMD_NODENAME", raising=False)
        patch.setattr(kernel, "boot_epoch", lambda: boot_epoch)


def replay(files: Mapping[str, bytes], root: Path) -> Cluster:
    """A cluster that answers as the recorded one did for this case (as `tests.corpus.load` gives it)."""
    cluster = Cluster(root)
    shared = str(root / "shared").encode()

    def moved(name: str) -> bytes | None:
        data = files.get(name)
        return None if data is None else re.sub(rb"/shared(?=[/\s|\"])", lambda _: shared, data)

    def of_cluster(name: str) -> bytes:
        return next((d for n, d in files.items() if n.rsplit("/", 1)[-1] == name), b"")

    version = re.search(rb'^slurm = "([\d.]+)"', files["manifest.toml"], re.MULTILINE)
    assert version
    cluster.sacct(version[1].decode(), moved("sacct.psv") or b"", moved("sacct.json"))
    cluster.scontrol(
        moved("scontrol_show_job_final.txt"), of_cluster("scontrol-config.txt"), of_cluster("scontrol-partition.txt")
    )
    cluster.script("sacctmgr", cluster.answer(of_cluster("sacctmgr-qos.psv")))
    if "kmsg.txt" in files:
        cluster.script("dmesg", cluster.answer(files["kmsg.txt"]))
    out = root / "shared" / "out"
    out.mkdir(parents=True)
    job = next(iter(re.findall(rb"^(\d+)\|", files["sacct.psv"], re.MULTILINE)), b"0").decode()
    for name, data in files.items():
        if name == "job.out":
            folder = out if b"/shared/out/" in files["sacct.psv"] else out.parent  # the first set wrote to /shared
            (folder / f"{job}.out").write_bytes(data)
        elif name.startswith("out/") and not name.startswith("out/c1."):
            (root / "shared" / name).write_bytes(data)
    return cluster
