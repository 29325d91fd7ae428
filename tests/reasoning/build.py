"""Evidence of one made-up job (77 on c1, 14:00:00 to 14:01:40 UTC), in the formats that Slurm 24.11 prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone

from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.model import Diagnosis

START = datetime(2026, 11, 30, 14, 0, tzinfo=timezone.utc)
EPOCH = START.timestamp()
BOOT = EPOCH - 1000.0
"""Epoch of kernel time 0."""

HEAD = (
    "JobIDRaw|JobID|JobName|User|UID|Account|Partition|QOS|State|ExitCode|DerivedExitCode|Submit|Start|End|ElapsedRaw|"
    "TimelimitRaw|Reason|NNodes|NodeList|FailedNode|NTasks|ReqMem|MaxRSS|Restarts|WorkDir|StdOut|SubmitLine"
)
CONFIG = """Configuration data as of 2026-11-30T14:00:00
ClusterName             = mini
KillWait                = 30 sec
PreemptMode             = OFF
TaskPlugin              = task/cgroup
JobFileAppend           = 0
"""
KEY_ERROR = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    x["lr"]\nKeyError: \'lr\'\n'
)
XID_79 = "NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def clock(seconds: float) -> str:
    """The time so many seconds after the start, as Slurm prints it."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def manifest(version: str = "24.11.5", *, offset: bool = True, boot: bool = True) -> str:
    """How to read the case; without `offset` times of Slurm, without `boot` those of the kernel are no epochs."""
    zone = 'utc_offset = "+00:00"\n' if offset else ""
    return f'slurm = "{version}"\n{zone}' + (f"boot_epoch = {BOOT}\n" if boot else "")


def job(
    state: str, exit_code: str, *, start: int | None = 0, end: int = 100, nodes: str = "c1", count: int = 1,
    id: str = "77", shown: str = "", name: str = "wrap", reason: str = "None", stdout: str = "", limit: str = "",
    submit_line: str = "",
) -> str:  # fmt: skip
    """A job line of sacct -P. `start` None: it never started; `limit` in minutes."""
    begun = "Unknown" if start is None else clock(start)
    return (
        f"{id}|{shown or id}|{name}|user1|1001|acc|main|normal|{state}|{exit_code}|0:0|{clock(-10)}|{begun}|{clock(end)}|"
        f"{end - (start or 0)}|{limit or 'UNLIMITED'}|{reason}|{count}|{nodes}|||100M||0|/shared|{stdout}|{submit_line}"
    )


def step(
    name: str, state: str = "COMPLETED", exit_code: str = "0:0", *, start: int = 0, end: int = 100, id: str = "77",
    shown: str = "", nodes: str = "c1", count: int = 1, tasks: int = 1,
) -> str:  # fmt: skip
    """A step line of sacct -P."""
    return (
        f"{id}.{name}|{shown or id}.{name}|x|||acc|||{state}|{exit_code}||{clock(start)}|{clock(start)}|{clock(end)}|"
        f"{end - start}|||{count}|{nodes}||{tasks}||4564K||||"
    )


def sacct(*rows: str) -> str:
    """The table with its header."""
    return "\n".join((HEAD, *rows)) + "\n"


