"""Which stack a job's evidence shows, and what the report then advises: what must be said, and what must not.

The lines are in the formats of the programs' sources (named in `sources/catalog/stack`) and of public reports.
"""

from __future__ import annotations

import pytest

from slurm_triage import sources
from slurm_triage.attempts import split
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.facts import Job
from slurm_triage.model import Action, Diagnosis
from slurm_triage.report.text import render
from slurm_triage.rules import _advice

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

CASES = {
    "PyTorch, a loader worker killed by the kernel": (
        host_oom(TRACE + TORCH + LOADER, "pt_data_worker", tasks=4),
        "pytorch",
        ["PyTorch: ", "num_workers=2, prefetch_factor=2", "ru_maxrss", "4 tasks share 64.0 GiB: 16.0 GiB"],
        ["R: ", "parpool", "Trainer("],
    ),
    "PyTorch, started with torchrun, says nothing itself": (
        host_oom("epoch 1\n", "python3.11", "srun torchrun --nproc-per-node 4 train.py"),
        "pytorch",
        ["DataLoader("],
        [],
    ),
    "PyTorch, GPU memory used up": (
        failed(TRACE + TORCH + GPU_OOM.format("512.00 MiB")),
        "pytorch",
        ["torch.utils.checkpoint.checkpoint", "torch.cuda.max_memory_allocated()"],
        ["expandable_segments", "DataLoader("],
    ),
    "PyTorch, GPU memory in pieces": (
        failed(TRACE + TORCH + GPU_OOM.format("6.50 GiB")),
        "pytorch",
        ["export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "_record_memory_history"],
        ["torch.utils.checkpoint"],
    ),
    "PyTorch 1.x, GPU memory in pieces": (
        failed(
            TRACE
            + TORCH
            + "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity; "
            "10.50 GiB already allocated; 10.00 MiB free; 14.60 GiB reserved in total by PyTorch)\n"
        ),
        "pytorch",
        ["expandable_segments:True"],
        [],
    ),
    "Lightning": (
        host_oom(LIGHTNING + TORCH, "pt_main_thread"),
        "lightning",
        ["Lightning: ", "DeviceStatsMonitor(cpu_stats=True)", "limit_train_batches=50"],
        ["TrainingArguments"],
    ),
    "Hugging Face Trainer": (
        failed(TRAINER + TRACE + TORCH + GPU_OOM.format("100.00 MiB")),
        "huggingface",
        ["per_device_train_batch_size=1, gradient_accumulation_steps=16, gradient_checkpointing=True", "max_steps=3"],
        ["DeepSpeed"],
    ),
    "Hugging Face Trainer with DeepSpeed imported, not used": (
        failed(IMPORTED + TRAINER + TRACE + TORCH + GPU_OOM.format("100.00 MiB")),
        "huggingface",
        ["TrainingArguments("],
        ["zero_optimization", "see_memory_usage"],
    ),
    "DeepSpeed": (
        host_oom(IMPORTED + DEEPSPEED + TRACE + TORCH, "python"),
        "deepspeed",
        ["stage3_gather_16bit_weights_on_model_save", "see_memory_usage"],
        ["TrainingArguments", "DataLoader("],
    ),
    "Megatron": (
        failed(MEGATRON + TRACE + TORCH + GPU_OOM.format("100.00 MiB")),
        "megatron",
        ["--recompute-granularity full", "--exit-interval 3 --mock-data"],
        ["torch.utils.checkpoint"],
    ),
    "vLLM": (
        failed(VLLM + TORCH + GPU_OOM.format("100.00 MiB"), "srun vllm serve /models/m"),
        "vllm",
        ["--max-model-len 8192 --max-num-seqs 32 --enforce-eager", "--load-format dummy"],
        ["accumulate", "torch.utils.checkpoint"],
    ),
    "JAX": (
        failed(JAX),
        "jax",
        ["XLA_PYTHON_CLIENT_MEM_FRACTION", "memory_stats()", "save_device_memory_profile"],
        ["torch", "DataLoader", "TF_FORCE"],
    ),
    "TensorFlow": (
        failed(TF),
        "tensorflow",
        ["TF_FORCE_GPU_ALLOW_GROWTH=true", 'get_memory_info("GPU:0")'],
        ["torch", "XLA_PYTHON"],
    ),
    "PyTorch that imports TensorFlow for its writers": (
        host_oom(TF_START + TRACE + TORCH, "python"),
        "pytorch",
        ["PyTorch: "],
        ["tf.data", "TensorFlow"],
    ),
    "R, killed by the kernel": (
        host_oom(R, "R", "srun Rscript fit.R"),
        "r",
        ["R: ", "options(mc.cores = 2L)", "gc("],
        ["PyTorch", "DataLoader", "batch"],
    ),
    "MATLAB": (
        host_oom(MATLAB, "MATLAB", "srun matlab -batch simulate"),
        "matlab",
        ["MATLAB: ", 'parpool("Processes", 2)', "whos"],
        ["PyTorch", "batch"],
    ),
    "an MPI code": (
        host_oom(
            "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).\n",
            "solver",
            tasks=64,
        ),
        "mpi",
        ["MPI: ", "%M KiB", "64 tasks shared 64.0 GiB: 1.0 GiB for each"],
        ["PyTorch", "DataLoader"],
    ),
    "Python with pandas": (
        host_oom(TRACE + PANDAS, "python3", "srun ./run.sh"),
        "python",
        ["Python: ", "pandas.read_csv(path, chunksize=1_000_000)", "ru_maxrss"],
        ["PyTorch", "DataLoader", "batch"],
    ),
    "PyTorch that uses pandas": (
        host_oom(TRACE + TORCH + TRACE + PANDAS, "python3"),
        "pytorch",
        ["DataLoader("],
        ["Python: ", "read_csv"],
    ),
    "mpi4py with pandas": (
        host_oom(
            "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).\n" + TRACE + PANDAS,
            "python3",
            tasks=64,
        ),
        "mpi",
        ["MPI: "],
        ["Python: "],
    ),
    "PyTorch under mpirun": (
        host_oom(
            TRACE + TORCH + "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).\n",
            "python",
        ),
        "pytorch",
        ["DataLoader("],
        ["MPI: "],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_advice_fits_the_stack(name: str) -> None:
    files, stack, said, unsaid = CASES[name]
    assert job_of(files).stack.seen[:1] == (stack,)
    text = advised(of(files))
    for words in (*said, "Cheapest check: ", "Measure "):
        assert words in text, f"{words!r} is missing in\n{text}"
    for words in unsaid:
        assert words not in text, f"{words!r} does not belong in\n{text}"


@pytest.mark.parametrize("name", CASES)
def test_the_report_shows_it_whole_on_its_page(name: str) -> None:
    diagnosis = of(CASES[name][0])
    page = render(diagnosis)
    assert len(page.splitlines()) <= 60
    flat = " ".join(page.split())
    for action in diagnosis.actions:
        assert " ".join(action.text.split()) in flat, f"cut: {action.text}"


# ------------------------------------------------------------------------------------------------ what shows no stack

NO_STACK = {
    "a list of packages": "Package                   Version\n------------------------- -------\ntorch                     2.5.1\n"
    "tensorflow                2.17.0\ndeepspeed                 0.15.4\nvllm                      0.8.5\n",
    "conda list": "# packages in environment at /opt/conda:\npytorch   2.5.1   py3.11_cuda12.4_cudnn9.1.0_0   pytorch\n"
    "r-base    4.3.1   h29c4799_3   conda-forge\n",
    "a comment": "# torchrun --nproc_per_node=4 train.py\n# torch.OutOfMemoryError: CUDA out of memory. Tried to allocate\n"
    '// File "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1736, in forward\n',
    "an installer": "Requirement already satisfied: torch in /opt/lib/python3.11/site-packages (2.5.1)\n"
    "Collecting deepspeed\nInstalling collected packages: deepspeed\n",
    "only imported": TF_START + IMPORTED.replace("ds_accelerator", "something else"),
    "sessionInfo of R": "R version 4.3.1 (2023-06-16)\nPlatform: x86_64-pc-linux-gnu\n",
    "a name of a job": "starting matlab_torch_jax\n",
}


@pytest.mark.parametrize("name", NO_STACK)
def test_what_is_only_named_is_no_stack(name: str) -> None:
    files = host_oom(NO_STACK[name], "sort", "srun sort big.txt")
    job = job_of(files)
    assert job.stack.seen == ()
    assert job.stack.known.holds is None
    text = advised(of(files))
    assert "Cheapest check: " in text and "sstat -a -j 1065" in text
    for words in ("PyTorch", "DataLoader", "batch size", "MATLAB", "R: ", "TensorFlow", "DeepSpeed", "vLLM"):
        assert words not in text


def test_without_a_log_the_stack_is_unknown() -> None:
    files = {"sacct.psv": sacct("OUT_OF_MEMORY", "0:125", "srun ./run"), "kmsg.txt": kmsg("python")}
    fact = job_of(files).stack.known
    assert fact.holds is None
    assert "output was not read" in fact.because and "StdOut" in fact.how


def test_a_known_stack_is_cited() -> None:
    fact = job_of(CASES["Lightning"][0]).stack.known
    assert fact.holds and fact.says == "the job runs Lightning"
    assert fact.cites[0].text == "GPU available: True (cuda), used: True"
    with pytest.raises(KeyError):
        job_of(CASES["Lightning"][0]).stack.is_("cobol")


def test_a_helper_of_the_script_gets_no_advice_for_the_framework() -> None:
    """A leak in a shell script beside a training that went well: the kernel names the victim."""
    text = advised(of(host_oom(TRACE + TORCH, "sort")))
    assert "DataLoader" not in text and "batch" not in text
    assert "Cheapest check: " in text
    assert "DataLoader" in advised(of(host_oom(TRACE + TORCH, "python3")))


def test_a_job_named_as_a_stack_runs_none() -> None:
    for command in (
        "srun --job-name matlab hostname",
        "srun -J R sleep 9",
        "srun -n 4 ./x matlab",
        "srun -l hostname",
    ):
        assert job_of(failed("x\n", command)).stack.seen == ()
    for command in (
        "srun -n4 --mpi=pmix matlab -batch x",
        "srun matlab",
        "srun --pty matlab",
        "/usr/bin/srun -n 4 /opt/bin/matlab",
    ):
        assert job_of(failed("x\n", command)).stack.seen == ("matlab",)
    assert job_of(failed("x\n", "srun --mpi=pmix ./solver")).stack.seen == (), "a plugin of srun is no MPI program"
    assert job_of(failed("x\n", "srun python -m torch.distributed.run x.py")).stack.seen == ("pytorch", "python")
    assert job_of(failed("x\n", "srun 'open quote matlab")).stack.seen == ()


def test_the_script_of_a_wrapped_job() -> None:
    files = failed("x\n")
    files["sacct.psv"] = files["sacct.psv"].replace("sbatch run.sh", "sbatch --wrap='Rscript fit.R' -n 1")
    assert job_of(files).stack.seen == ("r",)


def test_of_two_programs_in_one_output_the_later_one_counts() -> None:
    files = failed(R + "Execution halted\n" + TRACE + TORCH + GPU_OOM.format("100.00 MiB"))
    assert job_of(files).stack.seen == ("pytorch", "r")
    files = failed(TRACE + TORCH + R + "Execution halted\n")
    assert job_of(files).stack.seen == ("r", "pytorch")


def test_names_in_the_kernel_log_show_a_stack() -> None:
    assert job_of(host_oom("", "pt_main_thread")).stack.seen == ("pytorch",)
    assert job_of(host_oom("", "R", "srun ./run.sh")).stack.seen == ("r",)
    assert job_of(host_oom("", "Rosetta", "srun ./run.sh")).stack.seen == ()
    line = (
        "2026-12-01T10:29:59+00:00 n1 kernel: python3[4242]: segfault at 0 ip 00007f3b2c4d1f20 sp 00007ffd1c2b3a40 "
        "error 4 in libR.so[7f3b2a000000+9a00000]\n"
    )
    files = {
        "sacct.psv": sacct("FAILED", "0:11"),
        "job.out": "srun: error: n1: task 0: Segmentation fault\n",
        "kmsg.txt": line,
    }
    assert job_of(files).stack.seen == ("r",)
    elsewhere = files | {"kmsg.txt": line.replace("T10:29:59", "T03:29:59")}
    assert job_of(elsewhere).stack.seen == (), "another job's fault"


def test_a_note_says_which_line_shows_the_stack() -> None:
    def notes(files: dict[str, str]) -> str:
        return " ".join(n for v in of(files).considered if v.cause == "memcg_oom" for n in v.notes)

    assert "the job runs Lightning: job.out:1" in notes(CASES["Lightning"][0])
    assert "The software stack of the job is not known: no line names one for sure" in notes(
        host_oom("x\n", "sort", "srun sort x")
    )


# ------------------------------------------------------------------------------------------------ finer families


def test_a_checkpoint_that_was_written_is_used() -> None:
    with_it, without = of(timed_out(TRAINER + SAVED)), of(timed_out(TRAINER))
    assert "trainer.train(resume_from_checkpoint=True)" in advised(with_it).split("Cheapest check")[0]
    assert "save_steps=200" in advised(without)
    assert "save_steps=200" not in advised(with_it)
    assert job_of(timed_out(TRAINER)).stack.wrote_checkpoint.holds is None


def test_the_time_limit_is_told_to_a_program_that_can_keep_it() -> None:
    text = advised(of(timed_out(MEGATRON)))
    assert "--exit-signal-handler" in text
    assert "--exit-duration-in-mins 225" in text, "4 h less a quarter of an hour"


def test_a_server_gets_no_advice_about_training() -> None:
    text = advised(of(timed_out(VLLM + TORCH)))
    assert "optimizer" not in text and "torch.load" not in text
    assert "Cheapest check: " in text


def test_a_node_that_others_filled_is_not_the_jobs_business() -> None:
    files = host_oom(TRACE + TORCH, "python")
    files["kmsg.txt"] = (
        files["kmsg.txt"]
        .replace("CONSTRAINT_MEMCG", "CONSTRAINT_NONE")
        .replace(f"oom_memcg={CGROUP},", "global_oom,")
        .replace("Memory cgroup out of memory: Killed", "Out of memory: Killed")
    )
    diagnosis = of(files)
    assert diagnosis.cause == "global_oom"
    assert "DataLoader" not in advised(diagnosis)


def test_growth_is_measured_and_not_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    """While growth is only possible the usual advice holds; where it is likely, advice is about what is kept."""
    job = job_of(host_oom(TRACE + TORCH, "python"))

    def said() -> list[str]:
        return [item.text for item in _advice.fitting_advice(job, "host_memory") if isinstance(item, Action)]

    assert not _advice._grew(job)
    assert "DataLoader(" in said()[0]
    monkeypatch.setattr(_advice, "_grew", lambda job: True)
    assert "loss.item()" in said()[0] and "VmRSS" in said()[1]


# ------------------------------------------------------------------------------------------------ hostile text


def test_no_text_of_the_job_enters_a_command() -> None:
    evil = "$(touch /tmp/x)`id`;rm -rf ~"
    files = host_oom(
        f'  File "/{evil}/site-packages/torch/{evil}/a.py", line 1, in x\n' + TORCH, "python", f"srun '{evil}'"
    )
    files["sacct.psv"] = files["sacct.psv"].replace("|run|", f"|{evil}|")
    diagnosis = of(files)
    assert "PyTorch: " in advised(diagnosis)
    for action in diagnosis.actions:
        assert "rm -rf" not in action.text and "touch" not in (action.command or "")


def test_what_was_done_already_is_not_advised() -> None:
    files = {"sacct.psv": sacct("FAILED", "0:11"), "job.out": "srun: error: n1: task 0: Segmentation fault\n" + TORCH}
    assert "PYTHONFAULTHANDLER" in advised(of(files))
    files["job.out"] = "Fatal Python error: Segmentation fault\n\n" + files["job.out"]
    text = advised(of(files))
    assert "PYTHONFAULTHANDLER" not in text
    assert "torch.utils.collect_env" in text and "Cheapest check: One GPU" in text


def test_the_jobs_id_is_filled_in_where_it_is_known() -> None:
    known = advised(of(host_oom("x\n", "sort", "srun sort x")))
    assert "sstat -a -j 1065 -o" in known and "JOBID" not in known
