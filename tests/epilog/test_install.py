"""tools/witnesses.sh puts things in place, and does not take away what Slurm still calls."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "spank" / "tests"


def call(target: Path, verb: str, headers: Path = HEADERS) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DESTDIR": str(target), "SLURM_INCLUDE": str(headers)}
    command = [str(ROOT / "tools" / "witnesses.sh"), verb]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_install_and_remove(tmp_path: Path) -> None:
    for _ in range(2):  # again, over what is there
        assert call(tmp_path, "install").returncode == 0
    library = tmp_path / "usr" / "lib" / "slurm-triage"
    names = {path.name: path.stat().st_mode & 0o777 for path in library.iterdir()}
    hooks = ("slurm-triage-epilog", "slurm-triage-epilogslurmctld")
    assert names == dict.fromkeys(("slurm_triage.so", *hooks), 0o755)
    for spool in ("slurm-triage", "slurm-triage-ctld"):
        folders = [tmp_path / "var" / "spool" / spool / name for name in (".", "tmp", "new", "work", "done", "bad")]
        assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    assert call(tmp_path, "remove").returncode == 0
    assert not library.exists() and folders[0].exists()


def test_install_follows_no_link_in_a_spool(tmp_path: Path) -> None:
    """The controller's spool belongs to SlurmUser, who could wait for root to install again."""
    call(tmp_path, "install")
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    spool = tmp_path / "var" / "spool" / "slurm-triage-ctld"
    (spool / "tmp").rmdir()
    (spool / "tmp").symlink_to(victim)
    call(tmp_path, "install")
    assert victim.stat().st_mode & 0o777 == 0o755
    spool.rename(spool.with_name("other"))
    spool.symlink_to(victim)
    done = call(tmp_path, "install")
    assert done.returncode == 1 and "symbolic link" in done.stderr and list(victim.iterdir()) == []


def test_without_headers_the_hooks_alone(tmp_path: Path) -> None:
    done = call(tmp_path, "install", tmp_path)
    assert done.returncode == 0 and "libslurm-dev" in done.stderr
    assert not (tmp_path / "usr/lib/slurm-triage/slurm_triage.so").exists()


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("slurm.conf", "Epilog=/usr/lib/slurm-triage/slurm-triage-epilog"),
        ("slurm.conf", "EpilogSlurmctld = /usr/lib/slurm-triage/slurm-triage-epilogslurmctld # ours"),
        ("plugstack.conf", "optional /usr/lib/slurm-triage/slurm_triage.so spool=/run/x"),
        ("plugstack.conf.d/50-triage.conf", "optional\t/usr/lib/slurm-triage/slurm_triage.so"),
    ],
)
def test_remove_refuses_while_slurm_names_it(tmp_path: Path, file: str, line: str) -> None:
    call(tmp_path, "install")
    conf = tmp_path / "etc" / "slurm" / file
    conf.parent.mkdir(parents=True)
    conf.write_text(f"ClusterName=x\n{line}\n")
    done = call(tmp_path, "remove")
    assert done.returncode == 1 and f"{conf}:2:" in done.stderr
    assert (tmp_path / "usr/lib/slurm-triage/slurm-triage-epilog").exists()
    conf.write_text(f"ClusterName=x\n# {line}\n")
    assert call(tmp_path, "remove").returncode == 0


def test_the_lines_name_what_is_installed(tmp_path: Path) -> None:
    call(tmp_path, "install")
    shown = call(tmp_path, "lines").stdout
    for path in (tmp_path / "usr/lib/slurm-triage").iterdir():
        assert f"/usr/lib/slurm-triage/{path.name}" in shown
    # The form for an Epilog of one's own ends with 0 whatever happens.
    safe = shown.strip().splitlines()[-1]
    assert subprocess.run(["sh", "-e", "-c", safe], check=False).returncode == 0


def test_usage(tmp_path: Path) -> None:
    assert call(tmp_path, "explode").returncode == 1
