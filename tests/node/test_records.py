"""Whose job it was, by the node's own records."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from slurm_triage.node.job import Job
from slurm_triage.node.records import NoJob, job_of
from slurm_triage.spool import Record, variables
from slurm_triage.spool_evidence import Attempt, attempts
from tests.corpus.load import cases

T = 1796072482
BASE = {
    "SLURM_JOB_ID": "1004", "SLURM_JOB_UID": "1001", "SLURM_JOB_GID": "1002", "SLURM_JOB_USER": "user1",
    "SLURMD_NODENAME": "c1", "SLURM_JOB_NODELIST": "c[1-2]", "SLURM_JOB_WORK_DIR": "/home/user1",
    "SLURM_JOB_STDOUT": "/o/%j.out", "SLURM_JOB_STDERR": "/o/%j.err", "SLURM_JOB_START_TIME": str(T),
    "SLURM_JOB_END_TIME": str(T + 42),
}  # fmt: skip
INFO = "1796072524.014 node=c1 stepd=105 step_info job=1004 step=0 uid=1001 gid=1002 groups=1002,27 restart=0 tasks=1 of=1 nodes=1 boot=2805120d slurm=24.11.5"
EXIT = "1796072524.014 node=c1 stepd=105 task_exit job=1004 step=0 rank=0 local=0 pid=135 status=0x000f mono=1.676582 clean=0"
BATCH = (INFO.replace("step=0", "step=batch").replace("stepd=105", "stepd=99"), EXIT.replace("stepd=105", "stepd=99"))


def ticket(kind: str = "epilog", uid: int | None = 1001, **changed: str | None) -> Record:
    env = {key: value for key, value in {**BASE, **changed}.items() if value is not None}
    data = b"".join(f"{key}={value}\0".encode("utf-8", "surrogateescape") for key, value in env.items())
    return Record(f"1004.{uid}.1.2.{kind}", "1004", 1, 2, kind, T + 43.0, data, variables(data), uid)


def tasks(*lines: str, uid: int | None = 1001) -> Record:
    data = "".join(f"{line}\n" for line in lines).encode()
    return Record("1004.1001.1.2.tasks", "1004", 1, 2, "tasks", T + 42.0, data, {}, uid)


def found(*records: Record) -> Job:
    job = job_of(Attempt(None, list(records)))
    assert isinstance(job, Job), job
    return job


def why(*records: Record) -> str:
    told = job_of(Attempt(None, list(records)))
    assert isinstance(told, NoJob), told
    return told.why


def test_ticket_and_task_records() -> None:
    assert found(ticket("spank"), tasks(f"{INFO} cgroup=s6N1ABCDEFGH12 array=1001_4 name=fit%201", EXIT)) == Job(
        *("1004", "c1", 1001, 1002),
        start=T, end=T + 42, groups=(1002, 27), user="user1", name="fit 1", array=("1001", "4"),
        work_dir="/home/user1", stdout="/o/%j.out", stderr="/o/%j.err", nodes="c[1-2]", batch_host=True,
        cgroup="s6N1ABCDEFGH12",
    )  # fmt: skip


def test_a_ticket_alone_of_22_05() -> None:
    job = found(
        ticket(SLURM_JOB_START_TIME=None, SLURM_JOB_END_TIME=None, SLURM_JOB_NODELIST=None, SLURM_NODELIST="c[0-1]")
    )
    assert (job.uid, job.gid, job.groups, job.name, job.array, job.start, job.end) == (
        1001,
        1002,
        None,
        "",
        None,
        None,
        None,
    )
    assert job.nodes == "c[0-1]" and not job.batch_host


def test_task_records_alone() -> None:
    """The node died before its Epilog: there is no path, but it is known whose job it was."""
    job = found(tasks(INFO, EXIT, uid=None))
    assert (job.node, job.uid, job.gid, job.groups, job.work_dir, job.stdout) == ("c1", 1001, 1002, (1002, 27), "", "")


def test_a_ticket_of_the_last_step() -> None:
    """PrologFlags=RunInJob: the plugin has four variables of Slurm's; that a batch step ran here tells the batch host."""
    few = dict.fromkeys(BASE) | {key: BASE[key] for key in ("SLURM_JOB_ID", "SLURM_JOB_UID", "SLURM_JOB_GID")}
    few["SLURMD_NODENAME"] = "c1"
    job = found(ticket("spank", **few), tasks(*BATCH))
    assert job.batch_host and (job.uid, job.gid, job.nodes) == (1001, 1002, "")
    assert not found(ticket("spank", **few), tasks(INFO, EXIT)).batch_host


