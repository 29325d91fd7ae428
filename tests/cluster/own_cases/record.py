"""Records our own cases on the running mini cluster: `python -m tests.cluster.own_cases.record OUT [--only NAME,...]`.

The cluster has to be made with `LAYER=docker/own_cases` and readied with `docker/own_cases/prepare.sh`. Every table of the TOML files
here becomes an evidence folder with its label in OUT. Nothing is diagnosed: a label says what was done, whatever the
product thinks of it. A case that OUT holds already is left alone, so that a run can be continued.

Exit status: 0 all recorded, 1 some could not be run, 2 usage or no cluster.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

from tests.cluster.machine import Cluster, ClusterError
from tests.cluster.record import Answers, Facts, record_cluster, survey
from tests.cluster.run import Driver, Outcome, Run, longest_first
from tests.cluster.scenarios import Scenario, ScenarioError, choose, load

FILES = tuple(sorted(Path(__file__).parent.glob("*.toml")))


class Recorder(Driver):
    """As the driver of the scenarios, without asking for a diagnosis. Locks are held only while a job lives."""

    def __init__(self, cluster: Cluster, facts: Facts, chosen: Sequence[Scenario], out: Path) -> None:
        super().__init__(cluster, facts, chosen, out)
        self._held_by = {scenario.name: scenario.lock for scenario in chosen}

    def record(self, scenario: Scenario, number: int) -> Outcome:
        """Runs one case to the end. Never raises."""
        return self.run(replace(scenario, lock=()), number)

    def _play(self, run: Run) -> None:
        with ExitStack() as held:
            for lock in sorted(self._held_by[run.scenario.name]):
                held.enter_context(self._locks[lock])
            run.begun = time.monotonic()
            super()._play(run)

    def _live(self, run: Run) -> list[str]:
        return []

    def _witnesses(self, scenario: Scenario, folder: Path, answers: Answers) -> list[str]:
        return []

    def _examine(self, scenario: Scenario, folder: Path, seconds: float) -> Outcome:
        return Outcome(scenario, folder, "", (), seconds)


def recorded(out: Path) -> set[str]:
    """Names of the cases that a folder holds."""
    return {path.parent.name.partition("-")[2] for path in out.glob("*/expect.toml")}


def phases(wanted: Sequence[Scenario], at_once: int) -> Iterator[tuple[list[Scenario], int]]:
    """Cases to run side by side, and how many. All nodes share one kernel log: who writes into it runs alone."""
    yield [s for s in wanted if "kernel" in s.lock], 3
    yield [s for s in wanted if "kernel" not in s.lock], at_once


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.cluster.own_cases.record", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", metavar="OUT", type=Path, help="folder for the evidence folders")
    parser.add_argument("--only", metavar="NAME,...", default="", help="these cases")
    parser.add_argument("--jobs", metavar="N", type=int, default=8, help="cases side by side (default %(default)s)")
    options = parser.parse_args(argv)
    try:
        chosen = choose(load(*FILES), only=[name for name in options.only.split(",") if name])
        cluster = Cluster()
        facts = survey(cluster)
        record_cluster(cluster, options.out / "cluster")
    except (ScenarioError, ClusterError, ValueError, OSError) as error:
        print(f"own_cases: {error}", file=sys.stderr)
        return 2
    have = recorded(options.out)
    wanted = [s for s in longest_first(chosen) if s.name not in have]
    driver = Recorder(cluster, facts, wanted, options.out)
    print(f"Slurm {facts.version}: {len(wanted)} cases to record, {len(have)} are there", flush=True)
    failed = 0
    for scenarios, at_once in phases(wanted, options.jobs):
        with ThreadPoolExecutor(at_once) as pool:
            for outcome in pool.map(driver.record, scenarios, count(1)):
                failed += bool(outcome.wrong)
                print(outcome.folder.name if outcome.folder else outcome.scenario.name, *outcome.wrong, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
