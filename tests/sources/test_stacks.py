"""Lines of the output that show a software stack."""

from __future__ import annotations

from slurm_triage.case import EvidenceFile, Manifest
from slurm_triage.clock import Clock, offset_of
from slurm_triage.model import Sign, StackLine
from slurm_triage.sources import Context, job_log

CONTEXT = Context(Clock(offset_of("Z")), Manifest())
FRAME = '  File "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py", line {}, in forward'


def parsed(text: str) -> tuple[list[StackLine], list[Sign]]:
    found = list(job_log.parse(EvidenceFile("job.out", data=text.encode()), CONTEXT))
    return [e for e in found if isinstance(e, StackLine)], [e for e in found if isinstance(e, Sign)]


def test_the_first_and_the_last_lines_of_a_stack_are_kept() -> None:
    lines, _ = parsed("\n".join(FRAME.format(n) for n in range(1, 1001)))
    assert [line.cite.line for line in lines] == [1, 2, 3, 998, 999, 1000]
    assert {line.stack for line in lines} == {"pytorch"}


def test_they_are_no_messages_and_change_none() -> None:
    error = "ERROR: torch.distributed.run failed"
    assert {s.id for s in parsed(f"{error}\n")[1]} >= {"error_line"}
    lines, signs = parsed(f"Traceback (most recent call last):\n{FRAME.format(1)}\nValueError: x\n")
    assert [line.stack for line in lines] == ["pytorch"]
    assert not any(s.id.startswith("stack_") for s in signs)
    assert "python_exception" in {s.id for s in signs}


def test_what_an_import_prints_and_what_tells_of_a_checkpoint_is_marked() -> None:
    lines, _ = parsed(
        "2026-12-01 10:00:02.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary\n"
        "[INFO|trainer.py:3503] 2026-12-01 10:20:00,001 >> Saving model checkpoint to out/checkpoint-500\n"
        "***** Running training *****\n"
    )
    assert [(x.stack, x.banner, x.checkpoint) for x in lines] == [
        ("tensorflow", True, False),
        ("huggingface", False, True),
        ("huggingface", False, False),
    ]


def test_comments_of_a_printed_script_show_nothing() -> None:
    lines, _ = parsed("# Execution halted\n    # mpirun noticed that process rank 3 with PID 0\n// Execution halted\n")
    assert lines == []
