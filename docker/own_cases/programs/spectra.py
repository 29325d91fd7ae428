#!/usr/bin/env python3
"""A small analysis; the first argument is the part to run, each of which meets its own trouble."""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import logging
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent


def log(text: str) -> None:
    """Prints a line at once."""
    print(text, flush=True)


def fold(tree: list, depth: int = 0) -> int:
    """Adds up a tree that contains itself."""
    return sum(fold(branch, depth + 1) for branch in tree)


def recursion() -> None:
    """Follows a cycle."""
    tree: list = []
    tree.append(tree)
    log(f"total {fold(tree)}")


def missing_module() -> None:
    """Imports what the environment does not have."""
    import astropy.io.fits  # noqa: F401


def missing_file() -> None:
    """Reads a table that is not there."""
    import pandas

    pandas.read_csv("/shared/home/user1/runs/2026-11/table.csv")


def missing_column() -> None:
    """Asks a table for a column of another name."""
    import pandas

    table = pandas.DataFrame({"time": [1, 2], "flux": [0.5, 0.25]})
    log(str(table["fluxx"].mean()))


def shapes() -> None:
    """Multiplies what does not fit."""
    import numpy

    log(str(numpy.ones((4, 3)) @ numpy.ones((4, 3))))


def big_array() -> None:
    """Asks numpy for more than it may have."""
    import numpy

    log("spectra: allocating the covariance matrix")
    numpy.zeros((60000, 60000)).sum()


def big_tensor() -> None:
    """Asks torch for more than it may have."""
    import torch

    log("model: embedding table")
    torch.ones(200000, 20000)


def no_cuda() -> None:
    """Wants a GPU from a build of torch without."""
    import torch

    torch.zeros(4, device="cuda")


def library() -> None:
    """Gives a C library fewer cells than it says."""
    smooth = ctypes.CDLL(str(HERE / "libsmooth.so"))
    log("smoothing 4000000 cells")
    smooth.smooth_cells((ctypes.c_double * 4)(), 4000000)


def faulthandler_null() -> None:
    """Reads address 0 with the fault handler on."""
    import faulthandler

    faulthandler.enable()
    ctypes.string_at(0)


def crash(number: int) -> int:
    """The worker that gets number 3 dies of a segmentation fault."""
    if number == 3:
        ctypes.string_at(0)
    time.sleep(0.2)
    return number


def grow(number: int) -> int:
    """The worker that gets number 3 grows."""
    held = []
    while number == 3:
        held.append(bytearray(8 << 20))
        time.sleep(0.02)
    return number


def pool(work) -> None:
    """Spreads work over processes that may die."""
    with concurrent.futures.ProcessPoolExecutor(4) as workers:
        log(f"sum {sum(workers.map(work, range(8)))}")


def old_pool() -> None:
    """The older pool: it starts another worker for one that died, and waits forever for its answer."""
    with multiprocessing.Pool(2) as workers:
        log(f"sum {sum(workers.map(grow, range(8)))}")


def checkpoint(folder: str) -> None:
    """Saves the state of a model until there is no room."""
    import torch

    state = {f"layer.{n}.weight": torch.ones(512, 1024) for n in range(12)}
    for step in range(100, 500, 100):
        log(f"step {step}: saving")
        torch.save(state, f"{folder}/{os.environ['SLURM_JOB_ID']}-{step}.pt")


def writer_thread() -> None:
    """Saves in a thread; what cannot be saved ends the run."""

    def save(state: dict) -> None:
        (pathlib.Path(os.environ["HOME"]) / "state.json").write_text(json.dumps(state))

    with concurrent.futures.ThreadPoolExecutor(1) as writer:
        for step in range(3):
            log(f"epoch {step} loss {1 / (step + 1):.3f}")
            saved = writer.submit(save, {"epoch": step, "loss": 1 + 2j if step == 2 else 1.0})
            time.sleep(0.5)
            saved.result()


def table(path: str) -> None:
    """Writes a table until there is no room."""
    with pathlib.Path(path).open("w") as stream:
        for row in range(4_000_000):
            stream.write(f"{row},{row * row}\n")


def open_files() -> None:
    """Keeps every shard open."""
    folder = pathlib.Path(f"/tmp/shards.{os.getpid()}")
    folder.mkdir()
    held = []
    try:
        for shard in range(5000):
            held.append((folder / f"{shard:05}.idx").open("w"))
    finally:
        for file in held:
            file.close()
        subprocess.run(["rm", "-rf", folder])


def threads() -> None:
    """Starts more threads than it may."""
    stop = threading.Event()
    held = []
    try:
        for _ in range(3000):
            held.append(threading.Thread(target=stop.wait))
            held[-1].start()
    finally:
        stop.set()


def child_crash() -> None:
    """Runs a program that crashes."""
    subprocess.run([HERE / "relax", "libc"], check=True)


def child_missing() -> None:
    """Runs a program that is not installed."""
    subprocess.run(["ffmpeg", "-i", "in.mp4"], check=True)


