"""task_exit: what is written for which end of a task, and what is not."""

from __future__ import annotations

import re
import subprocess
from urllib.parse import unquote_to_bytes

import pytest

from slurm_triage import case
from slurm_triage.case import Manifest
from slurm_triage.clock import Clock
from slurm_triage.model import MemoryCounters, TaskExit
from slurm_triage.sources import Context, task_exits
from tests.spank.conftest import Node


def exits(node: Node) -> list[str]:
    return [line for line in node.lines() if " task_exit " in line and " memcg " not in line]


def counters(node: Node, level: str) -> list[str]:
    return [line for line in node.lines() if f" memcg {level} " in line]


def test_a_clean_task_leaves_nothing(node: Node) -> None:
    node.call("task:status=0", "task:rank=1,status=0")
    assert node.files() == {}


def test_a_failed_task_with_its_identity_and_raw_status(node: Node) -> None:
    node.call("task:status=0x8900,step=0,groups=3,tasks=2,of=4")
    info, end = node.lines()[:2]
    assert re.fullmatch(
        r"\d+\.\d{3} node=\S+ stepd=\d+ step_info job=7 step=0 uid=1001 gid=1002"
        r" groups=4000000000,4000000001,4000000002 restart=0 tasks=2 of=4 nodes=2 boot=[0-9a-f-]{36} slurm=24\.11\.5",
        info,
    )
    assert re.fullmatch(
        r"\d+\.\d{3} node=\S+ stepd=\d+ task_exit job=7 step=0 rank=0 local=0 pid=4711"
        r" status=0x8900 mono=\d+\.\d{6} clean=0",
        end,
    )


def test_the_engine_reads_what_the_plugin_writes(node: Node) -> None:
    node.cgroup_v2(7, "0", {0: 0, 1: 1}, hit=37)
    node.call("task:rank=1,local=1,status=9")
    file = case.EvidenceFile("tasks.c1.txt", node.spool / "tmp" / "7.tasks")
    assert task_exits.recognise("tasks.c1.txt", node.lines()) == 1.0
    events = list(task_exits.parse(file, Context(Clock(), Manifest())))
    (end,) = [e for e in events if isinstance(e, TaskExit)]
    assert (end.job, end.step, end.rank, end.signal, end.code) == ("7", "0", 1, 9, 0)
    found = {e.level: e for e in events if isinstance(e, MemoryCounters)}
    assert found["task"].events["oom_kill"] == 1 and found["task"].limit is None
    assert found["job"].local["max"] == 37 and found["job"].limit == 83886080 and found["job"].peak == 83886080


def test_clean_tasks_before_the_first_failure_are_counted_and_later_ones_recorded(node: Node) -> None:
    node.call("task:rank=0,status=0", "task:rank=1,status=0", "task:rank=2,status=11", "task:rank=3,status=0")
    assert [re.sub(r".* (rank=\d+) .*(status=\S+) .*(clean=\d+)", r"\1 \2 \3", line) for line in exits(node)] == [
        "rank=2 status=0x000b clean=2",
        "rank=3 status=0x0000 clean=2",
    ]


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (0xFFFFFFFB, "batch"),
        (0xFFFFFFFC, "extern"),
        (0xFFFFFFFA, "interactive"),
        (0, "0"),
        (4294967290 - 1, "4294967289"),
    ],
)
def test_steps_have_slurms_names(node: Node, step: int, name: str) -> None:
    node.call(f"task:status=256,step={step}")
    assert all(f" step={name} " in line for line in node.lines())
    assert (" of=" in node.lines()[0]) == name.isdigit()  # for a batch step Slurm answers for the whole job


def test_an_oom_kill_below_a_task_that_exits_0_is_recorded_v2(node: Node) -> None:
    node.cgroup_v2(7, "0", {0: 1}, hit=37)
    node.call("task:status=0")
    assert " events=low 0,high 0,max 37,oom 37,oom_kill 1,oom_group_kill 0 " in counters(node, "job")[0]
    assert " local=low 0,high 0,max 37,oom 37,oom_kill 0,oom_group_kill 0 " in counters(node, "job")[0]
    assert ",oom_kill 1," in counters(node, "task")[0] and " peak=83886080 max=max " in counters(node, "task")[0]


