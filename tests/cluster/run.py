"""Runs scenarios on the mini cluster, records each as an evidence folder, diagnoses it and checks the answer.

On the login node somebody asks too, with what an ordinary user may read: `slurm-triage diagnose JOBID`. Mostly that is
the job's owner.

`python -m tests.cluster.run [--core] [--only NAME,...] [--out DIR]`; `--again DIR` diagnoses what an earlier run has
recorded, without a cluster. Exit status: 0 every diagnosis is as expected, 1 one is not or a scenario could not be run,
2 usage or no cluster.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurm_triage import case
from slurm_triage.engine import diagnose
from slurm_triage.report.brief import brief
from tests.cluster import delivery, service, trouble, witnesses
from tests.cluster.machine import LIVE, Cluster, ClusterError, JobState
from tests.cluster.record import Answers, Facts, collect, nodes_of, record_cluster, rows, survey, write
from tests.cluster.scenarios import OWNER, Action, Scenario, ScenarioError, choose, judge, judge_live, judge_other, load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATIENCE = 420.0
"""Seconds that a scenario may take. The longest waits for a second attempt, which Slurm starts two minutes later."""
LOG = "cat /var/log/slurm/slurmctld.log"
DYING = ("f1", "f2")
"""Nodes that scenarios kill: their witnesses die with them."""
NAMES = ("prep", "train", "fold", "sweep", "relax", "eval", "mdrun", "fit")
"""Names of jobs, which say nothing about what happens."""


@dataclass
class Run:
    """One scenario under way."""

    scenario: Scenario
    name: str
    begun: float = field(default_factory=time.monotonic)
    job: str = ""
    client: bytes = b""
    client_done: bool = True
    kept: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario: the folder, the diagnosis in a line, and what is wrong with it."""

    scenario: Scenario
    folder: Path | None
    said: str
    wrong: tuple[str, ...]
    seconds: float


