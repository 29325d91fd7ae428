#!/usr/bin/env python3
"""Data-parallel training on CPUs with gloo; one rank ends as the first argument says: train.py WHAT [RANK]"""

import ctypes
import datetime
import os
import pathlib
import signal
import sys
import time

import older_store
import torch
import torch.distributed as dist

WHAT = sys.argv[1]
BAD = int(sys.argv[2]) if len(sys.argv) > 2 else 1


def fail(step: int) -> None:
    """What the bad rank does in its third step."""
    if WHAT == "raise":
        raise RuntimeError("shape '[32, 10]' is invalid for input of size 330")
    if WHAT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if WHAT == "segv":
        ctypes.string_at(0)
    if WHAT == "exit":
        print(f"rank {BAD}: tokenizer file is empty, giving up", flush=True)
        os._exit(3)
    if WHAT == "hang":
        time.sleep(3600)
    if WHAT == "grow":
        held = []
        while True:
            held.append(bytearray(8 << 20))
    if WHAT == "once":
        mark = pathlib.Path(f"/tmp/once.{os.environ['SLURM_JOB_ID']}")
        if not mark.exists():
            mark.touch()
            raise ConnectionError("object store: 503 slow down")
    if WHAT == "longer":
        dist.all_reduce(torch.ones(7))


def main() -> None:
    """Three ranks or more, ten steps."""
    torch.set_num_threads(1)
    if "RANK" not in os.environ:
        os.environ["RANK"], os.environ["WORLD_SIZE"] = os.environ["SLURM_PROCID"], os.environ["SLURM_NTASKS"]
    if WHAT == "world":
        os.environ["WORLD_SIZE"] = str(int(os.environ["WORLD_SIZE"]) + 1)
    if WHAT == "option":
        import argparse

        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, required=True)
        parser.parse_args([])
    limit = int(os.environ.get("LIMIT", "60"))
    print(f"[rank{os.environ['RANK']}] joining", flush=True)
    older_store.use()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=limit))
    rank = dist.get_rank()
    for step in range(10):
        if rank == BAD and step == 3:
            fail(step)
        if WHAT == "barrier" and step == 3 and rank != BAD:
            dist.monitored_barrier(timeout=datetime.timedelta(seconds=8))
        if WHAT == "barrier" and step == 3:
            time.sleep(3600)
        loss = torch.ones(1) / (step + 1)
        dist.all_reduce(loss)
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.2)
    dist.destroy_process_group()
    if rank == 0:
        print("training complete", flush=True)


if __name__ == "__main__":
    main()
