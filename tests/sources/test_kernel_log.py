"""The kernel log: prefixes of every tool, OOM blocks of old and new kernels, names made to deceive."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import EvidenceFile, from_files
from slurm_triage.clock import Clock
from slurm_triage.model import Event, OomKill, Sign, Stamp
from slurm_triage.sources import Context, kernel_log
from slurm_triage.sources._kernel_time import Layout, LineReader, node_of_file
from slurm_triage.sources._oom import CgroupJob, cgroup_job, killed, summary, task_row

BOOT = 1796046211.67


def events(text: str | bytes, manifest: str = f"boot_epoch = {BOOT}\n", name: str = "kmsg.txt") -> list[Event]:
    data = text.encode() if isinstance(text, str) else text
    case = from_files({name: data, "manifest.toml": manifest.encode()})
    return list(kernel_log.parse(case.files[0], Context(case.clock, case.manifest)))


def kills(text: str | bytes, manifest: str = f"boot_epoch = {BOOT}\n", name: str = "kmsg.txt") -> list[OomKill]:
    return [e for e in events(text, manifest, name) if isinstance(e, OomKill)]


def signs(text: str, manifest: str = f"boot_epoch = {BOOT}\n", name: str = "kmsg.txt") -> list[Sign]:
    return [e for e in events(text, manifest, name) if isinstance(e, Sign)]


# Recorded on Slurm 24.11.5, cgroup v1, kernel 6.18 (the stack and most counters left out).
V1 = """\
[ 1294.946786] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 1294.947102] memory: usage 102400kB, limit 102400kB, failcnt 0
[ 1294.947110] memory+swap: usage 102400kB, limit 102400kB, failcnt 0
[ 1294.947112] kmem: usage 868kB, limit 9007199254740988kB, failcnt 0
[ 1294.947114] Memory cgroup stats for /slurm_c2/uid_1001/job_7:
[ 1294.947197] cache 0
[ 1294.947300] Tasks state (memory values in pages):
[ 1294.947302] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[ 1294.947305] [  17940]     0 17940    35742     1420      160     1260         0    69632        0             0 slurmstepd
[ 1294.947310] [  16653]  1001 16653    29076    24938    24320      618         0   258048        0             0 python3
[ 1294.947322] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=e79a70804a11d89b04ce1742351e6bd48774c8f94b19917d4f43497a5252f5ae,mems_allowed=0,oom_memcg=/slurm_c2/uid_1001/job_7,task_memcg=/slurm_c2/uid_1001/job_7/step_0/task_0,task=python3,pid=16653,uid=1001
[ 1294.947340] Memory cgroup out of memory: Killed process 16653 (python3) total-vm:116304kB, anon-rss:97280kB, file-rss:2472kB, shmem-rss:0kB, UID:1001 pgtables:252kB oom_score_adj:0
"""

# Recorded on Slurm 24.11.5, cgroup v2, kernel 6.1, --oom-kill-step.
GROUP = """\
[  120.493283] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  120.497548] memory: usage 122864kB, limit 122880kB, failcnt 95
[  120.497609] Memory cgroup stats for /system.slice/ctl_slurmstepd.scope/job_7:
[  120.498717] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=task_2,mems_allowed=0,oom_memcg=/system.slice/ctl_slurmstepd.scope/job_7,task_memcg=/system.slice/ctl_slurmstepd.scope/job_7/step_0/user/task_2,task=python3,pid=944,uid=1001
[  120.499740] Memory cgroup out of memory: Killed process 944 (python3) total-vm:137420kB, anon-rss:115792kB, file-rss:4kB, shmem-rss:5868kB, UID:1001 pgtables:292kB oom_score_adj:0
[  120.501109] Tasks in /system.slice/ctl_slurmstepd.scope/job_7/step_0/user are going to be killed due to memory.oom.group set
[  120.501263] Memory cgroup out of memory: Killed process 942 (rank2.sh) total-vm:2672kB, anon-rss:100kB, file-rss:4kB, shmem-rss:1124kB, UID:1001 pgtables:48kB oom_score_adj:0
[  120.502193] Memory cgroup out of memory: Killed process 946 (sleep) total-vm:2580kB, anon-rss:92kB, file-rss:4kB, shmem-rss:1016kB, UID:1001 pgtables:44kB oom_score_adj:0
"""


def test_a_block_is_one_kill() -> None:
    (kill,) = kills(V1)
    assert (kill.constraint, kill.job, kill.step) == ("MEMCG", "7", "0")
    assert kill.oom_memcg == "/slurm_c2/uid_1001/job_7"
    assert kill.task_memcg == "/slurm_c2/uid_1001/job_7/step_0/task_0"
    assert (kill.victim, kill.pid, kill.uid, kill.invoker) == ("python3", 16653, 1001, "python3")
    assert kill.rss == (97280 + 2472) * 1024
    assert kill.usage == kill.limit == 102400 * 1024
    assert [(t.pid, t.uid, t.rss, t.name) for t in kill.tasks] == [
        (17940, 0, 1420 * 4096, "slurmstepd"),
        (16653, 1001, 24938 * 4096, "python3"),
    ]
    assert [c.line for c in kill.cites] == [11, 12, 2, 1]
    assert kill.cite == kill.cites[0]
    assert kill.cite.text == V1.splitlines()[10]
    assert kill.at is not None
    assert kill.at.lo < BOOT + 1294.947322 < kill.at.hi


def test_a_job_by_its_sluid() -> None:
    """26.05 on cgroup v2: the number is not in the path, so the SLUID is the job's name for now."""
    text = GROUP.replace("/job_7", "/s0AHM8PEWZGD00")
    found = kills(text)
    assert {(k.job, k.sluid, k.step) for k in found} == {("s0AHM8PEWZGD00", "s0AHM8PEWZGD00", "0")}
    said = [s for s in signs(text) if s.id in ("oom_summary", "oom_memcg_limit") and s.job]
    assert {(s.job, s.fields["sluid"]) for s in said} == {("s0AHM8PEWZGD00", "s0AHM8PEWZGD00")}
    assert len(said) == 3
    assert {k.sluid for k in kills(GROUP)} == {None}
    assert not any("sluid" in s.fields for s in signs(GROUP))