def test_the_folder_of_a_job_can_be_named_by_its_sluid(node: Node) -> None:
    """Slurm 26.05 on cgroup v2, unless CgroupJobIdPaths=yes."""
    node.cgroup_v2(7, "0", {0: 1}, hit=37, name="s6N1ABCDEFGH12")
    node.call("task:status=0")
    assert " events=low 0,high 0,max 37,oom 37,oom_kill 1,oom_group_kill 0 " in counters(node, "job")[0]
    assert " cgroup=s6N1ABCDEFGH12 boot=" in node.lines()[0]


def test_an_oom_kill_in_another_step_is_no_sign_for_this_one(node: Node) -> None:
    node.cgroup_v2(7, "0", {0: 1}, hit=37)
    node.cgroup_v2(7, "1", {0: 0}, hit=0)
    job = node.root / "cgroup/system.slice/slurmstepd.scope/job_7/memory.events"
    job.write_text("low 0\nhigh 0\nmax 37\noom 1\noom_kill 1\noom_group_kill 0\n")
    node.call("task:step=1,status=0")
    assert node.files() == {}


def test_an_oom_kill_below_a_task_that_exits_0_is_recorded_v1(node: Node) -> None:
    node.cgroup_v1(7, "0", {0: 1})
    node.call("task:status=0")
    assert counters(node, "task")[0].endswith(
        " failcnt=0 max_usage=83886080 limit=83886080 oom_control=oom_kill_disable 0,under_oom 0,oom_kill 1"
    )
    assert counters(node, "job")[0].endswith("oom_kill 0")


def test_the_folder_of_a_task_is_named_by_its_rank(node: Node) -> None:
    node.cgroup_v1(7, "0", {4: 0, 5: 1})
    node.call("task:rank=5,local=1,status=9", "task:rank=4,local=0,status=15")
    assert [line.rsplit(" ", 1)[1] for line in counters(node, "task")] == ["1", "0"]


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("0::/user.slice\n", "not-in-a-job-cgroup"),
        ("0::/x/job_70/step_0/slurm\n", "not-in-a-job-cgroup"),
        ("0::/../job_7/step_0/slurm\n", "not-in-a-job-cgroup"),
        ("0::/x/s6N1ABCDEFGH1/step_0/slurm\n", "not-in-a-job-cgroup"),
        ("0::/step_0/slurm\n", "not-in-a-job-cgroup"),
        ("4:memory:/\n0::/a/job_7/step_0/slurm\n", "not-in-a-job-cgroup"),
        ("0::/elsewhere/job_7/step_0/slurm\n", "gone"),
        ("", "not-in-a-job-cgroup"),
        ("a" * 9000, "not-in-a-job-cgroup"),
        (None, "no-proc"),
    ],
)
def test_could_not_look_is_said(node: Node, where: str | None, why: str) -> None:
    if where is None:
        (node.root / "self_cgroup").unlink()
    else:
        (node.root / "self_cgroup").write_text(where)
    node.call("task:status=9")
    assert [line.rsplit(" ", 1)[1] for line in node.lines() if " memcg " in line] == [f"unread={why}"] * 3


def test_a_thousand_tasks_at_once_fit_and_repeat_no_counters_of_the_job(node: Node) -> None:
    node.cgroup_v2(7, "0", dict.fromkeys(range(1000), 0))
    node.call("many:1000,status=9,tasks=1000,of=1000")
    assert len(exits(node)) == 1000 and len(counters(node, "task")) == 1000
    assert len(counters(node, "job")) < 100
    assert (node.spool / "tmp" / "7.tasks").stat().st_size <= 1 << 20
    assert not (node.spool / "dropped").exists()


