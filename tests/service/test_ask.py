"""Many jobs with a few calls: what is asked, and how the answers come apart again."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.history.good_runs import GoodRun
from slurm_triage.live._command import run
from slurm_triage.service import ask
from slurm_triage.service.ask import (
    AT_ONCE,
    ENDED_FIELDS,
    Asker,
    AskError,
    Ended,
    JobName,
    split_document,
    split_ended,
    split_table,
)
from tests.live.fake import Cluster
from tests.service.jobs import VERSION, joined, recorded

JOBS = recorded()
NAMES = [JobName(job, job) for job in JOBS]
SEP = "5eca1"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(tmp_path)
    made.use(monkeypatch)
    return made


def sacct(cluster: Cluster, table: bytes, more: str = "") -> None:
    """sacct that prints a table with the separator that it is told."""
    header = table.split(b"\n", 1)[0].replace(b"|", b" ")
    (cluster.root / "table").write_bytes(table)
    cluster.script(
        "sacct",
        f'{more}\ncase " $* " in\n*" --version "*) echo "slurm {VERSION}"; exit;;\n*" --json "*) exit 1;;\n'
        f'*" --helpformat "*) {cluster.answer(header)};;\nesac\n'
        "for word; do case $word in --delimiter=*) d=${word#*=};; esac; done\n"
        f'exec /bin/sed "s/|/$d/g" {cluster.root}/table',
    )


def test_a_joined_table_comes_apart_as_it_was() -> None:
    assert split_table(joined(JOBS, SEP), JOBS, SEP) == {job: files["sacct.psv"] for job, files in JOBS.items()}
    assert split_table(joined(JOBS, SEP), ["1"], SEP) == {}
    assert split_table(b"", ["1"], SEP) == {}


@given(st.lists(st.tuples(st.integers(1, 9), st.text("ab|\n0.9", max_size=9)), max_size=12))
def test_no_name_makes_a_row_of_another_job(rows: list[tuple[int, str]]) -> None:
    table = f"JobIDRaw{SEP}JobName{SEP}State\n" + "".join(f"{job}{SEP}{name}{SEP}FAILED\n" for job, name in rows)
    parts = split_table(table.encode(), map(str, range(10)), SEP)
    for job, text in parts.items():
        lines = text.decode().splitlines()[1:]
        assert len(lines) == sum(str(of) == job for of, _ in rows)
        assert all(line.startswith(f"{job}|") and line.endswith("|FAILED") and line.count("|") == 2 for line in lines)
    assert set(parts) == {str(job) for job, _ in rows}


def test_a_forged_row_stays_in_the_name() -> None:
    name = "x\n4712|4712|forged|OUT_OF_MEMORY\n4712"
    table = f"JobIDRaw{SEP}JobName{SEP}State\n4711{SEP}{name}{SEP}FAILED\n4712{SEP}honest{SEP}COMPLETED\n"
    parts = split_table(table.encode(), ["4711", "4712"], SEP)
    assert parts["4712"] == b"JobIDRaw|JobName|State\n4712|honest|COMPLETED\n"
    assert parts["4711"].count(b"\n") == 2


def test_an_attempt_that_has_not_ended_is_left_out_with_its_steps() -> None:
    rows = ["7|REQUEUED", "7.batch|CANCELLED", "7|RUNNING", "7.batch|RUNNING", "7.0|FAILED", "8|PENDING"]
    table = "\n".join(["JobIDRaw|State", *rows, ""]).replace("|", SEP)
    parts = split_table(table.encode(), ["7", "8"], SEP)
    assert parts == {"7": b"JobIDRaw|State\n7|REQUEUED\n7.batch|CANCELLED\n"}
    states = [["REQUEUED", "PENDING"], ["RUNNING"], "PENDING", ["FAILED"]]
    jobs = [{"job_id": 7, "state": {"current": state}} for state in states]
    kept = json.loads(split_document(json.dumps({"jobs": jobs}).encode(), ["7"])["7"])["jobs"]
    assert [job["state"]["current"] for job in kept] == [["REQUEUED", "PENDING"], ["FAILED"]]


def test_what_is_no_document() -> None:
    for text in (b"", b"not json", b"[]", b'{"jobs": 3}', b'{"jobs": ["?", {}, null]}'):
        assert split_document(text, ["7"]) == {}


def ended_row(raw: str, shown: str, state: str, exit_code: str = "0:0", derived: str = "0:0", **more: str) -> str:
    said = {
        "JobIDRaw": raw, "JobID": shown, "State": state, "ExitCode": exit_code, "DerivedExitCode": derived,
        "Start": "2026-11-30T15:00:00", "End": "2026-11-30T15:10:00", "NodeList": "c[1-2]", "Cluster": "mini",
        "Partition": "main", "User": "user1", "JobName": "train", **more,
    }  # fmt: skip
    return SEP.join(said[name] for name in ENDED_FIELDS) + "\n"


def test_what_ended_badly_and_what_ended_well_come_apart() -> None:
    rows = [ended_row("1", "1", "COMPLETED"), ended_row("2", "2", "FAILED", "1:0")]
    rows += [ended_row("3", "9_1", "COMPLETED", derived="9:0"), ended_row("4", "4+1", "CANCELLED by 7")]
    rows += [ended_row("5", "5", "COMPLETED", derived=""), ended_row("2", "2", "REQUEUED")]
    rows += [ended_row("x", "x", "FAILED", "1:0"), ended_row("6", "6_[1-3]", "FAILED", "1:0")]
    found = split_ended("".join(rows).encode(), SEP)
    assert list(found.bad) == [JobName("2", "2"), JobName("3", "9_1"), JobName("4", "4+1")]
    assert [run.job for run in found.good] == ["1", "5"]
    start = 1796050800.0
    assert found.good[0] == GoodRun("mini", "1", "user1", "train", "main", start, start + 600, "c[1-2]")


def test_a_good_run_without_times_is_none_and_a_bad_one_is_bad() -> None:
    rows = [ended_row("1", "1", "COMPLETED", Start="Unknown"), ended_row("2", "2", "FAILED", "1:0", Start="Unknown")]
    found = split_ended("".join(rows).encode(), SEP)
    assert not found.good and list(found.bad) == [JobName("2", "2")]


@given(st.text("ab|\n0.9", max_size=30), st.text("ab|\n0.9", max_size=30))
def test_no_name_makes_a_run_of_another_job(name: str, user: str) -> None:
    row = ended_row("1", "1", "COMPLETED", JobName=name + "\n7|7|0:0", User=user)
    found = split_ended((row + ended_row("2", "2", "FAILED", "1:0")).encode(), SEP)
    assert [run.job for run in found.good] == ["1"] and list(found.bad) == [JobName("2", "2")]


def test_what_has_ended_is_asked_with_a_separator_that_nobody_knows(cluster: Cluster) -> None:
    cluster.script("sacct", cluster.answer(b""))
    assert Asker(5).ended(0, 1) == Ended([], [])
    Asker(5).ended(0, 1)
    first, second = cluster.calls
    assert " -a --local -D -X -n -P --delimiter=" in first
    assert " -S 1970-01-01T00:00:00 -E 1970-01-01T00:00:01 " in first
    assert first != second


def test_calls_do_not_grow_with_the_jobs(cluster: Cluster) -> None:
    sacct(cluster, joined(JOBS))
    asker = Asker(5)
    more = [JobName(str(n), str(n)) for n in range(5000, 5300)]
    found = asker.evidence([*NAMES, *more])
    assert {job: files["sacct.psv"] for job, files in found.items()} == {j: f["sacct.psv"] for j, f in JOBS.items()}
    assert asker.calls["sacct"] == 2 + 2 * (1 + (len(NAMES) + len(more)) // AT_ONCE)


def test_too_much_at_once_is_asked_in_halves(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    table = joined(JOBS)
    monkeypatch.setattr(ask, "run", partial(run, limit=len(table)))
    cluster.script(
        "sacct",
        "for word; do case $word in --delimiter=*) d=${word#*=};; --json) exit 1;; esac; done\n"
        f'/bin/sed -n "1s/|/$d/gp" {cluster.root}/table\n'
        f'for word; do for id in $(echo "$word" | /bin/tr , " "); do /bin/grep "^$id[|.]" {cluster.root}/table; done; done'
        ' | /bin/sed "s/|/$d/g"',
    )
    (cluster.root / "table").write_bytes(table)
    asker = Asker(5)
    asker._columns = ("JobIDRaw", "State")
    found = asker.evidence(NAMES)
    assert {job: files["sacct.psv"] for job, files in found.items()} == {j: f["sacct.psv"] for j, f in JOBS.items()}
    assert asker.calls["sacct"] > 2


def test_a_slow_slurmdbd_is_asked_for_less_the_next_time(cluster: Cluster) -> None:
    cluster.script("sacct", "exec /bin/sleep 60")
    asker = Asker(0.2)
    asker._columns = ("JobIDRaw", "State")
    sizes = []
    for _ in range(3):
        with pytest.raises(AskError, match="no answer within"):
            asker.evidence(NAMES[:8])
        sizes.append(asker.at_once)
    assert sizes == [4, 2, 1] and asker.calls["sacct"] == 3
    assert asker.evidence(NAMES[:1]) == {}  # not even one: the sweep sees to it
    sacct(cluster, joined(JOBS))
    asker.timeout = 5
    assert len(asker.evidence(NAMES[:8])) == 8 and asker.at_once > 4


def test_each_call_has_a_separator_of_its_own_and_speaks_utc(cluster: Cluster) -> None:
    sacct(cluster, joined(JOBS), f'echo "$TZ" >>{cluster.root}/zone')
    asker = Asker(5)
    for _ in range(2):
        asker.evidence(NAMES[:1])
    words = [word for call in cluster.calls for word in call.split() if word.startswith("--delimiter=")]
    assert len(words) == len(set(words)) == 2 and min(map(len, words)) > 30
    assert (cluster.root / "zone").read_text().split()[-1] == "UTC"


def test_settings_are_asked_once(cluster: Cluster) -> None:
    cluster.scontrol(None, b"KillWait = 4 sec\n", b"PartitionName=main\n")
    asker = Asker(5)
    for _ in range(3):
        assert asker.settings()["scontrol-config.txt"] == b"KillWait = 4 sec\n"
        assert "sacctmgr-qos.psv" not in asker.settings()  # sacctmgr fails here
    assert asker.calls == {"scontrol": 2, "sacctmgr": 1}


def test_a_sacct_that_fails_or_hangs_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(AskError, match="not available here"):
        Asker(5).ended(0, 1)
    cluster.script("sacct", "exec /bin/sleep 60")
    with pytest.raises(AskError, match="no answer within"):
        Asker(0.3).ended(0, 1)
    cluster.remove("sacct")
    with pytest.raises(AskError, match="command not found"):
        Asker(5).evidence(NAMES[:1])


def test_the_controller_is_asked_job_by_job_and_of_what_has_ended(cluster: Cluster) -> None:
    assert Asker(5).controller(NAMES[:1]) == {}
    view = b"JobId=7 JobName=x\n   UserId=a\n   JobState=FAILED Reason=None\n"
    cluster.scontrol(view)
    asker = Asker(5)
    assert asker.controller([JobName("7", "9_1")]) == {"7": view}
    assert cluster.calls[-1].endswith(" --all --local 9_1")
    cluster.scontrol(view.replace(b"FAILED", b"RUNNING"))
    assert asker.controller([JobName("7", "7")]) == {}


@pytest.mark.parametrize(("jobs", "calls"), [((100, 100), 30), ((500,), 10), ((500, 500, 500, 500), 30), ((20, 5), 25)])
def test_the_controller_is_spared_in_a_storm(cluster: Cluster, jobs: tuple[int, ...], calls: int) -> None:
    cluster.scontrol(b"JobId=7 JobName=x\n   JobState=FAILED Reason=None\n")
    asker = Asker(5)
    for count in jobs:
        asker.controller(JobName(str(n), str(n)) for n in range(count))
    assert asker.calls["scontrol"] == calls
    asker._views_at -= ask.VIEWS_IN
    asker.controller([JobName("7", "7")])
    assert asker.calls["scontrol"] == calls + 1


def test_a_document_comes_apart_as_it_was_printed() -> None:
    seven = ['{"job_id": 7, "name": "\\"jobs\\":[ ]", "state":{"current":["FAILED"]}}', '{"job_id":7,"state":"FAILED"}']
    eight = '{\n "job_id": 8, "name": "\udcff", "state": {"current": ["TIMEOUT"]}}'
    whole = f'{{ "meta": {{"a": [1]}}, "jobs" : [ {seven[0]},{eight} , {seven[1]} ], "errors": []}}'
    parts = split_document(whole.encode("utf-8", "surrogateescape"), ["7", "8", "9"])
    assert parts == {
        "7": f'{{ "meta": {{"a": [1]}}, "jobs" : [{",".join(seven)}], "errors": []}}'.encode(),
        "8": f'{{ "meta": {{"a": [1]}}, "jobs" : [{eight}], "errors": []}}'.encode("utf-8", "surrogateescape"),
    }
    for end in range(len(whole) - 20):  # cut anywhere: nothing, never a part of it
        assert split_document(whole[:end].encode("utf-8", "surrogateescape"), ["7", "8"]) == {}
