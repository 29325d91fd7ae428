#!/usr/bin/env python3
"""Reads batches with worker processes of a torch DataLoader; one of them fails as the first argument says."""

import ctypes
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

WHAT = sys.argv[1]
SIZE = int(sys.argv[2]) if len(sys.argv) > 2 else 1000


class Images(Dataset):
    """Made-up images of `SIZE` numbers."""

    def __len__(self) -> int:
        """How many there are."""
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        """One of them, or a failure."""
        if WHAT == "value" and index == 37:
            raise ValueError(f"image {index}: expected 3 channels, found 4")
        if WHAT == "segv" and index == 37:
            ctypes.string_at(0)
        if WHAT == "grow" and index == 37:
            held = []
            while True:
                held.append(bytearray(8 << 20))
        if WHAT == "slow":
            time.sleep(0.2)
        return torch.full((SIZE,), float(index))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if WHAT == "files":
        held = []
        while len(held) < 5000:
            held.append(torch.ones(10).share_memory_())
    loader = DataLoader(Images(), batch_size=4, num_workers=2)
    for step, batch in enumerate(loader):
        if step % 5 == 0:
            print(f"step {step} mean {batch.mean():.1f}", flush=True)
    print("epoch complete", flush=True)
