"""The file beside the job's output, written as the user: where, with which rights, and against whom."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_triage.node import as_user, local_place
from slurm_triage.node.deliver import TEXT_LIMIT, Delivered, deliver
from slurm_triage.node.job import Job
from slurm_triage.sections import Section
from tests.node.conftest import belongs
from tests.node.fuse import hanging

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

ADA, BOB = 1001, 1002
NAME = "1119.diagnosis.txt"
SECTION = Section("1119", "mini", "2026-11-30T15:10:55Z", "2026-11-30T15:10:56Z", "first\nend\n")
MARK = (
    "==== slurm-triage 1: cluster=mini job=1119 submit=2026-11-30T15:10:55Z start=2026-11-30T15:10:56Z lines=2 ====\n"
)


@pytest.fixture
def out(place: Path) -> Path:
    """Ada's folder with the job's output."""
    (place / "out").mkdir()
    belongs(place / "out", ADA, mode=0o700)
    (place / "out" / "1119.out").write_text("output\n")
    belongs(place / "out" / "1119.out", ADA, mode=0o644)
    return place / "out"


@pytest.fixture
def home(place: Path) -> Path:
    """Ada's work directory."""
    (place / "home").mkdir()
    return belongs(place / "home", ADA, mode=0o700)


@pytest.fixture
def job(out: Path, home: Path) -> Job:
    return Job("1119", "c1", ADA, ADA, groups=(ADA,), work_dir=str(home), stdout=f"{out}/%j.out")


def put(job: Job, section: Section = SECTION, name: str = NAME, seconds: float = 5) -> Delivered:
    return deliver(job, name, section, seconds, local_ok=True, first_uid=1000)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------------------ the file


def test_the_users_own_file_beside_the_output(job: Job, out: Path, home: Path) -> None:
    assert put(job) == Delivered(f"{out}/{NAME}", True)
    found = (out / NAME).stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (ADA, ADA, 0o640)
    assert (out / NAME).read_text() == MARK + "first\nend\n"
    assert names(out) == [NAME, "1119.out"] and names(home) == []


def test_the_same_text_again_changes_nothing(job: Job, out: Path) -> None:
    put(job)
    before = (out / NAME).stat()
    assert put(job) == Delivered(f"{out}/{NAME}", True)
    after = (out / NAME).stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_ino,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )


def test_another_attempt_joins_and_a_changed_verdict_replaces(job: Job, out: Path) -> None:
    put(job, replace(SECTION, start="2026-11-30T16:00:00Z", text="second\n"))
    put(job)
    put(job, replace(SECTION, text="amended\nend\n"))
    lines = (out / NAME).read_text().splitlines()
    assert [lines[0] + "\n", *lines[1:3], lines[4]] == [MARK, "amended", "end", "second"]


@pytest.mark.parametrize(
    ("mode", "becomes"),
    [(0o600, 0o600), (0o644, 0o640), (0o664, 0o660), (0o777, 0o660), (0o440, 0o640), (0o6755, 0o640)],
)
def test_who_may_read_the_output_may_read_the_diagnosis(job: Job, out: Path, mode: int, becomes: int) -> None:
    (out / "1119.out").chmod(mode)
    put(job)
    assert stat.S_IMODE((out / NAME).stat().st_mode) == becomes


def test_the_mode_without_an_output_and_of_a_file_that_is_there(job: Job, out: Path) -> None:
    (out / "1119.out").unlink()
    put(job)
    assert stat.S_IMODE((out / NAME).stat().st_mode) == 0o640
    (out / NAME).chmod(0o604)
    put(job, replace(SECTION, text="new\nend\n"))
    assert stat.S_IMODE((out / NAME).stat().st_mode) == 0o604
    assert "new\n" in (out / NAME).read_text()


def test_the_output_of_somebody_else_does_not_open_the_diagnosis(job: Job, out: Path) -> None:
    belongs(out / "1119.out", BOB, mode=0o666)
    put(job)
    assert stat.S_IMODE((out / NAME).stat().st_mode) == 0o640