def test_page_size_of_the_node() -> None:
    (kill,) = kills(V1, "page_size = 65536\n")
    assert kill.tasks[0].rss == 1420 * 65536
    assert kill.at is None, "no boot time, no time"
    (kill,) = kills(V1, "page_size = 'big'\n")
    assert kill.tasks[0].rss == 1420 * 4096


def test_a_group_kill_is_one_kill_for_every_victim() -> None:
    first, second, third = kills(GROUP)
    assert [(k.pid, k.victim) for k in (first, second, third)] == [(944, "python3"), (942, "rank2.sh"), (946, "sleep")]
    assert {k.constraint for k in (first, second, third)} == {"MEMCG"}
    assert {k.oom_memcg for k in (first, second, third)} == {"/system.slice/ctl_slurmstepd.scope/job_7"}
    assert {(k.job, k.step) for k in (first, second, third)} == {("7", "0")}
    assert first.task_memcg == "/system.slice/ctl_slurmstepd.scope/job_7/step_0/user/task_2"
    assert second.task_memcg == "/system.slice/ctl_slurmstepd.scope/job_7/step_0/user", "the task is not printed"
    assert second.cite.line == 7, "the summary names another victim"
    assert second.rss == (100 + 4 + 1124) * 1024


def test_node_wide_and_policy_kills() -> None:
    text = """\
[  148.631992] python3 invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0
[  148.638339] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=task_0,mems_allowed=0,global_oom,task_memcg=/system.slice/ctl_slurmstepd.scope/job_3/step_batch/user/task_0,task=python3,pid=656,uid=1002
[  148.639939] Out of memory: Killed process 656 (python3) total-vm:219268kB, anon-rss:207468kB, file-rss:4kB, shmem-rss:5524kB, UID:1002 pgtables:464kB oom_score_adj:1000
[  166.542841] python3 invoked oom-killer: gfp_mask=0x400dc0(GFP_KERNEL_ACCOUNT|__GFP_ZERO), order=0, oom_score_adj=0
[  166.549945] oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,nodemask=1,cpuset=task_0,mems_allowed=0-1,global_oom,task_memcg=/system.slice/ctl_slurmstepd.scope/job_1/step_0/user/task_0,task=python3,pid=457,uid=1001
[  166.551174] Out of memory: Killed process 457 (python3) total-vm:752248kB, anon-rss:721464kB, file-rss:4kB, shmem-rss:6460kB, UID:1001 pgtables:1468kB oom_score_adj:0
"""
    whole, policy = kills(text)
    assert (whole.constraint, whole.job, whole.step, whole.oom_memcg) == ("NONE", "3", "batch", None)
    assert (policy.constraint, policy.job, policy.uid) == ("MEMORY_POLICY", "1", 1001)
    assert whole.limit is None


