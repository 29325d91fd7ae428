"""The comparison of witnesses with accounting and the kernel log finds every kind of misfit."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.cluster.witnesses import Left, evidence, judge, missing, unpack, wounds

RECORDS = (
    b"1796051466.587 node=c1 stepd=43 step_info job=7 step=0 uid=1001 gid=1001 tasks=1 of=1\n"
    b"1796051466.588 node=c1 stepd=43 task_exit job=7 step=0 rank=0 local=0 pid=79 status=0x0009 mono=812.5 clean=0\n"
    b"1796051466.588 node=c1 stepd=43 task_exit job=7 step=0 memcg task events=oom 0,oom_kill 1 local=oom_kill 1\n"
)
KERNEL = b"[1.0] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/slurm/uid_1/job_7,task_memcg=/slurm/uid_1/job_7/step_0/task_0\n"
PSV = [
    {
        "JobID": "7",
        "JobIDRaw": "7",
        "State": "OUT_OF_MEMORY",
        "ExitCode": "0:125",
        "DerivedExitCode": "",
        "NodeList": "c1",
    }
]
CLEAN = [{**PSV[0], "State": "COMPLETED", "ExitCode": "0:0"}]


def steps(exit_code: str, state: str = "FAILED") -> list[dict[str, str]]:
    step = {"JobID": "7.0", "JobIDRaw": "7.0", "State": state, "ExitCode": exit_code, "DerivedExitCode": ""}
    return [*PSV, {**step, "NodeList": "c1"}]


def ticket(kind: str, **changed: str) -> Left:
    context = "epilog_slurmctld" if kind == "epilogslurmctld" else "epilog_slurmd"
    words = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1001", "SLURM_SCRIPT_CONTEXT": context, "SLURM_TRIAGE_WHY": "tasks"}
    content = "".join(f"{k}={v}\0" for k, v in {**words, **changed}.items()).encode()
    return Left("ctl" if kind == "epilogslurmctld" else "c1", "7", (1, 1), kind, content)


def left(records: bytes = RECORDS) -> list[Left]:
    return [Left("c1", "7", (1, 1), "tasks", records), *map(ticket, ("spank", "epilog", "epilogslurmctld"))]


def test_what_fits() -> None:
    named = RECORDS.replace(b"of=1\n", b"of=1 cgroup=s5R9M8Q3N2K900 boot=7\n")
    assert judge(left(named), steps("0:9"), KERNEL.replace(b"job_7", b"s5R9M8Q3N2K900")) == []
    assert judge(left(named), steps("0:9"), KERNEL.replace(b"job_7", b"s5R9M8Q3N2K901"))
    for exit_code in ("0:9", "0:125", "0:0", ""):
        assert judge(left(), steps(exit_code), KERNEL) == []
    assert judge(left(), steps("1:0", "NODE_FAIL"), KERNEL) == []
    exited = RECORDS.replace(b"0x0009", b"0x8900")
    for exit_code in ("9:0", "137:0"):  # as text up to 25.05, and later
        assert judge(left(exited), steps(exit_code), KERNEL) == []
    assert judge([], CLEAN, b"") == []


@pytest.mark.parametrize(
    ("records", "exit_code", "kernel", "what"),
    [
        (RECORDS, "0:11", KERNEL, "sacct 0:11"),
        (RECORDS, "0:9", b"", "0 kills"),
        (RECORDS.replace(b"oom_kill 1", b"oom_kill 0"), "0:9", KERNEL, "counters 0"),
        (RECORDS.replace(b"uid=1001", b"uid=0"), "0:9", KERNEL, "another job or user"),
        (RECORDS.replace(b"info job=7", b"info job=8"), "0:9", KERNEL, "another job or user"),
        (RECORDS[:-1], "0:9", KERNEL, "torn"),
        (RECORDS.replace(b"step_info", b"step_in"), "0:9", KERNEL, "without identity"),
    ],
)
def test_task_records_that_do_not_fit(records: bytes, exit_code: str, kernel: bytes, what: str) -> None:
    assert any(what in text for text in judge(left(records), steps(exit_code), kernel))


@pytest.mark.parametrize("missing", ["spank", "epilog", "epilogslurmctld"])
def test_a_witness_that_was_silent(missing: str) -> None:
    found = judge([one for one in left() if one.kind != missing], PSV, KERNEL)
    assert any(f"no {missing} ticket" in text for text in found)


@pytest.mark.parametrize(
    "changed", [{"SLURM_JOB_ID": "8"}, {"SLURM_JOB_UID": "0"}, {"SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}]
)
def test_a_ticket_that_does_not_fit(changed: dict[str, str]) -> None:
    assert judge([*left(), ticket("epilog", **changed)], PSV, KERNEL)


def test_a_dead_node_may_keep_records_without_a_ticket() -> None:
    found = [one for one in left() if one.kind != "spank"] + [ticket("spank", SLURM_TRIAGE_WHY="exit")]
    assert judge(found, PSV, KERNEL) and not judge(found, PSV, KERNEL, {"c1"})


def test_anything_kept_of_a_clean_job() -> None:
    silent = RECORDS.replace(b"oom_kill 1", b"oom_kill 0")
    found = judge(left(silent), CLEAN, b"")
    assert len([text for text in found if "clean job" in text]) == 4
    assert judge(left(), CLEAN, KERNEL) == []  # a worker was killed and the job went on: that is a sign


def test_only_what_writers_leave_is_unpacked() -> None:
    def packed(name: str, mode: int = 0o600) -> bytes:
        body = io.BytesIO()
        with tarfile.open(fileobj=body, mode="w") as archive:
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, 2
            archive.addfile(info, io.BytesIO(b"x\0"))
        return body.getvalue()

    (one,) = unpack("c1", packed("./new/7.1001.1796051466.99.spank"))
    assert (one.job, one.order, one.kind) == ("7", (1796051466, 99), "spank")
    assert list(evidence([one, Left("c1", "7", (1, 2), "tasks", b"")])) == ["env.epilog.c1.0.txt", "tasks.c1.1.txt"]
    for name, mode in (("./new/7.1.x.1.spank", 0o600), ("./new/7.1.1.1.other", 0o600), ("./new/7.1.1.1.spank", 0o644)):
        with pytest.raises(ValueError, match="7"):
            unpack("c1", packed(name, mode))


def test_wounds_are_those_that_no_scenario_makes() -> None:
    harmless = (
        "[t] error: Nodes f2 not responding, setting DOWN\n"
        "[t] drain_nodes: node x1 state set to DRAIN\n"
        "[t] _job_complete: JobId=7 WEXITSTATUS 1\n"
    )
    bad = (
        "[t] error: slurmd error running JobId=7 on node(s)=c1: Epilog error",
        "[t] drain_nodes: node c1 state set to DRAIN",
        "[t] error: Nodes c1 not responding, setting DOWN",
        "[t] update_node: node c2 reason set to: Kill task failed",
    )
    assert wounds(harmless) == []
    assert wounds(harmless + "\n".join(bad)) == list(bad)


def test_exits_that_a_scenario_makes() -> None:
    assert missing(left(), ["0 0x0009 1"]) == []
    for text in ("0 0x0009 2", "batch 0x0009 1", "0 0x8900 1"):
        (wrong,) = missing(left(), [text])
        assert text in wrong and "0 0x0009" in wrong
    assert missing([], ["0 0x0009 1"])
