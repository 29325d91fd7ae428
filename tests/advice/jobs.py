"""Jobs for the tests of advice: evidence as Slurm, the kernel and the programs print it.

The lines are in the formats of the programs' sources (named in `sources/catalog/stack`) and of public reports.
"""

from __future__ import annotations

from slurm_triage import sources
from slurm_triage.attempts import split
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.facts import Job
from slurm_triage.model import Diagnosis

HEAD = (
    "JobID|JobIDRaw|JobName|User|Partition|State|ExitCode|Start|End|ReqMem|Timelimit|NodeList|NNodes|NTasks|SubmitLine"
)
TIMES = "2026-12-01T10:00:00|2026-12-01T10:30:00"
MANIFEST = 'slurm = "24.11.5"\nutc_offset = "+00:00"\n'
CGROUP = "/system.slice/slurmstepd.scope/job_1065"


def sacct(state: str, exit: str, command: str = "srun ./run.sh", tasks: int = 1, name: str = "run") -> str:
    job = f"1065|1065|{name}|u|gpu|{state}|{exit}|{TIMES}|64G|04:00:00|n1|1||sbatch run.sh"
    step = f"1065.0|1065.0|python|||{state}|{exit}|{TIMES}|||n1|1|{tasks}|{command}"
    return f"{HEAD}\n{job}\n{step}\n"


def kmsg(victim: str) -> str:
    """Recorded on 6.18 (cgroup v2): the job's own limit."""
    return (
        f"2026-12-01T10:29:59+00:00 n1 kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,"
        f"mems_allowed=0,oom_memcg={CGROUP},task_memcg={CGROUP}/step_0/user/task_0,task={victim},pid=4242,uid=1001\n"
        f"2026-12-01T10:29:59+00:00 n1 kernel: Memory cgroup out of memory: Killed process 4242 ({victim}) "
        "total-vm:9000000kB, anon-rss:8000000kB, file-rss:0kB, shmem-rss:0kB, UID:1001 pgtables:1000kB "
        "oom_score_adj:0\n"
    )


KILLED = (
    "slurmstepd-n1: error: Detected 1 oom_kill event in StepId=1065.0. Some of the step tasks have been OOM Killed.\n"
)


def host_oom(log: str, victim: str, command: str = "srun ./run.sh", tasks: int = 1) -> dict[str, str]:
    return {
        "sacct.psv": sacct("OUT_OF_MEMORY", "0:125", command, tasks),
        "job.out": log + KILLED,
        "kmsg.txt": kmsg(victim),
    }


def failed(log: str, command: str = "srun ./run.sh") -> dict[str, str]:
    return {"sacct.psv": sacct("FAILED", "1:0", command), "job.out": log}


def timed_out(log: str) -> dict[str, str]:
    end = "slurmstepd-n1: error: *** STEP 1065.0 ON n1 CANCELLED AT 2026-12-01T10:30:00 DUE TO TIME LIMIT ***\n"
    return {"sacct.psv": sacct("TIMEOUT", "0:0"), "job.out": log + end}


def _bytes(files: dict[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in (files | {"manifest.toml": MANIFEST}).items()}


def job_of(files: dict[str, str]) -> Job:
    case = from_files(_bytes(files))
    events, coverage = sources.parse(case)
    return Job(split(events, coverage, case.manifest.version, case.manifest.cluster)[-1])


def of(files: dict[str, str]) -> Diagnosis:
    return diagnose(from_files(_bytes(files)))


def advised(diagnosis: Diagnosis) -> str:
    return "\n".join(f"{a.text}\n{a.command or ''}" for a in diagnosis.actions)


TORCH = (
    '  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1736, in _wrapped_call_impl\n'
)
LOADER = "RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed. \n"
GPU_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.19 GiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and {} is reserved by PyTorch "
    "but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
)
PANDAS = '  File "/opt/lib/python3.11/site-packages/pandas/core/frame.py", line 4102, in __getitem__\n'
TRACE = "Traceback (most recent call last):\n"
LIGHTNING = (
    "GPU available: True (cuda), used: True\nTPU available: False, using: 0 TPU cores\n"
    "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0,1]\n"
)
TRAINER = "[INFO|trainer.py:2243] 2026-12-01 10:01:00,123 >> ***** Running training *****\n"
SAVED = "[INFO|trainer.py:3503] 2026-12-01 10:20:00,001 >> Saving model checkpoint to out/checkpoint-500\n"
DEEPSPEED = (
    "[2026-12-01 10:00:30,123] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed info: version=0.15.4, "
    "git-hash=unknown, git-branch=unknown\n"
)
IMPORTED = (
    "[2026-12-01 10:00:05,123] [INFO] [real_accelerator.py:219:get_accelerator] "
    "Setting ds_accelerator to cuda (auto detect)\n"
)
MEGATRON = "> initialized tensor model parallel with size 8\n> initialized pipeline model parallel with size 1\n"
VLLM = (
    "INFO 12-01 10:00:40 [core.py:61] Initializing a V1 LLM engine (v0.8.2) with config: model='/models/m'\n"
    + TRACE
    + '  File "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core.py", line 390, in run_engine_core\n'
)
JAX = (
    TRACE + '  File "/opt/lib/python3.11/site-packages/jax/_src/pjit.py", line 304, in _python_pjit_helper\n'
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.\n"
)
TF_START = (
    "2026-12-01 10:00:02.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized "
    "to use available CPU instructions in performance-critical operations.\n"
)
TF = (
    TF_START
    + TRACE
    + '  File "/opt/lib/python3.11/site-packages/tensorflow/python/eager/execute.py", line 53, in quick_execute\n'
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Conv2D}} OOM when "
    "allocating tensor with shape[64,512,512,64] and type float on /job:localhost/replica:0/task:0/device:GPU:0\n"
)
R = "Loading required package: Matrix\n"
MATLAB = (
    "                            < M A T L A B (R) >\n                  Copyright 1984-2023 The MathWorks, Inc.\n"
    "Starting parallel pool (parpool) using the 'Processes' profile ...\nConnected to parallel pool with 16 workers.\n"
)