class Driver:
    """Runs scenarios side by side, except those that share a lock."""

    def __init__(self, cluster: Cluster, facts: Facts, chosen: Sequence[Scenario], out: Path) -> None:
        self.cluster = cluster
        self.facts = facts
        self.out = out
        self._log_at = len(cluster.tell("ctl", LOG))
        self.witnesses = not cluster.ask("ctl", "test -e /usr/lib/slurm-triage/slurm-triage-epilogslurmctld")[0]
        # Inside the external step Slurm tells Epilog exit code 0, whatever it was.
        in_job = not cluster.ask("ctl", "scontrol show config | grep -q '^PrologFlags.*RunInJob'")[0]
        self.tickets = tuple(kind for kind in witnesses.TICKETS if not (in_job and kind == "epilog"))
        # Slurm remembers jobs of earlier runs: a client's job is found by a name that none of them has.
        self._token = time.strftime("%H%M%S")
        self._locks = {lock: threading.Lock() for s in chosen for lock in s.lock}
        meets = [s.meet for s in chosen if s.meet]
        self._meets = {meet: threading.Barrier(meets.count(meet)) for meet in set(meets)}

    def wounds(self) -> list[str]:
        """Lines of slurmctld's log since the beginning that say that a node was hurt; and spools that a user can enter."""
        found = witnesses.wounds(self.cluster.tell("ctl", LOG)[self._log_at :].decode("utf-8", "replace"))
        spools = ((node, witnesses.NODE_SPOOL) for node in ("c1", "p1"))
        for host, spool in (*spools, (witnesses.CONTROLLER, witnesses.CTLD_SPOOL)):
            if not self.cluster.ask(host, f"ls {spool}/new || : >{spool}/new/7.0.0.1.spank", user=OWNER)[0]:
                found.append(f"{host}: {OWNER} gets into {spool}")
        # Every job has ended, so what is left in tmp/ waits for an end that has come.
        for node in self.cluster.nodes if self.witnesses else ():
            left = self.cluster.tell(node, f"ls {witnesses.NODE_SPOOL}/tmp").decode().split()
            found += [f"{node}: {name} is left in tmp/" for name in left if node not in DYING]
        return found

    def run(self, scenario: Scenario, number: int) -> Outcome:
        """Runs one scenario to the end. Never raises: what went wrong is part of the outcome."""
        begun = time.monotonic()
        try:
            with ExitStack() as held:
                for lock in sorted(scenario.lock):
                    held.enter_context(self._locks[lock])
                begun = time.monotonic()
                run = Run(scenario, f"{NAMES[number % len(NAMES)]}{number}_{self._token}")
                self._play(run)
                self._settle(run)
                answers = collect(self.cluster, self.facts, scenario, run.job, client=run.client, kept=run.kept)
            folder = write(self.out, self.facts, scenario, run.job, answers)
            live = [*self._live(run), *self._witnesses(scenario, folder, answers)]
        except Exception as error:  # one scenario that fails in any way must not stop the others
            known = isinstance(error, (ClusterError, ScenarioError, threading.BrokenBarrierError))
            why = str(error) or type(error).__name__ if known else traceback.format_exc(limit=-3)
            return Outcome(scenario, None, "", (f"could not be run: {why}",), time.monotonic() - begun)
        outcome = self._examine(scenario, folder, time.monotonic() - begun)
        return replace(outcome, wrong=(*outcome.wrong, *live))

    def _examine(self, scenario: Scenario, folder: Path, seconds: float) -> Outcome:
        return examine(scenario, folder, seconds)

    # ------------------------------------------------------------------------------------------------ one scenario

    def _play(self, run: Run) -> None:
        scenario = run.scenario
        for action in scenario.actions:
            if action.when == "before":
                self._act(run, action)
        self._submit(run)
        if scenario.meet:
            self._wait(run, "running")
            self._meets[scenario.meet].wait(PATIENCE)
        for action in scenario.actions:
            if action.when != "before":
                self._wait(run, action.when)
                self._act(run, action)
        self._wait(run, "ended")

    def _submit(self, run: Run) -> None:
        scenario = run.scenario
        if scenario.client:
            run.client_done = False
            threading.Thread(target=self._client, args=(run,), daemon=True).start()
            found = self._until(run, lambda: self._named(run.name), "appears in squeue")
            run.job = found
            return
        script = scenario.script if scenario.script.startswith("#!") else f"#!/bin/bash\n{scenario.script}\n"
        line = (
            'script=$SCRIPT; unset SCRIPT; printf %s "$script" | '
            f"sbatch --parsable -J {run.name} -o '{scenario.output}' {scenario.options}"
        )
        answer = self.cluster.tell("login", line, user=OWNER, environment={"SCRIPT": script}).decode()
        run.job = answer.strip().split(";")[0]

    def _client(self, run: Run) -> None:
        line = run.scenario.client.format(name=run.name) + " 2>&1"
        status, out, _ = self.cluster.ask("login", line, user=OWNER)
        run.client = out + f"exit status {status}\n".encode()
        run.client_done = True

    def _named(self, name: str) -> str:
        out = self.cluster.tell("login", f"squeue -h -a -t all -n {name} -o %A").decode().split()
        return out[0] if out else ""

    def _act(self, run: Run, action: Action) -> None:
        time.sleep(action.after)
        if action.docker:
            self.cluster.docker(action.docker)
            return
        out = self.cluster.tell(action.on, action.run.replace("{job}", run.job), user=action.user)
        if action.keep:
            run.kept[action.keep] = out

    def _live(self, run: Run) -> list[str]:
        """What is wrong with the diagnosis that a user gets on the login node, without any folder."""
        asks = run.scenario.asks
        line = f"slurm-triage diagnose {run.job} --format json"
        status, out, err = self.cluster.ask("login", line, user=asks)
        if status:
            return [f"live, {asks}: exit status {status}: {err.decode('utf-8', 'replace').strip()[-500:]}"]
        (self.out / "live").mkdir(exist_ok=True)
        (self.out / "live" / f"{run.job}-{run.scenario.name}.json").write_bytes(out)
        compare = judge_live if asks == OWNER else judge_other
        return [f"live, {asks}: {text}" for text in compare(run.scenario.expect, json.loads(out))]

    def _witnesses(self, scenario: Scenario, folder: Path, answers: Answers) -> list[str]:
        """What the plugin and the hooks left, if they are installed, that does not fit accounting or the kernel log."""
        if not self.witnesses:
            return []
        records = rows(answers.psv.decode("utf-8", "replace"))
        dead = [n for n in nodes_of(records) if n not in answers.slurmd_logs or n in DYING]
        # Not the whole kernel log: an earlier cluster on this machine gave its jobs the same numbers.
        log = folder / "kmsg.txt"
        kernel = log.read_bytes() if log.exists() else b""
        found = witnesses.judge(answers.left, records, kernel, dead, self.tickets)
        found += witnesses.missing(answers.left, scenario.expect.exits)
        return [f"witnesses: {text}" for text in found]

    # ------------------------------------------------------------------------------------------------ waiting

    def _until(self, run: Run, ask: Callable[[], str], what: str) -> str:
        while not (answer := ask()):
            if time.monotonic() - run.begun > PATIENCE:
                raise ClusterError(f"job {run.job or run.name} never {what}; {self._states(run)}")
            time.sleep(1)
        return answer

    def _of(self, run: Run) -> list[JobState]:
        return [j for j in self.cluster.jobs() if run.job in (j.base, j.raw)]

    def _states(self, run: Run) -> str:
        return "squeue: " + ", ".join(f"{j.shown} {j.state} {j.reason}" for j in self._of(run))

    def _wait(self, run: Run, when: str) -> None:
        def reached() -> str:
            jobs = self._of(run)
            if when == "ended":
                return "yes" if run.client_done and jobs and not any(j.state in LIVE for j in jobs) else ""
            if when == "held":
                return "yes" if any("held" in j.reason.lower() for j in jobs) else ""
            return "yes" if any(j.state == when.upper() for j in jobs) else ""

        self._until(run, reached, f"came to be {when}")
        if when != "ended":
            return
        # Between two attempts a job can look ended for a moment.
        for _ in range(3):
            time.sleep(1)
            self._until(run, reached, "ended for good")

    def _settle(self, run: Run) -> None:
        """Waits until accounting is final: all attempts there, no step without an end, twice the same answer."""
        before = b""

        def settled() -> str:
            nonlocal before
            out = self.cluster.tell("login", f"sacct -D -n -P -j {run.job} -o {','.join(self.facts.fields)}")
            same, before = out == before and out, out
            return "yes" if same and not self._open(run, out) else ""

        self._until(run, settled, "became final in accounting")

    def _open(self, run: Run, out: bytes) -> bool:
        header = "|".join(self.facts.fields)
        records = rows(f"{header}\n{out.decode('utf-8', 'replace')}")
        attempts = sum(r["JobIDRaw"] == run.job for r in records)
        unfinished = any(re.match(r"RUNNING|PENDING|SUSPENDED", r["State"]) for r in records)
        return unfinished or attempts < run.scenario.attempts


