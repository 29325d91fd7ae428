"""`slurm-triage doctor` and `install --print`, on hosts made of folders, with commands that answer from files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_triage import cli, doctor, doctor_cli
from slurm_triage.doctor import Finding, Host, Role, State, plugin, plugstack, witnesses
from slurm_triage.history.store import History
from slurm_triage.service.ledger import FILE, Ledger

ROOT = Path(__file__).parents[1]
PLUGIN = "/usr/lib/slurm-triage/slurm_triage.so"
HOOK = "/usr/lib/slurm-triage/slurm-triage-epilog"
CTLD = "/usr/lib/slurm-triage/slurm-triage-epilogslurmctld"
CONFIG = """Configuration data as of 2026-11-30T20:00:00
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = mini
Epilog[0]               = /usr/lib/slurm-triage/slurm-triage-epilog
EpilogMsgTime           = 2000 usec
EpilogSlurmctld[0]      = /usr/lib/slurm-triage/slurm-triage-epilogslurmctld
JobAcctGatherType       = jobacct_gather/cgroup
KillWait                = 30 sec
PlugStackConfig         = /etc/slurm/plugstack.conf
PrivateData             = none
PrologFlags             = Alloc,Contain
SlurmUser               = slurm(64030)
SlurmctldHost[0]        = ctl
SLURM_CONF              = /etc/slurm/slurm.conf
SLURM_VERSION           = 24.11.5
UnkillableStepTimeout   = 60 sec

Slurmctld(primary) at ctl is UP
"""
"""As Slurm 24.11 prints it, with the lines that are read."""
MOUNTS = "21 1 8:1 / / rw - ext4 /dev/vda1 rw\n40 21 0:30 / /run rw - tmpfs tmpfs rw\n"
SLURMD_BEGAN = 1796000000.0
BOOT = 1795000000


class Site:
    """A host in a folder, all as it should be. `answers` are what its commands say: (status, output)."""

    def __init__(self, root: Path, listener: str) -> None:
        self.root, self.bin = root / "root", root / "bin"
        self.bin.mkdir(parents=True)
        self.answer("scontrol", f"case $1 in --version) echo 'slurm 24.11.5';; *) cat {root}/config;; esac")
        self.config = root / "config"
        self.config.write_text(CONFIG)
        self.answer("sacct", "exit 0")
        self.answer("sacctmgr", "echo None")
        self.answer("systemctl", "case $1 in is-enabled) echo enabled;; *) echo active;; esac")
        self.answer("munge", "echo MUNGE:abc:")
        self.answer("unmunge", "exit 0")
        self.answer(
            "chronyc",
            "echo 'A9FEA97B,169.254.169.123,4,1796.1,0.000012,-0.00001,0.00002,-1,0,0.1,0.0004,0.0002,16,Normal'",
        )
        self.answer("dmesg", "exit 0")
        self.write("/proc/self/mountinfo", MOUNTS)
        self.write("/proc/stat", f"cpu 1 2 3\nbtime {BOOT}\n")
        self.slurmd(SLURMD_BEGAN)
        self.write("/etc/slurm/plugstack.conf", f"optional {PLUGIN}\n", SLURMD_BEGAN - 100)
        self.write("/etc/slurm-triage/agent.toml", f'[agent]\nservers = ["{listener}"]\n')
        self.write("/etc/slurm-triage/agent-ctld.toml", f'[agent]\nservers = ["{listener}"]\n')
        for hook in (HOOK, CTLD):
            self.write(hook, "#!/bin/sh\n").chmod(0o755)
        for spool in ("slurm-triage", "slurm-triage-ctld"):
            for part in ("", "tmp", "new", "work", "done", "bad"):
                (self.root / "var/spool" / spool / part).mkdir(mode=0o700, parents=True)
        (self.root / "var/lib/slurm-triage/service").mkdir(parents=True)
        History.open(self.root / "var/lib/slurm-triage/history.sqlite").__exit__(None, None, None)

    def write(self, name: str, text: str | bytes, changed: float | None = None) -> Path:
        """A file of the host."""
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if changed is not None:
            os.utime(path, (changed, changed))
        return path

    def answer(self, name: str, script: str) -> None:
        """What a command does."""
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def set(self, name: str, value: str) -> None:
        """Another value of a setting of Slurm; an empty one takes the line out."""
        kept = [line for line in self.config.read_text().splitlines() if line.split("[")[0].split(" ")[0] != name]
        self.config.write_text("\n".join([*([f"{name} = {value}"] if value else []), *kept]) + "\n")

    def slurmd(self, began: float) -> None:
        """A slurmd that began then."""
        ticks = int((began - BOOT) * os.sysconf("SC_CLK_TCK"))
        self.write("/proc/500/comm", "slurmd\n")
        self.write("/proc/500/stat", f"500 (slurmd) S 1 {'0 ' * 17}{ticks} 0\n")

    def swept(self, at: float | None) -> None:
        """A ledger of the service."""
        self.write(f"/var/lib/slurm-triage/service/{FILE}", Ledger(swept=at).text())

    def found(self, *roles: Role) -> list[Finding]:
        """What the doctor finds."""
        return list(doctor.examine(Host(self.root, roles)))

    def wrong(self, *roles: Role) -> list[tuple[str, str]]:
        """(state, about) of what is not as it should be."""
        return [(finding.state.value, finding.about) for finding in self.found(*roles) if finding.state is not State.OK]


@pytest.fixture(scope="module")
def listener() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A plugin as the compiler makes one, for Slurm 24.11.5."""
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is missing: tools/compiler.sh"
    folder = tmp_path_factory.mktemp("elf")
    source = folder / "plugin.c"
    source.write_text(
        'const char plugin_type[] = "spank";\nconst unsigned int plugin_version = 0x180b05;\nint other = 7;\n'
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "p.so", source], check=True, timeout=60)
    return (folder / "p.so").read_bytes()


