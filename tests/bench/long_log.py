"""A long training log, the same bytes at each call: output of many ranks through `srun --label`, gigabytes of it.

What stands in it is what such logs are made of: lines of progress in the form of Megatron-LM, dictionaries in that of
the Hugging Face trainer, progress bars with carriage returns, NCCL's notes, warnings, request ids that never come
twice, and now and then harmless lines with the words of errors in them. The first real error stands in the middle, in
the output of one rank; the others go on, and the file ends with what they say of the peer that is gone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

RANKS = 64
CULPRIT = 17
"""The rank whose error is the first one."""

_STEP = """\
0: [2026-03-0{day} {hour:02}:{minute:02}:{second:02}] iteration {step:8}/  900000 | consumed samples: {samples:12} | \
elapsed time per iteration (ms): {ms:.1f} | learning rate: {rate:.6E} | global batch size:  1024 | lm loss: \
{loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |
{a}: {{'loss': {loss:.4f}, 'grad_norm': {norm:.6f}, 'learning_rate': {rate:.3e}, 'epoch': {epoch:.2f}}}
{b}: node{b:03}: step {step} forward {f:.2f} ms backward {g:.2f} ms optimizer {h:.2f} ms tokens/s {tokens}
{c}: Epoch {day}:  {per:2}%|{bar:<10}| {step}/900000 [{hour:02}:{minute:02}<{left:02}:12, {its:.2f}it/s]\r\
Epoch {day}:  {per:2}%|{bar:<10}| {next}/900000 [{hour:02}:{minute:02}<{left:02}:11, {its:.2f}it/s]
{d}: INFO:loader:worker {e} shard-{shard:05}.tar.zst read {mib:.1f} MiB in {f:.2f} s, {depth} waiting
{e}: request {word:032x} prompt_tokens={tokens} generated={depth} latency_ms={ms:.1f} status=200
"""

_NOTES = (
    "{a}: node{a:03}:{pid}:{pid2} [{gpu}] NCCL INFO Channel {ch:02}/0 : {a}[{gpu}] -> {b}[{gpu}] via P2P/CUMEM/read\n",
    "{a}: [Rank {a}] (after {step} iterations) memory (MB) | allocated: {mib:.2f} | reserved: {ms:.2f}\n",
    "0: saving checkpoint at iteration {step:8} to /scratch/run/ckpt in torch_dist format\n",
    "{b}: /opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py:1830: FutureWarning: "
    "non-full backward hooks are deprecated\n",
    "{c}: WARNING:root:retrying GET /shard-{shard:05} after status 503 (attempt 1), error: none so far\n",
    "{d}: sample {word:x}: the quick {word2:x} jumps over {word3:x}\n",
)
_EVERY = 40
"""Steps between two notes."""

_ERROR = f"""\
{CULPRIT}: Traceback (most recent call last):
{CULPRIT}:   File "/home/user/run/train.py", line 412, in <module>
{CULPRIT}:     main()
{CULPRIT}:   File "/home/user/run/train.py", line 377, in main
{CULPRIT}:     batch = collate(samples)
{CULPRIT}:   File "/home/user/run/data.py", line 91, in collate
{CULPRIT}:     return torch.stack([s["ids"] for s in samples])
{CULPRIT}: RuntimeError: stack expects each tensor to be equal size, but got [4096] at entry 0 and [4032] at entry 3
"""

_END = "".join(
    f"{rank}: [rank{rank}]:[E302 11:02:17.000000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=77120, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
    "600029 milliseconds before timing out.\n"
    for rank in range(RANKS)
    if rank != CULPRIT
)


def _steps(draw: random.Random) -> Iterator[str]:
    """The lines of one step after the other, without end."""
    step = 0
    while True:
        step += 1
        bits = draw.getrandbits(96)
        values = {
            "step": step, "next": step + 1, "samples": step * 1024, "day": 1 + step // 80000 % 9,
            "hour": step // 3600 % 24, "minute": step // 60 % 60, "second": step % 60, "ms": 900 + (bits & 1023) / 7,
            "rate": 3e-4 / (1 + step / 1e5), "loss": 2 + (bits >> 10 & 1023) / 911, "norm": (bits >> 20 & 1023) / 1777,
            "epoch": step / 9000, "a": bits & 63, "b": bits >> 6 & 63, "c": bits >> 12 & 63, "d": bits >> 18 & 63,
            "e": bits >> 24 & 63, "f": (bits >> 30 & 4095) / 31, "g": (bits >> 42 & 4095) / 29, "h": (bits & 511) / 17,
            "tokens": bits >> 40 & 65535, "per": step // 9000 % 100, "bar": "#" * (step // 90000 % 10),
            "left": 59 - step // 60 % 60, "its": 1 + (bits & 127) / 99, "shard": bits >> 33 & 16383,
            "mib": (bits >> 50 & 65535) / 13, "depth": bits >> 60 & 511, "word": bits * 0x9E3779B97F4A7C15 % (1 << 128),
        }  # fmt: skip
        yield _STEP.format_map(values)
        if step % _EVERY == 0:
            more = {"pid": 10000 + (bits & 8191), "pid2": 20000 + (bits & 4095), "gpu": bits & 7, "ch": bits & 15,
                    "word2": bits >> 40, "word3": bits >> 64}  # fmt: skip
            yield _NOTES[step // _EVERY % len(_NOTES)].format_map(values | more)


def write(path: Path, size: int) -> int:
    """Writes about `size` bytes; returns the number of the line that names the first error."""
    steps = _steps(random.Random(6))
    written = lines = number = 0
    with path.open("w", encoding="ascii", newline="") as stream:
        while written < size - len(_END):
            block = "".join(next(steps) for _ in range(256))
            if not number and written >= size // 2:
                block = _ERROR + block
                number = lines + _ERROR.count("\n")
            lines += block.count("\n")
            written += stream.write(block)
        stream.write(_END)
    return number
