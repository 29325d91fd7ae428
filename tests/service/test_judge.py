"""One job: settings that are parsed once say what they say in each case, and names say what files are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurm_triage import sources
from slurm_triage.case import from_files
from slurm_triage.engine import study
from slurm_triage.service import judge
from slurm_triage.service.judge import Case, Cluster, kinds
from tests.corpus.load import cases
from tests.service.jobs import state_last

SETTINGS = ("scontrol-config.txt", "scontrol-partition.txt", "sacctmgr-qos.psv")
HEAD = b"JobIDRaw|JobID|User|State|ExitCode|Start|End|StdOut|SubmitLine|Comment\n"
ROW = b"7|7|ann|FAILED|1:0|2026-11-30T15:10:39|2026-11-30T15:10:46|%s|%s|%s\n"
VIEW = (
    b"JobId=7 JobName=x\n   UserId=ann(7) GroupId=ann(7) MCS_label=N/A\n   JobState=FAILED Reason=None Dependency=(null)\n"
    b"   Requeue=0 Restarts=0 BatchFlag=%s Reboot=0 ExitCode=1:0\n"
)
STEP = b"7.%s|7.%s||FAILED|1:0|2026-11-30T15:10:39|2026-11-30T15:10:46|||\n"


def renamed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a recorded job that the service can have, under its names."""
    found = {}
    for name, data in files.items():
        base = name.rsplit("/", 1)[-1]
        if base == "spank.txt":
            found["tasks.txt"] = data
        elif base in ("sacct.psv", "sacct.json", *SETTINGS) or base.startswith(("env.", "tasks.", "kmsg.", "slurmd.")):
            found[base] = data
        elif base in ("job.out", "scontrol_show_job_final.txt"):
            found[base if base == "job.out" else "scontrol-job.txt"] = data
    return found


@pytest.mark.parametrize("corpus", ["recorded-24.11", "recorded-26.05", "recorded-witnesses"])
def test_names_and_shared_settings_change_no_word(corpus: str) -> None:
    checked = 0
    for name, files, label in cases(corpus):
        mine = renamed(files)
        settings = {name: data for name, data in mine.items() if name in SETTINGS}
        cluster = Cluster(settings, label.get("slurm"))
        more = {"boot_epoch": {"": 1796046211.67}, "not_seen": ["kernel log: n7 sent nothing"]}
        whole = from_files(mine, {**more, **cluster.manifest})
        own = {name: data for name, data in mine.items() if name not in settings}
        assert set(kinds(own)) == set(own), name
        found = judge.study(Case("x", own, more), cluster)
        assert found.diagnosis == study(whole).diagnosis and found.attempts == study(whole).attempts, name
        checked += 1
    assert checked > 20


def test_no_job_can_say_what_a_file_is() -> None:
    """A user calls his output like the kernel's log, or like accounting itself: that hides nothing from the service."""
    for output in (b"/home/ann/kmsg.c1.txt", b"/home/ann/sacct.psv", b"/home/ann/scontrol-config.txt"):
        kernel = b"6,1,5000000,-;Out of memory: Killed process 9 (x) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n"
        files = {"sacct.psv": HEAD + ROW % (output, b"", b""), "kmsg.c1.txt": kernel}
        cluster = Cluster({"scontrol-config.txt": b"ClusterName = mini\n"}, "24.11.5")
        found = judge.study(Case("7", files, {}), cluster).diagnosis
        read = {entry.file: entry.kind for entry in found.coverage}
        assert read["sacct.psv"] == "sacct" and read["kmsg.c1.txt"] == "kernel_log"
        assert read["scontrol-config.txt"] == "scontrol_config"


def test_a_printed_kernel_log_stays_output() -> None:
    printed = b"[    5.000000] Out of memory: Killed process 9 (x) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n" * 9
    found = judge.study(Case("7", {"job.c1.txt": printed}, {}), Cluster({}, None)).diagnosis
    assert [entry.kind for entry in found.coverage if entry.file == "job.c1.txt"] == [sources.JOB_OUTPUT]


def test_a_name_that_is_not_known_is_recognised_by_its_look() -> None:
    assert kinds(["notes.txt", "kmsg", "out", "", ".", "sacct.psv.txt"]) == {}
    assert kinds(["env.attempt2.epilog.c1.txt", "sacct.json"]) == {
        "env.attempt2.epilog.c1.txt": "hook_env",
        "sacct.json": "sacct_json",
    }


def said(row: tuple[bytes, bytes, bytes], *steps: bytes, view: bytes | None = None) -> judge.AttemptText:
    files = {"sacct.psv": HEAD + ROW % row + b"".join(STEP % (step, step) for step in steps)}
    if view is not None:
        files["scontrol-job.txt"] = view
    (text,) = judge.judge(Case("7", files, {}), Cluster({}, "24.11.5")).attempts
    return text


def test_the_comment_is_the_users_own() -> None:
    assert said((b"", b"sbatch x", b"no-triage please")).comment == "no-triage please"
    assert said((b"", b"sbatch x", b"")).comment == ""
    files = {"sacct.psv": state_last(HEAD + ROW % (b"", b"", b"\xffx"))}
    (text,) = judge.judge(Case("7", files, {}), Cluster({}, None)).attempts
    assert text.comment == "�x" and text.user == "ann" and text.start == 1796051439.0


@pytest.mark.parametrize(
    ("line", "steps", "view", "interactive"),
    [
        (b"sbatch x", (b"batch",), None, False),
        (b"", (b"batch", b"0"), None, False),
        (b"srun x", (b"0",), None, True),
        (b"/usr/bin/salloc -n1", (b"interactive",), None, True),
        (b"", (b"0",), None, True),
        (b"", (b"extern",), None, False),  # it may have been a batch job whose script never started
        (b"sbatch x", (), None, False),
        (b"srun x", (b"0",), VIEW % b"1", False),
        (
            b"sbatch x",
            (b"batch",),
            VIEW % b"0",
            True,
        ),
    ],
)
def test_interactive_jobs(line: bytes, steps: tuple[bytes, ...], view: bytes | None, interactive: bool) -> None:
    assert said((b"", line, b""), *steps, view=view).interactive is interactive


def test_what_is_kept_and_what_has_a_text() -> None:
    def found(state: bytes, code: bytes = b"0:0") -> judge.Judged:
        table = HEAD + (ROW % (b"", b"sbatch x", b"")).replace(b"FAILED|1:0", state + b"|" + code)
        return judge.judge(Case("7", {"sacct.psv": table}, {}), Cluster({}, "24.11.5"))

    failed = found(b"FAILED", b"1:0")
    assert failed.worth_keeping(own_scancel=False) and failed.attempts[0].section["text"].startswith("VERDICT")
    well = found(b"COMPLETED")
    assert not well.worth_keeping(own_scancel=True) and well.attempts[0].section["text"] == ""
    own = found(b"CANCELLED by ann")
    assert own.worth_keeping(own_scancel=True) and not own.worth_keeping(own_scancel=False)
    assert own.attempts[0].own_scancel and own.attempts[0].bad