def hook(raw: int, *, start: int = 0, end: int = 100, id: str = "77", nodes: str = "c1") -> str:
    """The environment of EpilogSlurmctld; `raw` is the wait status of the script."""
    values = {
        "SLURM_CLUSTER_NAME": "mini",
        "SLURM_JOB_ID": id,
        "SLURM_JOB_EXIT_CODE": str(raw),
        "SLURM_JOB_EXIT_CODE2": f"{raw >> 8}:{raw & 127}",
        "SLURM_JOB_START_TIME": str(int(EPOCH + start)),
        "SLURM_JOB_END_TIME": str(int(EPOCH + end)),
        "SLURM_JOB_UID": "1001",
        "SLURM_JOB_USER": "user1",
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_PARTITION": "main",
        "SLURM_SCRIPT_CONTEXT": "epilog_slurmctld",
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def controller(
    end: str = "WEXITSTATUS 1", extra: Iterable[tuple[int, str]] = (), *, start: int = 0, at: int = 100
) -> str:
    """slurmctld's log of the job; `extra` holds further lines as (second, text)."""
    lines = [
        (-10, "_slurm_rpc_submit_batch_job: JobId=77 InitPrio=1 usec=667"),
        (start, "sched: Allocate JobId=77 NodeList=c1 #CPUs=1 Partition=main"),
        (at, f"_job_complete: JobId=77 {end}"),
        (at, "_job_complete: JobId=77 done"),
        *extra,
    ]
    return "".join(f"[{clock(s)}.{100 + i}] {text}\n" for i, (s, text) in enumerate(sorted(lines, key=lambda x: x[0])))


def task_exit(
    seconds: float, rank: int, status: int, *, step: str = "0", node: str = "c1", pid: int = 0, job: str = "77"
) -> str:
    """A line of the SPANK plugin: raw wait status of one task."""
    return (
        f"{EPOCH + seconds:.3f} node={node} stepd=500 task_exit job={job} step={step} rank={rank} local={rank} "
        f"pid={pid or 900 + rank} status=0x{status:04x} exit={status >> 8} signal={status & 127} core=0\n"
    )


def step_info(
    seconds: float, *, step: str = "0", node: str = "c1", stepd: int = 500, tasks: int = 4, of: int = 4,
    restart: int = 0, job: str = "77",
) -> str:  # fmt: skip
    """What the project's plugin writes before the first record of a slurmstepd (docs/reference/spool.md)."""
    return (
        f"{EPOCH + seconds:.3f} node={node} stepd={stepd} step_info job={job} step={step} uid=1001 gid=1001 groups=1001 "
        f"restart={restart} tasks={tasks} of={of} nodes=1 array=0 boot=7c5f slurm=24.11.5\n"
    )


def ended(
    seconds: float, rank: int, status: int, *, step: str = "0", node: str = "c1", stepd: int = 500, clean: int = 0,
    mono: float | None = None, local: int | None = None, job: str = "77",
) -> str:  # fmt: skip
    """A task record of the project's plugin. `mono`: the node's monotonic clock, else it runs with the wall clock."""
    clock = 8000 + seconds if mono is None else mono
    return (
        f"{EPOCH + seconds:.3f} node={node} stepd={stepd} task_exit job={job} step={step} rank={rank} "
        f"local={rank if local is None else local} pid={900 + rank} status=0x{status:04x} mono={clock:.6f} clean={clean}\n"
    )


def counters(
    seconds: float, level: str, text: str, *, step: str = "0", node: str = "c1", stepd: int = 500, job: str = "77"
) -> str:
    """Counters of a memory cgroup, as either plugin writes them."""
    return f"{EPOCH + seconds:.3f} node={node} stepd={stepd} task_exit job={job} step={step} memcg {level} {text}\n"


def kernel(seconds: float, text: str) -> str:
    """A line of dmesg."""
    return f"[{EPOCH + seconds - BOOT:12.6f}] {text}\n"


def memcg_kill(
    seconds: float, *, job: str = "77", step: str = "step_0", comm: str = "python3", uid: int = 1001, pid: int = 4242,
    cgroup: str = "",
) -> str:  # fmt: skip
    """The kernel kills at the memory limit of `job`, or of another `cgroup`."""
    path = cgroup or f"/slurm/uid_{uid}/job_{job}"
    victim = cgroup or f"{path}/{step}/task_0"
    return (
        kernel(seconds, f"{comm} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")
        + kernel(seconds, "memory: usage 102400kB, limit 102400kB, failcnt 0")
        + kernel(seconds, f"Memory cgroup stats for {path}:")
        + kernel(
            seconds,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
            f"oom_memcg={path},task_memcg={victim},task={comm},pid={pid},uid={uid}",
        )
        + kernel(seconds, f"Memory cgroup out of memory: {_killed(comm, pid, uid)}")
    )


def node_kill(seconds: float, cgroup: str, *, comm: str = "python3", uid: int = 1001, pid: int = 4242) -> str:
    """The kernel kills a process that lives in `cgroup`, because the node's memory ran out."""
    return (
        kernel(seconds, f"{comm} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")
        + kernel(
            seconds,
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
            f"task_memcg={cgroup},task={comm},pid={pid},uid={uid}",
        )
        + kernel(seconds, f"Out of memory: {_killed(comm, pid, uid)}")
    )


def _killed(comm: str, pid: int, uid: int) -> str:
    return (
        f"Killed process {pid} ({comm}) total-vm:200000kB, anon-rss:97000kB, file-rss:100kB, shmem-rss:0kB, "
        f"UID:{uid} pgtables:300kB oom_score_adj:0"
    )


def job_view(state: str, exit_code: str, *, end: str = clock(100), more: str = "") -> str:
    """`scontrol show job` of the job, as Slurm 24.11 prints it."""
    return (
        "JobId=77 JobName=wrap\n   UserId=user1(1001) GroupId=user1(1001) MCS_label=N/A\n"
        "   Priority=1 Nice=0 Account=acc QOS=normal\n"
        f"   JobState={state} Dependency=(null)\n"
        f"   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={exit_code}\n"
        "   RunTime=00:01:40 TimeLimit=00:01:00 TimeMin=N/A\n"
        f"   SubmitTime={clock(-10)} EligibleTime={clock(-10)}\n"
        f"   StartTime={clock(0)} EndTime={end} Deadline=N/A\n"
        "   Partition=main AllocNode:Sid=c0:1\n   NodeList=c1\n"
        "   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n" + more
    )


def failed(output: str, code: int = 1, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """A job whose script ended with `code`, with every witness of that read. `more` adds files."""
    shown = code & 127
    return {
        "manifest.toml": manifest(),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(job("FAILED", f"{shown}:0"), step("batch", "FAILED", f"{shown}:0")),
        "env.epilog_slurmctld.txt": hook(code << 8),
        "slurmctld.log": controller(f"WEXITSTATUS {code}"),
        "job.out": output,
        **(more or {}),
    }


def completed(output: str) -> dict[str, str]:
    """A job that ended with 0, with every witness of that read."""
    return {
        "manifest.toml": manifest(),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(job("COMPLETED", "0:0"), step("batch")),
        "env.epilog_slurmctld.txt": hook(0),
        "slurmctld.log": controller("WEXITSTATUS 0"),
        "job.out": output,
    }


def told(files: Mapping[str, str]) -> Diagnosis:
    """The diagnosis of these files."""
    return diagnose(from_files({name: text.encode() for name, text in files.items()}))


def candidates(diagnosis: Diagnosis) -> dict[str, str]:
    """Every cause that was given, with its strength."""
    found = {verdict.cause: verdict.strength.value for verdict in diagnosis.also}
    found[diagnosis.cause] = diagnosis.strength.value if diagnosis.strength else "unknown"
    return found


def confirmed(diagnosis: Diagnosis) -> set[str]:
    """The causes that were given as confirmed."""
    return {cause for cause, strength in candidates(diagnosis).items() if strength == "confirmed"}


def timeout_command() -> dict[str, str]:
    """srun that gets a signal (here from timeout(1), exit code 124) ends its step in its user's name."""
    rows = job("FAILED", "124:0"), step("batch", "FAILED", "124:0"), step("0", "CANCELLED by 1001", "0:15")
    return {
        "manifest.toml": manifest(),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(*rows),
        "env.epilog_slurmctld.txt": hook(124 << 8),
        "slurmctld.log": controller("WEXITSTATUS 124"),
        "job.out": "srun: forcing job termination\nsrun: Job step aborted: Waiting up to 32 seconds for job step to "
        f"finish.\nslurmstepd-c1: error: *** STEP 77.0 ON c1 CANCELLED AT {clock(60)} ***\n",
    }


def own_limit_here_and_node_full_there() -> dict[str, str]:
    """A kill at the job's limit on c1, and ten seconds later one on c2, whose memory ran out."""
    rows = job("OUT_OF_MEMORY", "0:125", nodes="c[1-2]", count=2), step("batch", "OUT_OF_MEMORY", "0:125")
    return {
        "manifest.toml": manifest(),
        "scontrol-config.txt": CONFIG,
        "sacct.psv": sacct(*rows),
        "kmsg.c1.txt": memcg_kill(50, step="step_batch"),
        "kmsg.c2.txt": node_kill(60, "/slurm/uid_1001/job_77/step_0/task_0"),
    }
