"""`slurm-triage spool`: what it says, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from slurm_triage import cli, spool_cli
from slurm_triage.spool import Spool
from tests.spool.writers import TASKS, UID, epilog, epilogslurmctld, make, names, put

OK, UNUSABLE, NOTHING = 0, 2, 3
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return make(tmp_path / "spool")


def status(spool: Path, *more: str) -> int:
    return cli.main(["spool", "status", "--spool", str(spool), *more])


def collect(spool: Path, to: Path, *more: str) -> int:
    return cli.main(["spool", "collect", "--spool", str(spool), "--to", str(to), *more])


def fill(spool: Path) -> None:
    at = time.time() - 12
    put(spool, "1004.0.5.tasks", TASKS, at=at)
    put(spool, "1004.0.5.spank", epilog(), at=at + 1)
    put(spool, "1005.0.6.epilog", epilog("1005"), at=at + 2)


# ------------------------------------------------------------------------------------------------ status


def test_nothing_waits(spool: Path, capsys: Capture) -> None:
    assert status(spool) == OK
    assert capsys.readouterr().out == f"nothing waits\n\n{spool}\n  empty\n"


def test_the_verdict_comes_first(spool: Path, capsys: Capture) -> None:
    fill(spool)
    assert status(spool) == OK
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"3 records of 2 jobs wait, oldest 1[2-9] s", said[0])
    assert said[2] == str(spool)
    assert re.fullmatch(r"  new       3 files      \d+ B  oldest 1[2-9] s", said[3])
    put(spool, "odd", b"")
    (spool / "dropped").write_bytes(b"11")
    (spool / "disabled").touch()
    assert status(spool) == OK
    text = capsys.readouterr().out
    assert text.splitlines()[0].endswith("; 2 records dropped so far; switched off")
    assert "  dropped so far: 2 writers\n" in text
    assert "  problem: new/ holds 1 that no writer leaves" in text
    assert "  switched off: nobody writes" in text


def test_one_is_not_many(spool: Path, capsys: Capture) -> None:
    put(spool, "1005.0.6.epilog", epilog("1005"), at=time.time() - 3 * 86400)
    status(spool)
    assert capsys.readouterr().out.startswith("1 record of 1 job waits, oldest 3 days\n")


def test_as_json(spool: Path, capsys: Capture) -> None:
    fill(spool)
    assert status(spool, "--json") == OK
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "slurm-triage/spool-status/1"
    (one,) = said["spools"]
    assert (one["path"], one["owner"], one["waiting"], one["jobs"], one["disabled"]) == (str(spool), UID, 3, 2, False)
    assert one["folders"]["new"]["files"] == 3
    assert one["folders"]["new"]["oldest_s"] >= 12
    assert one["folders"]["bad"] == {"files": 0, "bytes": 0, "oldest_s": None}


def test_several_spools(spool: Path, tmp_path: Path, capsys: Capture) -> None:
    other = make(tmp_path / "other")
    fill(spool)
    put(other, "1004.0.9.epilogslurmctld", epilogslurmctld())
    assert status(spool, "--spool", str(other)) == OK
    said = capsys.readouterr().out
    assert said.startswith("4 records of 2 jobs wait")
    assert str(other) in said


def test_no_spool_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    monkeypatch.setattr(spool_cli, "PLACES", (str(tmp_path / "none"),))
    assert cli.main(["spool", "status"]) == NOTHING
    assert "there is no spool on this host" in capsys.readouterr().err
    monkeypatch.setattr(spool_cli, "PLACES", (str(tmp_path / "none"), str(make(tmp_path / "one"))))
    assert cli.main(["spool", "status"]) == OK
    assert capsys.readouterr().out.startswith("nothing waits")


def test_a_spool_that_cannot_be_used(spool: Path, tmp_path: Path, capsys: Capture) -> None:
    assert status(tmp_path / "none") == UNUSABLE
    assert capsys.readouterr().err == f"slurm-triage: {tmp_path}/none: there is no such folder.\n"
    spool.chmod(0o777)
    assert status(spool) == UNUSABLE
    assert "Take that away: chmod go-w" in capsys.readouterr().err
    spool.chmod(0o700)
    assert status(spool, "--owner", "no-such-user-here") == UNUSABLE
    assert "there is no such user" in capsys.readouterr().err
    assert status(spool, "--owner", str(UID + 1)) == UNUSABLE
    assert "belongs to" in capsys.readouterr().err


@pytest.mark.skipif(UID != 0, reason="only root can give folders away")
def test_the_owner_is_asked_for_where_it_is_not_clear(spool: Path, capsys: Capture) -> None:
    os.chown(spool, 1234567, -1)
    assert status(spool) == UNUSABLE
    assert "belongs to uid 1234567. If that is the user of its writers, name it with --owner" in capsys.readouterr().err
    for folder in ("tmp", "new"):
        os.chown(spool / folder, 1234567, -1)
    assert status(spool, "--owner", "1234567") == OK


# ------------------------------------------------------------------------------------------------ collect


def test_evidence_folders_are_made(spool: Path, tmp_path: Path, capsys: Capture) -> None:
    fill(spool)
    to = tmp_path / "to"
    assert collect(spool, to) == OK
    assert capsys.readouterr().out == f"3 records became evidence in 2 folders:\n  {to}/1004\n  {to}/1005\n"
    assert sorted(path.name for path in (to / "1004").iterdir()) == [
        "env.spank.c1.txt",
        "manifest.toml",
        "tasks.c1.txt",
    ]
    assert names(spool, "new") == names(spool, "work") == []
    assert len(names(spool, "done")) == 3
    assert cli.main(["diagnose", "--format", "brief", "--evidence", str(to / "1004")]) == OK
    assert capsys.readouterr().out.startswith("1004 ")
    assert collect(spool, to) == NOTHING
    assert capsys.readouterr().out == "nothing waits\n"


def test_of_one_job(spool: Path, tmp_path: Path, capsys: Capture) -> None:
    fill(spool)
    assert collect(spool, tmp_path / "to", "--job", "1005") == OK
    assert names(tmp_path, "to") == ["1005"]
    assert len(names(spool, "new")) == 2
    capsys.readouterr()
    assert collect(spool, tmp_path / "to", "--job", "1005") == NOTHING
    assert capsys.readouterr().out == "nothing waits of job 1005\n"
    assert collect(spool, tmp_path / "to", "--job", "1005_3") == UNUSABLE
    assert "not a raw job id" in capsys.readouterr().err


def test_of_two_spools_together(spool: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other")
    fill(spool)
    put(other, "1004.0.9.epilogslurmctld", epilogslurmctld())
    assert collect(spool, tmp_path / "to", "--spool", str(other)) == OK
    assert "env.epilog_slurmctld.txt" in names(tmp_path / "to", "1004")
    assert names(other, "done") == ["1004.0.9.epilogslurmctld"]


def test_what_cannot_be_written_stays_in_the_spool(spool: Path, tmp_path: Path, capsys: Capture) -> None:
    fill(spool)
    (tmp_path / "file").write_bytes(b"")
    assert collect(spool, tmp_path / "file") == UNUSABLE
    assert "evidence cannot be written" in capsys.readouterr().err
    put(spool, "1009.0.1.epilog", epilog("1009"), "done", at=1.0)
    assert collect(spool, tmp_path / "none" / "to") == UNUSABLE
    assert names(spool, "done") == []  # the limits are kept all the same
    assert len(names(spool, "new")) == 3
    assert names(spool, "work") == []


def test_what_a_dead_reader_left_is_collected(spool: Path, tmp_path: Path) -> None:
    fill(spool)
    put(spool, "1006.tasks", TASKS, "tmp", at=time.time() - 2 * 86400)
    put(spool, "1007.tasks", TASKS, "tmp")
    with Spool(str(spool)) as dead:
        assert len(list(dead.claim())) == 3
    assert collect(spool, tmp_path / "to") == OK
    assert names(tmp_path, "to") == ["1004", "1005", "1006"]
    assert names(spool, "tmp") == ["1007.tasks"]


def test_limits_are_kept_and_losses_said(
    spool: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    put(spool, "1008.0.1.epilog", epilog("1008"), at=1.0)
    assert collect(spool, tmp_path / "to", "--job", "1005") == OK
    assert "1 record dropped, to keep the spool within its limits" in capsys.readouterr().err


def test_usage(capsys: Capture) -> None:
    for words in (["spool"], ["spool", "collect"], ["spool", "nothing"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(words)
        assert stop.value.code == 2
    capsys.readouterr()
