"""The kernel log of a job: which records are taken, and what is said of those that are lost."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator

import pytest

from slurm_triage.attempts import split
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.facts import Job as Facts
from slurm_triage.model import OomKill, Sign
from slurm_triage.node.collect import Budget, kernel_log
from slurm_triage.node.collect._kernel_words import ALL
from slurm_triage.node.collect._search import holding
from slurm_triage.node.collect.kernel_log import Ring
from slurm_triage.node.job import Job
from slurm_triage.sources import _catalog, parse

BOOT = 1_796_000_000.0
START, END = 1_796_010_000, 1_796_010_100
JOB = Job("77", "c1", 1001, 1001, START, END)
XID = "NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault"
OOM = (
    "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 102400kB, limit 102400kB, failcnt 42",
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[   4242]  1001  4242    26120    25600   245760        0             0 python3",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/slurm/uid_1001/job_77,task_memcg=/slurm/uid_1001/job_77/step_0/task_0,task=python3,pid=4242,uid=1001",
    "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:104480kB, anon-rss:102400kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:1001 pgtables:240kB oom_score_adj:0",
)


def record(number: int, at: float, text: str, prio: int = 6) -> bytes:
    """A record, `at` in epoch."""
    return f"{prio},{number},{int((at - BOOT) * 1e6)},-;{text}\n".encode()


def ring(monkeypatch: pytest.MonkeyPatch, *records: bytes, boot: float = BOOT) -> None:
    """What the kernel has."""
    ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024 * 1024)
    ours.setblocking(False)
    found: list[kernel_log.Record] = []
    for start in range(0, len(records), 4):  # net.unix.max_dgram_qlen is 10
        for one in records[start : start + 4]:
            kernels.send(one)
        found += kernel_log.read_from(ours.fileno(), 5.0).records
    ours.close()
    kernels.close()
    monkeypatch.setattr(kernel_log, "read", lambda device, seconds: Ring(found, boot))


def numbered(texts: Iterator[tuple[float, str]] | list[tuple[float, str]], first: int = 0) -> list[bytes]:
    return [record(number, at, text) for number, (at, text) in enumerate(texts, first)]


def lines(found: bytes) -> list[str]:
    return found.decode().splitlines()


def test_only_the_time_of_the_job_and_states_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    old = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    ring(
        monkeypatch,
        *numbered(
            [
                (BOOT, "Linux version 6.1.0-18-amd64 (debian) #1 SMP"),
                (START - 5000, old),
                (START - 4000, "usb 1-1: new device"),
                (START - 10, "eth0: link becomes ready"),
                (END - 1, XID),
                (END + 500, "usb 1-2: new device"),
            ]
        ),
    )
    found = kernel_log.collect(JOB, Budget())
    assert [line.split(";", 1)[1] for line in lines(found.files["kmsg.c1.txt"])] == [
        "Linux version 6.1.0-18-amd64 (debian) #1 SMP",
        old,
        "eth0: link becomes ready",
        XID,
    ]
    assert found.manifest == {"boot_epoch": {"c1": BOOT}}
    assert found.not_seen == []


def test_a_ring_that_begins_after_the_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, *numbered([(START + 50, "eth0: up"), (END - 1, XID)], first=4711))
    found = kernel_log.collect(JOB, Budget())
    assert found.not_seen == [
        "kmsg.c1.txt: the kernel log begins at 2026-11-30T03:40:50Z, after the job's start: older lines are lost"
    ]
    assert lines(found.files["kmsg.c1.txt"])[0].endswith(
        f"4,4711,{int((START + 50 - BOOT) * 1e6)},-;slurm-triage: lost before this line: 4711 kernel records"
    )


def test_a_ring_that_begins_after_the_end_says_that_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, *numbered([(END + 3000, "eth0: up")], first=9))
    found = kernel_log.collect(JOB, Budget())
    assert "no line of its time is left" in found.not_seen[0]
    assert lines(found.files["kmsg.c1.txt"]) == [
        f"4,9,{int((END + 3000 - BOOT) * 1e6)},-;slurm-triage: lost before this line: 9 kernel records"
    ]


def test_a_ring_that_wrapped_before_the_job_lost_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, *numbered([(START - 1, "eth0: up"), (END - 1, XID)], first=4711))
    found = kernel_log.collect(JOB, Budget())
    assert found.not_seen == []
    assert b"slurm-triage" not in found.files["kmsg.c1.txt"]


def test_a_boot_within_the_job_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, record(0, BOOT, "Linux version 6.1.0-18-amd64 (debian)"), boot=BOOT)
    found = kernel_log.collect(Job("77", "c1", 1001, 1001, int(BOOT) - 100, int(BOOT) + 100), Budget())
    assert "the node was booted at" in found.not_seen[0]
    assert lines(found.files["kmsg.c1.txt"])[0].endswith("lost before this line: the log of another boot")


def test_records_overwritten_while_reading_leave_a_note_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, record(0, START, "eth0: up"), record(1, START + 1, "eth0: down"), record(9, START + 2, XID))
    text = [line.split(";", 1)[1] for line in lines(kernel_log.collect(JOB, Budget()).files["kmsg.c1.txt"])]
    assert text == ["eth0: up", "eth0: down", "slurm-triage: lost before this line: 7 kernel records", XID]


def test_what_cannot_be_read_is_a_sentence(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "DEVICE", f"{os.fspath(tmp_path)}/none")
    found = kernel_log.collect(JOB, Budget())
    assert found.files == {}
    assert found.not_seen == ["kmsg.c1.txt: the kernel log could not be opened: No such file or directory"]


def test_the_ring_is_read_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def read(device: str, seconds: float) -> Ring:
        reads.append(device)
        return Ring([], BOOT)

    monkeypatch.setattr(kernel_log, "read", read)
    for now in (5.0, 5.0, 6.0, 0.0, 0.0):
        kernel_log.collect(JOB, Budget(now=now))
    assert len(reads) == 4


def test_garbage_and_hostile_records_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = record(3, START + 3, "evil\\x0a6,4,5,-;oom-kill: \x1b[31m] segfault at 0")
    odd = (b"\xff\xfe;;;\n", b"6,x,y,-;z\n", b"," * 200, b"6," + b"9" * 70 + b",1,-;long number\n")
    ring(monkeypatch, record(1, START, "first"), *odd, hostile, record(4, START + 4, "a" * 2000 + "\n SUBSYSTEM=pci"))
    found = lines(kernel_log.collect(JOB, Budget()).files["kmsg.c1.txt"])
    assert [line.split(";", 1)[1][:5] for line in found] == ["first", "slurm", "evil\\", "aaaaa"]


def test_over_the_budget_the_oom_block_and_known_lines_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = [(START + 1 + i / 1000, f"docker0: port {i} entered blocking state") for i in range(3000)]
    block = [(START + 2 + i / 1e4, text) for i, text in enumerate(OOM)]
    tail = [(START + 5 + i / 1000, f"docker0: port {i} entered disabled state") for i in range(3000)]
    ring(monkeypatch, *numbered([*noise[:1500], (START + 2.5, XID), *block, *noise[1500:], *tail]))
    found = kernel_log.collect(JOB, Budget(size=32 * 1024))
    data = found.files["kmsg.c1.txt"]
    assert len(data) <= 32 * 1024
    assert all(text.encode() in data for text in (*OOM, XID))
    assert re.match(r"kmsg\.c1\.txt: \d+ lines of the job's time left out for want of room", found.not_seen[0])
    assert b"slurm-triage: lost" not in data  # nothing that the engine would have used
    kills = [e for e in parse(from_files({"kmsg.c1.txt": data}))[0] if isinstance(e, OomKill)]
    assert [(k.job, k.constraint, k.pid) for k in kills] == [("77", "MEMCG", 4242)]


def test_a_block_with_more_tasks_than_room_keeps_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"[ {pid:6}]  1001 {pid:5}    26120    25600   245760        0             0 worker" for pid in range(9000)]
    texts = [*OOM[:4], *rows, *OOM[4:]]
    ring(monkeypatch, *numbered([(START + 2, text) for text in texts]))
    data = kernel_log.collect(JOB, Budget(size=64 * 1024)).files["kmsg.c1.txt"]
    assert len(data) <= 64 * 1024
    kills = [e for e in parse(from_files({"kmsg.c1.txt": data}))[0] if isinstance(e, OomKill)]
    assert [(k.job, k.constraint, k.pid) for k in kills] == [("77", "MEMCG", 4242)]


def test_known_lines_that_do_not_fit_are_lost_to_the_engine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, *numbered([(START + i / 100, f"{XID} {i}") for i in range(2000)]))
    data = kernel_log.collect(JOB, Budget(size=32 * 1024)).files["kmsg.c1.txt"]
    first = lines(data)[0]
    assert re.search(r";slurm-triage: lost before this line: \d+ kernel records$", first)
    assert len(data) <= 32 * 1024
    assert data.rstrip().endswith(b" 1999")


def test_every_kernel_line_of_the_catalog_holds_a_word() -> None:
    missed = [
        example
        for signature in _catalog.load("kernel").signatures
        if signature.id not in ("kernel_lines_lost", "oom_table")
        for form in signature.forms
        for example in form.examples
        if not holding([example.encode()], ALL) and not _of_oom_block(example)
    ]
    assert missed == []


def _of_oom_block(line: str) -> bool:
    """Taken with the block that it stands in."""
    return "usage " in line and "limit " in line


# ------------------------------------------------------------------------------------------ what the engine makes of it


def facts(data: bytes) -> tuple[Facts, list[Sign]]:
    head = "JobIDRaw|JobID|State|ExitCode|Start|End|NodeList|UID\n"
    row = "77|77|FAILED|1:0|2026-11-30T03:40:00|2026-11-30T03:41:40|c1|1001\n"
    manifest = f'utc_offset = "+00:00"\n[boot_epoch]\nc1 = {BOOT}\n'
    case = from_files({"sacct.psv": (head + row).encode(), "kmsg.c1.txt": data, "manifest.toml": manifest.encode()})
    events, coverage = parse(case)
    (attempt,) = split(events, coverage)
    return Facts(attempt), [e for e in events if isinstance(e, Sign)]


def test_what_is_lost_at_the_end_of_the_job_is_unknown_and_not_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, *numbered([(END - 1, "eth0: up"), (END + 1, "eth0: down")], first=4711))
    job, _ = facts(kernel_log.collect(JOB, Budget()).files["kmsg.c1.txt"])
    assert job.kernel.trouble_inside.holds is None
    assert "overwritten" in job.kernel.trouble_inside.because
    assert job.gpu.apart_from("a GPU was lost", "gpu_fallen_off_bus").holds is None


def test_a_ring_that_reaches_back_to_the_start_shows_that_there_was_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, *numbered([(START - 100, "eth0: up"), (END - 1, "eth0: down")], first=4711))
    job, _ = facts(kernel_log.collect(JOB, Budget()).files["kmsg.c1.txt"])
    assert job.kernel.trouble_inside.holds is False
    assert job.gpu.apart_from("a GPU was lost", "gpu_fallen_off_bus").holds is False


def test_lines_of_a_user_cannot_say_that_anything_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "slurm-triage: lost before this line: 5 kernel records"
    ring(monkeypatch, record(0, START - 5, "eth0: up"), record(1, END - 1, said, prio=12))
    job, signs = facts(kernel_log.collect(JOB, Budget()).files["kmsg.c1.txt"])
    assert job.kernel.trouble_inside.holds is False
    assert not [s for s in signs if s.id == "kernel_lines_lost"]


def test_an_oom_kill_is_confirmed_from_the_collected_file(monkeypatch: pytest.MonkeyPatch) -> None:
    ring(monkeypatch, *numbered([(START - 100, "eth0: up"), *((END - 1, text) for text in OOM)]))
    found = kernel_log.collect(JOB, Budget())
    case = from_files(
        {
            "kmsg.c1.txt": found.files["kmsg.c1.txt"],
            "manifest.toml": f'utc_offset = "+00:00"\n[boot_epoch]\nc1 = {BOOT}\n'.encode(),
            "sacct.psv": b"JobIDRaw|JobID|State|ExitCode|Start|End|NodeList|UID\n"
            b"77|77|OUT_OF_MEMORY|0:125|2026-11-30T03:40:00|2026-11-30T03:41:40|c1|1001\n",
        }
    )
    diagnosis = diagnose(case)
    assert (diagnosis.cause, diagnosis.strength and diagnosis.strength.value) == ("memcg_oom", "confirmed")


# ------------------------------------------------------------------------------------------ this machine


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel log cannot be read here")
def test_the_real_ring_costs_little() -> None:
    began = time.process_time()
    found = kernel_log.read("/dev/kmsg", 10.0)
    assert found.problem == ""
    assert time.process_time() - began < 0.3
    assert all(before[0] < after[0] for before, after in zip(found.records, found.records[1:], strict=False))
