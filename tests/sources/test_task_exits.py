"""Lines of SPANK plugins: recorded on Slurm 22.05.8 and 24.11.5 (cgroup v1) and 24.11.5 (cgroup v2) by the older one;
those of the project's own as docs/reference/spool.md has them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import from_files
from slurm_triage.model import Event, MemoryCounters, Sign, StepInfo, TaskExit, Unreadable, Voice
from slurm_triage.sources import Context
from slurm_triage.sources import task_exits as source

FORK = "1796051440.701 node=r1 stepd=43 task_post_fork job=1004 step=batch rank=0 local=0 pid=79"
EXTERN = "1796051287.481 node=c1 stepd=27685 task_post_fork job=1184 step=extern rank=0 local=-1 pid=0"
SEGV = (
    "1796051466.587 node=r1 stepd=43 task_exit job=1004 step=0 rank=3 local=1 pid=79 "
    "status=0x008b exit=0 signal=11 core=1"
)
EXIT137 = "1796053930.759 node=ctl stepd=486 task_exit job=2 step=batch rank=0 local=0 pid=502 status=0x8900 exit=137"
DONE = "1796051466.607 node=r1 stepd=43 spank_exit job=1004 step=batch"
SELF = (
    "1796053923.511 node=ctl stepd=431 task_exit job=1 step=0 "
    "self_cgroup=0::/system.slice/ctl_slurmstepd.scope/job_1/step_0/slurm"
)
V2_JOB = (
    "1796053989.094 node=ctl stepd=926 task_exit job=7 step=0 memcg job "
    "events=low 0,high 0,max 20,oom 1,oom_kill 8,oom_group_kill 1 "
    "local=low 0,high 0,max 20,oom 1,oom_kill 0,oom_group_kill 0 "
    "peak=125829120 max=125829120 current=860160 swap_events=high 0,max 0,fail 0"
)
V2_TASK = V2_JOB.replace("memcg job", "memcg task").replace("max=125829120", "max=max")
V1_JOB = (
    "1796051457.182 node=c1 stepd=13898 task_exit job=1087 step=0 memcg job failcnt=0 max_usage=83886080 "
    "limit=83886080 oom_control=oom_kill_disable 0,under_oom 0,oom_kill 0"
)
V1_TASK = (
    "1796051457.182 node=c1 stepd=13898 task_exit job=1087 step=0 memcg task failcnt=0 max_usage=78278656 "
    "limit=9223372036854771712 oom_control=oom_kill_disable 0,under_oom 0,oom_kill 1"
)
HEAD = "1796051466.588 node=c1 stepd=43 task_exit job=1004 step=0"
INFO = (
    "1796051466.587 node=c1 stepd=43 step_info job=1004 step=0 uid=1001 gid=1001 groups=1001,2000 restart=0 tasks=2 of=4 "
    "nodes=2 array=0 boot=7c5f2d6e-8a11-4c55-9d0e-2f0f5a1f7b10 slurm=24.11.5"
)
BATCH = INFO.replace("step=0", "step=batch").replace("stepd=43", "stepd=40").replace("tasks=2", "tasks=1")
KILL = f"{HEAD} rank=12 local=1 pid=79 status=0x0009 mono=8123.000512 clean=11"
SWAP = (
    f"{HEAD} memcg job failcnt=7 max_usage=83886080 limit=83886080 oom_control=oom_kill_disable 0,under_oom 0,oom_kill 0 "
    "memsw_max_usage=83886081 memsw_limit=104857600"
)
V2_SWAP = (
    f"{HEAD} memcg task events=low 0,high 0,max 0,oom 0,oom_kill 1,oom_group_kill 0 local=low 0,oom_kill 1 peak=78704640 "
    "max=max swap_peak=4096 swap_max=max swap_events=high 0,max 0,fail 0"
)
UNREAD = f"{HEAD} memcg step unread=no-access"
OWN = [INFO, BATCH, KILL, SWAP, V2_SWAP, UNREAD]
ALL = [*OWN, FORK, EXTERN, SEGV, EXIT137, DONE, SELF, V2_JOB, V2_TASK, V1_JOB, V1_TASK]


def events(text: str | bytes) -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({"spank.txt": data})
    return list(source.parse(case.files[0], Context(case.clock, case.manifest)))


def counters(line: str) -> MemoryCounters:
    (found,) = events(line)
    assert isinstance(found, MemoryCounters), found
    return found


def test_task_that_died_of_a_signal() -> None:
    (found,) = events(SEGV + "\n")
    assert isinstance(found, TaskExit)
    assert (found.job, found.step, found.node) == ("1004", "0", "r1")
    assert (found.rank, found.local_rank, found.pid, found.status) == (3, 1, 79, 0x8B)
    assert (found.signal, found.code, found.core_dumped) == (11, 0, True)
    assert found.at is not None and found.at.lo == pytest.approx(1796051466.586) and found.at.zoned
    assert found.cite.text == SEGV and found.cite.line == 1


def test_task_that_exited_137_was_not_killed() -> None:
    (found,) = events(EXIT137)
    assert isinstance(found, TaskExit)
    assert (found.signal, found.code, found.core_dumped) == (0, 137, False)


def test_start_and_end_give_coverage() -> None:
    start, extern, done = events("\n".join([FORK, EXTERN, DONE, SELF]))
    assert isinstance(start, Sign) and isinstance(extern, Sign) and isinstance(done, Sign)
    assert (start.id, start.voice, dict(start.fields)) == ("task_start", Voice.SLURM, {"rank": "0", "pid": "79"})
    assert (extern.id, extern.step) == ("task_start", "extern")
    assert (done.id, done.step, dict(done.fields)) == ("step_exit", "batch", {})


def test_v2_counters() -> None:
    job = counters(V2_JOB)
    assert (job.level, job.version, job.peak, job.limit) == ("job", 2, 125829120, 125829120)
    assert (job.events["oom_kill"], job.events["max"], job.events["oom_group_kill"]) == (8, 20, 1)
    assert (job.local["oom_kill"], job.local["oom"]) == (0, 1)
    assert job.failcnt is None
    task = counters(V2_TASK)
    assert (task.level, task.limit) == ("task", None)


def test_v1_counters() -> None:
    job = counters(V1_JOB)
    assert (job.level, job.version, job.peak, job.limit, job.failcnt) == ("job", 1, 83886080, 83886080, 0)
    assert dict(job.events) == {"oom_kill": 0} and dict(job.local) == {}
    task = counters(V1_TASK)
    assert dict(task.events) == {"oom_kill": 1}
    assert task.limit is None


def test_v1_without_limit_on_64k_pages() -> None:
    assert counters(V1_TASK.replace("9223372036854771712", "9223372036854710272")).limit is None


def test_old_kernel_without_oom_kill_counts_nothing() -> None:
    # before Linux 4.13 memory.oom_control has no oom_kill: not there is not zero
    assert "oom_kill" not in counters(V1_JOB.replace(",oom_kill 0", "")).events


def test_a_counter_that_was_not_read_is_not_zero() -> None:
    found = counters(V2_JOB.replace("peak=125829120", "peak=").replace("oom_kill 8", "oom_kill ?"))
    assert found.peak is None
    assert "oom_kill" not in found.events


@pytest.mark.parametrize(
    "line",
    [
        SEGV[: SEGV.index("0x")],
        SEGV.replace("status=0x008b", "status=0x1008b"),
        KILL[: KILL.index("09 mono")],  # cut inside the status: `0x00` is not status 0
        KILL[: KILL.index("009 mono")],
        SEGV.replace("rank=3", "rank=x"),
        FORK.replace("rank=0", ""),
        V1_JOB.replace("memcg job", "memcg user"),
        V1_JOB[: V1_JOB.index("failcnt")],
        "job=1 step=0 task_exit",
        "1796051466.587 node=r1",
    ],
)
def test_bad_line_does_not_stop_the_others(line: str) -> None:
    bad, good = events(f"{line}\n\n{SEGV}\n")
    assert isinstance(bad, Unreadable) and bad.cite.line == 1 and bad.why
    assert isinstance(good, TaskExit) and good.cite.line == 3


def test_step_info() -> None:
    (found,) = events(INFO)
    assert isinstance(found, StepInfo)
    assert (found.job, found.step, found.node, found.stepd) == ("1004", "0", "c1", 43)
    assert (found.tasks, found.of, found.uid) == (2, 4, 1001)
    assert found.restart is None  # slurmd tells it to the batch script's slurmstepd only
    assert found.sluid is None


@pytest.mark.parametrize(
    ("folder", "sluid"), [("s0AHM8PEWZDX00", "s0AHM8PEWZDX00"), ("system", None), ("s0000000000000", None)]
)
def test_step_info_with_the_name_of_the_cgroup(folder: str, sluid: str | None) -> None:
    (found,) = events(f"{INFO.rstrip()} cgroup={folder}\n")
    assert isinstance(found, StepInfo)
    assert (found.job, found.sluid, found.tasks) == ("1004", sluid, 2)


def test_step_info_of_an_array_with_the_name_of_the_job() -> None:
    name = " array=1001_4 name=fit%20uid%3D0%0Atasks%3D9%20cgroup%3Ds6N1ABCDEFGH12"
    (plain, named) = (event for line in (INFO, INFO.replace(" array=0", "") + name) for event in events(line))
    assert isinstance(plain, StepInfo) and isinstance(named, StepInfo)
    told = [(e.job, e.step, e.stepd, e.restart, e.tasks, e.of, e.uid, e.sluid) for e in (plain, named)]
    assert told == [("1004", "0", 43, None, 2, 4, 1001, None)] * 2


def test_step_info_of_the_batch_script() -> None:
    (found,) = events(BATCH)
    assert isinstance(found, StepInfo)
    assert (found.restart, found.tasks, found.of) == (0, 1, 1)
    (later,) = events(BATCH.replace("restart=0", "restart=2"))
    assert isinstance(later, StepInfo) and later.restart == 2


@pytest.mark.parametrize("key", ["uid", "restart", "tasks", "of"])
def test_step_info_without_a_key(key: str) -> None:
    (found,) = events(" ".join(word for word in BATCH.split() if not word.startswith(f"{key}=")))
    assert isinstance(found, StepInfo)
    assert getattr(found, key) == (1 if key == "of" else None)


def test_record_of_the_own_plugin() -> None:
    (found,) = events(KILL)
    assert isinstance(found, TaskExit)
    assert (found.rank, found.local_rank, found.status, found.stepd) == (12, 1, 9, 43)
    assert (found.mono, found.clean) == (8123.000512, 11)
    (old,) = events(SEGV)
    assert isinstance(old, TaskExit) and old.mono is None and old.clean is None


def test_cut_monotonic_clock_is_not_read() -> None:
    (found,) = events(KILL[: KILL.index("0512")])
    assert isinstance(found, TaskExit) and found.mono is None and found.clean is None


def test_counters_of_swap() -> None:
    found = counters(SWAP)
    assert (found.memsw_peak, found.memsw_limit, found.failcnt) == (83886081, 104857600, 7)
    assert counters(SWAP.replace("104857600", "9223372036854771712")).memsw_limit is None
    task = counters(V2_SWAP)
    assert (task.level, task.peak, task.limit, task.events["oom_kill"]) == ("task", 78704640, None, 1)


def test_unread_counters_say_why_and_count_nothing() -> None:
    found = counters(UNREAD)
    assert (found.level, found.unread, dict(found.events), found.peak) == ("step", "no-access", {}, None)
    assert counters(UNREAD.replace("no-access", "")).unread


def test_restarts_of_interleaved_slurmstepds() -> None:
    """Records of a slurmstepd carry the count of its own step_info; after a reboot process ids come again."""
    again = BATCH.replace("restart=0", "restart=1")
    record = KILL.replace("stepd=43", "stepd=40").replace("step=0", "step=batch")
    memory = UNREAD.replace("stepd=43", "stepd=40").replace("step=0", "step=batch")
    other = record.replace("node=c1", "node=c2")
    found = events("\n".join([BATCH, INFO, record, KILL, memory, other, again, record]))
    counts = [e.restart for e in found if isinstance(e, (TaskExit, MemoryCounters))]
    assert counts == [0, None, 0, None, 1]


@pytest.mark.parametrize("cut", [KILL[:40], KILL[:-1], KILL[: KILL.index("rank")], INFO, "x"])
def test_record_behind_one_that_was_cut(cut: str) -> None:
    second = KILL.replace("node=c1", "node=c2").replace("rank=12", "rank=3").replace("status=0x0009", "status=0x000f")
    bad, good = events(cut + second)
    assert isinstance(bad, Unreadable)
    assert isinstance(good, TaskExit)
    assert (good.node, good.rank, good.status) == ("c2", 3, 15)
    assert good.at is not None and good.at.lo == pytest.approx(1796051466.587)


def test_recognise() -> None:
    assert source.recognise("1004.1796051467.81.tasks", [INFO, KILL]) == 1.0
    assert source.recognise("slurm-1004.out", [INFO, KILL]) <= 0.3
    assert source.recognise("spank.txt", ["", FORK]) == 1.0
    assert source.recognise("x", [V1_JOB]) == 1.0
    assert source.recognise("x", ["[1796051440.701] node=r1"]) == 0.0
    assert source.recognise("job.out", [FORK]) <= 0.3


@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from([*ALL, "\n", "\0", " ", "x=", "é"])).map(lambda p: "".join(p).encode())
)
@settings(max_examples=150, deadline=None)
def test_never_raises(data: bytes) -> None:
    source.recognise("x", data.decode("utf-8", "replace").split("\n"))
    for event in events(data):
        assert isinstance(event, (TaskExit, MemoryCounters, StepInfo, Sign, Unreadable))


@pytest.mark.parametrize("unit", ["a=", " ", "low 0,", "\0", "1", HEAD, HEAD + " ", "1796051466.588 node="])
@pytest.mark.parametrize("begin_with", ["", V2_JOB + " ", SEGV])
def test_linear_time(begin_with: str, unit: str) -> None:
    begin = time.monotonic()
    events(begin_with + unit * ((1 << 20) // len(unit)))
    assert time.monotonic() - begin < 20
