#!/usr/bin/env python3
"""mpi4py: one rank raises while the others wait for it."""

import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size}", flush=True)
time.sleep(1)
if world.rank == int(sys.argv[1]):
    raise KeyError("temperature")
world.Barrier()
