"""The hooks end with 0 whatever surrounds them, and what they keep is whole."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.epilog.conftest import FAILED, HOOKS, Hook

AS_ROOT = os.geteuid() == 0
KIND = {"slurm-triage-epilog": "epilog", "slurm-triage-epilogslurmctld": "epilogslurmctld"}
TRAPPED = (
    *("HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM"),
    *("XCPU", "XFSZ", "VTALRM", "PROF", "SYS"),
)


def variables(content: bytes) -> list[bytes]:
    assert content.endswith(b"\0")
    return content.split(b"\0")


@pytest.mark.parametrize("path", sorted(HOOKS.iterdir()), ids=lambda path: path.name)
def test_they_are_short_and_executable(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 30
    assert path.stat().st_mode & 0o111 and path.read_text().startswith("#!/bin/sh\n")


def test_a_failed_job_is_kept_with_its_environment(hook: Hook) -> None:
    ((path, content),) = hook.run().items()
    assert re.fullmatch(rf"new/77\.1001\.1796051516\.\d+\.{KIND[hook.name]}", path)
    assert {f"{k}={v}".encode() for k, v in FAILED.items()} <= set(variables(content))
    assert (hook.spool / path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "codes",
    [
        {"SLURM_JOB_EXIT_CODE": "0"},
        {"SLURM_JOB_EXIT_CODE": "0", "SLURM_JOB_DERIVED_EC": "0"},
        {},
    ],
)
def test_a_clean_job_leaves_nothing_and_starts_nothing(hook: Hook, codes: dict[str, str]) -> None:
    for tool in ("sleep", "head", "mv", "sync", "rm"):
        hook.replace_tool(tool, f": >{hook.spool}/started")
    assert hook.run({"SLURM_JOB_ID": "77", **codes}) == {}


def test_a_step_that_failed_in_a_job_that_exits_0_is_kept(hook: Hook) -> None:
    assert len(hook.run({**FAILED, "SLURM_JOB_EXIT_CODE": "0", "SLURM_JOB_DERIVED_EC": "137"})) == 1


@pytest.mark.parametrize("key", ["SLURM_JOB_ID", "SLURM_JOB_UID"])
@pytest.mark.parametrize(
    "value", [None, "", "../../etc/x", "7;reboot", "$(reboot)", "7\n8", "-1", "7 8", "*", "a" * 70000]
)
def test_a_job_id_or_uid_that_is_none(hook: Hook, key: str, value: str | None) -> None:
    environment = {k: v for k, v in FAILED.items() if k != key} | ({} if value is None else {key: value})
    assert hook.run(environment) == {}


def test_a_time_that_is_none(hook: Hook) -> None:
    (path,) = hook.run({**FAILED, "SLURM_JOB_END_TIME": "../x"})
    assert path.startswith("new/77.1001.0.")


def test_names_with_newlines_and_quotes_forge_nothing(hook: Hook) -> None:
    name = "a\nSLURM_JOB_UID=0\n'\"`reboot`$(reboot)\\"
    ((_, content),) = hook.run({**FAILED, "SLURM_JOB_NAME": name, "IFS": "0", "ENV": "/nowhere", "CDPATH": "/"}).items()
    found = variables(content)
    assert f"SLURM_JOB_NAME={name}".encode() in found and b"SLURM_JOB_UID=1001" in found
    assert b"SLURM_JOB_UID=0" not in found


def test_no_path_and_an_environment_of_a_mebibyte(hook: Hook) -> None:
    huge = {f"X{number}": "y" * 100_000 for number in range(10)}
    ((_, content),) = hook.run({**FAILED, **huge}).items()
    assert len(content) == 65536


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_standard_streams(hook: Hook, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for number in closed:
            os.close(number)

    process = hook.start(FAILED, close)
    assert process.wait(timeout=30) == 0
    ((_, content),) = hook.files().items()
    assert variables(content)


def test_a_reader_of_its_output_is_not_kept_waiting(hook: Hook) -> None:
    """slurmd reads the output of Epilog until its end: no child may hold it open."""
    hook.replace_tool("head", "exec /usr/bin/sleep 60")
    process = hook.start(FAILED, stdout=subprocess.PIPE)
    began = time.monotonic()
    assert process.stdout is not None and process.stdout.read() == b""
    assert time.monotonic() - began < 1.9
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_no_spool(hook: Hook) -> None:
    shutil.rmtree(hook.spool)
    hook.run()
    assert not hook.spool.exists()


def test_switched_off_by_a_file(hook: Hook) -> None:
    (hook.spool / "disabled").touch()
    assert list(hook.run()) == ["disabled"]


@pytest.mark.parametrize("name", ["slurm-triage-epilog"], indirect=True)
@pytest.mark.skipif(not AS_ROOT, reason="only root can change owners")
def test_a_spool_of_another_user(hook: Hook) -> None:
    os.chown(hook.spool, 1001, 1001)
    assert hook.run() == {}


def test_folders_of_the_spool_missing(hook: Hook) -> None:
    for folder in ("tmp", "new"):
        (hook.spool / folder).rmdir()
    assert hook.run() == {"dropped": b"1"}


def test_a_full_spool_counts_what_is_dropped(hook: Hook) -> None:
    most = 1000 if hook.name == "slurm-triage-epilog" else 5000
    for number in range(most):
        (hook.spool / "new" / f"{number}.{number}.0.1.epilog").touch()
    files = hook.run()
    assert files.pop("dropped") == b"1" and len(files) == most and not any(files.values())


def test_the_jobs_of_one_user_leave_room_for_others(hook: Hook) -> None:
    most = 250 if hook.name == "slurm-triage-epilog" else 1250
    for number in range(most - 1):
        (hook.spool / "new" / f"{number}.1001.0.1.epilog").touch()
    assert len([content for content in hook.run().values() if content]) == 1
    assert hook.run()["dropped"] == b"1"
    files = hook.run({**FAILED, "SLURM_JOB_UID": "1002"})
    assert len([path for path in files if path.startswith("new/77.1002.")]) == 1


def test_a_sync_without_options(hook: Hook) -> None:
    hook.replace_tool("sync", "exit 1")
    assert len(hook.run()) == 1


@pytest.mark.parametrize("missing", [("head",), ("mv",), ("sleep",), ("head", "mv", "sleep", "rm", "sync")])
def test_tools_that_fail(hook: Hook, missing: tuple[str, ...]) -> None:
    for tool in missing:
        hook.replace_tool(tool, "exit 1")
    hook.run()


@pytest.mark.skipif(not AS_ROOT, reason="only root can become a user who may not fork")
def test_no_more_processes_allowed(hook: Hook) -> None:
    def limit() -> None:
        os.setgid(65534)
        os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))

    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101 - a folder that nobody can enter
        hook.script = Path(shutil.copy(hook.script, folder))
        process = hook.start(FAILED, limit, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0, said


def test_file_size_limit(hook: Hook) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    files = hook.run(FAILED, limit)
    assert not any(path.startswith("new/") for path in files)


@pytest.mark.parametrize("name_of_signal", TRAPPED)
def test_a_signal_in_the_middle(hook: Hook, name_of_signal: str) -> None:
    number = getattr(signal, f"SIG{name_of_signal}")
    hook.replace_tool("head", f": >{hook.spool}/started\nexec /usr/bin/sleep 20")
    # Who runs the tests may ignore it (nohup does), and a shell cannot trap what its parent ignores.

    def prepare() -> None:
        signal.signal(number, signal.SIG_DFL)

    process = hook.start(preexec=prepare, stdout=subprocess.DEVNULL)
    try:
        for _ in range(2000):
            if (hook.spool / "started").exists():
                break
            time.sleep(0.001)
        # As slurmd does when the time is over: to the whole process group.
        os.killpg(process.pid, number)
        assert process.wait(timeout=1.5) == 0
    finally:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("way", ["blocked", "ignored"])
def test_signals_blocked_or_ignored_by_the_parent(hook: Hook, way: str, hangs: bool) -> None:
    """slurmctld 22.05 starts EpilogSlurmctld with SIGCHLD and SIGTERM blocked: dash's wait never returns then."""

    def prepare() -> None:
        if way == "blocked":
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        else:
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGALRM, signal.SIGPIPE, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)

    if hangs:
        hook.replace_tool("head", "exec /usr/bin/sleep 20")
    began = time.monotonic()
    process = hook.start(FAILED, prepare)
    assert process.wait(timeout=10) == 0
    assert (time.monotonic() - began > 1.5) == hangs
    assert len(hook.files()) == 1
    if hangs:
        os.killpg(process.pid, signal.SIGKILL)


