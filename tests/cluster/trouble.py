"""A storm of failing jobs while everything around them is killed: nothing lost, nothing doubled, nobody's file anybody else's.

After the scenarios, on the cluster that they leave: jobs of two users fail, some of them for memory on one node in the
same second, while service and agents are killed, MUNGE and slurmdbd are down for a while, and slurmctld is restarted.
Then every job has one row in the history, and one file that speaks of it alone. Seeded: what is killed when is the same
in every run.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Sequence

from tests.cluster import delivery
from tests.cluster.machine import Cluster, ClusterError

JOBS = 90
"""Jobs that exit 3."""
PAIRS = 6
"""Pairs of jobs, one of each user, that grow over their limit on one node together."""
USERS = ("user1", "user2")
SECONDS = 45.0
"""How long things are killed."""
FIT = "/opt/apps/bin/fit.py"


def run(cluster: Cluster, seed: int = 7) -> list[str]:
    """What is wrong after a storm with trouble. Never raises for what the cluster does not do: that is wrong, too."""
    try:
        stop = threading.Event()
        kills = threading.Thread(target=_kill, args=(cluster, random.Random(seed), stop), daemon=True)
        kills.start()
        failing = _failing(cluster)
        pairs = _pairs(cluster)
        time.sleep(SECONDS)
        stop.set()
        kills.join(120)
        _heal(cluster)
        _ended(cluster, [*failing, *pairs])
        delivery.settle(cluster)
        return _judge(cluster, failing, pairs)
    except ClusterError as error:
        return [f"trouble: {error}"]


def _failing(cluster: Cluster) -> dict[str, str]:
    """User by raw id of the jobs that exit 3."""
    found = {}
    for user in USERS:
        line = (
            f"for n in $(seq {JOBS // 2}); do sbatch --parsable -w c$((n % 3 + 1)) --mem=10 -o /shared/out/{user}/%j.out "
            "--wrap 'sleep 2; exit 3' || sleep 1; done"
        )
        for job in cluster.tell("login", line, user=user).decode().split():
            found[job] = user
    return found


def _pairs(cluster: Cluster) -> dict[str, str]:
    """User by raw id of jobs of both users that begin on one node at one moment and grow over their limit."""
    found = {}
    at = int(time.time()) + 20
    for user in USERS:
        line = (
            f"for n in $(seq {PAIRS}); do sbatch --parsable -w c3 --mem=60 -o /shared/out/{user}/%j.out --wrap "
            f"'cp $(readlink -f $(command -v python3)) /tmp/of_{user}; while [ $(date +%s) -lt {at} ]; do sleep 0.05; done; "
            f"/tmp/of_{user} {FIT}' || sleep 1; done"
        )
        for job in cluster.tell("login", line, user=user).decode().split():
            found[job] = user
    return found


# -------------------------------------------------------------------------------------------------- killing


def _kill(cluster: Cluster, dice: random.Random, stop: threading.Event) -> None:
    """Kills one thing after the other until told to stop."""
    once: list[Callable[[], object]] = [
        lambda: cluster.docker("kill dbd"),
        lambda: cluster.ask("ctl", "pkill -TERM -x slurmctld; sleep 3; slurmctld"),
        lambda: cluster.ask("ctl", "pkill -KILL -x munged"),
    ]
    dice.shuffle(once)
    while not stop.wait(dice.uniform(1.0, 4.0)):
        what = dice.choice(("service", "service", "agent", "once"))
        if what == "service":
            cluster.ask("ctl", "pkill -KILL -f 'slurm_triage service'")
        elif what == "agent":
            # On these nodes the processes of the whole machine are seen: that is every agent at once.
            cluster.ask(dice.choice(("c1", "c2", "c3")), "pkill -KILL -f 'slurm_triage agent'")
        elif once:
            once.pop()()


def _heal(cluster: Cluster) -> None:
    """Brings back what was killed for good."""
    if not cluster.alive("dbd"):
        cluster.docker("start dbd")
    munge = "setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged --syslog --force"
    cluster.ask("ctl", f"pgrep -x munged || {munge}; pgrep -x slurmctld || slurmctld")
    end = time.monotonic() + 90
    while cluster.ask("login", "sacct -n >/dev/null && squeue >/dev/null && sinfo >/dev/null")[0]:
        if time.monotonic() > end:
            raise ClusterError("Slurm does not come back after the storm")
        time.sleep(2)


def _ended(cluster: Cluster, jobs: Sequence[str]) -> None:
    """Waits until accounting has the end of all of these."""
    end = time.monotonic() + 240
    while True:
        line = f"sacct -a -n -X -P -D -j {','.join(jobs)} -o JobIDRaw,State,End"
        rows = [row.split("|") for row in cluster.tell("login", line).decode().split("\n") if row]
        over = {row[0] for row in rows if row[2] not in ("Unknown", "None")}
        if over >= set(jobs):
            return
        if time.monotonic() > end:
            raise ClusterError(f"{len(set(jobs) - over)} jobs of the storm do not end in accounting")
        time.sleep(3)


# -------------------------------------------------------------------------------------------------- judging


def _judge(cluster: Cluster, failing: dict[str, str], pairs: dict[str, str]) -> list[str]:
    files, told = delivery.look(cluster), delivery.history(cluster)
    wrong = []
    for job, user in (failing | pairs).items():
        rows = told.get(job, [])
        if len(rows) != 1:
            wrong.append(f"job {job} has {len(rows)} rows in the history")
        right = {"app_error"} if job in failing else {"memcg_oom"}
        wrong += [f"job {job} is said to be {cause}" for cause, _ in rows if cause not in right]
        found = files.get(f"{job}.diagnosis.txt", [])
        if len(found) != 1:
            wrong.append(f"job {job} has {len(found)} files")
        for one in found:
            wrong += _file(one, job, user)
    left = [name for name in files if name.startswith(".")]
    wrong += [f"{name} was left behind" for name in left]
    return [f"trouble: {text}" for text in wrong]


def _file(one: delivery.Found, job: str, user: str) -> list[str]:
    """What is wrong with one file: of somebody else, elsewhere, twice, or with another user's secrets in it."""
    wrong = []
    other = next(name for name in USERS if name != user)
    if one.user != user or one.path.rpartition("/")[0] != f"/shared/out/{user}" or one.mode & 0o007:
        wrong.append(f"{one.path} belongs to {one.user}, mode {one.mode:o}")
    try:
        sections = one.sections
    except ValueError as error:
        return [*wrong, str(error)]
    if [name for name, _ in sections] != [job]:
        wrong.append(f"{one.path} has sections of {[name for name, _ in sections]}")
    if re.search(rf"\bof_{other}\b|/shared/(?:out|home)/{other}|\b{other}\b", one.text):
        wrong.append(f"{one.path} speaks of {other}")
    return wrong