def test_kernel_3_10() -> None:
    # Real layout of 3.10 (kubernetes/kubernetes issue 56891); paths replaced.
    text = """\
Jan  5 02:12:02 node001 kernel: java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=-998
Jan  5 02:12:02 node001 kernel: Task in /slurm/uid_1001/job_77/step_0/task_0 killed as a result of limit of /slurm/uid_1001/job_77
Jan  5 02:12:02 node001 kernel: memory: usage 1048576kB, limit 1048576kB, failcnt 189
Jan  5 02:12:02 node001 kernel: memory+swap: usage 1048576kB, limit 9007199254740988kB, failcnt 0
Jan  5 02:12:02 node001 kernel: Memory cgroup stats for /slurm/uid_1001/job_77: cache:24KB rss:1048552KB
Jan  5 02:12:02 node001 kernel: [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name
Jan  5 02:12:02 node001 kernel: [24572]  1001 24572  5063909   119961    1661   136409          -998 java
Jan  5 02:12:02 node001 kernel: [28438]  1001 28438  5063909   119962    1661   136409          -998 java
Jan  5 02:12:02 node001 kernel: Memory cgroup out of memory: Kill process 24572 (java) score 0 or sacrifice child
Jan  5 02:12:02 node001 kernel: Killed process 28438 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB
"""
    (kill,) = kills(text, "")
    assert (kill.constraint, kill.job, kill.step, kill.node) == ("MEMCG", "77", "0", "node001")
    assert (kill.pid, kill.victim, kill.uid) == (28438, "java", 1001), "the child, not the candidate"
    assert (kill.usage, kill.limit) == (1048576 * 1024, 1048576 * 1024)
    assert [t.rss for t in kill.tasks] == [119961 * 4096, 119962 * 4096]
    assert kill.at is None, "syslog has no year"


def test_global_kill_of_an_old_kernel_has_no_constraint() -> None:
    text = "Out of memory: Kill process 12 (java) score 9 or sacrifice child\nKilled process 12 (java) total-vm:1kB\n"
    (kill,) = kills(text)
    assert (kill.constraint, kill.pid, kill.rss) == (None, 12, None)
    assert [s.fields["prefix"] for s in signs(text) if s.id == "oom_candidate"] == ["Out of memory"]


def test_lines_left_alone() -> None:
    only_summary = V1.splitlines()[10]
    (kill,) = kills(only_summary)
    assert (kill.constraint, kill.pid, kill.rss, kill.job) == ("MEMCG", 16653, None, "7")
    only_killed = V1.splitlines()[11]
    (kill,) = kills(only_killed)
    assert (kill.constraint, kill.pid, kill.job) == ("MEMCG", 16653, None)
    only_global = "Out of memory: Killed process 4100 (containerd) total-vm:4kB, anon-rss:3kB"
    (kill,) = kills(only_global)
    assert kill.constraint is None, "the prefix excludes a cgroup, but it may be a cpuset or a policy"
    assert [s.fields["prefix"] for s in signs(only_global)] == ["Out of memory"]
    only_result = (
        "Task in /docker/ab killed as a result of limit of /docker/ab\nmemory: usage 8kB, limit 8kB, failcnt 1"
    )
    (kill,) = kills(only_result)
    assert (kill.constraint, kill.oom_memcg, kill.pid, kill.limit, kill.job) == (
        "MEMCG",
        "/docker/ab",
        None,
        8192,
        None,
    )
    assert kills(V1.splitlines()[0]) == [], "asking for memory kills nobody"


def test_excerpts_that_people_shortened() -> None:
    text = """\
oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=emulator,mems_allowed=0,global_oom,task=qemu-system-x86
Out of memory: Killed process 886679 (qemu-system-x86) total-vm:19254864kB, anon-rss:16477484kB

oom-kill:constraint=CONSTRAINT_MEMORY_POLICY,nodemask=0,cpuset=vcpu1,mems_allowed=0,global_oom,task=qemu-system-x86
Out of memory: Killed process 27410 (qemu-system-x86) total-vm:19241588kB, anon-rss:14235148kB
"""
    first, second = kills(text)
    assert (first.constraint, first.pid, first.victim, first.rss) == (
        "CPUSET",
        886679,
        "qemu-system-x86",
        16477484 * 1024,
    )
    assert (second.constraint, second.pid, second.at) == ("MEMORY_POLICY", 27410, None)


def test_an_unlimited_cgroup_has_no_limit() -> None:
    text = V1.replace("limit 102400kB", "limit 9007199254740988kB")
    (kill,) = kills(text)
    assert (kill.usage, kill.limit) == (102400 * 1024, None)


