"""Live gathering against scripts that replay what three versions of Slurm printed, and against hostile answers."""

from __future__ import annotations

import os
import re
import stat
import time
from functools import cache
from pathlib import Path

import pytest

from slurm_triage import case, live, sources
from slurm_triage.engine import diagnose, study_events
from slurm_triage.live import controller
from slurm_triage.model import Diagnosis, JobRecord, StepRecord, Strength
from slurm_triage.nodeset import expand
from tests.corpus.load import cases
from tests.live.fake import Cluster, replay

VERSIONS = ("recorded-22.05", "recorded-24.11", "recorded-26.05")
SCENARIOS = (
    "exit1", "exit137", "exit127", "timeout_plain", "scancel_plain", "pp_cancel_g8_ignore", "pp_cancel_g8_exit0",
    "node_fail_batchhost", "oom_batch", "oom_step_ignored_exit0", "segv_child", "step_wrong_arch", "py_traceback",
    "output_dir_missing", "dependency_never", "requeue_admin",
)  # fmt: skip
"""What decides these lies in accounting, in slurmctld's memory, in the job's output or in the node's kernel log."""

TABLE = b"""JobIDRaw|JobID|JobName|User|UID|Account|Partition|QOS|State|ExitCode|DerivedExitCode|Submit|Start|End|ElapsedRaw|NodeList|WorkDir
1016|1016|prep|user1|1001|acc|main|normal|FAILED|1:0|0:0|2026-07-01T15:10:55|2026-07-01T15:10:56|2026-07-01T15:11:18|22|c1|/home/user1
1016.batch|1016.batch|batch|||acc|||FAILED|1:0||2026-07-01T15:10:56|2026-07-01T15:10:56|2026-07-01T15:11:18|22|c1|
"""
CONTROLLER = b"""JobId=1016 JobName=prep
   UserId=user1(1001) GroupId=user1(1001) MCS_label=N/A
   Priority=1 Nice=0 Account=acc QOS=normal
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=1:0
   RunTime=00:00:22 TimeLimit=365-00:00:00 TimeMin=N/A
   SubmitTime=2026-07-01T15:10:55 EligibleTime=2026-07-01T15:10:55
   StartTime=2026-07-01T15:10:56 EndTime=2026-07-01T15:11:18 Deadline=N/A
   Partition=main AllocNode:Sid=ctl:2659
   NodeList=c1
   BatchHost=c1
   NumNodes=1 NumCPUs=4 NumTasks=1 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   Command=(null)
   WorkDir=%s
   StdErr=%s/job.log
   StdIn=/dev/null
   StdOut=%s/job.log
"""


@cache
def recorded(version: str) -> dict[str, dict[str, bytes]]:
    """The files of every recorded job, by scenario."""
    return {id_.split("-", 1)[-1]: files for id_, files, _ in cases(version)}


def job_of(files: dict[str, bytes]) -> tuple[str, str]:
    """(the id that a user would give, a node that the job ran on)."""
    events, _ = sources.parse(case.from_files({n: files[n] for n in ("sacct.psv", "manifest.toml")}))
    records = [e for e in events if isinstance(e, (JobRecord, StepRecord))]
    nodes = next((e.nodes for e in records if e.nodes), "")
    return re.split(r"[_+]", next(e.job for e in records if e.job))[0], next(iter(expand(nodes) or ("none",)))


def ask(job: str) -> tuple[live.Gathered, Diagnosis]:
    gathered = live.gather(job, timeout=20)
    events, coverage = gathered.parse()
    return gathered, study_events(events, coverage, gathered.case()).diagnosis


def small(tmp_path: Path, patch: pytest.MonkeyPatch, output: bytes = b"oops\n") -> Cluster:
    """A cluster with one failed job, whose output is `root/job.log`."""
    cluster = Cluster(tmp_path)
    root = str(tmp_path).encode()
    cluster.sacct("24.11.5", TABLE)
    cluster.scontrol(
        CONTROLLER % (root, root, root), b"Configuration data as of 2026\nMinJobAge               = 300 sec\n"
    )
    (tmp_path / "job.log").write_bytes(output)
    cluster.use(patch)
    return cluster