def examine(scenario: Scenario, folder: Path, seconds: float = 0.0) -> Outcome:
    """Diagnoses a recorded folder and compares. Never raises: a diagnosis that fails is part of the outcome."""
    try:
        diagnosis = diagnose(case.read(folder))
        return Outcome(scenario, folder, brief(diagnosis), tuple(judge(scenario.expect, diagnosis)), seconds)
    except Exception:  # that is what the run is to find out, for every scenario
        return Outcome(scenario, folder, "", (f"no diagnosis: {traceback.format_exc(limit=-3)}",), seconds)


def again(out: Path, chosen: Sequence[Scenario]) -> list[Outcome]:
    """Outcomes of what an earlier run has recorded in `out`. Raises `OSError` if it cannot be listed."""
    folders = {path.name.partition("-")[2]: path for path in sorted(out.iterdir()) if path.is_dir()}
    return [examine(s, folders[s.name]) for s in chosen if s.name in folders]


def longest_first(chosen: Sequence[Scenario]) -> Iterator[Scenario]:
    """The order to start in: what waits long or for others comes first, so that the end is not one long wait."""

    def weight(scenario: Scenario) -> tuple[bool, bool, bool, bool]:
        minutes = "-t 1" in scenario.options
        return (not scenario.meet, scenario.attempts == 1, not minutes, not scenario.lock)

    return iter(sorted(chosen, key=weight))


def show(outcome: Outcome) -> str:
    """An outcome as a line, and a line for everything that is wrong."""
    verdict = "FAIL" if outcome.wrong else "ok"
    folder = outcome.folder.name if outcome.folder else outcome.scenario.name
    lines = [f"{verdict:4} {outcome.seconds:5.0f} s  {folder:38} {outcome.said}"]
    lines += [f"       {line}" for text in outcome.wrong for line in text.splitlines()]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.cluster.run", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--core", action="store_true", help="the short list")
    parser.add_argument("--only", metavar="NAME,...", default="", help="these scenarios")
    parser.add_argument("--out", metavar="DIR", type=Path, help="keep the evidence folders in DIR (emptied first)")
    parser.add_argument(
        "--trouble", metavar="SEED", type=int, help="only a storm of failing jobs while things are killed"
    )
    parser.add_argument("--again", metavar="DIR", type=Path, help="only diagnose what an earlier run left in DIR")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=14, help="scenarios side by side (default %(default)s)"
    )
    options = parser.parse_args(argv)
    try:
        chosen = choose(load(), core=options.core, only=[n for n in options.only.split(",") if n])
        if options.again:
            outcomes = again(options.again, chosen)
            print("\n".join(map(show, outcomes)))
            return report(outcomes)
        cluster = Cluster()
        if options.trouble is not None:
            wrong = trouble.run(cluster, options.trouble)
            print("\n".join(wrong) or "nothing lost, nothing doubled")
            return 1 if wrong else 0
        facts = survey(cluster)
        out = empty_folder(options.out)
        record_cluster(cluster, out / "cluster")
    except (ScenarioError, ClusterError, ValueError, OSError) as error:
        print(f"cluster-test: {error}", file=sys.stderr)
        return 2
    print(f"Slurm {facts.version}: {len(chosen)} scenarios, evidence in {out}", flush=True)
    driver = Driver(cluster, facts, chosen, out)
    outcomes = _all(driver, chosen, max(options.jobs, _least(chosen)))
    status = report(outcomes)
    wounded = [*driver.wounds(), *_service(cluster, outcomes), *_delivery(cluster, outcomes)]
    if not (options.core or options.only) and _delivers(cluster):
        print("a storm of failing jobs, while things are killed", flush=True)
        wounded += [*trouble.run(cluster), *driver.wounds()]
    print(
        "no node was hurt, the service has it all, owners have their files"
        if not wounded
        else "wrong besides:\n" + "\n".join(wounded)
    )
    return 1 if wounded else status