@pytest.fixture
def site(tmp_path: Path, listener: str, elf: bytes, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path, listener)
    made.write(PLUGIN, elf)
    made.swept(__import__("time").time())
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    return made


NODE, CONTROLLER, SERVICE = Role.NODE, Role.CONTROLLER, Role.SERVICE
EVERY = (NODE, CONTROLLER, SERVICE)


def test_a_host_as_it_should_be(site: Site) -> None:
    assert site.wrong(*EVERY) == []
    about = {finding.about for finding in site.found(*EVERY)}
    assert about == {
        *("slurm", "accounting", "gathering", "private", "times", "hooks", "plugin", "spool"),
        *("units", "servers", "munge", "clock", "kernel", "history", "sweeps"),
    }  # fmt: skip


def test_what_a_host_is_for_shows(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "c1.example.org")
    assert Host(site.root).roles == {NODE, SERVICE}
    monkeypatch.setattr(socket, "gethostname", lambda: "ctl.example.org")
    assert Host(site.root).roles == {NODE, CONTROLLER, SERVICE}
    shutil.rmtree(site.root / "var")
    shutil.rmtree(site.root / "proc/500")
    assert Host(site.root).roles == {CONTROLLER}


# ------------------------------------------------------------------------------------------------ one thing wrong


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("AccountingStorageType", "(null)", ("bad", "accounting")),
        ("AccountingStorageType", "accounting_storage/none", ("bad", "accounting")),
        ("JobAcctGatherType", "jobacct_gather/none", ("warn", "gathering")),
        ("PrivateData", "jobs,usage", ("bad", "private")),
        ("KillWait", "", ("unknown", "times")),
        ("Epilog", "/opt/site/epilog.sh", ("bad", "hooks")),
        ("Epilog", "/opt/site/epilog.d/*", ("bad", "hooks")),
        ("EpilogSlurmctld", "/opt/site/ctld.sh", ("bad", "hooks")),
        ("EpilogSlurmctld", "(null)", ("warn", "called")),
        ("PrologFlags", "Alloc,Contain,RunInJob", ("bad", "runinjob")),
    ],
)
def test_a_setting_of_slurm(site: Site, setting: str, value: str, expected: tuple[str, str]) -> None:
    site.set(setting, value)
    assert expected in site.wrong(*EVERY)
    assert all(finding.fix for finding in site.found(*EVERY) if finding.state in (State.BAD, State.WARN))


