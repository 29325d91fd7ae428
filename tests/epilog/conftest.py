"""The two hooks, each under dash and bash, with a spool in a folder of the test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[2] / "epilog"
FAILED = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_EXIT_CODE": "256",
    "SLURM_JOB_UID": "1001",
    "SLURM_JOB_END_TIME": "1796051516",
}
SHELLS = [name for name in ("dash", "bash", "busybox", "mksh", "ksh93") if shutil.which(name)]


@dataclass
class Hook:
    """A hook as it would be installed."""

    name: str
    shell: str
    script: Path
    spool: Path
    tools: Path

    def command(self) -> list[str]:
        """The words that run it."""
        shell = shutil.which(self.shell)
        assert shell
        return [shell, *(["sh"] if self.shell == "busybox" else []), str(self.script)]

    def start(
        self,
        environment: Mapping[str, str] = FAILED,
        preexec: Callable[[], None] | None = None,
        *,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts it in a session of its own, as slurmd does."""
        return subprocess.Popen(
            self.command(),
            env=dict(environment),
            start_new_session=True,
            preexec_fn=preexec,
            stdout=stdout,
            stderr=stderr,
        )

    def run(
        self, environment: Mapping[str, str] = FAILED, preexec: Callable[[], None] | None = None
    ) -> dict[str, bytes]:
        """Runs it to the end; it has to end with 0 and print nothing. The files of the spool."""
        process = self.start(environment, preexec, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, b"")
        return self.files()

    def files(self) -> dict[str, bytes]:
        """All files of the spool by path below it."""
        return {str(p.relative_to(self.spool)): p.read_bytes() for p in sorted(self.spool.rglob("*")) if p.is_file()}

    def replace_tool(self, name: str, body: str) -> None:
        """Another program in the place of a tool."""
        self.tools.mkdir(exist_ok=True)
        (self.tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.tools / name).chmod(0o755)


@pytest.fixture(params=["slurm-triage-epilog", "slurm-triage-epilogslurmctld"])
def name(request: pytest.FixtureRequest) -> str:
    """The file of a hook."""
    return str(request.param)


@pytest.fixture(params=SHELLS)
def hook(request: pytest.FixtureRequest, name: str, tmp_path: Path) -> Hook:
    """A hook under a shell, with an empty spool."""
    spool = tmp_path / "spool"
    for folder in ("", "tmp", "new", "work", "done", "bad"):
        (spool / folder).mkdir(mode=0o700)
    tools = tmp_path / "tools"
    text = (HOOKS / name).read_text()
    lines = [
        f"SPOOL={spool}"
        if line.startswith("SPOOL=")
        else f"PATH={tools}:/usr/bin:/bin"
        if line.startswith("PATH=")
        else line
        for line in text.splitlines()
    ]
    assert lines != text.splitlines()
    script = tmp_path / name
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    return Hook(name, str(request.param), script, spool, tools)