def child_text() -> None:
    """Runs a file that is no program."""
    tool = pathlib.Path(f"/tmp/convert.{os.getpid()}")
    tool.write_text("convert a to b\n")
    tool.chmod(0o755)
    try:
        subprocess.run([tool], check=True)
    finally:
        tool.unlink()


def unreadable() -> None:
    """Opens a file of somebody else."""
    log(pathlib.Path("/shared/out/user2/private/model.bin").read_text())


def eof() -> None:
    """Asks a question that nobody can answer in a batch job."""
    log("overwrite results? ")
    if input() == "y":
        log("overwriting")


def argument() -> None:
    """Does not know its option."""
    import argparse

    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--epochs", type=int)
    parser.parse_args(["--epochs", "3", "--learning_rate", "0.1"])


def assertion() -> None:
    """Checks its loss."""
    loss = float("nan")
    for step in range(3):
        log(f"step {step} loss {loss}")
    assert loss == loss, "loss is NaN"


def leak() -> None:
    """Keeps every batch, and says how large it has become."""
    history = []
    for step in range(1, 400):
        history.append(bytearray(3 << 20))
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        log(f"iter {step} loss {2 / step:.4f} rss_mb {pages * os.sysconf('SC_PAGESIZE') / 2**20:.0f}")
        time.sleep(0.25)


def quiet_leak() -> None:
    """Keeps everything, and says nothing of it."""
    history = []
    for step in range(1, 400):
        history.append(bytearray(4 << 20))
        if step % 5 == 0:
            log(f"epoch {step // 5} loss {2 / step:.4f}")
        time.sleep(0.35)


def load_all() -> None:
    """Reads a table at once that is larger than the job's memory."""
    import numpy

    log("loading all.npy")
    everything = numpy.ones((300, 1024, 1024))
    log(f"loaded {everything.nbytes >> 20} MiB")


def caught() -> None:
    """Gets less memory than it wants, and takes that."""
    size = 64 << 30
    while True:
        try:
            cache = bytearray(size)
            break
        except MemoryError:
            logging.exception("cache of %d MiB refused, trying half", size >> 20)
            size //= 2
    log(f"cache {len(cache) >> 20} MiB; done")


def logged() -> None:
    """Skips what it cannot read, with a traceback for each in the log, and completes."""
    for name in ("a.fits", "b.fits", "c.fits"):
        try:
            pathlib.Path("/shared/home/user1", name).read_bytes()
        except OSError:
            logging.exception("skipping %s", name)
    log("2 of 5 spectra reduced, finished")


def dying_consumer() -> None:
    """Reads three lines of its input and raises."""
    for number, line in enumerate(sys.stdin):
        if number == 3:
            raise ValueError(f"record {line.split()[0]}: flux is negative")


def producer() -> None:
    """Writes lines until nobody reads."""
    for number in range(500000):
        print(f"{number} {number / 7}")


def watchdog() -> None:
    """Cancels its own job when the result is worthless."""
    for step in range(6):
        log(f"step {step} loss {'nan' if step == 5 else 1 / (step + 1)}")
        time.sleep(0.3)
    log("watchdog: loss is nan, stopping the job")
    subprocess.run(["scancel", os.environ["SLURM_JOB_ID"]], check=True)
    time.sleep(30)


def slow_save() -> None:
    """Takes a minute and a half for a checkpoint once it is told to stop."""

    def save(_number: int, _frame: object) -> None:
        log("got SIGTERM, writing checkpoint")
        for part in range(1, 91):
            time.sleep(1)
            if part % 10 == 0:
                log(f"checkpoint part {part} of 90")
        log("checkpoint complete")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    steps()


def steps(_grid: str = "") -> None:
    """Works on and on, slowly."""
    for step in range(1000):
        log(f"step {step} loss {1 / (step + 1):.4f}")
        time.sleep(1)


def wait() -> None:
    """Waits for a file that never comes."""
    log("waiting for /shared/home/user1/ready.flag")
    while not pathlib.Path("/shared/home/user1/ready.flag").exists():
        time.sleep(0.5)


def listen() -> None:
    """Serves on a port that is taken."""
    import socket

    first, second = socket.socket(), socket.socket()
    first.bind(("", 0))
    first.listen()
    log(f"parameter server on port {first.getsockname()[1]}")
    second.bind(first.getsockname())


PARTS = {
    "pool-crash": lambda: pool(crash),
    "pool-grow": lambda: pool(grow),
    **{
        part.__name__.replace("_", "-"): part
        for part in (
            *(recursion, missing_module, missing_file, missing_column, shapes, big_array, big_tensor, no_cuda, library),
            *(faulthandler_null, old_pool, checkpoint, writer_thread, table, open_files, threads, child_crash),
            *(child_missing, child_text, unreadable, eof, argument, assertion, leak, quiet_leak, load_all, caught),
            *(logged, dying_consumer, producer, watchdog, slow_save, steps, wait, listen),
        )
    },
}

if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