def test_victim_that_was_already_exiting() -> None:
    text = (
        V1.splitlines()[0]
        + "\n[ 1294.950000] Memory cgroup out of memory: OOM victim 16653 (python3) is already exiting. Skip killing the task\n"
    )
    assert kills(text) == []
    assert "oom_other" in {s.id for s in signs(text)}


def other_block() -> str:
    return (
        V1.replace("16653", "555")
        .replace("job_7", "job_8")
        .replace("usage 102400kB, limit 102400kB", "usage 7kB, limit 7kB")
    )


def test_interleaved_reports_are_not_mixed() -> None:
    mine, other = V1.splitlines(), other_block().splitlines()
    mixed = "\n".join(line for pair in zip(mine, other, strict=True) for line in pair)
    first, second = sorted(kills(mixed), key=lambda k: k.pid or 0)
    assert (first.pid, first.job, first.oom_memcg) == (555, "8", "/slurm_c2/uid_1001/job_8")
    assert (second.pid, second.job, second.oom_memcg) == (16653, "7", "/slurm_c2/uid_1001/job_7")
    assert first.usage in (None, 7 * 1024), "what cannot be told apart is not given to anybody"
    assert second.usage in (None, 102400 * 1024)
    assert first.tasks == second.tasks == ()
    assert [c.line for c in first.cites if "oom-kill:" in c.text or "Killed" in c.text] == [22, 24]


def test_a_summary_of_another_cgroup_takes_nothing_from_the_block() -> None:
    begun = "\n".join(V1.splitlines()[:10])  # its summary was dropped
    stray = V1.splitlines()[10].replace("job_7", "job_9").replace("16653", "901")
    (kill,) = kills(f"{begun}\n{stray}")
    assert (kill.pid, kill.job, kill.usage, kill.invoker, kill.tasks) == (901, "9", None, None, ())


def test_a_cgroup_may_be_named_like_a_field() -> None:
    said = summary(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task=x/quite-a-long-tail,"
        "task_memcg=/a,task=x/quite-a-long-tail/c,task=python3,pid=5,uid=6"
    )
    assert said is not None
    assert (said.victim, said.pid) == ("python3", 5)
    assert said.task_memcg == "/a,task=x/quite-a-long-tail/c"


def test_two_nodes_in_one_file() -> None:
    def of(node: str, text: str) -> list[str]:
        return [f"2026-11-30T14:00:00.000001+01:00 {node} kernel: {line}" for line in text.splitlines()]

    mine, other = of("n1", V1), of("n2", other_block())
    mixed = "\n".join(line for pair in zip(mine, other, strict=True) for line in pair)
    first, second = sorted(kills(mixed, ""), key=lambda k: k.node or "")
    assert (first.node, first.pid, first.usage, len(first.tasks)) == ("n1", 16653, 102400 * 1024, 2)
    assert (second.node, second.pid, second.usage, len(second.tasks)) == ("n2", 555, 7 * 1024, 2)
    assert first.at is not None
    assert first.at.zoned


def test_interleaved_with_printers_told_apart() -> None:
    def of(caller: str, text: str) -> list[str]:
        return [line.replace("] ", f"][{caller:>5}] ", 1) for line in text.splitlines()]

    mixed = "\n".join(x for pair in zip(of("T111", V1), of("C3", other_block()), strict=True) for x in pair)
    first, second = sorted(kills(mixed), key=lambda k: k.pid or 0)
    assert (first.pid, first.usage, len(first.tasks)) == (555, 7 * 1024, 2)
    assert (second.pid, second.usage, len(second.tasks)) == (16653, 102400 * 1024, 2)


# ------------------------------------------------------------------------------------------------ names that deceive


@pytest.mark.parametrize(
    "name", ["a,pid=1,uid=0", ",task=b,pid=1", "x) total-vm:1kB", "Kill process ", ", UID 0,", "(((", "), UID 7, (x"]
)
def test_a_name_cannot_fake_the_victim(name: str) -> None:
    line = f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/slurm/uid_5/job_9,task_memcg=/slurm/uid_5/job_9/step_0/task_0,task={name},pid=4242,uid=1001"
    dead = f"Memory cgroup out of memory: Killed process 4242 ({name}) total-vm:95832kB, anon-rss:80kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:220kB oom_score_adj:0"
    for text in (f"{line}\n{dead}", line, dead):
        (kill,) = kills(text)
        assert (kill.pid, kill.uid, kill.victim, kill.constraint) == (4242, 1001, name, "MEMCG")
        for sign in signs(text):
            assert sign.fields["pid"] == "4242"
            assert sign.fields["comm"] == name
    said = summary(line)
    assert said is not None
    assert said.task_memcg == "/slurm/uid_5/job_9/step_0/task_0"
    end = killed(dead)
    assert end is not None
    assert end.rss == 80 * 1024
    old = killed(f"Killed process 4242 ({name}), UID 1000, total-vm:33kB, anon-rss:31kB, file-rss:0kB, shmem-rss:0kB")
    assert old is not None
    assert (old.pid, old.victim, old.uid, old.rss) == (4242, name, 1000, 31 * 1024)