def test_the_controllers_ticket() -> None:
    job = found(
        ticket(
            "epilogslurmctld",
            SLURMD_NODENAME=None,
            SLURM_JOB_NAME="a\nb",
            SLURM_ARRAY_JOB_ID="9",
            SLURM_ARRAY_TASK_ID="0",
        )
    )
    assert (job.node, job.batch_host, job.name, job.array) == ("", False, "a\nb", ("9", "0"))


def test_slurmds_word_is_the_name_of_the_node() -> None:
    job = found(tasks(INFO.replace("node=c1", "node=host7"), EXIT.replace("node=c1", "node=host7")), ticket())
    assert job.node == "c1" and job.batch_host


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (ticket("spank", uid=1003), "the records do not agree on the job's user id: 1001, 1003"),
        (ticket("spank", SLURM_JOB_GID="1009"), "the records do not agree on the job's group id: 1002, 1009"),
        (tasks(INFO, EXIT, uid=1003), "do not agree on the job's user id: 1001, 1003"),
        (tasks(INFO.replace("uid=1001", "uid=0"), EXIT), "do not agree on the job's user id: 0, 1001"),
        (tasks(INFO.replace("gid=1002", "gid=0"), EXIT), "do not agree on the job's group id: 0, 1002"),
        (tasks(INFO.replace("job=1004", "job=1005"), EXIT), "task records are of another job"),
    ],
)
def test_records_that_contradict_each_other_name_nobody(record: Record, reason: str) -> None:
    assert reason in why(ticket(), record) and reason in why(record, ticket())


def test_records_that_name_nobody() -> None:
    assert why(tasks(EXIT, uid=None)) == "no record names the job's user id"
    assert why(tasks(EXIT)) == "no record names the job's group id"
    assert why(ticket(SLURM_JOB_GID=None)) == "no record names the job's group id"


@pytest.mark.parametrize("number", ["4294967295", "-1", "", "1 002", "0x10", "99999999999", "1002\n"])
def test_what_is_no_number_of_a_group(number: str) -> None:
    assert "is the number of no user or group" in why(ticket(SLURM_JOB_GID=number))
    assert "4294967295" in why(ticket(uid=4294967295))


def test_what_a_user_put_into_the_environment_says_nothing() -> None:
    forged = ticket(SPANK_X="1\nSLURM_JOB_GID=0", SLURM_JOB_COMMENT="SLURM_JOB_UID=0")
    twice = Record(*forged_fields(forged, forged.data + b"SLURM_JOB_GID=0\0SLURM_JOB_WORK_DIR=/root\0"))
    assert (found(twice).gid, found(twice).work_dir) == (1002, "/home/user1")


def forged_fields(
    record: Record, data: bytes
) -> tuple[str, str, int, int, str, float, bytes, dict[str, str], int | None]:
    return (
        record.name,
        record.job,
        record.seconds,
        record.pid,
        record.kind,
        record.mtime,
        data,
        variables(data),
        record.uid,
    )


def test_a_name_forges_no_key() -> None:
    name = "x%20uid%3D0%0A1796072524.014%20node%3Dc1%20stepd%3D1%20step_info%20job%3D1004%20step%3D0%20uid%3D0%FF"
    job = found(tasks(f"{INFO} name={name}", EXIT))
    assert (
        job.uid == 1001 and job.name.startswith("x uid=0\n1796072524.014 node=c1 ") and job.name.endswith("uid=0\udcff")
    )