def test_what_hangs_is_left_alone_after_two_seconds(hook: Hook) -> None:
    hook.replace_tool("head", "exec /usr/bin/sleep 20")
    began = time.monotonic()
    process = hook.start()
    assert process.wait(timeout=10) == 0
    assert 1.5 < time.monotonic() - began < 6
    os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def frozen(hook: Hook, tmp_path: Path) -> Iterator[Path]:
    """A dead disk: a file system on which whoever writes sleeps uninterruptibly, SIGKILL or not."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(1 << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", str(image)], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["mount", "-o", "loop", str(image), str(hook.spool)], check=True)
    hook.spool.chmod(0o700)
    for folder in ("tmp", "new"):
        (hook.spool / folder).mkdir(mode=0o700)
    subprocess.run(["fsfreeze", "-f", str(hook.spool)], check=True)
    yield hook.spool
    subprocess.run(["fsfreeze", "-u", str(hook.spool)], check=True)
    subprocess.run(["umount", "-l", str(hook.spool)], check=True)


@pytest.mark.skipif(not AS_ROOT, reason="only root can mount")
def test_a_dead_disk(hook: Hook, frozen: Path) -> None:
    began = time.monotonic()
    process = hook.start()
    assert process.wait(timeout=20) == 0
    assert 1.5 < time.monotonic() - began < 8 and frozen.is_mount()


@pytest.mark.skipif(not AS_ROOT, reason="only root can mount")
@pytest.mark.parametrize("read_only", [False, True])
def test_a_full_disk_and_a_read_only_one(hook: Hook, read_only: bool) -> None:
    def mount(options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=0700", "tmpfs", str(hook.spool)], check=True)

    mount("size=8k")
    try:
        for folder in ("tmp", "new"):
            (hook.spool / folder).mkdir(mode=0o700)
        (hook.spool / "fill").write_bytes(b"x" * 8192)
        if read_only:
            mount("remount,ro,size=8k")
        files = hook.run()
        # What could not be counted either may leave an empty file.
        assert {path: len(content) for path, content in files.items() if content} == {"fill": 8192}
        assert not any(path.startswith("new/") for path in files)
    finally:
        subprocess.run(["umount", "-l", str(hook.spool)], check=True)


def test_not_executable(hook: Hook) -> None:
    """slurmd cannot run such a file and fails the job's end; an Epilog that calls it in the documented form does not."""
    hook.script.chmod(0o644)
    caller = hook.script.with_name("site-epilog")
    caller.write_text(f'#!/bin/sh\nh={hook.script}\n[ ! -x "$h" ] || "$h" || :\n')
    assert subprocess.run(["sh", str(caller)], env=FAILED, check=False).returncode == 0
    hook.script.chmod(0o755)
    assert subprocess.run(["sh", str(caller)], env=FAILED, check=False).returncode == 0
    assert len(hook.files()) == 1
    hook.script.unlink()
    assert subprocess.run(["sh", str(caller)], env=FAILED, check=False).returncode == 0


def test_many_at_once_and_two_versions_side_by_side(hook: Hook) -> None:
    other = hook.script.with_name("other")
    other.write_text(hook.script.read_text() + "# another version\n")
    running = []
    for number in range(20):
        hook.script, other = other, hook.script
        running.append(hook.start({**FAILED, "SLURM_JOB_ID": str(number)}))
    assert [process.wait(timeout=60) for process in running] == [0] * 20
    files = hook.files()
    assert len(files) == 20 and all(path.startswith("new/") and variables(files[path]) for path in files)