NAMES = st.text(st.characters(codec="ascii", exclude_characters="\n\r"), min_size=1, max_size=15)


@settings(max_examples=200, deadline=None)
@given(NAMES)
def test_no_name_changes_pid_or_uid(name: str) -> None:
    line = f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task={name},pid=77,uid=88"
    said = summary(line)
    assert said is not None
    assert (said.constraint, said.pid, said.uid, said.task_memcg, said.victim) == ("NONE", 77, 88, "/a", name)
    end = killed(
        f"Out of memory: Killed process 77 ({name}) total-vm:9kB, anon-rss:5kB, file-rss:1kB, shmem-rss:0kB, UID:88 pgtables:1kB oom_score_adj:0"
    )
    assert end is not None
    assert (end.pid, end.uid, end.victim, end.rss) == (77, 88, name, 6 * 1024)
    row = task_row(f"[   77]    88    77     1234       10       20        0             0 {name}")
    assert row is not None or not name.strip()
    if row is not None:
        assert (row.pid, row.uid, row.rss) == (77, 88, 10 * 4096)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read(data: bytes) -> None:
    events(data)
    kernel_log.recognise("x", EvidenceFile("x", data=data).head())


LINES = [*V1.splitlines(), *GROUP.splitlines(), "6,339,5140900,-;x", " SUBSYSTEM=net", "[May19 19:57] x", "[  +0.1] y"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 200), st.binary(max_size=4)), max_size=30))
def test_cut_and_shuffled_lines_are_read(parts: list[tuple[str, int, bytes]]) -> None:
    data = b"\n".join(line.encode()[:cut] + junk for line, cut, junk in parts)
    for kill in kills(data):
        assert kill.cites
        assert kill.cite == kill.cites[0]


