"""The units: loaded by systemd, started for what lies in the spool and for nothing else, and no more than they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_triage.node import agent
from slurm_triage.node.config import read

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("slurm-triage*.*"))
AGENTS = {"slurm-triage-agent": "/var/spool/slurm-triage", "slurm-triage-agent-ctld": "/var/spool/slurm-triage-ctld"}


def unit_lines(name: str) -> dict[str, list[str]]:
    """Keys of a unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in (FOLDER / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def systemd() -> str:
    """systemd-analyze; where tests may not be skipped (CI is set) its absence is a failure."""
    program = shutil.which("systemd-analyze")
    if program is None:
        message = "systemd-analyze is missing (Debian: systemd)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return program


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the units, what they start, and the targets of systemd."""
    made = tmp_path_factory.mktemp("root")
    units = made / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for name in UNITS:
        shutil.copy(FOLDER / name, units)
    for target in Path("/usr/lib/systemd/system").glob("*.target"):
        if target.is_file() and not (units / target.name).exists():
            shutil.copy(target, units, follow_symlinks=True)
    for program in ("usr/sbin/slurm-triage-agent", "usr/bin/slurm-triage"):
        (made / program).parent.mkdir(parents=True, exist_ok=True)
        (made / program).write_text("#!/bin/sh\n")
        (made / program).chmod(0o755)
    return made


def complaints(root: Path, name: str) -> list[str]:
    command = [systemd(), "verify", "--man=no", f"--root={root}", name]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr
    return [line for line in said.splitlines() if "slurm-triage" in line]


@pytest.mark.parametrize("name", UNITS)
def test_systemd_loads_it(root: Path, name: str) -> None:
    assert complaints(root, name) == []


def test_a_mistake_would_be_seen(root: Path) -> None:
    name = "slurm-triage-agent-wrong.service"
    text = (FOLDER / "slurm-triage-agent.service").read_text()
    (root / "usr/lib/systemd/system" / name).write_text(text.replace("MemoryMax=", "MemoryMost="))
    assert any("MemoryMost" in line for line in complaints(root, name))


@pytest.mark.parametrize(("name", "most"), [("agent", 4.0), ("agent-ctld", 2.0), (None, 2.5)])
def test_exposure(name: str | None, most: float) -> None:
    file = FOLDER / f"slurm-triage{f'-{name}' if name else ''}.service"
    command = [systemd(), "security", "--offline=true", "--no-pager", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    level = re.search(r"exposure level for .*: ([0-9.]+)", said)
    assert level and float(level[1]) <= most


@pytest.mark.parametrize(("unit", "spool"), AGENTS.items())
def test_what_starts_an_agent_and_what_does_not(unit: str, spool: str) -> None:
    service, path, timer = (unit_lines(f"{unit}.{kind}") for kind in ("service", "path", "timer"))
    assert path["PathChanged"] == [f"{spool}/new"]
    assert not {"DirectoryNotEmpty", "PathExists", "PathExistsGlob"} & path.keys()  # these spin
    folders = [value.partition("|")[2] for value in service["ConditionDirectoryNotEmpty"]]
    assert folders == [f"{spool}/{part}" for part in ("new", "work", "outbox", "targets")]
    assert service["Type"] == ["oneshot"] and "Install" not in (FOLDER / f"{unit}.service").read_text()
    # The usual limit of starts would leave the path unit failed after a burst of bad jobs.
    assert service["StartLimitIntervalSec"] == ["0"]
    # A timer that counts from the service's end stops for good when a start was skipped.
    assert timer["OnCalendar"] and not [key for key in timer if key.startswith("OnUnit")]
    assert timer["RandomizedDelaySec"] and {"Nice", "MemoryMax", "TasksMax", "CPUQuota"} <= service.keys()


def test_the_agent_of_a_node_keeps_what_it_needs() -> None:
    lines = unit_lines("slurm-triage-agent.service")
    assert set(lines["CapabilityBoundingSet"][0].split()) >= {"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SYSLOG"}
    hiding = {"ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectKernelLogs", "PrivateUsers", "ProtectProc", "User"}
    # It reads the kernel log and asks what the clock is worth.
    assert not (hiding | {"ProtectClock", "MemoryDenyWriteExecute"}) & lines.keys()
    assert lines["ProtectSystem"] == ["full"]  # strict would keep users' folders from being written
    assert "/dev/kmsg r" in lines["DeviceAllow"] and "syslog" in lines["SystemCallFilter"][0].split()


@pytest.mark.parametrize(("file", "spool"), [("node", "slurm-triage"), ("controller", "slurm-triage-ctld")])
def test_the_folders_of_tmpfiles_are_those_of_the_spool(file: str, spool: str) -> None:
    lines = (line.split() for line in (FOLDER / f"tmpfiles-{file}.conf").read_text().splitlines() if line[:1] == "d")
    found = {path: (mode, user) for _, path, mode, user, _ in lines}
    owner = "root" if file == "node" else "slurm"
    parts = ("", "/tmp", "/new", "/work", "/done", "/bad", "/outbox", "/targets")
    assert found == {f"/var/spool/{spool}{part}": ("0700", owner) for part in parts}


def test_the_settings_of_the_units_are_the_agents() -> None:
    settings = read((ROOT / "packaging/settings/agent-ctld.toml").read_text(), "x")
    assert (settings.state, settings.spools) == ("/var/spool/slurm-triage-ctld", ("/var/spool/slurm-triage-ctld",))
    node = read((ROOT / "packaging/settings/agent.toml").read_text(), "x")
    assert node.state == "/var/spool/slurm-triage" and agent.OUTBOX