def test_slurm_that_does_not_answer_is_one_finding(site: Site) -> None:
    site.answer(
        "scontrol", "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    )
    wrong = site.found(*EVERY)
    assert [f.about for f in wrong if f.state is State.BAD] == ["slurm"]
    assert "connect failure" in wrong[0].what
    assert ("unknown", "plugin") in site.wrong(*EVERY)  # which Slurm this is cannot be told either


def test_private_data_and_an_operator(site: Site) -> None:
    site.set("PrivateData", "jobs")
    site.answer("sacctmgr", "echo Operator")
    assert site.wrong(*EVERY) == []
    site.answer("sacctmgr", "echo 'Connection refused' >&2; exit 1")
    assert site.wrong(*EVERY) == [("unknown", "private")]


def test_hooks_that_are_there(site: Site) -> None:
    site.set("Epilog", "/opt/site/epilog.d/*")
    site.write("/opt/site/epilog.d/10-own", "#!/bin/sh\n").chmod(0o755)
    assert _hook(site) == ("ok", "another's")
    (site.root / "opt/site/epilog.d/20-triage").symlink_to(site.root / HOOK.lstrip("/"))
    assert _hook(site) == ("ok", "ours")
    site.write("/opt/site/epilog.d/30-plain", "#!/bin/sh\n").chmod(0o644)
    assert _hook(site)[0] == "bad"


def _hook(site: Site) -> tuple[str, str]:
    (finding,) = (f for f in site.found(NODE) if f.about == "hooks")
    return finding.state.value, "ours" if "(ours)" in finding.what else "another's"


def test_a_script_that_calls_ours_is_ours(site: Site) -> None:
    site.set("Epilog", "/opt/site/epilog")
    script = site.write("/opt/site/epilog", f"#!/bin/sh\n# {HOOK}\n")
    script.chmod(0o755)
    assert _hook(site) == ("ok", "another's")
    script.write_text(f"#!/bin/sh\n[ ! -x {HOOK} ] || {HOOK} || :\n")
    assert _hook(site) == ("ok", "ours")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", ("warn", "plugin")),
        (f"# optional {PLUGIN}", ("warn", "plugin")),
        (f"required {PLUGIN}", ("bad", "plugin")),
        ("optional slurm_triage.so", ("bad", "plugin")),
        ("optional /opt/other/slurm_triage.so", ("bad", "plugin")),
        (f"optional {PLUGIN}\noptional {PLUGIN}", ("bad", "plugin")),
        (f"optional {PLUGIN} runinjob", ("warn", "runinjob")),
    ],
)
def test_a_line_of_plugstack(site: Site, line: str, expected: tuple[str, str]) -> None:
    site.write("/etc/slurm/plugstack.conf", line + "\n", SLURMD_BEGAN - 100)
    assert site.wrong(NODE) == [expected]


def test_without_a_plugin_and_an_epilog_nothing_records(site: Site) -> None:
    site.write("/etc/slurm/plugstack.conf", "")
    site.set("Epilog", "(null)")
    assert site.wrong(NODE) == [("bad", "plugin")]


def test_plugstack_includes(site: Site) -> None:
    site.write("/etc/slurm/plugstack.conf", "include plugstack.conf.d/*.conf\ninclude /etc/slurm/plugstack.conf\n", 5.0)
    site.write("/etc/slurm/plugstack.conf.d/a.conf", "optional other.so\n", 5.0)
    site.write("/etc/slurm/plugstack.conf.d/b.conf", f"# x\noptional\t{PLUGIN} spool=/run/slurm-triage\n", 5.0)
    (line,) = plugstack.lines(Host(site.root), "/etc/slurm/plugstack.conf")
    assert (line.where, line.options) == ("/etc/slurm/plugstack.conf.d/b.conf line 2", ("spool=/run/slurm-triage",))
    assert site.wrong(NODE) == [("bad", "spool")]  # that one is not there


def test_slurmd_older_than_the_line(site: Site) -> None:
    site.slurmd(SLURMD_BEGAN - 200)
    assert site.wrong(NODE) == [("warn", "plugin")]