def _service(cluster: Cluster, outcomes: Sequence[Outcome]) -> list[str]:
    """What the service's history lacks or says wrongly of the jobs that were recorded."""
    jobs = []
    for outcome in outcomes:
        if outcome.folder is not None:
            records = rows((outcome.folder / "sacct.psv").read_text("utf-8", "replace"))
            with (outcome.folder / "expect.toml").open("rb") as stream:
                ids = [str(number) for number in tomllib.load(stream)["job_ids"]]
            jobs.append((outcome.scenario, ids, not witnesses.clean([r for r in records if "." not in r["JobID"]])))
    try:
        wrong = service.judge(service.sweep(cluster), jobs)
        return wrong if all(listed for _, _, listed in jobs) else [*wrong, *service.uncounted(cluster)]
    except ClusterError as error:
        return [f"service: {error}"]


def _delivers(cluster: Cluster) -> bool:
    """Whether service and agents run."""
    return not cluster.ask("ctl", "test -e /etc/slurm-triage/service.toml")[0]


def _delivery(cluster: Cluster, outcomes: Sequence[Outcome]) -> list[str]:
    """What is wrong with the files that owners got, if service and agents run."""
    if not _delivers(cluster):
        return []
    # Inside the external step no witness learns where the job wrote: then there are rows, and no files.
    in_job = not cluster.ask("ctl", "scontrol show config | grep -q '^PrologFlags.*RunInJob'")[0]
    jobs = []
    for outcome in outcomes:
        if outcome.folder is not None:
            records = rows((outcome.folder / "sacct.psv").read_text("utf-8", "replace"))
            ids = list(dict.fromkeys(r["JobIDRaw"] for r in records if "." not in r["JobIDRaw"]))
            bad = not witnesses.clean([r for r in records if "." not in r["JobID"]])
            scenario = outcome.scenario
            if in_job:
                scenario = replace(scenario, expect=replace(scenario.expect, file=""))
            jobs.append(delivery.Done(scenario, ids, records, bad))
    return delivery.examine(cluster, jobs)


def _least(chosen: Sequence[Scenario]) -> int:
    """Threads without which scenarios that meet would wait for each other forever."""
    return 1 + sum(bool(s.meet) for s in chosen)


def empty_folder(wanted: Path | None) -> Path:
    """A folder to record into, made or emptied. Raises `ValueError` for one that holds something else."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="slurm-triage-cluster-"))
    if wanted.exists():
        # Only what an earlier run has left: never a folder that holds anything else.
        if any(wanted.iterdir()) and not (wanted / "cluster" / "scontrol-config.txt").is_file():
            raise ValueError(f"{wanted} is not empty and no earlier run of this test")
        shutil.rmtree(wanted)
    wanted.mkdir(parents=True)
    return wanted


def _all(driver: Driver, chosen: Sequence[Scenario], threads: int) -> list[Outcome]:
    numbers: Mapping[str, int] = {s.name: n for n, s in enumerate(chosen, start=1)}
    outcomes = []

    def run(scenarios: Iterable[Scenario], at_once: int) -> None:
        with ThreadPoolExecutor(at_once) as pool:
            for outcome in pool.map(lambda s: driver.run(s, numbers[s.name]), scenarios):
                print(show(outcome), flush=True)
                outcomes.append(outcome)

    run(longest_first([s for s in chosen if not s.alone]), threads)
    run([s for s in chosen if s.alone], 1)
    return outcomes


def report(outcomes: Sequence[Outcome]) -> int:
    """Prints the sum; returns the exit status. No outcome at all is a failure too."""
    failed = [o.scenario.name for o in outcomes if o.wrong]
    print(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} as expected"
        + (f"; not: {', '.join(failed)}" if failed else "")
    )
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