def test_the_folder_gives_the_group(job: Job, out: Path) -> None:
    belongs(out, ADA, 2000, 0o2770)
    put(replace(job, groups=(ADA, 2000)))
    assert (out / NAME).stat().st_gid == 2000


def test_a_folder_of_the_users_group(job: Job, out: Path, home: Path) -> None:
    belongs(out, 0, 2000, 0o770)
    assert put(replace(job, groups=(ADA, 2000))).path == f"{out}/{NAME}"
    assert put(job) == Delivered(f"{home}/{NAME}", True, f"{out}: Permission denied")


def test_what_a_user_wrote_into_the_file_stays(job: Job, out: Path) -> None:
    (out / NAME).write_bytes(b"my notes \xff\n")
    belongs(out / NAME, ADA)
    put(job)
    assert (out / NAME).read_bytes() == b"my notes \xff\n" + MARK.encode() + b"first\nend\n"


# ------------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("name", "known", "ok"),
    [
        ("1119.diagnosis.txt", {}, True),
        ("1119.diagnosis.txt", {"array": ("1117", "2"), "name": "fit"}, True),
        ("1117_2.diagnosis.txt", {"array": ("1117", "2"), "name": "fit"}, True),
        ("1117.diagnosis.txt", {"array": ("1117", "2"), "name": "fit"}, True),
        ("1117_3.diagnosis.txt", {"array": ("1117", "2"), "name": "fit"}, False),
        ("1118_2.diagnosis.txt", {"array": ("1117", "2")}, False),
        ("1117_2.diagnosis.txt", {}, True),  # no task record: the node does not know of which array it is
        ("1117_2.diagnosis.txt", {"name": "fit"}, False),  # it does, and it is of none
        ("1117.diagnosis.txt", {}, True),
        ("1117.diagnosis.txt", {"name": "fit"}, False),
        ("1120.diagnosis.txt", {"name": "fit"}, False),
        ("../x", {}, False),
        ("/etc/passwd", {}, False),
        ("../1119.diagnosis.txt", {}, False),
        ("1119.diagnosis.txt/x", {}, False),
        ("1119.diagnosis.txt\n", {}, False),
        ("1119.diagnosis.txt\0", {}, False),
        (".bashrc", {}, False),
        ("x1119.diagnosis.txt", {}, False),
        ("1119_.diagnosis.txt", {}, False),
        ("1119_1_2.diagnosis.txt", {}, False),
        ("١١١٩.diagnosis.txt", {}, False),
        ("", {}, False),
    ],
)
def test_only_a_file_of_this_job(
    job: Job, out: Path, home: Path, name: str, known: dict[str, object], ok: bool
) -> None:
    job = replace(job, **known)  # type: ignore[arg-type]
    came = put(job, replace(SECTION, job_name=name.removesuffix(".diagnosis.txt")), name)
    assert came.written == ok
    assert [path.name for path in out.iterdir() if path.name != "1119.out"] == ([name] if ok else [])
    if not ok:
        assert came.why.startswith("what the service sent is not of this job: ") and "\n" not in came.why
        assert names(home) == []


def test_a_section_of_another_job(job: Job, out: Path) -> None:
    assert put(job, replace(SECTION, job_name="1120")).why == f"what the service sent is not of this job: {NAME}"
    assert names(out) == ["1119.out"]


# ------------------------------------------------------------------------------------------------ texts


def test_a_text_acts_on_no_terminal_and_forges_no_section(job: Job, out: Path) -> None:
    evil = "a\x1b[2J\x1b]0;title\x07\r\x9b31m\u202eb\x00c\x85d\u2028e\n" + MARK + "forged\nend\n==== x\n\ud800"
    put(job, replace(SECTION, text=evil))
    data = (out / NAME).read_bytes()
    lines = data.decode("utf-8").split("\n")
    assert lines[1] == r"a\x1b[2J\x1b]0;title\x07\x0d\x9b31m\u202eb\x00c\x85d\u2028e"
    assert sum(line.startswith("====") for line in lines) == 1 and f" {MARK}" in data.decode()
    assert all(byte == 10 or byte >= 32 for byte in data)
    put(job)
    assert (out / NAME).read_text() == MARK + "first\nend\n"


