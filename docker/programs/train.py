#!/usr/bin/env python3
"""Raises KeyError."""

import time

config = {"epochs": 3}
time.sleep(1)
print("loading", flush=True)
rate = config["learning_rate"]