def test_counters_of_the_job_are_read_again_after_an_oom_event(node: Node) -> None:
    node.call("task:rank=0,status=9", "task:rank=1,status=9", "pause:150", "task:rank=2,status=9")
    assert len(counters(node, "job")) == 2


def test_several_slurmstepd_append_to_one_file(node: Node) -> None:
    command = [str(node.driver), f"spool={node.spool}", f"cgroup={node.root / 'cgroup'}"]
    running = [
        subprocess.Popen([*command, f"many:50,status=9,step={step}"], cwd=node.root, stdout=subprocess.DEVNULL)
        for step in range(8)
    ]
    assert [process.wait() for process in running] == [0] * 8
    assert len(exits(node)) == 400
    assert all(re.match(r"\d+\.\d{3} node=\S+ stepd=\d+ (step_info|task_exit) job=7 step=\d ", x) for x in node.lines())


def test_many_groups_are_cut_and_said(node: Node) -> None:
    node.call("task:status=9,groups=65536")
    assert len(node.lines()[0].split(" groups=")[1].split(" ")[0].split(",")) == 256
    assert " more=65280 " in node.lines()[0]


def test_a_task_of_an_array_and_the_name_of_the_job(node: Node) -> None:
    node.call("task:status=9,array=1001,array_task=0,groups=256", JOB_NAME="fit-1.2_b")
    assert node.lines()[0].endswith(" slurm=24.11.5 array=1001_0 name=fit-1.2_b")
    assert " more=" not in node.lines()[0] and len(exits(node)) == 1


def test_a_job_that_is_no_array_and_tells_no_name(node: Node) -> None:
    node.call("task:status=9")
    assert node.lines()[0].endswith(" slurm=24.11.5")


@pytest.mark.parametrize("array", ["array=0,array_task=4", "array=7,array_task=0xfffffffe", "array=7,array_task=-1"])
def test_what_slurm_answers_for_no_array_is_no_task(node: Node, array: str) -> None:
    node.call(f"task:status=9,{array}")
    assert " array=" not in node.lines()[0]


def test_a_name_is_a_users_text_and_forges_nothing(node: Node) -> None:
    name = "a/b %41 =uid=0\n1.5 node=x stepd=1 step_info job=8 step=0 uid=0\t\x1b[31m\xff|日本"
    node.call("task:status=9", JOB_NAME=name)
    assert [" step_info " in line for line in node.lines()] == [True, False, False, False, False]
    info = node.lines()[0].encode()
    assert re.fullmatch(rb"[ -~]+ name=[A-Za-z0-9._%-]+", info) and info.count(b"uid=") == 1
    assert unquote_to_bytes(info.rsplit(b" name=", 1)[1]) == name.encode()


@pytest.mark.parametrize(("size", "kept"), [(200, True), (201, False), (1 << 16, False)])
def test_a_name_is_whole_or_not_there(node: Node, size: int, kept: bool) -> None:
    node.call(
        "task:status=9,groups=256,array=4294967293,array_task=4000000", JOB_NAME="é" * (size // 2) + "/" * (size % 2)
    )
    assert (" name=" in node.lines()[0]) == kept
    if kept:
        assert node.lines()[0].endswith("name=" + "%C3%A9" * 100)
    assert len(counters(node, "job")) == 1  # the record has room for both


def test_a_slurm_that_answers_nothing(node: Node) -> None:
    node.call("task:status=9,silent=1", "epilog:silent=1")
    assert node.files() == {}


def test_a_torn_record_does_not_swallow_the_next(node: Node) -> None:
    node.call("task:status=9")
    file = node.spool / "tmp" / "7.tasks"
    file.write_bytes(file.read_bytes() + b"1796051466.587 node=c1 stepd=4")
    node.call("task:rank=1,status=15")
    assert [line for line in node.lines() if "rank=1" in line and "status=0x000f" in line]
    assert file.stat().st_mode & 0o777 == 0o600