def test_long_lines_take_linear_time() -> None:
    size = 1024 * 1024
    parts = [
        b"[ 1.000000] ",
        b"oom-kill:constraint=CONSTRAINT_MEMCG,task=",
        b",task=a",
        b"Killed process 1 (",
        b") total-vm:1kB",
        b"1 ",
        b"\xff\x00",
    ]
    parts += [
        b"Jan  5 02:12:02 ",
        b"a invoked oom-killer: ",
        b"/slurm_a/uid_1/",
        b"[1] 1 1 1 1 ",
        b"Memory cgroup stats for /",
    ]
    text = b"\n".join((part * (size // len(part))) for part in parts)
    start = time.process_time()
    events(text)
    assert time.process_time() - start < 3.0


# ------------------------------------------------------------------------------------------------ cgroup paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/slurm/uid_1001/job_1234/step_0/task_3", CgroupJob("1234", "0", "3")),
        ("/slurm_node001/uid_1001/job_59120608", CgroupJob("59120608", None, None, "node001")),
        ("/system.slice/slurmstepd.scope/job_42/step_batch/user/task_special", CgroupJob("42", "batch", "special")),
        ("/system.slice/c1_slurmstepd.scope/job_7/step_0/user/task_0", CgroupJob("7", "0", "0", "c1")),
        ("/system.slice/slurmstepd.scope/job_42/step_extern/slurm", CgroupJob("42", "extern")),
        (
            "/kubepods/burstable/pod01234567-89ab-cdef-0123-456789abcdef/0123/system.slice/slurmstepd.scope/job_5/step_1",
            CgroupJob("5", "1"),
        ),
        ("/slurm/uid_1/job_3/step_0/task_0/slurm/uid_1/job_99", CgroupJob("3", "0", "0")),
        ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-abc.scope", CgroupJob()),
        # 26.05 without CgroupJobIdPaths
        ("/system.slice/slurmstepd.scope/s0AHM8PEWZGD00", CgroupJob("s0AHM8PEWZGD00")),
        (
            "/system.slice/c1_slurmstepd.scope/s0AHM8PEWZGD00/step_0/user/task_1",
            CgroupJob("s0AHM8PEWZGD00", "0", "1", "c1"),
        ),
        ("/site.slice/slurmstepd.scope/sEKNKTV3WPV500/step_batch/user", CgroupJob("sEKNKTV3WPV500", "batch")),
        ("/system.slice/slurmstepd.scope/job_7/step_0/user/slurmstepd.scope/s0AHM8PEWZGD00", CgroupJob("7", "0")),
        ("/slurm/uid_1001/s0AHM8PEWZGD00/step_0", CgroupJob()),  # cgroup v1 has numbers only
        ("/system.slice/s0AHM8PEWZGD00/step_0", CgroupJob()),
        ("/system.slice/slurmstepd.scope/system/s0AHM8PEWZGD00", CgroupJob()),
        ("/system.slice/slurmstepd.scope/s0AHM8PEWZGD00x/step_0", CgroupJob()),
        ("/system.slice/slurmstepd.scope/s0AHM8PEWZGD0/step_0", CgroupJob()),
        ("/system.slice/slurmstepd.scope/S0AHM8PEWZGD00", CgroupJob()),
        ("/system.slice/slurmstepd.scope/s0AHM8PEWZGDU0", CgroupJob()),  # no digit of base 32
        ("/system.slice/slurmstepd.scope/s0000000000000", CgroupJob()),  # of a job without one
        ("/system.slice/slurmstepd.scope/slurmstepdproc", CgroupJob()),
        ("/user.slice/user-1001.slice/user@1001.service/slurmstepd.scope/s0AHM8PEWZGD00", CgroupJob()),
        ("/user.slice/user-1001.slice/user@1001.service/slurmstepd.scope/job_7", CgroupJob()),
        ("/user.slice/user-1000.slice/session-1.scope", CgroupJob()),
        ("/slurm/uid_1/job_12x", CgroupJob()),
        ("", CgroupJob()),
        (None, CgroupJob()),
    ],
)
def test_cgroup_job(path: str | None, expected: CgroupJob) -> None:
    assert cgroup_job(path) == expected


# ------------------------------------------------------------------------------------------------ prefixes

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("prefix", "layout", "node"),
    [
        ("[ 1234.567890] ", Layout.MONOTONIC, None),
        ("<3>[ 1234.567890] ", Layout.MONOTONIC, None),
        ("[ 1234.567890][  T123] ", Layout.MONOTONIC, None),
        ("[ 1234.567890] n1 kernel: ", Layout.MONOTONIC, "n1"),
        ("[Fri Aug 30 11:11:22 2024] ", Layout.WALL, None),
        ("2024-04-29T14:55:41,678628+02:00 ", Layout.ISO, None),
        ("[May19 19:57] ", Layout.DELTA, None),
        ("[  +0.000127] ", Layout.DELTA, None),
        ("4,12345,987654321,-;", Layout.RAW, None),
        ("4,12345,987654321,c,caller=T7;", Layout.RAW, None),
        ("Jan  5 02:12:02 node001 kernel: ", Layout.LOG, "node001"),
        ("Dec  2 10:43:35 node004 kernel: [240314.528856] ", Layout.LOG, "node004"),
        ("Feb 23 03:28:16 kernel: ", Layout.LOG, None),
        ("Feb 23 03:28:16  kernel: ", Layout.LOG, None),
        ("11月 15 14:15:47 node001 kernel: ", Layout.LOG, "node001"),
        ("2024-04-29T14:55:41+0200 n1 kernel: ", Layout.LOG, "n1"),
        ("2024-04-29T14:55:41.678628+02:00 n1 kernel: [  12.345678] ", Layout.LOG, "n1"),
        ("Mon 2024-04-29 14:55:41 CEST n1 kernel: ", Layout.LOG, "n1"),
        ("kernel: ", Layout.TAG, None),
        ("03:27:47  ", Layout.CLOCK, None),
        ("", Layout.NONE, None),
    ],
)
def test_prefixes(prefix: str, layout: Layout, node: str | None) -> None:
    read = LineReader(Clock()).read(prefix + XID)
    assert (read.text, read.layout, read.node) == (XID, layout, node)
    assert read.of_kernel
    (sign,) = [s for s in signs(prefix + XID) if s.id == "nvidia_xid"]
    assert sign.fields == {
        "pci": "0000:3b:00",
        "xid": "79",
        "pid": "4242",
        "name": "python3",
        "rest": "GPU has fallen off the bus.",
    }
    assert sign.node == node


def at(prefix: str, manifest: str = "") -> Stamp | None:
    return signs(prefix + XID, manifest)[0].at


