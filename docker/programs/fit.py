#!/usr/bin/env python3
"""Allocates memory in steps of 10 MiB until it dies; with `rank=N` only the task of that rank does."""

import os
import sys
import time

rank = next((word[5:] for word in sys.argv[1:] if word.startswith("rank=")), None)
held = []
for step in range(400):
    if rank is None or rank == os.environ.get("SLURM_PROCID"):
        held.append(bytearray(10 << 20))
    if step % 4 == 0:
        print(f"step {step}: {10 * len(held)} MiB", flush=True)
    time.sleep(0.05)
    if rank is not None and step == 100:
        break
