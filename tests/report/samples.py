"""Diagnoses made by hand after jobs recorded on Slurm 24.11.5: OOM kill, preemption with a grace window, no cause."""

from __future__ import annotations

from dataclasses import replace

from slurm_triage.model import (
    Action,
    Cite,
    Condition,
    Coverage,
    Diagnosis,
    ExitInfo,
    Fact,
    FirstFailure,
    JobIdentity,
    Missing,
    Moment,
    Owner,
    Role,
    Stamp,
    Strength,
    Verdict,
)

T = 1796051451  # 2026-11-30T15:10:51Z


def at(second: float, width: float = 1.0) -> Stamp:
    return Stamp(T + second, T + second + width)


KILLED = Cite(
    "kernel_log",
    "kmsg.txt",
    87,
    "[ 5246.185012] Memory cgroup out of memory: Killed process 15255 (python3) total-vm:91520kB, anon-rss:70212kB, "
    "file-rss:4608kB, shmem-rss:0kB, UID:1001 pgtables:208kB oom_score_adj:0",
    "c1",
    at(6, 2),
)
CONSTRAINT = Cite(
    "kernel_log",
    "kmsg.txt",
    86,
    "[ 5246.185001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/slurm_c1/uid_1001/job_1088,task_memcg=/slurm_c1/uid_1001/job_1088/step_0/task_1,task=python3,"
    "pid=15255,uid=1001",
    "c1",
    at(6, 2),
)
SRUN = Cite("job_log", "job.out", 3, "srun: error: c1: task 1: Out Of Memory", "c1")
SACCT = Cite("sacct", "sacct.psv", 4, "1088.0|fold|OUT_OF_MEMORY|0:125|2026-11-30T15:10:52|2026-11-30T15:10:58")

OOM_JOB = JobIdentity(
    "mini",
    "1088",
    "1088",
    user="user1",
    account="acc",
    partition="main",
    qos="normal",
    name="fold",
    state="FAILED",
    submit=at(-4),
    start=at(0),
    end=at(8),
    nodes=("c1", "c2"),
    exit=ExitInfo(1, 0, False, 256, "1:0", "the batch script's own exit code"),
    uid=1001,
)
MEMCG_OOM = Verdict(
    "memcg_oom",
    Strength.CONFIRMED,
    (
        Condition(Role.REQUIRE, Fact("the kernel killed a process of this job", True, (KILLED,))),
        Condition(Role.CONFIRM, Fact("the kernel names the job's own limit", True, (CONSTRAINT,))),
        Condition(
            Role.REFUTE,
            Fact("the whole node was out of memory", False, (CONSTRAINT,), "the constraint is CONSTRAINT_MEMCG"),
        ),
        Condition(
            Role.SUPPORT,
            Fact("MaxRSS is close to the limit", None, (), "the field is empty", "sacct -j 1088 -o MaxRSS"),
        ),
    ),
    Owner.USER,
    "The job reached its own memory limit (80 MiB) and the kernel killed rank 1 on c1.",
)
NODE_OOM = Verdict(
    "global_oom",
    Strength.RULED_OUT,
    (
        Condition(
            Role.REQUIRE,
            Fact("the whole node was out of memory", False, (CONSTRAINT,), "the kernel names the job's own cgroup"),
        ),
    ),
)
SILENT = Verdict(
    "preempted",
    Strength.SILENT,
    (Condition(Role.REQUIRE, Fact("the job was preempted", None, (), "no slurmctld.log", "give slurmctld.log")),),
)
OOM = Diagnosis(
    OOM_JOB,
    "memcg_oom",
    Owner.USER,
    Strength.CONFIRMED,
    MEMCG_OOM.summary,
    (
        Action("Ask for more memory: try 120 MiB.", "sbatch --mem=120M fold.sh"),
        Action("Or give each rank less work."),
    ),
    (KILLED, CONSTRAINT, SRUN, SACCT),
    (
        Moment(at(0), "job started", SACCT),
        Moment(at(1), "step 0 started with 4 tasks", SACCT),
        Moment(at(6, 2), "the kernel killed python3 (pid 15255): limit of job_1088 reached", KILLED),
        Moment(at(8), "job ended FAILED", SACCT),
    ),
    FirstFailure(1, "c1", at(6, 2), "killed by the OOM killer", KILLED),
    (NODE_OOM,),
    (Missing("the peak of the job's memory cgroup", "how much the job wanted", "load the SPANK plugin"),),
    (),
    (("limit of the job on c1", "80.0 MiB"), ("memory of rank 1 when killed", "73.1 MiB of 80.0 MiB"), ("peak", "")),
    (SILENT, NODE_OOM, MEMCG_OOM),
    (
        Coverage("kmsg.txt", "kernel_log", 120, 3, "c1", at(6, 2), at(6, 2)),
        Coverage("x.bin", None, note="not recognised"),
    ),
)

GRACE = Cite(
    "job_log",
    "job.out",
    1,
    "slurmstepd-p4: error: *** STEP 1119.0 ON p4 CANCELLED AT 2026-11-30T15:11:04 ***",
    "p4",
    at(13),
)
RECLAIM = Cite(
    "slurmctld_log",
    "slurmctld.log",
    3,
    "[2026-11-30T15:11:18.015] preempted JobId=1119 has been killed to reclaim resources for JobId=1127",
    None,
    at(27.015, 0.001),
)
PREEMPTED = Diagnosis(
    JobIdentity(
        "mini",
        "1119",
        attempt=1,
        attempts=2,
        user="user1",
        name="{{ 7*7 }}{% raw %}",
        state="PREEMPTED",
        submit=at(4),
        start=at(5),
        end=at(27),
        nodes=("p4",),
        exit=ExitInfo(None, 9, False, None, "0:0", "an exit code says nothing about a preempted job"),
    ),
    "preempted",
    Owner.SCHEDULER,
    Strength.CONFIRMED,
    "Job 1127 of partition high took p4: SIGTERM at 15:11:04, 14 s of grace, then SIGKILL.",
    (Action("Submit it again; write a checkpoint on SIGTERM.", "sbatch --requeue 'my job.sh'"),),
    (RECLAIM, GRACE),
    (Moment(at(13), "grace window opens, steps get SIGTERM", GRACE), Moment(at(27.015, 0.001), "killed", RECLAIM)),
)

UNKNOWN = Diagnosis(
    JobIdentity(job_id="77"),
    "unknown",
    Owner.UNKNOWN,
    None,
    "Signal 9 from a sender that nothing here names.",
    missing=(Missing("the kernel log of c1", "whether the kernel's OOM killer sent the signal", "dmesg -T on c1"),),
    coverage=(Coverage("kmsg.txt", None, note="could not be read: Permission denied"),),
)


def array(*parts: Diagnosis) -> Diagnosis:
    return Diagnosis(
        JobIdentity("mini", "1001", "1001", array="1001"),
        "array_mixed",
        Owner.USER,
        Strength.CONFIRMED,
        "Tasks ended in different ways.",
        parts=parts,
    )


def task(diagnosis: Diagnosis, index: int) -> Diagnosis:
    job = replace(
        diagnosis.job, array="1001", array_task=str(index), job_id=str(1001 + index), shown_id=f"1001_{index}"
    )
    return replace(diagnosis, job=job)