def test_a_huge_text_is_refused(job: Job, out: Path, home: Path) -> None:
    for text in ("x" * (TEXT_LIMIT + 1), "\n" * (1 << 24), "\x1b" * (TEXT_LIMIT - 1)):
        assert put(job, replace(SECTION, text=text)).why == f"the text has more than {TEXT_LIMIT} characters"
    assert names(out) == ["1119.out"] and names(home) == []
    assert put(job, replace(SECTION, text="x" * TEXT_LIMIT)).written


def test_the_file_stays_small(job: Job, out: Path) -> None:
    for minute in range(8):
        put(job, replace(SECTION, start=f"2026-11-30T15:{minute:02}:00Z", text="x" * TEXT_LIMIT))
    assert 1 << 19 < (out / NAME).stat().st_size < (1 << 20) + 1000
    assert b"5 older section(s) dropped" in (out / NAME).read_bytes()[:100]


# ------------------------------------------------------------------------------------------------ attacks


def test_a_symbolic_link_in_the_place_of_the_file(job: Job, place: Path, out: Path, home: Path) -> None:
    victim = place / "victim"
    victim.write_text("precious\n")
    victim.chmod(0o666)
    (out / NAME).symlink_to(victim)
    came = put(job)
    assert came.path == f"{home}/{NAME}" and f"{NAME} is there and cannot be read" in came.why
    assert victim.read_text() == "precious\n" and (out / NAME).is_symlink()


def test_a_hard_link_to_a_file_of_the_user(job: Job, place: Path, out: Path, home: Path) -> None:
    (home / "notes").write_text("mine\n")
    belongs(home / "notes", ADA)
    os.link(home / "notes", out / NAME)
    assert "has another name, too (hard link)" in put(job).why
    assert (home / "notes").read_text() == "mine\n" == (out / NAME).read_text()


def test_a_file_of_somebody_else(job: Job, out: Path, home: Path) -> None:
    """A shared folder in which Bob was faster."""
    belongs(out, 0, mode=0o777)
    (out / NAME).write_text("Bob was here\n")
    belongs(out / NAME, BOB, mode=0o666)
    came = put(job)
    assert came.path == f"{home}/{NAME}" and "belongs to uid 1002, not to the job's user" in came.why
    assert (out / NAME).read_text() == "Bob was here\n"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file(job: Job, out: Path, home: Path, make: object) -> None:
    assert callable(make)
    make(out / NAME)
    belongs(out / NAME, ADA)
    begun = time.monotonic()
    came = put(job)
    assert came.path == f"{home}/{NAME}" and "is not a regular file" in came.why
    assert time.monotonic() - begun < 2 and names(out) == [NAME, "1119.out"]


def test_a_fifo_in_the_place_of_the_output(job: Job, out: Path) -> None:
    (out / "1119.out").unlink()
    os.mkfifo(out / "1119.out")
    belongs(out / "1119.out", ADA)
    assert put(job, seconds=2).path == f"{out}/{NAME}"
    assert put(replace(job, stdout=f"{out}/1119.out/x", work_dir="")).why == f"{out}/1119.out: Not a directory"


def test_a_folder_of_somebody_else(job: Job, place: Path, home: Path) -> None:
    (place / "bob").mkdir()
    belongs(place / "bob", BOB, mode=0o755)
    (place / "root").mkdir(mode=0o755)
    for other in ("bob", "root", "bob/../root"):
        came = put(replace(job, stdout=f"{place}/{other}/%j.out"))
        assert came == Delivered(f"{home}/{NAME}", True, f"{place}/{other}: Permission denied")
    assert names(place / "bob") == [] == names(place / "root")
    alone = put(replace(job, stdout=f"{place}/bob/%j.out", work_dir=str(place / "root")))
    assert alone == Delivered("", False, f"{place}/bob: Permission denied; {place}/root: Permission denied")


