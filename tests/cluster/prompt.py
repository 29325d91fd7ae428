"""How long a job's owner waits for the file: `python -m tests.cluster.prompt [JOBS]` on a running mini cluster.

Seconds from the last Epilog of a job (the write of its ticket) to the diagnosis beside its output, by the clock that all
containers share. Jobs fail one after the other on an idle cluster, then all at once. Prints figures, asserts nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

from tests.cluster.machine import Cluster, ClusterError
from tests.cluster.scenarios import OWNER

PATIENCE = 90.0
NODES = ("c1", "c2", "c3")
FOLDER = "/shared/out/user1"


def submit(cluster: Cluster, number: int) -> str:
    """A job that exits 3 after a moment; returns its id."""
    node = NODES[number % len(NODES)]
    line = f"sbatch --parsable -w {node} --mem=20 -o {FOLDER}/%j.out --wrap 'sleep 0.2; echo no such file; exit 3'"
    return cluster.tell("login", line, user=OWNER).decode().strip()


def waited(cluster: Cluster, job: str, node: str) -> float | None:
    """Seconds from the node's last ticket of the job to the file; None as long as there is no file."""
    status, out, _ = cluster.ask(
        node, f"stat -c %.Y {FOLDER}/{job}.diagnosis.txt && stat -c %.Y /var/spool/slurm-triage/done/{job}.*"
    )
    times = [float(line.replace(",", ".")) for line in out.decode().split()]
    return times[0] - max(times[1:]) if not status and len(times) > 1 else None


def measure(cluster: Cluster, jobs: Sequence[tuple[str, str]]) -> list[float]:
    """What each of these jobs, with its node, waited for. Raises `ClusterError` for one that waits for too long."""
    found = []
    for job, node in jobs:
        end = time.monotonic() + PATIENCE
        while (seconds := waited(cluster, job, node)) is None:
            if time.monotonic() > end:
                raise ClusterError(f"job {job} on {node} has no file after {PATIENCE:g} s")
            time.sleep(1)
        found.append(seconds)
    return found


def show(what: str, values: Sequence[float]) -> str:
    """A line of figures."""
    ordered = sorted(values)
    at = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return f"{what:<42} median {statistics.median(ordered):5.1f} s  p95 {at:5.1f} s  worst {ordered[-1]:5.1f} s  ({len(ordered)} jobs)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurement; returns the exit status."""
    words = sys.argv[1:] if argv is None else argv
    count = int(words[0]) if words else 20
    try:
        cluster = Cluster()
        alone = []
        for number in range(count):
            job = submit(cluster, number)
            alone += measure(cluster, [(job, NODES[number % len(NODES)])])
        print(show("from the last Epilog to the file, alone", alone), flush=True)
        jobs = [(submit(cluster, number), NODES[number % len(NODES)]) for number in range(count)]
        print(show("the same, all at once", measure(cluster, jobs)))
    except ClusterError as error:
        print(f"tests.cluster.prompt: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
