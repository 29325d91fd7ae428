"""The plugin and a spool that is missing, full, not its own, switched off, or on a file system that may hang."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tests.spank.conftest import MOUNTS, Node

BAD = ("task:status=9", "epilog:job=7")
AS_ROOT = os.geteuid() == 0


def test_missing(node: Node) -> None:
    node.spool.rmdir()
    node.call(*BAD)
    assert not node.spool.exists()


def test_switched_off_by_a_file(node: Node) -> None:
    (node.spool / "disabled").touch()
    node.call(*BAD)
    assert list(node.files()) == ["disabled"]


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_writable_for_others(node: Node, mode: int) -> None:
    node.spool.chmod(mode)
    node.call(*BAD)
    assert node.files() == {}


@pytest.mark.parametrize("name", ["spool", "below"])
def test_a_symbolic_link_is_not_followed(node: Node, name: str) -> None:
    target = node.root / "target"
    target.mkdir(mode=0o700)
    node.spool.rmdir()
    if name == "spool":
        node.spool.symlink_to(target)
    else:
        (node.root / "way").symlink_to(node.root)
        (node.root / "way/spool").mkdir(mode=0o700)
        node.spool = node.root / "way" / "spool"
    node.call(*BAD)
    assert list(target.iterdir()) == [] and list((node.root / name).iterdir() if name == "spool" else []) == []


def test_not_absolute_nor_climbing(node: Node) -> None:
    for path in ("spool", f"{node.root}/cgroup/../spool", f"{node.root}//spool", f"{node.root}/./spool", "/", ""):
        node.call(f"spool={path}", *BAD)
    assert node.files() == {}


def test_above_it_a_folder_that_others_can_write_in(node: Node) -> None:
    node.root.chmod(0o777)
    node.call(*BAD)
    assert node.files() == {}
    node.root.chmod(0o1777)  # like /tmp: there nobody can replace what another owns
    node.call(*BAD)
    assert node.files()


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "lustre", "9p", "autofs", "unheard-of"])
def test_not_on_a_file_system_that_may_hang(node: Node, kind: str) -> None:
    mount = f"99 21 0:50 / {node.spool} rw shared:2 master:1 - {kind} server:/x rw,{'x' * 9000}\n"
    (node.root / "mountinfo").write_text(MOUNTS + mount)
    node.call(*BAD)
    assert node.files() == {}
    # Below another mount with the same beginning of its name, or covered by a local one, it is local.
    (node.root / "mountinfo").write_text(
        MOUNTS + mount.replace(str(node.spool), f"{node.spool}2") + mount + mount.replace(kind, "xfs")
    )
    node.call(*BAD)
    assert node.files()


def test_no_list_of_mounts_is_not_local(node: Node) -> None:
    (node.root / "mountinfo").unlink()
    node.call(*BAD)
    assert node.files() == {}


def test_mount_points_with_spaces(node: Node) -> None:
    node.spool = node.root / "a spool"
    node.spool.mkdir(mode=0o700)
    escaped = str(node.spool).replace(" ", "\\040")
    (node.root / "mountinfo").write_text(MOUNTS + f"99 21 0:50 / {escaped} rw - nfs server:/x rw\n")
    node.call(*BAD)
    assert node.files() == {}


@pytest.mark.skipif(not AS_ROOT, reason="only root can change owners")
def test_of_another_user(node: Node) -> None:
    os.chown(node.spool, 1001, 1001)
    node.call(*BAD)
    assert node.files() == {}


@pytest.mark.skipif(not AS_ROOT, reason="only root can change owners")
def test_forged_task_records_are_not_appended_to(node: Node) -> None:
    (node.spool / "tmp").mkdir(mode=0o700)
    forged = node.spool / "tmp" / "7.tasks"
    forged.write_text("forged\n")
    os.chown(forged, 1001, 1001)
    node.call("task:status=9")
    assert forged.read_text() == "forged\n" and (node.spool / "dropped").read_bytes() == b"1"


@pytest.mark.parametrize("make", ["symlink", "fifo", "folder"])
def test_something_else_in_the_place_of_the_records(node: Node, make: str) -> None:
    (node.spool / "tmp").mkdir(mode=0o700)
    place = node.spool / "tmp" / "7.tasks"
    if make == "symlink":
        (node.root / "victim").write_text("kept\n")
        place.symlink_to(node.root / "victim")
    elif make == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    node.call("task:status=9")
    assert (node.spool / "dropped").read_bytes() == b"1"
    if make == "symlink":
        assert (node.root / "victim").read_text() == "kept\n"


def test_task_records_have_a_limit_and_the_last_quarter_is_for_failed_tasks(node: Node) -> None:
    (node.spool / "tmp").mkdir(mode=0o700)
    records = node.spool / "tmp" / "7.tasks"
    records.write_bytes(b"x" * ((1 << 20) - 100) + b"\n")
    node.call("task:status=9")
    assert (node.spool / "dropped").read_bytes() == b"1"
    records.write_bytes(b"x" * ((1 << 20) // 4 * 3 - 100) + b"\n")
    node.call("task:status=9", "task:rank=1,status=0", "task:rank=2,status=15")
    kept = [line.split(" rank=")[1].split(" ")[0] for line in node.lines() if " rank=" in line]
    assert kept == ["0", "2"] and (node.spool / "dropped").read_bytes() == b"11"
    assert " lost=1\n" in records.read_text()


@pytest.mark.parametrize(
    ("files", "user", "dropped"), [(1000, 0, b"1"), (250, 1001, b"1"), (250, 7, b""), (249, 1001, b"")]
)
def test_new_files_have_a_limit_for_all_and_for_each_user(node: Node, files: int, user: int, dropped: bytes) -> None:
    (node.spool / "new").mkdir(mode=0o700)
    for number in range(files):
        (node.spool / "new" / f"{number}.{user}.1.1.epilog").touch()
    node.call("epilog:job=8", SLURM_JOB_EXIT_CODE="256")
    assert node.files().get("dropped", b"") == dropped
    assert len(list((node.spool / "new").iterdir())) == files + (not dropped)


def test_task_records_that_find_no_room_do_not_stay_behind(node: Node) -> None:
    node.call("task:status=9")
    (node.spool / "new").mkdir(mode=0o700)
    for number in range(1000):
        (node.spool / "new" / f"{number}.1.1.1.epilog").touch()
    node.call("epilog:job=7")
    assert list((node.spool / "tmp").iterdir()) == [] and (node.spool / "dropped").read_bytes() == b"11"


def test_new_files_have_a_limit_in_bytes(node: Node) -> None:
    (node.spool / "new").mkdir(mode=0o700)
    with (node.spool / "new" / "1.1.1.1.tasks").open("wb") as file:
        file.truncate(64 << 20)
    node.call("epilog:job=8", SLURM_JOB_EXIT_CODE="256")
    assert (node.spool / "dropped").read_bytes() == b"1"


def test_who_the_first_record_could_not_be_kept_of_is_said_with_the_next(node: Node) -> None:
    (node.spool / "tmp").mkdir(mode=0o700)
    for number in range(1000):
        (node.spool / "tmp" / f"{number + 100}.tasks").touch()
    node.call("task:status=9")
    assert not (node.spool / "tmp" / "7.tasks").exists()
    driver = [str(node.driver), f"spool={node.spool}", f"cgroup={node.root / 'cgroup'}"]
    calls = ["task:status=9", "pause:600", "task:rank=1,status=15"]
    process = subprocess.Popen([*driver, *calls], cwd=node.root)
    time.sleep(0.3)
    for number in range(1000):
        (node.spool / "tmp" / f"{number + 100}.tasks").unlink()
    assert process.wait() == 0
    assert " step_info " in node.lines()[0] and node.lines()[1].endswith(" clean=0 lost=1")


def test_a_limit_on_file_sizes_does_not_kill_slurmstepd(node: Node) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    command = [str(node.driver), f"spool={node.spool}", *BAD]
    done = subprocess.run(command, cwd=node.root, preexec_fn=limit, stderr=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
    assert not any(node.files().values())


@pytest.mark.skipif(not AS_ROOT, reason="only root can mount")
@pytest.mark.parametrize("options", ["size=40m", "size=64m,nr_inodes=6", "size=4k", "ro"])
def test_full_or_read_only(node: Node, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=0700", "tmpfs", str(node.spool)], check=True)
    try:
        if options == "size=40m":
            (node.spool / "fill").write_bytes(b"x" * (9 << 20))  # some is left, but not for us
        for rank in range(10):
            node.call(f"task:rank={rank},status=9", f"epilog:job={rank + 10}", SLURM_JOB_EXIT_CODE="9")
        kept = [path for path in node.files() if path.startswith(("new/", "tmp/"))]
        assert len(kept) <= (3 if "nr_inodes" in options else 0)
    finally:
        subprocess.run(["umount", str(node.spool)], check=True)


def test_everything_is_for_the_owner_only(node: Node) -> None:
    old = os.umask(0)
    try:
        node.call(*BAD, SLURM_JOB_EXIT_CODE="9")
    finally:
        os.umask(old)
    found = list(node.spool.rglob("*"))
    assert {stat.S_IMODE(p.stat().st_mode) for p in found} == {0o700, 0o600} and len(found) == 4


def test_the_library_exports_its_callbacks_and_no_more(tmp_path: Path, driver: Path) -> None:
    source = Path(__file__).parents[2] / "spank"
    # Against the stand-in header: what the real one adds are constants of its own.
    make = ["make", "-C", str(source), f"BUILD={tmp_path}", "SLURM_INCLUDE=tests", str(tmp_path / "slurm_triage.so")]
    subprocess.run(make, check=True, capture_output=True)
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(tmp_path / "slurm_triage.so")], check=True, capture_output=True, text=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert names == {
        *("plugin_name", "plugin_type", "spank_plugin_version"),
        *("slurm_spank_task_exit", "slurm_spank_job_epilog", "slurm_spank_exit"),
    }
