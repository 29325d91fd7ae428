"""Which stack a job's evidence shows, and what that changes in the advice."""

from __future__ import annotations

import pytest

from slurm_triage.model import Action
from slurm_triage.rules import _advice
from tests.advice.jobs import (
    CGROUP,
    GPU_OOM,
    IMPORTED,
    LIGHTNING,
    MEGATRON,
    SAVED,
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
    kmsg,
    of,
    sacct,
    timed_out,
)

ON_LIGHTNING = host_oom(LIGHTNING + TORCH, "pt_main_thread")

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
    fact = job_of(ON_LIGHTNING).stack.known
    assert fact.holds and fact.says == "the job runs Lightning"
    assert fact.cites[0].text == "GPU available: True (cuda), used: True"
    with pytest.raises(KeyError):
        job_of(ON_LIGHTNING).stack.is_("cobol")


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

    assert "the job runs Lightning: job.out:1" in notes(ON_LIGHTNING)
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
