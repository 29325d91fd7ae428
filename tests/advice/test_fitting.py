"""What a report advises for each stack: what must be said, and what must not."""

from __future__ import annotations

import pytest

from slurm_triage.report.text import render
from tests.advice.jobs import (
    DEEPSPEED,
    GPU_OOM,
    IMPORTED,
    JAX,
    LIGHTNING,
    LOADER,
    MATLAB,
    MEGATRON,
    PANDAS,
    TF,
    TF_START,
    TORCH,
    TRACE,
    TRAINER,
    VLLM,
    R,
    advised,
    failed,
    host_oom,
    job_of,
    of,
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
