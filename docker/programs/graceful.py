#!/usr/bin/env python3
"""Takes a second for a checkpoint on SIGTERM and exits with the number given: graceful.py N"""

import signal
import sys
import time


def save(_number, _frame):
    """Handles SIGTERM."""
    print("SIGTERM: writing checkpoint", flush=True)
    time.sleep(1)
    print("checkpoint written", flush=True)
    sys.exit(int(sys.argv[1]))


signal.signal(signal.SIGTERM, save)
print("working", flush=True)
while True:
    time.sleep(1)
