"""`scontrol show job`: real records of Slurm 22.05.8, 24.11.5 and 26.05.5, a completion log, and forged names."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import EvidenceFile, from_files
from slurm_triage.model import ControllerJob, Event, Unreadable
from slurm_triage.sources import Context, recognise
from slurm_triage.sources import scontrol_job as source

# Recorded on Slurm 24.11.5 (a step was cancelled).
PLAIN = """\
JobId=1004 JobName=fold
   UserId=user1(1001) GroupId=user1(1001) MCS_label=N/A
   Priority=1 Nice=0 Account=acc QOS=normal
   JobState=COMPLETED Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:26 TimeLimit=UNLIMITED TimeMin=N/A
   SubmitTime=2026-11-30T15:10:39 EligibleTime=2026-11-30T15:10:39
   AccrueTime=2026-11-30T15:10:39
   StartTime=2026-11-30T15:10:40 EndTime=2026-11-30T15:11:06 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T15:10:40 Scheduler=Main
   Partition=rst AllocNode:Sid=ctl:415
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=r1
   BatchHost=r1
   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=1,mem=60M,node=1,billing=1
   AllocTRES=cpu=1,mem=60M,node=1,billing=1
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=(null)
     Nodes=r1 CPU_IDs=0 Mem=60 GRES=
   MinCPUsNode=1 MinMemoryNode=60M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/shared
   StdErr=/shared/out/1004.out
   StdIn=/dev/null
   StdOut=/shared/out/1004.out
"""

# Recorded on Slurm 26.05.5 (salloc, preempted), shortened in the middle only.
PREEMPTED = """\
JobId=1162 JobName=inter
   SLUID=s0AHM8PEYHJJ00
   UserId=user1(1001) GroupId=user1(1001) MCS_label=N/A
   Priority=1 Nice=0 Account=acc QOS=normal
   JobState=PREEMPTED Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:15
   RunTime=00:00:07 TimeLimit=UNLIMITED TimeMin=N/A
   SubmitTime=2026-11-30T14:50:08 EligibleTime=2026-11-30T14:50:08
   StartTime=2026-11-30T14:50:09 EndTime=2026-11-30T14:50:16 Deadline=N/A
   PreemptEligibleTime=2026-11-30T14:50:09 PreemptTime=2026-11-30T14:50:16
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-30T14:50:09 Scheduler=Main
   Partition=lowc0 AllocNode:Sid=ctl:5099
   NodeList=p4
   BatchHost=p4
   NumNodes=1 NumCPUs=4 NumTasks=1 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   OverSubscribe=NO Exclusive=NO Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null)
   Command=bash
   SubmitLine=salloc -J inter -p lowc0 -w p4 -c4 --mem=60 bash -c echo JOBID=$SLURM_JOB_ID; srun sleep 200; echo rc=$?
   WorkDir=/shared
   TresPerTask=cpu=4
"""

# From a public report: a job held after its launch failed; the end was not pasted.
EXCERPT = """\
JobId=80634 ArrayJobId=80520 ArrayTaskId=114 JobName=get_phone_alignments.sh
   UserId=[REDACTED] GroupId=[REDACTED] MCS_label=N/A
   Priority=0 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=launch_failed_requeued_held Dependency=(null)
   Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:0
   SubmitTime=2020-10-31T20:40:29 EligibleTime=2020-10-31T20:40:35
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   NodeList=(null)
   BatchHost=node023
