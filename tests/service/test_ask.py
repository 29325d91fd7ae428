"""Many jobs with a few calls: what is asked, and how the answers come apart again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.service.ask import Asker, AskError, split_document, split_table, split_views
from tests.live.fake import Cluster
from tests.service.jobs import VERSION, joined, recorded

JOBS = recorded()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(tmp_path)
    made.use(monkeypatch)
    return made


def test_a_joined_table_comes_apart_as_it_was() -> None:
    parts = split_table(joined(JOBS), JOBS)
    assert parts == {job: files["sacct.psv"] for job, files in JOBS.items()}
    assert list(split_table(joined(JOBS), ["1"])) == []


@given(st.lists(st.tuples(st.integers(1, 30), st.text("ab|\n0.", max_size=8)), max_size=12))
def test_names_with_newlines_and_separators_stay_with_their_job(rows: list[tuple[int, str]]) -> None:
    # No name can begin a line with a number and a separator that is not its own job's: that is what sacct prints.
    lines = [(job, f"{job}|{name.replace(chr(10), chr(10) + 'x')}|END\n".encode()) for job, name in rows]
    table = b"JobIDRaw|JobName|End\n" + b"".join(line for _, line in lines)
    parts = split_table(table, [str(number) for number in range(31)])
    for job in {job for job, _ in lines}:
        assert parts[str(job)] == b"JobIDRaw|JobName|End\n" + b"".join(line for of, line in lines if of == job)


def test_documents_and_views_come_apart() -> None:
    document = json.dumps({"meta": 1, "jobs": [{"job_id": 7, "a": 1}, {"job_id": 8}, {"job_id": 7, "a": 2}, "?", {}]})
    parts = split_document(document.encode(), ["7", "9"])
    assert list(parts) == ["7"] and json.loads(parts["7"]) == {
        "meta": 1,
        "jobs": [{"job_id": 7, "a": 1}, {"job_id": 7, "a": 2}],
    }
    for text in (b"", b"not json", b"[]", b'{"jobs": 3}'):
        assert split_document(text, ["7"]) == {}
    views = b"JobId=7 JobName=x\n   JobState=FAILED\n\nJobId=71 ArrayJobId=70\n   JobId=7 inside\n\n"
    assert split_views(views)["7"] == b"JobId=7 JobName=x\n   JobState=FAILED\n\n"
    assert set(split_views(views)) == {"7", "71"} and split_views(b"No jobs in the system") == {}


def test_clean_jobs_are_not_asked_about(cluster: Cluster) -> None:
    cluster.script(
        "sacct",
        "printf '%s\\n' '1|COMPLETED|0:0|0:0' '2|FAILED|1:0|0:0' '3|COMPLETED|0:0|9:0' '4|CANCELLED by 7|0:0|0:0' "
        "'5|COMPLETED|0:0|' '2|REQUEUED|0:0|' 'x|FAILED|1:0|'",
    )
    assert Asker(5).ended(0, 1) == ["2", "3", "4"]
    (call,) = cluster.calls
    assert " -a -D -X -n -P -S 1970-01-01T00:00:00 -E 1970-01-01T00:00:01 " in call


def test_calls_do_not_grow_with_the_jobs(cluster: Cluster) -> None:
    cluster.sacct(VERSION, joined(JOBS), None)
    asker = Asker(5)
    found = asker.evidence([*JOBS, *(str(n) for n in range(5000, 5300))])
    assert {job: files["sacct.psv"] for job, files in found.items()} == {j: f["sacct.psv"] for j, f in JOBS.items()}
    assert asker.calls["sacct"] == 2 + 2 * 2  # version and columns once, then table and document for 200 at a time


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
        Asker(5).evidence(["1"])


def test_a_controller_that_is_down_is_none(cluster: Cluster) -> None:
    assert Asker(5).controller(["7"]) == {}