def test_times() -> None:
    boot = "boot_epoch = 1704067200\n"  # 2024-01-01T00:00:00Z
    assert at("[ 100.000000] ") is None
    assert at("[ 100.000000] ", boot) == Stamp(1704067299.0, 1704067301.0)
    assert at("4,1,100000000,-;", boot) == Stamp(1704067299.0, 1704067301.0)
    wall = at("[Fri Aug 30 11:11:22 2024] ", 'utc_offset = "+02:00"\n')
    assert wall == Stamp(1725009082.0 - 5, 1725009083.0 + 5)
    unzoned = at("[Fri Aug 30 11:11:22 2024] ")
    assert unzoned is not None
    assert not unzoned.zoned
    iso = at("2024-04-29T14:55:41,678628+02:00 ")
    assert iso is not None
    assert (iso.zoned, iso.hi - iso.lo > 10) == (True, True)


def test_a_year_is_told_only_by_the_boot() -> None:
    boot = 'boot_epoch = 1704067200\nutc_offset = "Z"\n'  # 2024-01-01T00:00:00Z
    assert at("Jan  5 02:12:02 n1 kernel: ") is None
    stamp = at("Jan  5 02:12:02 n1 kernel: ", boot)
    assert stamp == Stamp(1704420722.0 - 5, 1704420723.0), "the daemon got the line at that time or a little later"
    before = at("Dec 31 23:00:00 n1 kernel: ", boot)
    assert before is not None
    assert before.hi < 1704067200, "the boot before"
    assert at("Feb 30 23:00:00 n1 kernel: ", boot) is None
    assert at("11月 15 14:15:47 n1 kernel: ", boot) is not None
    assert at("nov. 15 14:15:47 n1 kernel: ", boot) is None, "a month in a language that is not known"
    minute = at("[May19 19:57] ", boot)
    assert minute is not None
    assert minute.hi - minute.lo >= 60


def test_the_stamp_of_the_kernel_is_the_better_one() -> None:
    boot = 'boot_epoch = 1704067200\nutc_offset = "Z"\n'
    assert at("Jan  1 00:01:43 n1 kernel: [  100.000000] ", boot) == Stamp(1704067299.0, 1704067301.0)
    other_boot = at("Jan  5 02:12:02 n1 kernel: [  100.000000] ", boot)
    assert other_boot is not None
    assert other_boot.lo > 1704400000, "a stamp of another boot is not added to this one"


def test_differences_add_up() -> None:
    reader = LineReader(Clock(boot_epoch={"": 1704067200.0}))
    first, second, third = (reader.read(p + "x").at for p in ("[Jan 2 00:01] ", "[  +1.500000] ", "[ +10.000000] "))
    assert first is not None
    assert second is not None
    assert third is not None
    assert third.lo - first.lo == pytest.approx(11.5)
    assert LineReader(Clock()).read("[  +1.500000] x").at is None


def test_continuation_lines() -> None:
    text = "6,339,5140900,-;NET: x\n SUBSYSTEM=net\n DEVICE=+net:eth0\n3,340,5140901,-;" + XID
    assert [s.cite.line for s in signs(text)] == [4]
    reader = LineReader(Clock(boot_epoch={"": 0.0}))
    head = reader.read("[1084456.074591] NVRM: A GPU crash dump has been created.")
    more = reader.read("                 NVRM: nvidia-bug-report.sh as root")
    assert (more.text, more.at) == ("NVRM: nvidia-bug-report.sh as root", head.at)
    assert reader.read("something pasted below").at is None


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("kmsg.c1.txt", "c1"),
        ("n/dmesg.gpu-07.log", "gpu-07"),
        ("kmsg.txt", None),
        ("dmesg", None),
        ("kmsg.a.b.txt", "a.b"),
    ],
)
def test_node_of_file(name: str, node: str | None) -> None:
    assert node_of_file(name) == node


def test_node_of_the_file_and_its_boot() -> None:
    (sign,) = signs("[ 10.000000] " + XID, "[boot_epoch]\nc1 = 1000.0\nc2 = 2000.0\n", "kmsg.c2.txt")
    assert (sign.node, sign.at) == ("c2", Stamp(2009.0, 2011.0))


# ------------------------------------------------------------------------------------------------ who speaks


def test_only_the_kernel_speaks_for_the_kernel() -> None:
    fake = "Memory cgroup out of memory: Killed process 1 (x) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB"
    assert kills(f"Jan  5 02:12:02 n1 logger[55]: {fake}") == []
    assert signs(f"Jan  5 02:12:02 n1 user: {XID}") == []
    assert signs(f"Jan  5 02:12:02 n1 user: hello\n{XID}") == [], "a line that goes on is of the same speaker"
    assert kills(f"12,1,5,-;{fake}") == [], "facility 1: a program wrote it into /dev/kmsg"
    assert len(kills(f"4,1,5,-;{fake}")) == 1
    oomd = "app-a.scope: systemd-oomd killed 12 process(es) in this unit."
    assert [s.id for s in signs(f"Jan  5 02:12:02 n1 systemd[1]: {oomd}")] == ["systemd_oomd"]
    assert signs(f"Jan  5 02:12:02 n1 sshd[1]: {oomd}") == []