def notes(gathered: live.Gathered) -> str:
    return "\n".join(f"{note.file}: {note.note}" for note in gathered.notes)


# ------------------------------------------------------------------------------------------------ recorded jobs


def _recorded_pairs() -> list[tuple[str, str]]:
    """(version, scenario) of what was recorded: not every scenario was, on every version."""
    return [(version, scenario) for scenario in SCENARIOS for version in VERSIONS if scenario in recorded(version)]


def test_most_scenarios_are_recorded_for_each_version() -> None:
    assert len(_recorded_pairs()) >= 43  # of 16 scenarios on three versions


@pytest.mark.parametrize(("version", "scenario"), _recorded_pairs())
def test_a_live_job_is_diagnosed_as_its_folder_is(
    version: str, scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = recorded(version)[scenario]
    cluster = replay(files, tmp_path)
    cluster.use(monkeypatch)
    job, node = job_of(files)
    boot = re.search(rb"^boot_epoch = ([\d.]+)", files["manifest.toml"], re.MULTILINE)
    assert boot
    cluster.host(monkeypatch, node, float(boot[1]))
    gathered, answer = ask(job)
    whole = diagnose(case.from_files(files))
    assert answer.cause == whole.cause
    assert answer.job.job_id == whole.job.job_id
    assert answer.job.state == whole.job.state
    assert answer.job.start == whole.job.start
    if "kmsg.txt" in files:
        assert gathered.files[f"kmsg.{node}.txt"] == files["kmsg.txt"]
    for name in ("expect.toml", "submit.txt", "times.toml", "sacct_poll.psv"):
        assert name not in gathered.files


@pytest.mark.parametrize("version", VERSIONS)
def test_no_confirmed_answer_is_one_that_the_whole_evidence_contradicts(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With less evidence the answer may be weaker, coarser or none; never surely another one."""
    jobs = sorted(recorded(version).items())[::12]
    assert len(jobs) >= 10
    for number, (scenario, files) in enumerate(jobs):
        with monkeypatch.context() as patch:
            replay(files, tmp_path / str(number)).use(patch)
            _, answer = ask(job_of(files)[0])
        whole = diagnose(case.from_files(files))
        known = {whole.cause, *(v.cause for v in whole.also)}
        assert answer.strength is not Strength.CONFIRMED or answer.cause in known, scenario


@pytest.mark.parametrize("version", VERSIONS)
def test_only_columns_that_this_sacct_knows_are_asked_for(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = recorded(version)["exit1"]
    cluster = replay(files, tmp_path)
    cluster.use(monkeypatch)
    live.gather(job_of(files)[0], timeout=20)
    (asked,) = (re.search(r" -o (\S+)", call) for call in cluster.calls if call.startswith("sacct -D -P"))
    assert asked
    known = set(files["sacct.psv"].split(b"\n", 1)[0].decode().split("|"))
    assert set(asked[1].split(",")) <= known
    assert ("FailedNode" in asked[1]) == (version != "recorded-22.05")
    assert {"State", "ExitCode", "JobIDRaw"} <= set(asked[1].split(","))


def test_array_task_and_component_are_asked_for_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    for job in ("1016_4", "1016+1"):
        live.gather(job, timeout=20)
        assert f"scontrol show job -d {job}" in cluster.calls
        assert any(f" -j {job} " in call for call in cluster.calls if call.startswith("sacct -D -P"))


def test_an_array_has_each_output_under_its_raw_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = b"JobIDRaw|JobID|User|UID|State|ExitCode|Start|End|NodeList|WorkDir|StdOut\n" + b"".join(
        b"%d|20_%d|user1|1001|%s|2026-07-01T15:10:56|2026-07-01T15:11:18|c1|%s|%%A-%%a.txt\n"
        % (20 + task, task, state, str(tmp_path).encode())
        for task, state in ((1, b"COMPLETED|0:0"), (2, b"FAILED|1:0"))
    )
    cluster = Cluster(tmp_path)
    cluster.sacct("24.11.5", table)
    cluster.scontrol(None)
    cluster.use(monkeypatch)
    (tmp_path / "20-1.txt").write_bytes(b"fine\n")
    (tmp_path / "20-2.txt").write_bytes(b"not fine\n")
    gathered = live.gather("20", timeout=20)
    assert gathered.files["out/21.out"] == b"fine\n"
    assert gathered.files["out/22.out"] == b"not fine\n"


# ------------------------------------------------------------------------------------------------ ids


@pytest.mark.parametrize("good", ["1", "123", "123_4", "123+1", "4294967295"])
def test_job_ids(good: str) -> None:
    assert live.job_id(good) == good


@pytest.mark.parametrize(
    "bad",
    ["", "-1", "--help", "1,2", "1 2", "1;id", "1\n", "123_", "123_[1-4]", "123.batch", "a", "١٢٣", "1_2_3", "1+1+1", "9" * 11],
)  # fmt: skip
def test_nothing_else_reaches_a_command(bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    assert live.job_id(bad) is None
    with pytest.raises(ValueError, match="job id"):
        live.gather(bad)
    assert cluster.calls == []


# ------------------------------------------------------------------------------------------------ what could not be asked


def test_without_slurm_the_commands_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    for name in ("sacct", "scontrol", "sacctmgr"):
        cluster.remove(name)
    cluster.use(monkeypatch)
    with pytest.raises(live.CannotLook, match=r"^sacct: command not found; scontrol: command not found$"):
        live.gather("1016", timeout=20)


def test_of_many_words_the_fatal_ones_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm 22.05.8 prints on a host without configuration."""
    cluster = Cluster(tmp_path)
    for name in ("sacct", "scontrol"):
        cluster.script(
            name,
            f"printf '{name}: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\\n"
            f"{name}: error: fetch_config: DNS SRV lookup failed\\n"
            f"{name}: fatal: Could not establish a configuration source\\n' >&2; exit 1",
        )
    cluster.use(monkeypatch)
    with pytest.raises(live.CannotLook) as caught:
        live.gather("7", timeout=20)
    assert str(caught.value) == (
        "sacct: Could not establish a configuration source; scontrol: Could not establish a configuration source"
    )


def test_slurmdbd_down_is_said_and_slurmctld_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script(
        "sacct",
        'case "$1" in --version) echo "slurm 24.11.5"; exit 0;; --helpformat) echo "JobIDRaw State"; exit 0;; esac\n'
        "echo 'sacct: error: Sending PersistInit msg: Connection refused\n"
        "sacct: error: Problem talking to the database: Connection refused' >&2; exit 1",
    )
    gathered, answer = ask("1016")
    assert "sacct.psv: could not be read: sacct: " in notes(gathered)
    assert "Problem talking to the database: Connection refused" in notes(gathered)
    assert answer.job.job_id == "1016"
    assert answer.job.state == "FAILED"


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    cluster.script(
        "sacct",
        '[ "$1" = --version ] && echo slurm 24.11.5 || { echo "Slurm accounting storage is disabled" >&2; exit 1; }',
    )
    cluster.script(
        "scontrol", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    )
    cluster.use(monkeypatch)
    with pytest.raises(live.CannotLook, match=r"accounting storage is disabled.*Unable to contact slurm controller"):
        live.gather("7", timeout=20)


def test_an_unknown_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    cluster.sacct("24.11.5", TABLE.split(b"\n", 1)[0] + b"\n", b'{"jobs":[],"meta":{}}')
    cluster.scontrol(None)
    cluster.use(monkeypatch)
    with pytest.raises(live.NotFound, match="never existed"):
        live.gather("7", timeout=20)


def test_privacy_is_named_where_it_hides_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path)
    cluster.sacct("24.11.5", TABLE.split(b"\n", 1)[0] + b"\n")
    cluster.scontrol(None, b"Configuration data as of 2026\nPrivateData             = accounts,jobs,users\n")
    cluster.use(monkeypatch)
    with pytest.raises(live.NotFound, match=r"PrivateData=accounts,jobs,users .*not shown to you"):
        live.gather("7", timeout=20)


@pytest.mark.parametrize(
    "words",
    [
        "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
        "echo 'Job 6_2 not found'; exit 1",
        "echo 'No jobs in the system'",
    ],
)
def test_a_forgotten_job_is_no_failure_of_scontrol(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script("scontrol", words)
    gathered, _ = ask("1016")
    assert f"scontrol-job.txt: {controller.FORGOTTEN}" in notes(gathered)
    assert "scontrol-job.txt" not in gathered.files


def test_a_command_that_hangs_is_left_and_its_children_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script("sacctmgr", f"/bin/sleep 60 & echo $! >{tmp_path}/child; wait")
    start = time.monotonic()
    gathered = live.gather("1016", timeout=1.5)
    assert time.monotonic() - start < 20
    assert "sacctmgr-qos.psv: could not be read: sacctmgr: no answer within 1.5 seconds" in notes(gathered)
    assert "sacct.psv" in gathered.files
    child = int((tmp_path / "child").read_text())
    for _ in range(50):
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the hanging child is still there")


def test_endless_output_is_cut_at_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_triage.live import _command

    path = tmp_path / "yes"
    path.write_text("#!/bin/sh\nwhile :; do echo 0123456789; done\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    reply = _command.run(["yes"], 20, 1 << 20)
    assert len(reply.output) == 1 << 20
    assert reply.cut
    assert reply.problem == "yes: printed more than 1 MiB, the rest was left"


def test_json_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.sacct("21.08.8", TABLE, b"JobID JobName State\n")
    gathered, answer = ask("1016")
    assert "sacct.json" not in gathered.files
    assert "sacct.json: not available, exit codes may be cut: sacct --json: this sacct prints no JSON" in notes(
        gathered
    )
    assert answer.cause == "app_error"


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 4096, b"|" * (1 << 20), b"\xff\xfe{" + b"[" * 100_000, b"JobId=\n" * 1000]
)
def test_junk_from_every_command_is_survived(junk: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script("sacct", cluster.answer(junk))
    cluster.script("sacctmgr", cluster.answer(junk))
    gathered, answer = ask("1016")
    assert answer.job.job_id == "1016"  # scontrol still tells
    assert "slurm =" not in gathered.files["manifest.toml"].decode()
    cluster.script("scontrol", cluster.answer(junk))
    with pytest.raises((live.NotFound, live.CannotLook)):
        live.gather("1016", timeout=20)


def test_words_of_a_command_cannot_reach_the_terminal_or_break_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script(
        "sacctmgr", "printf 'sacctmgr: error: bad\\033[2J\\nslurm = \"1.1\"\\n\\302\\205\\342\\200\\250x' >&2; exit 3"
    )
    gathered, _ = ask("1016")
    (note,) = (n.note for n in gathered.notes if n.file == "sacctmgr-qos.psv")
    assert note.isprintable()
    assert 'slurm = "1.1"' in note
    assert gathered.case().manifest.slurm == "24.11.5"
    assert gathered.case().manifest.problem == ""


def test_the_form_of_the_answers_does_not_depend_on_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script("sacctmgr", f"/usr/bin/env >{tmp_path}/seen")
    for name, value in {
        "SLURM_TIME_FORMAT": "%s",
        "SACCT_FORMAT": "jobid",
        "LC_TIME": "de_DE",
        "LANG": "de_DE",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    live.gather("1016", timeout=20)
    seen = (tmp_path / "seen").read_text().splitlines()
    assert "LC_ALL=C" in seen
    assert "SLURM_CLUSTERS=other" in seen
    assert not any(line.startswith(("SLURM_TIME_FORMAT=", "SACCT_FORMAT=", "LC_TIME=")) for line in seen)


# ------------------------------------------------------------------------------------------------ local time


def test_times_have_the_offset_of_the_day_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path, monkeypatch)
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        gathered, answer = ask("1016")
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
    assert 'utc_offset = "+02:00"' in gathered.files["manifest.toml"].decode()  # the first of July
    assert answer.job.end is not None
    assert answer.job.end.lo == 1782911478.0  # 2026-07-01T13:11:18Z
    assert "local time" not in notes(gathered)


def test_a_shift_of_local_time_during_the_job_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.sacct("24.11.5", TABLE.replace(b"2026-07-01T15:10:5", b"2026-01-01T15:10:5"))
    cluster.scontrol(None)
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        gathered = live.gather("1016", timeout=20)
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
    assert "local time was shifted" in notes(gathered)


# ------------------------------------------------------------------------------------------------ kernel log

KERNEL = b"[   10.000000] Memory cgroup out of memory: Killed process 77 (fit.py) total-vm:9kB, anon-rss:8kB\n"


def test_the_kernel_log_of_another_host_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script("dmesg", cluster.answer(KERNEL))
    cluster.host(monkeypatch, "login1", 0.0)
    gathered = live.gather("1016", timeout=20)
    assert "kernel log: could not be read: this host is none of the job's nodes (c1)" in notes(gathered)
    assert not any(call.startswith(("dmesg", "journalctl")) for call in cluster.calls)


def test_the_kernel_log_of_the_jobs_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script("dmesg", cluster.answer(KERNEL))
    cluster.host(monkeypatch, "c1.example.org", 1782918000.0)
    gathered = live.gather("1016", timeout=20)
    assert gathered.files["kmsg.c1.txt"] == KERNEL
    assert gathered.case().clock.boot_epoch == {"c1": 1782918000.0}


def test_a_kernel_log_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    restrict = tmp_path / "restrict"
    restrict.write_text("1\n")
    monkeypatch.setattr("slurm_triage.live.kernel.RESTRICT", restrict)
    cluster.script("dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    cluster.host(monkeypatch, "c1", 1.0)
    gathered = live.gather("1016", timeout=20)
    expected = "kmsg.c1.txt: could not be read: dmesg: read kernel buffer failed: Operation not permitted (kernel.dmesg_restrict is 1"
    assert expected in notes(gathered)
    cluster.script("journalctl", cluster.answer(KERNEL))
    assert live.gather("1016", timeout=20).files["kmsg.c1.txt"] == KERNEL


def test_a_log_of_a_later_boot_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = small(tmp_path, monkeypatch)
    cluster.script("dmesg", cluster.answer(KERNEL))
    cluster.host(monkeypatch, "c1", 1782990000.0)
    gathered = live.gather("1016", timeout=20)
    assert "c1 was booted after the job had ended" in notes(gathered)
    assert "kmsg.c1.txt" not in gathered.files


# ------------------------------------------------------------------------------------------------ keeping


def test_saved_evidence_gives_the_same_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(
        tmp_path,
        monkeypatch,
        b"Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'\n",
    )
    gathered, answer = ask("1016")
    folder = tmp_path / "kept"
    gathered.save(folder)
    again = diagnose(case.read(folder))
    assert (again.cause, again.strength, again.evidence) == (answer.cause, answer.strength, answer.evidence)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert "kernel log: could not be read" in (folder / "manifest.toml").read_text()
    with pytest.raises(FileExistsError):
        gathered.save(folder)


def test_what_was_not_seen_stands_in_the_coverage_and_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_triage.report.text import render

    small(tmp_path, monkeypatch)
    (tmp_path / "job.log").unlink()
    _, answer = ask("1016")
    lost = {c.file: c.note for c in answer.coverage if c.kind is None}
    assert "no such file here" in lost[str(tmp_path / "job.log")]
    assert "this host is none of the job's nodes (c1)" in lost["kernel log"]
    page = " ".join(render(answer).split())
    assert "no such file here" in page
    assert "this host is none of the job's nodes" in page


def test_nothing_is_run_as_a_shell_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in the answers are data: they are in no command line."""
    cluster = small(tmp_path, monkeypatch)
    cluster.sacct("24.11.5", TABLE.replace(b"|main|", b"|$(touch /tmp/x);--help|"))
    live.gather("1016", timeout=20)
    assert not any("touch" in call or "help|" in call for call in cluster.calls)
    assert os.environ["PATH"] == str(tmp_path / "bin")
