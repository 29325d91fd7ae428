"""Records as evidence: which belong to one attempt, and what the folders say when they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_triage import case, sources, spool_folders
from slurm_triage.model import HookEnv, TaskExit
from slurm_triage.spool import Record, variables
from slurm_triage.spool_evidence import attempts, file_name, files, names, node_of, start_of
from slurm_triage.spool_folders import keep
from tests.spool.writers import TASKS, epilog, epilogslurmctld

T = 1796051442


def record(name: str, data: bytes, mtime: float) -> Record:
    job, seconds, pid, kind = name.split(".")
    env = {} if kind == "tasks" else variables(data)
    return Record(name, job, int(seconds), int(pid), kind, mtime, data, env)


def shape(records: list[Record]) -> list[list[str]]:
    return [sorted(r.name for r in attempt.records) for attempt in attempts(records)]


# ------------------------------------------------------------------------------------------------ attempts


def test_one_attempt_on_two_nodes_and_the_controller() -> None:
    found = attempts(
        [
            record("1004.0.1.spank", epilog(node="c1"), T + 20),
            record("1004.0.1.epilog", epilog(node="c1"), T + 21),
            record("1004.0.9.epilog", epilog(node="c2", start=T + 1), T + 21),
            record("1004.0.2.epilogslurmctld", epilogslurmctld(), T + 22),
        ]
    )
    assert [(attempt.start, len(attempt.records)) for attempt in found] == [(T, 4)]


def test_attempts_are_told_apart_by_their_start() -> None:
    records = [
        record("1004.0.2.epilog", epilog(start=T + 100), T + 120),
        record("1004.0.1.epilog", epilog(start=T), T + 20),
        record("1004.0.3.epilogslurmctld", epilogslurmctld(start=T + 100), T + 121),
    ]
    assert shape(records) == [["1004.0.1.epilog"], ["1004.0.2.epilog", "1004.0.3.epilogslurmctld"]]


def test_without_a_start_the_order_of_each_hook_counts() -> None:
    records = [
        record("1004.0.1.epilog", epilog(start=None), T + 20),
        record("1004.0.2.epilog", epilog(start=None, node="c2"), T + 21),
        record("1004.0.3.epilogslurmctld", epilogslurmctld(start=None), T + 22),
        record("1004.0.4.epilog", epilog(start=None), T + 120),
        record("1004.0.5.epilogslurmctld", epilogslurmctld(start=None), T + 121),
    ]
    assert [len(names_) for names_ in shape(records)] == [3, 2]


def test_task_records_go_with_the_ticket_of_their_writer() -> None:
    records = [
        record(f"1004.{T + 20}.5.tasks", TASKS, T + 3),
        record(f"1004.{T + 20}.5.spank", epilog(start=T), T + 20),
        record(f"1004.{T + 120}.6.tasks", TASKS, T + 103),
        record(f"1004.{T + 121}.6.spank", epilog(start=T + 100), T + 121),
    ]
    first, second = shape(records)
    assert first == [f"1004.{T + 20}.5.spank", f"1004.{T + 20}.5.tasks"]
    assert second == [f"1004.{T + 120}.6.tasks", f"1004.{T + 121}.6.spank"]


def test_task_records_of_an_attempt_without_a_ticket() -> None:
    """The node was lost in the first attempt; its records were taken over from tmp/."""
    lost = record(f"1004.{T + 10}.0.tasks", TASKS, T + 10)
    second = record("1004.0.7.epilog", epilog(start=T + 100), T + 120)
    within = record(f"1004.{T + 110}.0.tasks", TASKS, T + 110)
    later = record(f"1004.{T + 900}.0.tasks", TASKS, T + 900)
    assert shape([later, within, second, lost]) == [
        [lost.name],
        sorted([second.name, within.name]),
        [later.name],
    ]


def test_a_start_of_zero_is_none() -> None:
    assert start_of({"SLURM_JOB_START_TIME": "0"}) is None
    assert start_of({"SLURM_JOB_START_TIME": "x"}) is None
    assert start_of({}) is None
    assert start_of({"SLURM_JOB_START_TIME": str(T)}) == T


# ------------------------------------------------------------------------------------------------ names


def test_names_of_files() -> None:
    assert file_name(record("1.0.1.tasks", TASKS, 0)) == "tasks.c1.txt"
    assert file_name(record("1.0.1.tasks", b"", 0)) == "tasks.txt"
    assert file_name(record("1.0.1.tasks", b"", 0), "c9") == "tasks.c9.txt"
    assert file_name(record("1.0.1.epilog", epilog(node="c2"), 0)) == "env.epilog.c2.txt"
    assert file_name(record("1.0.1.spank", epilog(node="c2"), 0)) == "env.spank.c2.txt"
    assert file_name(record("1.0.1.epilogslurmctld", epilogslurmctld(), 0)) == "env.epilog_slurmctld.txt"
    assert list(names("env.epilog.c1.txt"))[:3] == [
        "env.epilog.c1.txt",
        "env.epilog.c1.b.txt",
        "env.epilog.c1.bb.txt",
    ]


@pytest.mark.parametrize("node", ["../../etc/x", "a/b", "", ".", "..", "-x", "a b", "n" * 65])
def test_what_is_no_name_of_a_node_is_in_no_name_of_a_file(node: str) -> None:
    assert node_of(record("1.0.1.epilog", epilog(node=node), 0)) is None
    assert file_name(record("1.0.1.epilog", epilog(node=node), 0)) == "env.epilog.txt"
    assert "/" not in file_name(record("1.0.1.tasks", TASKS.replace(b"node=c1", b"node=" + node.encode()), 0))


def test_of_one_node_task_records_are_one_file() -> None:
    found = files(
        [
            record("1.0.0.tasks", b"1.0 node=c1 a", 1),
            record("1.0.1.tasks", b"2.0 node=c1 b\n", 2),
            record("1.0.1.epilog", epilog(), 3),
            record("1.0.2.epilog", epilog(), 3),
            record("1.0.3.epilog", epilog(X="1"), 3),
        ]
    )
    assert sorted(found) == ["env.epilog.c1.b.txt", "env.epilog.c1.txt", "manifest.toml", "tasks.c1.txt"]
    assert found["tasks.c1.txt"] == b"1.0 node=c1 a\n2.0 node=c1 b\n"


def test_a_cluster_with_a_quote_in_its_name_is_left_out() -> None:
    said = files([record("1.0.1.epilog", epilog().replace(b"=mini\0", b'=m"\nslurm = "1\0'), 0)])["manifest.toml"]
    assert said == b'# gathered by slurm-triage spool collect\nenv_format = "nul"\n'


# ------------------------------------------------------------------------------------------------ folders


def test_a_folder_is_read_as_evidence(tmp_path: Path) -> None:
    (folder,) = keep(
        tmp_path / "to",
        "1004",
        [
            record(f"1004.{T + 20}.5.tasks", TASKS, T + 3),
            record(f"1004.{T + 20}.5.spank", epilog(), T + 20),
            record("1004.0.3.epilogslurmctld", epilogslurmctld(), T + 30),
        ],
    )
    assert folder == tmp_path / "to" / "1004"
    read = case.read(folder)
    assert (read.manifest.cluster, read.manifest.slurm, read.manifest.env_format) == ("mini", "24.11.5", "nul")
    events, coverage = sources.parse(read)
    assert {entry.file: entry.kind for entry in coverage} == {
        "env.epilog_slurmctld.txt": "hook_env",
        "env.spank.c1.txt": "hook_env",
        "tasks.c1.txt": "task_exits",
    }
    assert {event.hook for event in events if isinstance(event, HookEnv)} == {"epilog_slurmd", "epilog_slurmctld"}
    assert [event.rank for event in events if isinstance(event, TaskExit)] == [1]
    assert (folder.stat().st_mode & 0o777, (folder / "tasks.c1.txt").stat().st_mode & 0o777) == (0o700, 0o600)
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["1004"]


def test_attempts_get_folders_in_their_order(tmp_path: Path) -> None:
    first, second = (record(f"1004.0.{n}.epilog", epilog(start=T + 100 * n), T + 100 * n + 20) for n in (0, 1))
    assert [folder.name for folder in keep(tmp_path, "1004", [second, first])] == ["1004", "1004-2"]
    assert b"%d" % T in (tmp_path / "1004" / "env.epilog.c1.txt").read_bytes()


def test_what_comes_late_joins_its_attempt(tmp_path: Path) -> None:
    keep(tmp_path, "1004", [record("1004.0.1.epilog", epilog(), T + 20)])
    keep(tmp_path, "1004", [record("1004.0.2.epilog", epilog(start=T + 100), T + 120)])
    late = record("1004.0.3.epilogslurmctld", epilogslurmctld(start=T + 100), T + 121)
    other = record("1004.0.4.epilog", epilog(start=T + 100, X="1"), T + 121)
    assert [folder.name for folder in keep(tmp_path, "1004", [late, other])] == ["1004-2"]
    assert sorted(path.name for path in (tmp_path / "1004-2").iterdir()) == [
        "env.epilog.c1.b.txt",
        "env.epilog.c1.txt",
        "env.epilog_slurmctld.txt",
        "manifest.toml",
    ]


@pytest.mark.parametrize("start", [T, None])
def test_the_same_again_after_a_crash_changes_nothing(start: int | None, tmp_path: Path) -> None:
    records = [record("1004.0.1.epilog", epilog(start=start), T + 20), record("1004.0.1.tasks", TASKS, T + 10)]
    keep(tmp_path, "1004", records)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [folder.name for folder in keep(tmp_path, "1004", records)] == ["1004"]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "1004").symlink_to(tmp_path)
    (tmp_path / "1004-2").write_bytes(b"a file")
    (tmp_path / "1004-3").mkdir()
    (folder,) = keep(tmp_path, "1004", [record("1004.0.1.epilog", epilog(), T + 20)])
    assert folder.name == "1004-4"
    assert (tmp_path / "1004-2").read_bytes() == b"a file"
    assert list((tmp_path / "1004-3").iterdir()) == []


def test_a_folder_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool_folders, "_fill", full)
    with pytest.raises(OSError, match="No space left"):
        keep(tmp_path, "1004", [record("1004.0.1.epilog", epilog(), T + 20)])
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_where_others_could_lead_it_elsewhere(tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    to.chmod(0o777)
    with pytest.raises(PermissionError, match="another user could redirect"):
        keep(to, "1004", [record("1004.0.1.epilog", epilog(), T + 20)])
    assert list(to.iterdir()) == []
