"""What one diagnosis costs a cluster. Runs on the login node as an ordinary user: `python3 - RUNS <measure.py`.

Breaks a job of its own, then measures and prints one JSON object:

- `job`: its id
- `sacct`, `diagnose`: wall times in seconds of `sacct -j JOBID` and `slurm-triage diagnose JOBID --format brief`, taken in
  turn
- `rpcs`: requests of this user that slurmctld counted during one diagnosis (sdiag, without its own)
- `types`: the same by type of message, of everybody: what nodes and others asked meanwhile is among them
- `clients`: the calls of Slurm's clients that one diagnosis made, with their arguments

Exit status 1: a command failed; its error is on standard error. Only the standard library, since the login node has
nothing else.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

CLIENTS = ("sacct", "sacctmgr", "scontrol", "squeue", "sinfo", "sdiag", "sprio", "sstat")
BREAK = ("sbatch", "--parsable", "--wait", "--output=/dev/null", "--wrap=exit 3")
OWN = "REQUEST_STATS_INFO"
"""The message of sdiag itself (Slurm's source, src/common/slurm_protocol_defs.h)."""
_COUNT = re.compile(r"\s+(\S+)\s+\(\s*\d+\)\s+count:(\d+)\s")


def counts(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """(by type of message, by user) of what sdiag prints: the sections `Remote Procedure Call statistics by ...`."""
    found: dict[str, dict[str, int]] = {"message type": {}, "user": {}}
    section: dict[str, int] | None = None
    for line in text.splitlines():
        if not line.startswith((" ", "\t")):
            section = found.get(line.partition("Remote Procedure Call statistics by ")[2])
        elif section is not None and (match := _COUNT.match(line)):
            section[match[1]] = int(match[2])
    return found["message type"], found["user"]


def more(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What has been added between two counts."""
    added = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in added.items() if count}


def text_of(command: Sequence[str]) -> str:
    """What a command prints. Raises `CalledProcessError`."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")


def seconds(command: Sequence[str]) -> float:
    """Wall time of a command. Raises `CalledProcessError`."""
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def broken_job() -> str:
    """The id of a job that has just failed, once accounting knows its end. Raises `CalledProcessError`, `TimeoutError`."""
    submitted = subprocess.run(BREAK, stdout=subprocess.PIPE)  # with --wait it ends as the job does
    job = submitted.stdout.decode().strip().split(";")[0]
    if not job:
        raise subprocess.CalledProcessError(submitted.returncode, BREAK)
    for _ in range(60):
        states = text_of(["sacct", "-n", "-P", "-j", job, "-o", "State"]).split()
        if len(states) > 1 and not {"RUNNING", "PENDING"} & set(states):
            return job
        time.sleep(1)
    raise TimeoutError(f"job {job} does not end in accounting")


def calls_of(command: Sequence[str]) -> list[str]:
    """Runs a command; the calls of Slurm's clients that it made. Raises `CalledProcessError`."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "calls")
        log.touch()
        for name in CLIENTS:
            program = shutil.which(name)
            if program is not None:
                wrapper = Path(folder, name)
                note = f"printf '%s\\n' \"{name} $*\" >>{shlex.quote(str(log))}"
                wrapper.write_text(f'#!/bin/sh\n{note}\nexec {shlex.quote(program)} "$@"\n')
                wrapper.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        return log.read_text().splitlines()


def main(runs: int) -> int:
    """Measures and prints; returns the exit status."""
    try:
        job = broken_job()
        asked = {
            "sacct": ["sacct", "-j", job],
            "diagnose": ["slurm-triage", "diagnose", job, "--format", "brief"],
        }
        taken: dict[str, list[float]] = {name: [] for name in asked}
        for turn in range(runs + 1):
            for name, command in asked.items():
                spent = seconds(command)
                if turn:  # the first turn fills caches
                    taken[name].append(spent)
        before = counts(text_of(["sdiag"]))
        seconds(asked["diagnose"])
        after = counts(text_of(["sdiag"]))
        clients = calls_of(asked["diagnose"])
    except (OSError, subprocess.CalledProcessError) as error:  # TimeoutError is an OSError
        print(f"measure: {error}", file=sys.stderr)
        return 1
    types = more(before[0], after[0])
    own = types.pop(OWN, 0)
    rpcs = more(before[1], after[1]).get(getpass.getuser(), 0) - own
    print(json.dumps({"job": job, **taken, "rpcs": rpcs, "types": types, "clients": clients}))
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