def test_job_of_a_sign() -> None:
    found = {s.id: (s.job, s.step) for s in signs(V1)}
    assert found["oom_summary"] == ("7", "0")
    assert found["oom_memcg_limit"][0] in ("7", None)
    assert found["oom_killed"] == (None, None), "the line names no cgroup"
    assert {s.voice.value for s in signs(V1)} == {"kernel"}


# Real lines of public reports and of recorded jobs; names of hosts replaced.
@pytest.mark.parametrize(
    ("line", "id", "some"),
    [
        (
            "[ 4608.685600] traps: md_run[8450] trap invalid opcode ip:56221d008185 sp:7ffd9a051dc0 error:0 in md_run[1185,56221d008000+1000]",
            "x86_trap",
            {"comm": "md_run", "pid": "8450", "trap": "invalid opcode", "lib": "md_run", "off": "1185"},
        ),
        (
            "Mar 13 15:17:17 node001 kernel: [22312023.287737] mcelog[473830]: segfault at 80 ip 000000000040aac8 sp 00007fffa4bec658 error 4 in mcelog[400000+15000]",
            "x86_segfault",
            {"comm": "mcelog", "pid": "473830", "addr": "80", "err": "4", "lib": "mcelog"},
        ),
        (
            "kernel: NVRM: Xid (PCI:...): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 11 (...)",
            "nvidia_xid",
            {"xid": "145", "rest": "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (...)"},
        ),
        (
            "XID: NVRM: Xid (PCI:0000:00:06): 31, pid=79749, name=exe, Ch 0000000a, intr 00000000.",
            "nvidia_xid",
            {"pci": "0000:00:06", "xid": "31", "pid": "79749", "name": "exe"},
        ),
        (
            "[Fri Aug 30 11:43:09 2024] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics Exception: ESR 0x57c730=0xc04000b",
            "nvidia_xid",
            {"pci": "0000:cb:00", "xid": "13", "rest": "Graphics Exception: ESR 0x57c730=0xc04000b"},
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)",
            "nvidia_sxid",
            {"switch": "3", "sxid": "28006", "class": "Non-fatal", "link": "46"},
        ),
        (
            "[  +0.000006] EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0 page:0xb757589 offset:0xdc0 grain:32 -  OVER",
            "edac",
            {"mc": "3", "type": "UE", "label": "CPU_SrcID#1_MC#1_Chan#2_DIMM#0"},
        ),
        (
            "03:27:57  LustreError 167-0: OST0002-osc: This client was evicted by OST0002",
            "lustre",
            {"event": "evicted", "target": "OST0002"},
        ),
        (
            "[Sat Mar  4 04:10:52 2023] INFO: task python:280058 blocked for more than 120 seconds.",
            "cpu_lockup",
            {"comm": "python", "pid": "280058", "sec": "120"},
        ),
    ],
)
def test_signs_of_real_lines(line: str, id: str, some: dict[str, str]) -> None:
    (sign,) = signs(line)
    assert sign.id == id
    assert {k: v for k, v in sign.fields.items() if k in some} == some
    assert sign.cite.text == line


# ------------------------------------------------------------------------------------------------ recognising


def test_recognise() -> None:
    head = V1.splitlines()
    assert kernel_log.recognise("kmsg.txt", head) > 0.9
    assert kernel_log.recognise("evidence/a.txt", head) > 0.9
    for name in ("job.out", "slurm-12.out", "x.err", "out/12_3", "client1.txt"):
        assert kernel_log.recognise(name, head) <= 0.3, "a job may quote the kernel"
    assert kernel_log.recognise("a.txt", [XID, "TLP Header: 0x1"]) > 0.5
    assert kernel_log.recognise("a.txt", ["step 1 of 9", "loss 0.1", XID, "step 2", "step 3", "step 4"]) < 0.5
    assert kernel_log.recognise("a.txt", ["JobID|State|ExitCode", "7|FAILED|1:0"]) == 0.0
    slurmctld = ["[2026-11-30T14:49:54.018] _job_complete: JobId=7 WEXITSTATUS 1"]
    assert kernel_log.recognise("slurmctld.log", slurmctld) == 0.0
    assert kernel_log.recognise("a.txt", ["Nov 30 14:49:54 ctl slurmctld[12]: error: x"]) == 0.0
    assert kernel_log.recognise("a.txt", []) == 0.0
