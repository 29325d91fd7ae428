"""How long the witnesses hold a node at the end of a job: `python -m tests.cluster.hold [--jobs N] [--rounds N]`.

On a running mini cluster, on node c1, the same small job again and again: with an empty Epilog (`exit 0`), with our Epilog, with
the plugin, and with both, in turn, so that a slow moment of the machine hits all. What is measured is in slurmd's log: from
the moment at which it has nothing to wait for any more to `completed epilog`, which is when it tells slurmctld that the node
is free. Prints figures and asserts nothing; slurmd of c1 is restarted for each set, and left as it was.

Exit status: 0 measured, 1 no cluster, or it did not do what it was told.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

from tests.bench.timing import quantile, summary
from tests.cluster.machine import Cluster, ClusterError

NODE = "c1"
EMPTY = "/etc/slurm/empty-epilog"
LIBRARY = "/usr/lib/slurm-triage"
LOG = "/var/log/slurm/slurmd.log"
SETS = (
    ("an empty Epilog", EMPTY, False),
    ("our Epilog", f"{LIBRARY}/slurm-triage-epilog", False),
    ("an empty Epilog, the plugin", EMPTY, True),
    ("our Epilog, the plugin", f"{LIBRARY}/slurm-triage-epilog", True),
)
"""Name, Epilog, and whether the plugin is in plugstack.conf."""
ENDS = (("fails", "exit 3"), ("ends cleanly", "exit 0"))
_LINE = re.compile(r"\[([^\]]+)\] debug: +(?:Finished wait for job (\d+)'s prolog|completed epilog for jobid (\d+))")


def holds(log: str) -> list[float]:
    """Milliseconds between the two lines of each job, from slurmd's log at level debug."""
    began: dict[str, datetime] = {}
    found = []
    for match in _LINE.finditer(log):
        at = datetime.fromisoformat(match[1])
        if match[2]:
            began[match[2]] = at
        elif match[3] in began:
            found.append((at - began.pop(match[3])).total_seconds() * 1000)
    return found


def _set_up(cluster: Cluster, epilog: str, plugin: bool) -> None:
    line = f"optional {LIBRARY}/slurm_triage.so" if plugin else ""
    cluster.tell(
        NODE,
        f"printf '#!/bin/sh\\nexit 0\\n' >{EMPTY}; chmod 755 {EMPTY}\n"
        "cd /etc/slurm; for f in slurm.conf plugstack.conf; do [ -e $f.kept ] || cp $f $f.kept; done\n"
        f"sed -e 's,^Epilog=.*,Epilog={epilog},' -e 's/^SlurmdDebug=.*/SlurmdDebug=debug/' slurm.conf.kept >slurm.conf\n"
        f"grep -q '^Epilog={epilog}$' slurm.conf || echo 'Epilog={epilog}' >>slurm.conf\n"
        f"echo '{line}' >plugstack.conf",
    )
    _restart(cluster)


def _restart(cluster: Cluster) -> None:
    cluster.tell(NODE, "pkill -TERM -x slurmd; while pgrep -x slurmd >/dev/null; do sleep 0.1; done; slurmd")
    ready = (
        f'for i in $(seq 60); do [ "$(sinfo -h -n {NODE} -o %t | sort -u)" = idle ] && exit 0; sleep 1; done; exit 1'
    )
    cluster.tell("login", ready)


def _put_back(cluster: Cluster) -> None:
    cluster.tell(NODE, "cd /etc/slurm; for f in slurm.conf plugstack.conf; do mv $f.kept $f; done")
    _restart(cluster)


def measure(cluster: Cluster, jobs: int, rounds: int) -> Iterator[str]:
    """Lines of figures. Raises `ClusterError`."""
    taken: dict[tuple[str, str], list[float]] = {}
    try:
        for _ in range(rounds):
            for name, epilog, plugin in SETS:
                _set_up(cluster, epilog, plugin)
                for end, script in ENDS:
                    before = len(cluster.tell(NODE, f"cat {LOG}"))
                    job = f"srun -Q -w {NODE} sh -c '{script}' 2>/dev/null"
                    cluster.tell("login", f"for i in $(seq {jobs}); do {job}; done; sleep 2", user="user1")
                    log = cluster.tell(NODE, f"cat {LOG}")[before:].decode("utf-8", "replace")
                    taken.setdefault((end, name), []).extend(holds(log))
    finally:
        _put_back(cluster)
    for end, _ in ENDS:
        base = taken[end, SETS[0][0]]
        yield f"a job that {end}, {len(base)} times each"
        for name, _, _ in SETS:
            values = taken[end, name]
            added = "" if values is base else f"  added {quantile(values, 0.5) - quantile(base, 0.5):6.1f} ms median"
            yield f"  {name:28} {summary(values, 99)}{added}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.cluster.hold", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=30, help="jobs of a kind in a round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds (default %(default)s)")
    options = parser.parse_args(argv)
    try:
        for line in measure(Cluster(), options.jobs, options.rounds):
            print(line, flush=True)
    except ClusterError as error:
        print(f"hold: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