def test_a_folder_that_is_a_link(job: Job, place: Path, out: Path, home: Path) -> None:
    """The user's own link is followed; one that leads to a folder of root's leads nowhere."""
    (home / "link").symlink_to(out)
    assert put(replace(job, stdout=f"{home}/link/%j.out")).path == f"{home}/link/{NAME}"
    assert names(out) == [NAME, "1119.out"]
    (place / "root").mkdir(mode=0o755)
    (home / "link").unlink()
    (home / "link").symlink_to(place / "root")
    came = put(replace(job, stdout=f"{home}/link/%j.out"))
    assert came.path == f"{home}/{NAME}" and "Permission denied" in came.why and names(place / "root") == []


def test_a_folder_that_changes_all_the_time(job: Job, place: Path, home: Path) -> None:
    """A link that is swapped between Ada's folder and one of root: nothing of root's is ever written or replaced."""
    (place / "root").mkdir(mode=0o755)
    (place / "root" / NAME).write_text("root's\n")
    (home / "a").mkdir()
    belongs(home / "a", ADA)
    swap = 'i=0; while :; do ln -sfn "$1/a" "$1/swap.$i"; mv -T "$1/swap.$i" "$1/d"; ln -sfn "$2" "$1/swap.$i"; mv -T "$1/swap.$i" "$1/d"; done'
    swapper = subprocess.Popen(["sh", "-c", swap, "sh", str(home), str(place / "root")])
    try:
        came = [
            put(replace(job, stdout=f"{home}/d/%j.out"), replace(SECTION, text=f"{number}\nend\n"))
            for number in range(40)
        ]
    finally:
        swapper.kill()
        swapper.wait()
    assert all(one.written for one in came)
    assert names(place / "root") == [NAME] and (place / "root" / NAME).read_text() == "root's\n"


def test_patterns_and_job_names(job: Job, place: Path, out: Path, home: Path) -> None:
    (home / "a\nb").mkdir()
    belongs(home / "a\nb", ADA)
    came = put(replace(job, name="a\nb", stdout=f"{home}/%x/%j.out"))
    assert came == Delivered(rf"{home}/a\x0ab/{NAME}", True) and (home / "a\nb" / NAME).exists()
    came = put(replace(job, name="../../../etc/x", stdout=f"{home}/%x/%j.out"))
    assert came.path == f"{home}/{NAME}" and "/etc/x: No such file or directory" in came.why
    came = put(replace(job, name="../../../../../../etc/x", stdout=f"{home}/%x.out"))
    assert came.path == f"{home}/{NAME}" and came.why.endswith("/etc: Permission denied")
    assert put(replace(job, stdout=f"{home}/\udcff\ud800/%j.out")).path == f"{home}/{NAME}"


def test_whose_file_it_is_never(job: Job, out: Path) -> None:
    assert "nothing is done as root" in put(replace(job, uid=0, gid=0)).why
    assert put(replace(job, uid=999)).why == "uid 999 is a system user's"
    assert put(replace(job, uid=-1, gid=-1)).why == "uid -1, gid -1: not the ids of a user"
    assert names(out) == ["1119.out"]


# ------------------------------------------------------------------------------------------------ places


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    (place / "disk").mkdir()
    options = f"size=64k,uid={ADA},mode=0700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "test", place / "disk"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield place / "disk"
    finally:
        subprocess.run(["umount", "-l", place / "disk"], check=True)


def test_a_full_file_system(job: Job, small_disk: Path, home: Path) -> None:
    (small_disk / "fill").write_bytes(bytes(56 * 1024))
    came = put(replace(job, stdout=f"{small_disk}/%j.out"), replace(SECTION, text="x" * 16_000))
    assert came == Delivered(f"{home}/{NAME}", True, f"{small_disk}: No space left on device")
    assert names(small_disk) == ["fill"]


def test_a_full_file_system_keeps_the_old_file(job: Job, small_disk: Path) -> None:
    put(replace(job, stdout=f"{small_disk}/%j.out"))
    (small_disk / "fill").write_bytes(bytes(48 * 1024))
    came = put(replace(job, stdout=f"{small_disk}/%j.out", work_dir=""), replace(SECTION, text="x" * 30_000))
    assert came == Delivered("", False, f"{small_disk}: No space left on device")
    assert (small_disk / NAME).read_text() == MARK + "first\nend\n" and names(small_disk) == [NAME, "fill"]


