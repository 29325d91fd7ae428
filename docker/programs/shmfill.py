#!/usr/bin/env python3
"""Writes a file into /dev/shm until there is no room: shmfill.py"""

import os
import pathlib
import time

cache = pathlib.Path(f"/dev/shm/cache.{os.getpid()}")
time.sleep(1)
try:
    with cache.open("wb", buffering=0) as stream:
        for _ in range(200):
            stream.write(b"x" * (1 << 20))
finally:
    cache.unlink()