"""

# From a public report: a line of a completion log.
COMPLETION = (
    "JobId=2293679 UserId=user1(1001) GroupId=group1(100) Name=run.sh JobState=FAILED Partition=a100 TimeLimit=1440 "
    "StartTime=2025-01-11T22:45:16 EndTime=2025-01-11T22:45:18 NodeList=node001 NodeCnt=1 ProcCnt=16 "
    "WorkDir=/home/user1/project1 ReservationName= Tres=cpu=16,mem=240000M,node=1,billing=16 Account=acct1 QOS=normal "
    "WcKey=* Cluster=cluster1 SubmitTime=2025-01-11T22:45:14 EligibleTime=2025-01-11T22:45:14 DerivedExitCode=0:0 "
    "ExitCode=2:0 \n"
)


def events(text: str | bytes, name: str = "scontrol_show_job.txt") -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({name: data, "manifest.toml": b'utc_offset = "+00:00"'})
    file = next(f for f in case.files if f.name == name)
    return list(source.parse(file, Context(case.clock, case.manifest)))


def jobs(text: str, name: str = "scontrol_show_job.txt") -> list[ControllerJob]:
    found = events(text, name)
    assert all(isinstance(e, ControllerJob) for e in found), found
    return [e for e in found if isinstance(e, ControllerJob)]


def one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines()) + " \n"


def test_plain_record() -> None:
    (job,) = jobs(PLAIN)
    assert job.job == "1004"
    assert job.values["JobName"] == "fold"
    assert job.values["JobState"] == "COMPLETED"
    assert job.values["AllocNode:Sid"] == "ctl:415"
    assert job.values["AllocTRES"] == "cpu=1,mem=60M,node=1,billing=1"
    assert job.values["ReqB:S:C:T"] == "0:0:*:*"
    assert job.values["Network"] == "(null)"
    assert (job.values["Nodes"], job.values["CPU_IDs"], job.values["Mem"], job.values["GRES"]) == ("r1", "0", "60", "")
    assert job.values["StdOut"] == "/shared/out/1004.out"
    assert job.start is not None and job.end is not None and job.end.seconds_since(job.start) == 26.0
    assert job.submit is not None and job.start.seconds_since(job.submit) == 1.0
    assert job.suspend_time is None and job.preempt_time is None


def test_every_key_is_cited_with_its_own_line() -> None:
    (job,) = jobs(PLAIN)
    lines = PLAIN.splitlines()
    assert job.values.keys() == job.cites.keys()
    for key, cite in job.cites.items():
        assert cite.text == lines[cite.line - 1]
        assert f"{key}={job.values[key]}" in cite.text
    assert job.cite.text.strip().startswith("JobState=")
    assert job.cites["EndTime"].at == job.end


def test_values_with_blanks_stay_whole() -> None:
    (job,) = jobs(PREEMPTED.replace("Reason=None", "Reason=Node unexpectedly rebooted [slurm@2026-11-30T14:50:16]"))
    assert job.values["Reason"] == "Node unexpectedly rebooted [slurm@2026-11-30T14:50:16]"
    assert job.values["Dependency"] == "(null)"
    assert job.values["SubmitLine"].endswith("bash -c echo JOBID=$SLURM_JOB_ID; srun sleep 200; echo rc=$?")
    assert "rc" not in job.values and "JOBID" not in job.values
    assert job.preempt_time == job.end
    assert job.values["SLUID"] == "s0AHM8PEYHJJ00"
    assert job.values["JobName"] == "inter"


@pytest.mark.parametrize("record", [PLAIN, PREEMPTED])
def test_one_line_form_says_the_same(record: str) -> None:
    (several,) = jobs(record)
    text = "".join(line for line in record.splitlines(keepends=True) if "CPU_IDs" not in line)
    (single,) = jobs(one_line(text))
    assert dict(single.values) == {
        k: v for k, v in several.values.items() if k not in ("Nodes", "CPU_IDs", "Mem", "GRES")
    }
    assert (single.start, single.end, single.preempt_time) == (several.start, several.end, several.preempt_time)


def test_one_line_form_with_several_jobs() -> None:
    found = jobs(one_line(PLAIN) + one_line(PREEMPTED))
    assert [j.job for j in found] == ["1004", "1162"]
    assert found[1].cites["JobState"].line == 2


def test_several_jobs_array_and_het() -> None:
    array = PLAIN.replace("JobId=1004 ", "JobId=1006 ArrayJobId=1001 ArrayTaskId=3 ")
    het = PREEMPTED.replace("JobId=1162 ", "JobId=1123 HetJobId=1122 HetJobOffset=1 ").replace(
        "   UserId=", "   HetJobIdSet=1122-1123\n   UserId="
    )
    found = jobs(f"{array}\n{het}")
    assert [j.job for j in found] == ["1006", "1123"]
    assert (found[0].values["ArrayJobId"], found[0].values["ArrayTaskId"]) == ("1001", "3")
    assert (found[1].values["HetJobId"], found[1].values["HetJobIdSet"]) == ("1122", "1122-1123")
    assert found[1].values["SLUID"] == "s0AHM8PEYHJJ00"
    assert found[0].values["JobName"] == "fold" and found[1].values["JobName"] == "inter"


def test_nodes_with_different_gpus_are_all_kept() -> None:
    text = PLAIN.replace(
        "     Nodes=r1 CPU_IDs=0 Mem=60 GRES=\n",
        "     Nodes=n1 CPU_IDs=0-3 Mem=60 GRES=gpu:a100:2(IDX:0-1)\n"
        "     Nodes=n2 CPU_IDs=4 Mem=60 GRES=gpu:a100:1(IDX:3)\n",
    )
    (job,) = jobs(text)
    assert (job.values["Nodes"], job.values["GRES"]) == ("n1", "gpu:a100:2(IDX:0-1)")
    assert (job.values["Nodes[1]"], job.values["GRES[1]"]) == ("n2", "gpu:a100:1(IDX:3)")


def test_excerpt_without_end() -> None:
    (job,) = jobs(EXCERPT, "sacct.txt")
    assert job.job == "80634"
    assert job.values["JobName"] == "get_phone_alignments.sh"
    assert job.values["Reason"] == "launch_failed_requeued_held"
    assert job.start is None and job.end is None and job.submit is not None
    assert job.moment is None


def test_completion_log() -> None:
    (job,) = jobs(COMPLETION, "sacct.txt")
    assert job.job == "2293679"
    assert (job.values["JobName"], job.values["JobState"], job.values["ExitCode"]) == ("run.sh", "FAILED", "2:0")
    assert job.values["ReservationName"] == ""
    assert job.end is not None and job.start is not None and job.end.seconds_since(job.start) == 2.0


@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("scontrol_show_job.txt", "hook"),
        ("scontrol_show_job.attempt1.txt", "hook"),
        ("scontrol_show_job_final.txt", "final"),
        ("scontrol_show_job_held.txt", "held"),
        ("sacct.txt", None),
    ],
)
def test_moment(name: str, moment: str | None) -> None:
    assert jobs(PLAIN, name)[0].moment == moment


@pytest.mark.parametrize(
    "name",
    [
        "fold JobState=FAILED Reason=NonZeroExitCode",
        "fold\n   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)",
        "fold\n   UserId=root(0) GroupId=root(0) MCS_label=N/A\n   JobState=FAILED Reason=x Dependency=(null)",
        "fold\n\nJobId=7 JobName=y",
        "fold UserId=root(0) GroupId=root(0) JobState=FAILED\nJobId=7 JobName=y",
        "my run é|日本 §1\nsecond line",
    ],
)
def test_job_name_cannot_forge(name: str) -> None:
    (job,) = jobs(PLAIN.replace("JobName=fold", f"JobName={name}"))
    assert job.job == "1004"
    assert job.values["JobName"] == name
    assert job.values["JobState"] == "COMPLETED"
    assert job.values["UserId"] == "user1(1001)"
    assert job.values["Reason"] == "None"


@pytest.mark.parametrize("name", ["fold JobState=FAILED Reason=x", "fold UserId=root(0) JobState=FAILED", "a\nb"])
def test_job_name_cannot_forge_in_one_line_form(name: str) -> None:
    (job,) = jobs(one_line(PLAIN).replace("JobName=fold", f"JobName={name}"))
    assert (job.values["JobName"], job.values["JobState"], job.values["UserId"]) == (name, "COMPLETED", "user1(1001)")


def test_free_text_below_cannot_forge() -> None:
    forged = "x\n   JobState=FAILED Reason=y Dependency=z\n   PreemptEligibleTime=None PreemptTime=2026-11-30T15:11:00"
    (job,) = jobs(PLAIN.replace("   WorkDir=", f"   Comment={forged}\n   WorkDir="))
    assert job.values["JobState"] == "COMPLETED"
    assert job.preempt_time is None and "PreemptTime" not in job.values
    assert job.values["Comment"] == forged
    assert job.values["WorkDir"] == "/shared"


def test_what_nobody_can_tell_apart_is_not_used() -> None:
    body = PLAIN.split("\n", 1)[1].rstrip("\n")
    forged = body.replace("COMPLETED", "FAILED")
    found = events(PLAIN.replace("JobName=fold", f"JobName=fold\n{forged}"))
    (job,) = [e for e in found if isinstance(e, ControllerJob)]
    (bad,) = [e for e in found if isinstance(e, Unreadable)]
    assert "JobState" not in job.values and "JobState" not in job.cites
    assert job.values["UserId"] == "user1(1001)"
    assert "JobState" in bad.why and bad.job == "1004"


def test_a_name_full_of_forgeries_leaves_only_the_job_id() -> None:
    found = events(PLAIN.replace("JobName=fold", "JobName=x" + "\n   UserId=a(0) GroupId=b(0)" * 1000))
    (job,) = [e for e in found if isinstance(e, ControllerJob)]
    assert dict(job.values) == {"JobId": "1004"}
    assert any(isinstance(e, Unreadable) and "JobState" in e.why for e in found)


def test_forged_path_is_not_used() -> None:
    found = events(PLAIN.replace("Command=(null)", "Command=/x\n   StdOut=/etc/shadow"))
    (job,) = [e for e in found if isinstance(e, ControllerJob)]
    assert "StdOut" not in job.values
    assert job.values["StdErr"] == "/shared/out/1004.out"
    assert any(isinstance(e, Unreadable) and "StdOut" in e.why for e in found)


def test_completion_log_with_a_forged_name() -> None:
    start = COMPLETION.index("JobState=")
    forged = COMPLETION[start : COMPLETION.index(" NodeCnt")].replace("FAILED", "COMPLETED")
    found = events(COMPLETION.replace("Name=run.sh", f"Name=run.sh {forged}"))
    (job,) = [e for e in found if isinstance(e, ControllerJob)]
    assert "JobState" not in job.values and "JobName" not in job.values
    assert job.values["ExitCode"] == "2:0"
    assert any(isinstance(e, Unreadable) and "JobState" in e.why for e in found)


def test_forgotten_job() -> None:
    (event,) = events("slurm_load_jobs error: Invalid job id specified\n")
    assert isinstance(event, Unreadable)
    assert event.why == "the controller has forgotten the job (MinJobAge)"


def test_controller_not_reached_is_not_forgotten() -> None:
    (event,) = events("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
    assert isinstance(event, Unreadable)
    assert "forgotten" not in event.why and "Unable to contact" in event.why


def test_recognise() -> None:
    assert source.recognise("sacct.txt", PLAIN.splitlines()) == 1.0
    assert source.recognise("x", [one_line(PLAIN)]) == 1.0
    assert source.recognise("x", COMPLETION.splitlines()) == 1.0
    assert source.recognise("x", ["slurm_load_jobs error: Invalid job id specified"]) >= 0.9
    assert source.recognise("x", ["JobID|JobName|State", "1|a|FAILED"]) == 0.0
    # a job that prints its own record at the start is still the job's output
    assert source.recognise("out/1004.out", PLAIN.splitlines()) <= 0.3
    assert source.recognise("job.out", PLAIN.splitlines()) <= 0.3
    chosen = recognise(EvidenceFile("sacct.txt", data=PLAIN.encode()))
    assert chosen is not None and chosen.KIND == "scontrol_job"


PIECES = [*PLAIN.splitlines(keepends=True), *PREEMPTED.splitlines(keepends=True), COMPLETION, "\n", "\0", "é\n", "   "]


@given(st.binary(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=40).map(lambda p: "".join(p).encode()))
@settings(max_examples=150, deadline=None)
def test_never_raises(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").split("\n")
    source.recognise("x", lines[:60])
    for event in events(data):
        assert event.cite.line >= 1
        if isinstance(event, ControllerJob):
            assert event.values.keys() == event.cites.keys()


@pytest.mark.parametrize(
    "unit",
    [" UserId=u GroupId=", " JobState=", "\n   UserId=u GroupId=g", " Nodes=a CPU_IDs=b Mem=c", "JobId=1 ", " \t"],
)
def test_linear_time(unit: str) -> None:
    text = "JobId=1 JobName=x" + unit * ((1 << 20) // len(unit))
    begin = time.monotonic()
    assert events(text)
    assert time.monotonic() - begin < 20
