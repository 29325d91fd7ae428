"""The two ends of the emulated machine: what it is given to run, and what it sent back.

`python -m tests.cluster.vm jobs DIR` writes the jobs for docker/vm-init.sh; `python -m tests.cluster.vm check FILE
[--out DIR]` reads what came through the serial port, records every job as an evidence folder, diagnoses it and checks the
answer. Exit status: 0 as expected, 1 a diagnosis is not, 2 the machine sent nothing that can be used.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import io
import re
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tests.cluster import witnesses
from tests.cluster.record import FIELDS, Answers, Facts, rows, write
from tests.cluster.run import NAMES, Outcome, empty_folder, examine, report, show
from tests.cluster.scenarios import Scenario, ScenarioError, load

FILE = Path(__file__).with_name("vm_scenarios.toml")
END = b"END-OF-ANSWERS"


class VmError(Exception):
    """The machine did not do its work; the message says how far it came."""


def give(folder: Path, scenarios: Sequence[Scenario]) -> None:
    """Writes one folder per job, and the fields of sacct to ask for."""
    folder.mkdir(parents=True)
    (folder / "fields").write_text("\n".join(FIELDS) + "\n")
    for number, scenario in enumerate(scenarios):
        job = folder / f"{number:02}-{scenario.name}"
        job.mkdir()
        (job / "name").write_text(NAMES[number % len(NAMES)] + "\n")
        (job / "options").write_text(scenario.options + "\n")
        (job / "script").write_text(f"#!/bin/bash\n{scenario.script}\n")


def unpack(sent: bytes) -> dict[str, bytes]:
    """The files that came through the serial port. Raises `VmError` if they did not come whole."""
    body, found, _ = sent.partition(END)
    if not found:
        raise VmError("the machine did not send its answers to the end")
    try:
        packed = base64.b64decode(re.sub(rb"\s", b"", body), validate=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            files = [(m.name, archive.extractfile(m)) for m in archive if m.isfile()]
            return {name.removeprefix("answers/"): stream.read() for name, stream in files if stream}
    except (binascii.Error, tarfile.TarError, OSError, EOFError) as error:
        raise VmError(f"what the machine sent is damaged: {error}") from error


def _last_words(files: Mapping[str, bytes]) -> str:
    """The ends of the logs that the machine sent."""
    logs = {name: data.decode("utf-8", "replace") for name, data in files.items() if name.endswith(".log")}
    return "".join(f"\n--- {name}\n" + "\n".join(text.splitlines()[-15:]) for name, text in logs.items() if text)


def check(files: Mapping[str, bytes], scenarios: Sequence[Scenario], out: Path) -> list[Outcome]:
    """Records, diagnoses and compares all jobs. Raises `VmError` if the machine did not run them all."""
    result = files.get("result", b"").decode("utf-8", "replace").strip()
    if result != "complete":
        raise VmError(f"the machine stopped early: {result or 'it does not say why'}{_last_words(files)}")
    version = re.search(r"\d+\.\d+\.\d+", files["version"].decode())
    if version is None:
        raise VmError("the machine does not say which Slurm it ran")
    fields = tuple(files["fields"].decode().strip().split(","))
    facts = Facts(version[0], files["utc_offset"].decode().strip(), round(float(files["boot_epoch"]), 2), fields)
    (out / "cluster").mkdir()
    for name, data in files.items():
        if name.startswith("cluster/"):
            (out / name).write_bytes(data)
    outcomes = []
    for number, scenario in enumerate(scenarios):
        job = f"jobs/{number:02}-{scenario.name}/"
        number_of_job = files[f"{job}id"].decode().strip()
        answers = Answers(
            files[f"{job}psv"],
            files[f"{job}json"],
            files[f"{job}scontrol"],
            files["slurmctld.log"],
            {"ctl": files["slurmd.log"]},
            files["dmesg"],
            {"job.out": files[f"{job}output"]},
            left=[left for left in _left(files) if left.job == number_of_job],
        )
        folder = write(out, facts, scenario, number_of_job, answers)
        records = rows(answers.psv.decode("utf-8", "replace"))
        log = folder / "kmsg.txt"
        kernel = log.read_bytes() if log.exists() else b""
        fit = witnesses.judge(answers.left, records, kernel)
        fit += witnesses.missing(answers.left, scenario.expect.exits)
        outcome = examine(scenario, folder)
        outcomes.append(replace(outcome, wrong=(*outcome.wrong, *(f"witnesses: {text}" for text in fit))))
    return outcomes


def _left(files: Mapping[str, bytes]) -> list[witnesses.Left]:
    """What the witnesses left in the spools of the machine, which is node and controller."""
    found = []
    for path, content in files.items():
        host, _, name = path.partition("/")
        if host in ("spool-node", "spool-ctld"):
            found.append(witnesses.named("ctl", f"new/{name}", content))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.cluster.vm", description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("jobs").add_argument("folder", type=Path)
    checked = verbs.add_parser("check")
    checked.add_argument("file", type=Path)
    checked.add_argument("--out", metavar="DIR", type=Path)
    options = parser.parse_args(argv)
    try:
        scenarios = load(FILE)
        if options.verb == "jobs":
            give(options.folder, scenarios)
            return 0
        out = empty_folder(options.out)
        outcomes = check(unpack(options.file.read_bytes()), scenarios, out)
    except (ScenarioError, VmError, ValueError, KeyError, OSError) as error:
        print(f"vm-test: {error}", file=sys.stderr)
        return 2
    print(f"evidence in {out}")
    print("\n".join(map(show, outcomes)))
    return report(outcomes)


if __name__ == "__main__":
    sys.exit(main())