def test_a_plugin_of_another_release(site: Site) -> None:
    site.answer("scontrol", f"case $1 in --version) echo 'slurm-wlm 25.05.1';; *) cat {site.config};; esac")
    (finding,) = (f for f in site.found(NODE) if f.state is State.BAD)
    assert "24.11" in finding.what and "25.05" in finding.what


def test_the_release_is_read_from_the_file(site: Site, elf: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.so"
    file.write_bytes(elf)
    assert plugin.release(file) == (24, 11)
    for damaged in (b"", b"text", elf[:100], elf.replace(b"plugin_version", b"plugin_versiom")):
        file.write_bytes(damaged)
        with pytest.raises(plugin.NoPlugin):
            plugin.release(file)


def test_no_damage_of_a_plugin_raises_anything_else(elf: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.so"
    for at in (0x20, 0x28, 0x30, 0x36, 0x38, 0x3A, 0x3C, 0x3E):
        for value in (0, 1, 255):
            file.write_bytes(elf[:at] + bytes([value, value]) + elf[at + 2 :])
            try:
                plugin.release(file)
            except plugin.NoPlugin:
                continue


# ------------------------------------------------------------------------------------------------ spool


def test_the_spool(site: Site) -> None:
    spool = site.root / "var/spool/slurm-triage"
    (spool / "disabled").touch()
    (spool / "dropped").write_text("111")
    assert site.wrong(NODE) == [("bad", "spool"), ("warn", "spool")]
    assert any("3 records" in finding.what for finding in site.found(NODE))
    shutil.rmtree(spool)
    assert site.wrong(NODE) == [("bad", "spool")]
    spool.symlink_to(site.root / "var/spool/slurm-triage-ctld")
    assert any("symbolic link" in finding.what for finding in site.found(NODE) if finding.state is State.BAD)
    spool.unlink()
    spool.mkdir(mode=0o777)
    spool.chmod(0o777)
    assert any("chmod" in finding.what for finding in site.found(NODE) if finding.state is State.BAD)


@pytest.mark.parametrize(
    ("mount", "kind"),
    [
        ("", "ext4"),
        ("50 21 0:40 / /var rw shared:1 master:2 - nfs4 server:/var rw\n", "nfs4"),
        ("50 21 0:40 / /var/spool/slurm rw - nfs4 server:/x rw\n", "ext4"),
        (
            "50 21 0:40 / /var/spool/slurm-triage rw - nfs4 s:/x rw\n51 50 0:41 / /var/spool/slurm-triage rw - tmpfs t rw\n",
            "tmpfs",
        ),
    ],
)
def test_the_file_system_of_the_spool(site: Site, mount: str, kind: str) -> None:
    site.write("/proc/self/mountinfo", MOUNTS + mount)
    assert witnesses.file_system(Host(site.root), "/var/spool/slurm-triage") == kind
    assert site.wrong(NODE) == ([("bad", "spool")] if kind == "nfs4" else [])


def test_local_is_what_the_plugin_calls_local() -> None:
    source = (ROOT / "spank/local_mount.c").read_text()
    named = source.split("LOCAL[] = {")[1].split("}")[0].replace('"', "").replace(",", " ").split()
    assert set(named) == witnesses.LOCAL


# ------------------------------------------------------------------------------------------------ agent and service


def test_units_that_are_not_at_work(site: Site) -> None:
    site.answer("systemctl", "case $1 in is-enabled) echo disabled; exit 1;; *) echo inactive; exit 3;; esac")
    assert site.wrong(NODE) == [("bad", "units"), ("bad", "units")]
    site.answer("systemctl", "case $1 in is-enabled) echo enabled;; *) echo failed; exit 3;; esac")
    assert all("reset-failed" in f.fix for f in site.found(NODE) if f.state is State.BAD)
    site.answer("systemctl", "echo 'System has not been booted with systemd' >&2; exit 1")
    assert site.wrong(NODE) == [("unknown", "units")]


@pytest.mark.parametrize(
    "text", ["", "[agent]\nservers = []\n", "[agent]\nserver = 1\n", '[agent]\nservers = ["127.0.0.1:1"]\n']
)
def test_no_way_to_the_service(site: Site, text: str) -> None:
    site.write("/etc/slurm-triage/agent.toml", text)
    assert site.wrong(NODE) == [("bad", "servers")]


def test_no_settings_of_the_agent(site: Site) -> None:
    (site.root / "etc/slurm-triage/agent.toml").unlink()
    assert site.wrong(NODE) == [("bad", "servers")]


def test_munge(site: Site) -> None:
    site.answer("unmunge", "echo 'unmunge: Error: Expired credential' >&2; exit 15")
    assert site.wrong(NODE) == [("bad", "munge")]
    listener = (site.root / "etc/slurm-triage/agent.toml").read_text()
    site.write("/etc/slurm-triage/agent.toml", listener + 'auth = "key"\n')
    assert site.wrong(NODE) == []


def test_the_clock(site: Site) -> None:
    site.answer("chronyc", "echo 'A9FEA97B,169.254.169.123,4,1796.1,-200.5,0,0,0,0,0,0,0,16,Normal'")
    assert site.wrong(NODE) == [("bad", "clock")]
    site.answer("chronyc", "echo '506 Cannot talk to daemon'; exit 1")
    site.answer("timedatectl", "echo no")
    assert site.wrong(NODE) == [("warn", "clock")]
    site.answer("timedatectl", "echo 'System has not been booted with systemd' >&2; exit 1")
    assert site.wrong(NODE) == [("unknown", "clock")]


def test_the_kernel_log(site: Site) -> None:
    site.answer("dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    assert site.wrong(NODE) == [("unknown", "kernel")]


def test_the_history(site: Site) -> None:
    history = site.root / "var/lib/slurm-triage/history.sqlite"
    history.write_text("no database, but long enough to be looked at by SQLite" * 50)
    assert site.wrong(SERVICE) == [("bad", "history")]
    history.unlink()
    assert site.wrong(SERVICE) == [("warn", "history")]


@pytest.mark.parametrize(("ago", "state"), [(10, None), (3600, "bad"), (-3600, "bad")])
def test_the_last_sweep(site: Site, ago: float, state: str | None) -> None:
    import time

    site.swept(time.time() - ago)
    assert site.wrong(SERVICE) == ([(state, "sweeps")] if state else [])
    site.swept(None)
    assert site.wrong(SERVICE) == [("bad", "sweeps")]
    site.write(f"/var/lib/slurm-triage/service/{FILE}", "{")
    assert site.wrong(SERVICE) == [("bad", "sweeps")]


def test_wrong_settings_of_the_service(site: Site) -> None:
    site.write("/etc/slurm-triage/service.toml", "[service]\nintervall = 5\n")
    assert site.wrong(SERVICE) == [("bad", "settings")]


# ------------------------------------------------------------------------------------------------ the command


def test_a_check_that_breaks_hides_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(host: Host) -> Iterator[Finding]:
        raise RuntimeError("boom")

    monkeypatch.setattr(doctor, "checks", lambda: [broken, doctor.agent.clock])
    assert [(f.state.value, f.about) for f in site.found(NODE)] == [("unknown", "broken"), ("ok", "clock")]


@pytest.fixture
def here(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr("slurm_triage.doctor.Host", lambda roles=(): Host(site.root, roles))
    return site


def test_exit_status_and_json(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--role", "node", "--json"]) == doctor_cli.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["roles"]) == ("slurm-triage/doctor/1", ["node"])
    assert {one["state"] for one in said["findings"]} == {"ok"}
    here.answer("dmesg", "echo 'Operation not permitted' >&2; exit 1")
    assert cli.main(["doctor", "--role", "node"]) == doctor_cli.UNKNOWN
    assert capsys.readouterr().out.splitlines()[-1] == "nothing to put right, 1 could not be looked at"
    here.set("Epilog", "/nowhere/\x1b[31m")
    assert cli.main(["doctor", "--role", "node"]) == doctor_cli.TO_FIX
    shown = capsys.readouterr().out
    assert "drains the node" in shown and "\x1b" not in shown


# ------------------------------------------------------------------------------------------------ install


def installed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["install", "--print", *words]) == 0
    return capsys.readouterr().out


def test_install_needs_to_be_told_that_it_prints(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install"]) == 2
    assert "--print" in capsys.readouterr().err
    assert cli.main(["install", "--print", "--server", "a b"]) == 2


def test_install_by_tier(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    (here.root / "etc/slurm/plugstack.conf").unlink()
    here.set("EpilogSlurmctld", "(null)")
    two, three, four = (installed(capsys, "--tier", tier, "--server", "triage") for tier in "234")
    assert (
        "systemctl enable --now slurm-triage\n" in two and "listen" not in two and "agent" not in two.split("Then")[0]
    )
    assert f"\noptional {PLUGIN}\n" in three and 'servers = ["triage:6821"]' in three and "Epilog" not in three
    assert f"\nEpilogSlurmctld={CTLD}\n" in four and four.startswith(three.split("# Then")[0])


def test_install_with_a_shared_folder_in_the_place_of_a_port(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    said = installed(capsys, "--server", "dir:/shared/slurm-triage")
    assert '\nfolder = "/shared/slurm-triage"\n' in said and "listen" not in said and "6821" not in said
    assert "\ninstall -d -o slurm-triage -g slurm-triage -m 0711 /shared/slurm-triage\n" in said
    assert said.count('servers = ["dir:/shared/slurm-triage"]') == 2


@pytest.mark.parametrize("word", ["dir:shared", "dir:/a b", 'dir:/a"', "dir:/a\nb", "a b"])
def test_install_takes_no_other_word_for_a_server(here: Site, capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert cli.main(["install", "--print", "--server", word]) == 2
    assert "neither a name of a host nor dir:/PATH" in capsys.readouterr().err


def test_install_finds_what_is_there(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    said = installed(capsys)
    assert "is there already: /etc/slurm/plugstack.conf line 1" in said and f"\noptional {PLUGIN}" not in said
    assert f"is there already: EpilogSlurmctld={CTLD}" in said and f"\nEpilogSlurmctld={CTLD}" not in said


def test_install_chains_what_a_site_has(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    here.set("EpilogSlurmctld", "/opt/site/ctld.sh")
    said = installed(capsys)
    assert f"\n[ ! -x {CTLD} ] || {CTLD} || :\n" in said and f"\nEpilogSlurmctld={CTLD}" not in said
    here.set("EpilogSlurmctld", "/opt/site/ctld.d/*")
    assert f"\nln -s {CTLD} /opt/site/ctld.d/slurm-triage-epilogslurmctld\n" in installed(capsys)


def test_install_knows_the_site(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    (here.root / "etc/slurm/plugstack.conf").unlink()
    here.set("PrologFlags", "Alloc,RunInJob")
    here.set("PrivateData", "jobs")
    here.set("SlurmUser", "batch(77)")
    said = installed(capsys)
    assert f"\noptional {PLUGIN} runinjob\n" in said and "adminlevel=operator" in said
    assert 'slurm_user = "batch"' in said and "User=batch" in said


def test_install_without_slurm_says_so(here: Site, capsys: pytest.CaptureFixture[str]) -> None:
    here.answer("scontrol", "exit 1")
    assert "Slurm did not answer" in installed(capsys).splitlines()[0]


def test_what_install_prints_of_settings_is_read_by_the_agent_and_the_service(
    here: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    from slurm_triage.node import config as node
    from slurm_triage.service import config as service

    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    blocks = installed(capsys, "--server", "triage").split("\n# /etc/slurm-triage/")[1:]
    files = {block.split("\n")[0]: "\n".join(_settings_of(block)) for block in blocks}
    assert service.read(tomllib.loads(files["service.toml"]), "x").listen == ":6821"
    assert node.read(files["agent.toml"], "x").servers == ("triage:6821",)
    controller = node.read(files["agent-ctld.toml"], "x")
    assert (controller.state, controller.files) == ("/var/spool/slurm-triage-ctld", False)
    for name in files:
        example = (ROOT / "packaging/settings" / name).read_text()
        if name == "service.toml":
            service.read(tomllib.loads(example), "x")
        else:
            node.read(example, "x")


def _settings_of(block: str) -> Iterator[str]:
    for line in block.split("\n")[1:]:
        if not line.startswith("[") and " = " not in line:
            return
        yield line