def test_a_read_only_file_system(job: Job, small_disk: Path, home: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    came = put(replace(job, stdout=f"{small_disk}/%j.out"))
    assert came == Delivered(f"{home}/{NAME}", True, f"{small_disk}: Read-only file system")


def test_a_place_that_is_gone(job: Job, place: Path, home: Path) -> None:
    gone = replace(job, stdout=f"{place}/gone/%j.out")
    assert put(gone) == Delivered(f"{home}/{NAME}", True, f"{place}/gone: No such file or directory")
    home.rename(place / "moved")
    assert put(gone).why == f"{place}/gone: No such file or directory; {home}: No such file or directory"
    assert put(replace(job, stdout="", work_dir="")).why.startswith("no record of this node says where the job wrote")


def test_a_file_system_that_hangs(job: Job, place: Path, home: Path) -> None:
    (place / "mnt").mkdir()
    with hanging(place / "mnt"):
        begun = time.monotonic()
        came = put(replace(job, stdout=f"{place}/mnt/%j.out"), seconds=1)
        assert time.monotonic() - begun < 1.5
    reason = f"{place}/mnt: no answer within 0.5 seconds: the file system hangs or is very slow"
    assert came == Delivered(f"{home}/{NAME}", True, reason) and as_user.left_behind() == 0


def test_both_hang(job: Job, place: Path) -> None:
    (place / "mnt").mkdir()
    with hanging(place / "mnt"):
        begun = time.monotonic()
        came = put(replace(job, stdout=f"{place}/mnt/%j.out", work_dir=f"{place}/mnt/home"), seconds=0.6)
        assert not came.written and came.why.count("the file system hangs") == 2
        assert time.monotonic() - begun < 2


def test_a_nodes_own_places_are_no_place(job: Job, out: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came = deliver(job, NAME, SECTION, 5)
    assert not came.written and came.why.count("/tmp is this node's own: the user would not find it there") == 2
    monkeypatch.setattr(local_place, "PLACES", ())
    monkeypatch.setattr(local_place, "mounts", lambda: [("/", "ext4"), (str(out), "tmpfs")])
    came = deliver(job, NAME, SECTION, 5)
    assert came.path == f"{home}/{NAME}"
    assert came.why == f"{out}: it is in this node's memory (tmpfs): the user would not find it there"
    (home / "link").symlink_to(out)
    came = deliver(replace(job, stdout=f"{home}/link/%j.out"), NAME, SECTION, 5)
    assert came.path == f"{home}/{NAME}" and "it is in this node's memory (tmpfs)" in came.why
    assert names(out) == ["1119.out"]


def test_mounts_that_cannot_be_read(job: Job, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> list[tuple[str, str]]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(local_place, "mounts", fails)
    assert deliver(job, NAME, SECTION, 5).why == "this node's mounts cannot be read: Permission denied"
    assert names(out) == ["1119.out"]


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/tmp", True), ("/tmp/x", True), ("/tmpx", False), ("/var/tmp/a/b", True), ("/dev/shm/a", True), ("/run", True),
        ("/home/ada", False), ("/", False), ("/mem/x", True), ("/mem", True), ("/memory", False), ("/mem/disk/x", False),
        ("/twice/x", False), ("/a b/x", True),
    ],
)  # fmt: skip
def test_which_places_are_local(tmp_path: Path, path: str, local: bool) -> None:
    """A home on a local disk is none: on a cluster of one machine users look there."""
    (tmp_path / "mountinfo").write_text(
        "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "22 21 0:20 / /mem rw shared:2 master:1 - tmpfs tmpfs rw\n"
        "23 22 8:2 / /mem/disk rw - xfs /dev/sdb rw\n"
        "24 21 0:21 / /twice rw - ramfs none rw\n"
        "25 24 0:22 / /twice rw - nfs4 server:/x rw\n"
        "26 21 0:23 / /a\\040b rw - tmpfs none rw\n"
        "torn 21\n"
    )
    assert bool(local_place.why_local(path, local_place.mounts(tmp_path / "mountinfo"))) == local


def test_the_mounts_of_this_machine() -> None:
    assert "/" in [place for place, _ in local_place.mounts()]
    assert ("/proc", "proc") in local_place.mounts()
