#!/usr/bin/env python3
"""Allocates 3 GiB in one piece."""

import time

time.sleep(1)
grid = bytearray(3 << 30)
print("allocated", len(grid))
