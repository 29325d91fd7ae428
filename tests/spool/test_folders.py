"""The way to a spool: nobody but root and its owner may be able to lead a reader elsewhere."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from slurm_triage.spool import NoSpool, Spool, SpoolError, _folders, usual_owner
from tests.spool.writers import UID, as_nobody, make, names, put, reachable, ticket

as_root = pytest.mark.skipif(UID != 0, reason="only root can give folders away")


def opened(path: Path | str, owner: int | None = None) -> str:
    """The complaint, "" if it opens."""
    try:
        with Spool(str(path), owner):
            return ""
    except SpoolError as error:
        return str(error)


def test_a_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "spool")
    assert opened(path) == ""
    assert opened(f"{path}/") == ""
    monkeypatch.chdir(tmp_path)
    assert opened("spool") == ""
    assert opened("./spool") == ""
    assert names(tmp_path, "spool") == ["new", "tmp"]


def test_none(tmp_path: Path) -> None:
    with pytest.raises(NoSpool, match="no such folder"):
        Spool(str(tmp_path / "none"))
    with pytest.raises(NoSpool):
        Spool(str(tmp_path / "none" / "spool"))
    with pytest.raises(NoSpool):
        usual_owner(str(tmp_path / "none"))


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    path = make(tmp_path / "real")
    (tmp_path / "spool").symlink_to(path)
    (tmp_path / "way").symlink_to(tmp_path)
    for way in (tmp_path / "spool", tmp_path / "way" / "real"):
        assert "is a symbolic link, which is not followed. Name the folder itself" in opened(way)


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for way in (tmp_path / "file", tmp_path / "file" / "spool", tmp_path / "pipe"):
        assert "is not a folder" in opened(way)


def test_dots_are_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "spool")
    assert "without '..'" in opened(f"{path}/../spool")
    assert "is no path for a spool" in opened("/")


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777, 0o1777])
def test_a_spool_that_others_can_change(mode: int, tmp_path: Path) -> None:
    path = make(tmp_path / "spool")
    path.chmod(mode)
    assert f"{path}: can be changed by its group or by all. Take that away: chmod go-w {path}" in opened(path)


def test_a_way_that_others_can_change(tmp_path: Path) -> None:
    way = tmp_path / "way"
    way.mkdir()
    path = make(way / "spool")
    way.chmod(0o777)
    assert f"{way}: can be changed by its group or by all" in opened(path)
    way.chmod(0o1777)  # as /tmp
    assert opened(path) == ""


@as_root
def test_owners(tmp_path: Path) -> None:
    way = tmp_path / "way"
    way.mkdir()
    path = make(way / "spool")
    os.chown(path, 1001, -1)
    assert "belongs to " in opened(path)
    with pytest.raises(SpoolError, match="name it with --owner"):
        usual_owner(str(path))
    assert opened(path, 1001) == ""
    os.chown(way, 1002, -1)
    assert "who could put another spool there" in opened(path, 1001)
    os.chown(way, 1001, -1)
    assert opened(path, 1001) == ""
    os.chown(path, 0, -1)
    assert f"{path}: belongs to root, not to " in opened(path, 1001)
    assert usual_owner(str(path)) == 0


@as_root
def test_folders_within_must_be_the_owners_too(tmp_path: Path) -> None:
    path = make(tmp_path / "spool")
    put(path, "1.0.1.epilog", ticket("1"))
    (path / "work").mkdir()
    os.chown(path / "work", 1001, -1)
    with Spool(str(path)) as spool, pytest.raises(SpoolError, match=r"work: belongs to .*, not to root"):
        list(spool.claim())
    (path / "work").rmdir()
    (path / "work").symlink_to(tmp_path)
    with Spool(str(path)) as spool, pytest.raises(SpoolError, match="work: is a symbolic link"):
        list(spool.claim())
    (path / "work").unlink()
    (path / "new").chmod(0o770)
    with Spool(str(path)) as spool, pytest.raises(SpoolError, match="new: can be changed"):
        list(spool.claim())


@as_root
def test_what_root_makes_in_the_spool_of_another_is_the_others(tmp_path: Path) -> None:
    path = make(tmp_path / "spool")
    put(path, "1.0.1.epilog", ticket("1"))
    put(path, "x", b"")
    for each in (path, *path.rglob("*")):
        os.chown(each, 1001, 1001)
    with Spool(str(path), 1001) as spool:
        (record,) = spool.claim()
        spool.done(record)
        spool.trim()
    made = {each.name: each.stat().st_uid for each in path.rglob("*")}
    assert {"work", "done", "bad", "counts.json"} <= made.keys()
    assert set(made.values()) == {1001}


@as_root
def test_permission_denied_is_a_sentence() -> None:
    with reachable() as folder:
        path = make(folder / "spool")
        said = as_nobody(lambda: opened(path, 0))
    assert said == f"{path}: permission denied. A spool is read as root or as its owner"


@as_root
def test_who_may_look_but_not_move_is_told() -> None:
    with reachable() as folder:
        path = make(folder / "spool")
        put(path, "1.0.1.epilog", ticket("1"))
        (path / "work").mkdir(mode=0o755)
        path.chmod(0o755)
        (path / "new").chmod(0o755)
        said = as_nobody(lambda: list(Spool(str(path), 0).claim()))
    assert said == f"{path}: records cannot be moved: Permission denied"


def test_moves_need_renameat2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "spool")
    put(path, "1.0.1.epilog", ticket("1"))
    monkeypatch.setattr(_folders, "_LIBC", object())
    with Spool(str(path)) as spool, pytest.raises(SpoolError, match="cannot rename without overwriting"):
        list(spool.claim())

    class Old:
        @staticmethod
        def renameat2(*_: object) -> int:
            ctypes.set_errno(22)  # what a file system says that has no such flag
            return -1

    monkeypatch.setattr(_folders, "_LIBC", Old)
    with Spool(str(path)) as spool, pytest.raises(SpoolError, match="use ext4, xfs, btrfs or tmpfs"):
        list(spool.claim())
    assert names(path, "new") == ["1.0.1.epilog"]


def test_the_owner_of_a_spool_cannot_make_root_write_into_another_file(tmp_path: Path) -> None:
    """SlurmUser owns the controller's spool; root may read it, and must not follow a second name of a file."""
    path = make(tmp_path / "spool")
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (path / "counts.json.new").hardlink_to(victim)
    (path / "new" / "no record").write_bytes(b"")
    with Spool(str(path)) as spool:
        assert spool.recover(10.0).refused == 1
    assert victim.read_bytes() == b"precious" and b"wrong name" in (path / "counts.json").read_bytes()