def test_a_record_that_was_cut_says_nothing() -> None:
    torn = INFO[: INFO.index("uid=1001") + len("uid=10")]
    assert found(ticket(), tasks(torn, INFO, EXIT)).uid == 1001
    assert found(ticket(), tasks(INFO, EXIT, torn)).groups == (1002, 27)
    assert why(tasks(torn, uid=1001)) == "no record names the job's group id"


def test_a_path_that_is_no_utf_8_keeps_its_bytes() -> None:
    job = found(ticket(SLURM_JOB_STDOUT="/o/\udce9t\udce9/%j"))
    assert job.stdout.encode("utf-8", "surrogateescape") == b"/o/\xe9t\xe9/%j"


def test_the_name_is_that_of_the_batch_script_and_a_step_may_have_another() -> None:
    batch, step = [f"{BATCH[0]} name=fit", BATCH[1]], [f"{INFO} name=other", EXIT]
    assert found(tasks(*step, *batch)).name == "fit"
    assert found(tasks(*step)).name == "other"
    another = [line.replace("stepd=105", "stepd=106").replace("name=other", "name=third") for line in step]
    assert found(tasks(*step, *another)).name == ""


def test_groups_that_are_not_all_there_are_not_known() -> None:
    assert found(tasks(f"{INFO} more=12", EXIT)).groups is None
    assert found(tasks(INFO.replace(" groups=1002,27", ""), EXIT)).groups is None
    assert found(tasks(INFO.replace("1002,27", "1002,4294967295"), EXIT)).groups == (1002,)


# ------------------------------------------------------------------------------------------------ recorded jobs


def recorded(files: dict[str, bytes], node: str) -> list[Record]:
    records = []
    for name, data in files.items():
        if re.fullmatch(rf"env\.epilog\.{node}\.\d+\.txt", name):
            env = variables(data)
            kind = "spank" if "SLURM_TRIAGE_TIME" in env else "epilog"
            when = float(env.get("SLURM_TRIAGE_TIME", env.get("SLURM_JOB_END_TIME", "0")))
            records.append(
                Record(name, env["SLURM_JOB_ID"], int(when), 1, kind, when, data, env, int(env["SLURM_JOB_UID"]))
            )
        elif re.fullmatch(rf"tasks\.{node}\.\d+\.txt", name):
            last = data.strip().split(b"\n")[-1]
            job = re.search(rb" job=(\d+)", last)
            assert job
            records.append(Record(name, job[1].decode(), 0, 1, "tasks", float(last.split(b" ")[0]), data))
    return records


def test_recorded_jobs() -> None:
    count = 0
    for case, files, _ in cases("recorded-witnesses"):
        for node in {PurePosixPath(name).name.split(".")[2] for name in files if name.startswith("env.epilog.")}:
            records = recorded(files, node)
            for attempt in attempts(records):
                job = job_of(attempt)
                assert isinstance(job, Job), (case, job)
                shown = files.get("scontrol_show_job_final.txt", b"").decode()
                uid = re.search(r"UserId=\w+\((\d+)\) GroupId=\w+\((\d+)\)", shown)
                assert not uid or (job.uid, job.gid) == (int(uid[1]), int(uid[2])), case
                assert job.node == node and job.user.startswith("user") and job.work_dir.startswith("/"), case
                host = re.search(r"BatchHost=(\S+)", shown)
                if host and f"NodeList={job.nodes}\n" in shown and shown.count("JobId=") == 1:
                    assert job.batch_host == (host[1] == node), case
                has_tasks = any(record.kind == "tasks" for record in attempt.records)
                assert (job.groups is not None) == has_tasks, case
                assert bool(job.stdout) == ("salloc" not in case), case
                count += 1
    assert count > 25
